"""Models of the official suite, read and written, give the same results in ONNX Runtime."""

from __future__ import annotations

import functools
import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase as Case

from intaglio.onnx.opsets import minimal_opsets
from intaglio.onnx.reader import read_model
from intaglio.onnx.writer import save_model, write_model

data = importlib.import_module("onnx.backend.test.data")  # a folder of models, without code
SAMPLE = [
    "test_abs",
    "test_add_bcast",
    "test_argmax_keepdims_random",
    "test_averagepool_2d_pads",
    "test_basic_conv_with_padding",
    "test_batchnorm_epsilon",
    "test_clip_default_max",
    "test_concat_3d_axis_negative_3",
    "test_constant",
    "test_cumsum_2d_axis_0",
    "test_dropout_default_mask",
    "test_expand_dim_changed",
    "test_gather_elements_0",
    "test_gemm_all_attributes",
    "test_if",
    "test_if_seq",
    "test_instancenorm_epsilon",
    "test_isinf",
    "test_layer_normalization_2d_axis0",
    "test_logsoftmax_axis_1",
    "test_loop11",
    "test_lrn",
    "test_lstm_defaults",
    "test_matmul_3d",
    "test_maxpool_2d_dilations",
    "test_pow_types_float32_int64",
    "test_reduce_sum_keepdims_random",
    "test_reshape_negative_dim",
    "test_resize_upsample_scales_nearest",
    "test_scan9_sum",
    "test_scatter_elements_with_axis",
    "test_sequence_insert_at_back",
    "test_slice_neg_steps",
    "test_softmax_large_number",
    "test_split_equal_parts_1d_opset18",
    "test_squeeze",
    "test_tfidfvectorizer_tf_only_bigrams_skip0",
    "test_tile",
    "test_top_k",
    "test_transpose_all_permutations_3",
    "test_unsqueeze_three_axes",
    "test_where_example",
]


@functools.cache
def cases() -> dict[str, Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes overflows on purpose
        return {case.name: case for case in collect_testcases(None)}


def as_fed(item: Any) -> Any:
    if isinstance(item, onnx.TensorProto):
        return numpy_helper.to_array(item)
    return item if isinstance(item, list) else np.asarray(item)


def run(model: onnx.ModelProto, arrays: list) -> list:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip([value.name for value in session.get_inputs()], arrays, strict=True))))


@pytest.mark.parametrize("name", SAMPLE)
def test_same_after_a_round_trip(name: str) -> None:
    case = cases()[name]
    assert case.model is not None
    assert case.data_sets is not None
    imported = read_model(case.model)
    opset = max(imported.info.opset_imports[""], minimal_opsets(imported.graph).get("", 1))
    written = write_model(imported.graph, imported.info, opset=opset)
    onnx.checker.check_model(written)
    inputs = [as_fed(item) for item in case.data_sets[0][0]]
    for ours, theirs in zip(run(written, inputs), run(case.model, inputs), strict=True):
        for left, right in zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]:
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", ["bvlc_alexnet", "inception_v2", "shufflenet", "squeezenet"])
def test_whole_models_of_opset_9_and_older(name: str, tmp_path: Path) -> None:
    path = next(Path(folder) / "light" / f"light_{name}.onnx" for folder in data.__path__)
    imported = read_model(path)
    assert imported.info.warnings == ()
    save_model(imported.graph, tmp_path / "m.onnx", imported.info, external_data=True)
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    image = np.random.default_rng(0).normal(size=imported.graph.inputs[0].shape).astype(np.float32)
    written = onnx.load(tmp_path / "m.onnx")
    np.testing.assert_array_equal(run(written, [image])[0], run(onnx.load(path), [image])[0])

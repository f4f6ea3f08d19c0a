"""Kernels for CUDA devices, compiled by NVRTC, which needs no device; `make check-cuda` runs them on one."""

from __future__ import annotations

import pytest
from tests.targets.cuda.chosen import lowered, printed_kernels, variants_of

from intaglio.conformance.suite import cases
from intaglio.kernels.language_text import parse_kernel
from intaglio.targets.cuda.compiler import compile_text, prelude
from intaglio.targets.cuda.functions import function_of
from intaglio.targets.cuda.libraries import find
from intaglio.targets.cuda.printing import launch, printed

NVRTC = pytest.mark.skipif(find("libnvrtc") is None, reason="NVRTC is missing: pip install nvidia-cuda-nvrtc")

CHOSEN = [
    "abs",
    "add_bcast",
    "and_bcast4v3d",
    "argmax_default_axis_example",
    "attention_4d",
    "attention_4d_attn_mask_bool",
    "averagepool_2d_pads_count_include_pad",
    "basic_conv_with_padding",
    "batchnorm_example",
    "bitshift_left_uint8",
    "cast_FLOAT_to_FLOAT8E4M3FN",
    "cast_FLOAT16_to_DOUBLE",
    "ceil_example",
    "clip_example",
    "compress_0",
    "concat_2d_axis_0",
    "conv_with_strides_padding",
    "convtranspose",
    "cumsum_1d_reverse_exclusive",
    "dequantizelinear",
    "div_int8",
    "dropout_default",
    "dynamicquantizelinear",
    "einsum_batch_matmul",
    "erf",
    "expand_dim_changed",
    "gather_0",
    "gather_elements_0",
    "gathernd_example_float32",
    "gelu_default_1",
    "gemm_all_attributes",
    "globalaveragepool",
    "gridsample_bilinear",
    "group_normalization_example",
    "hardswish",
    "instancenorm_example",
    "layer_normalization_2d_axis0",
    "logsoftmax_axis_0",
    "lstm_defaults",
    "matmul_3d",
    "matmulinteger",
    "maxpool_2d_pads",
    "mish",
    "mod_mixed_sign_float64",
    "nllloss_NCd1",
    "nonmaxsuppression_single_box",
    "nonzero_example",
    "onehot_with_axis",
    "pow_types_float32_int64",
    "prelu_broadcast",
    "qlinearconv",
    "range_float_type_positive_delta",
    "reduce_max_bool_inputs",
    "resize_upsample_scales_linear",
    "roialign_aligned_true",
    "scatter_elements_with_axis",
    "scatternd_add",
    "softmax_example",
    "top_k",
    "tril",
    "unique_not_sorted_without_axis",
    "where_example",
]
"""Models whose kernels cover the forms there are: elements, rows, running sums, files of C, the device's own."""


def _name(short: str) -> str:
    return f"test_{short}_cpu"


def test_chosen_models_are_in_the_suite() -> None:
    assert [name for name in CHOSEN if _name(name) not in cases()] == []


@NVRTC
@pytest.mark.parametrize("short", CHOSEN)
def test_kernels_of_a_model_compile(short: str) -> None:
    kernels = printed_kernels(lowered(_name(short)))
    parts = [prelude()]
    for place, kernel in enumerate(kernels):
        function = function_of(kernel)
        entries = [function.entry(variant, f"k{place}_{variant}") for variant in variants_of(kernel)]
        parts.append(f"namespace unit{place} {{\n{function.text}\n" + "".join(entries) + "}\n")
    assert compile_text("\n".join(parts), 90)


ADD = """
kernel add
about Add
loops n0, n1
in x0: float32[n0: x0.n0, n1: 1]
in x1: float32[n0: 0, n1: 1]
out x2: float32[n0: x2.n0, n1: 1]
  v0: f32 = load x0
  v1: f32 = load x1
  store x2, add(v0, v1)
""".lstrip()
SUM = """
kernel sum
about ReduceSum
loops n0, m0 reduced
in x0: float32[n0: x0.n0, m0: 1]
out x1: float32[n0: 1, m0: 0]
  v0: f32 = load x0
  v1: f32 = reduce sum v0
  store x1, v1
""".lstrip()


def _add(rows: int, columns: int, step: int, addresses: list[int]) -> str:
    sizes = {"n0": rows, "n1": columns, "x0.n0": step, "x2.n0": columns}
    found = launch(parse_kernel(ADD), sizes, addresses, 1000)
    return "" if found is None else found.variant


def test_neighbours_are_loaded_together_only_where_they_begin_evenly() -> None:
    even = [0, 256, 512]
    assert printed(parse_kernel(ADD)).pack == 4
    assert _add(5, 8, 8, even) == "wide"
    assert _add(5, 6, 6, even) == "each_small"
    assert _add(5, 8, 9, even) == "each_small"
    assert _add(5, 8, 8, [4, 256, 512]) == "each_small"
    assert _add(2**16, 2**16, 2**16, even) == "each_large"
    assert _add(0, 8, 8, even) == ""


@pytest.mark.parametrize(
    ("rows", "length", "variant"),
    [
        (4, 3, "row1_small"), (4, 64, "cached32_small"), (4, 66, "single32_small"), (4, 4096, "cached256_small"),
        (4, 8192, "cached256_small"), (4, 8196, "row512_small"), (4, 1025, "single256_small"),
        (9999, 5001, "row512_small"),
        (2**20, 2**12, "row512_large"),
    ],
)  # fmt: skip
def test_threads_share_rows_by_their_length(rows: int, length: int, variant: str) -> None:
    sizes = {"n0": rows, "m0": length, "x0.n0": length}
    found = launch(parse_kernel(SUM), sizes, [0, 256], 1000)
    assert found is not None
    assert found.variant == variant
    assert found.threads in (128, 256, 512)


def test_a_row_of_nothing_is_still_written() -> None:
    assert launch(parse_kernel(SUM), {"n0": 4, "m0": 0, "x0.n0": 0}, [0, 256], 1000) is not None
    assert launch(parse_kernel(SUM), {"n0": 0, "m0": 4, "x0.n0": 4}, [0, 256], 1000) is None

"""The operators of ai.onnx.ml but trees, and TfIdfVectorizer, judged by the reference and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.errors import IntaglioError, OperatorError
from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(5)
FEATURES = 3
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]


def model_of(op, shapes, outputs, domain="ai.onnx.ml", version=4, **attributes):
    """A model of one node; `shapes` gives the dtype and shape of each input, `outputs` the dtypes."""
    names = [f"y{i}" for i in range(len(outputs))]
    graph = helper.make_graph(
        [helper.make_node(op, list(shapes), names, domain=domain, **attributes)],
        op,
        [helper.make_tensor_value_info(name, _number(dtype), shape) for name, (dtype, shape) in shapes.items()],
        [helper.make_tensor_value_info(name, _number(dtype), None) for name, dtype in zip(names, outputs, strict=True)],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _number(dtype):
    return TensorProto.STRING if dtype is str else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def rows(dtype=np.float32, width=FEATURES, counts=(5, 1, 70)):
    for count in counts:
        yield {"x": (RNG.normal(size=(count, width)) * (1 if np.dtype(dtype).kind == "f" else 4)).astype(dtype)}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2])
def test_linear_regressor(judge, transform, targets):
    coefficients = [0.02, 0.01, 0.03, 0.03, 0.02, 0.01][: FEATURES * targets]
    options = {"coefficients": coefficients, "intercepts": [0.2, 0.8][:targets], "targets": targets}
    model = model_of(
        "LinearRegressor", {"x": (np.float32, ["n", FEATURES])}, [np.float32], post_transform=transform, **options
    )
    # Near a half, PROBIT in single precision is only as good as the last bits of its argument.
    judge(model, list(rows()), ort=transform != "PROBIT", exact=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("transform", TRANSFORMS[:-1])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_classifier(judge, dtype, transform, classes):
    coefficients = RNG.normal(size=FEATURES * (1 if classes == 2 else 3)).astype(np.float32).tolist()
    options = {"coefficients": coefficients, "intercepts": [0.1, 0.3, 0.0][: 1 if classes == 2 else 3]}
    options |= {"classlabels_ints": [7, 3, 5][:classes], "post_transform": transform}
    model = model_of("LinearClassifier", {"x": (dtype, ["n", FEATURES])}, [np.int64, np.float32], **options)
    judge(model, list(rows(dtype)), exact=False)


def test_a_number_of_features_that_only_the_run_tells(judge):
    options: dict[str, Any] = {"coefficients": [0.5, 0.25, 0.1], "intercepts": [0.1]}
    model = model_of("LinearRegressor", {"x": (np.float32, ["n", "f"])}, [np.float32], **options)
    judge(model, list(rows()), exact=False)
    with pytest.raises(IntaglioError):
        load(model, engine="native")(np.ones((2, 4), np.float32))


KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regressor(judge, kernel, one_class):
    options = {"kernel_type": kernel, "kernel_params": [0.4, 0.3, 3.0], "n_supports": 4, "one_class": one_class}
    options |= {"support_vectors": np.linspace(-1, 1, 12).tolist(), "coefficients": [1.0, -0.5, 0.25, 0.75]}
    model = model_of("SVMRegressor", {"x": (np.float32, ["n", FEATURES])}, [np.float32], rho=[0.1], **options)
    judge(model, list(rows()), exact=False)


def test_support_vector_regressor_without_vectors(judge):
    options = {
        "coefficients": [1.0, -0.5, 0.25],
        "rho": [0.5],
        "n_supports": 0,
        "kernel_type": "LINEAR",
        "kernel_params": [0.0] * 3,
    }
    judge(
        model_of("SVMRegressor", {"x": (np.float32, ["n", FEATURES])}, [np.float32], **options),
        list(rows()),
        exact=False,
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("is_probable", [False, True])
def test_support_vector_classifier(judge, kernel, transform, classes, is_probable):
    rng = np.random.default_rng(classes)
    total, pairs = 2 * classes, classes * (classes - 1) // 2
    options = {"kernel_type": kernel, "kernel_params": [0.4, 0.3, 3.0], "vectors_per_class": [2] * classes}
    options |= {"support_vectors": rng.normal(size=total * FEATURES).tolist(), "rho": rng.normal(size=pairs).tolist()}
    options |= {"coefficients": rng.normal(size=total * (classes - 1)).tolist(), "post_transform": transform}
    options |= {"classlabels_ints": [5, 2, 9, 4][:classes]}
    if is_probable:
        options |= {"prob_a": rng.normal(size=pairs).tolist(), "prob_b": rng.normal(size=pairs).tolist()}
    model = model_of("SVMClassifier", {"x": (np.float32, ["n", FEATURES])}, [np.int64, np.float32], **options)
    judge(model, list(rows()), ort=False, exact=False)


def test_support_vector_classifier_without_vectors(judge):
    options = {
        "coefficients": np.linspace(-1, 1, 9).tolist(),
        "rho": [0.25],
        "kernel_type": "LINEAR",
        "kernel_params": [0.0] * 3,
    }
    options["classlabels_ints"] = [1, 2, 3]
    model = model_of("SVMClassifier", {"x": (np.float32, ["n", FEATURES])}, [np.int64, np.float32], **options)
    judge(model, list(rows()), exact=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("count", [1, 3])
def test_scaler(judge, dtype, count):
    options: dict[str, Any] = {"offset": [0.5, -1.0, 2.0][:count], "scale": [2.0, 0.5, -1.0][:count]}
    judge(model_of("Scaler", {"x": (dtype, ["n", "f"])}, [np.float32], **options), list(rows(dtype)), exact=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(judge, dtype, norm):
    # ONNX Runtime divides by the greatest absolute value, or by another where rows are integers.
    model = model_of("Normalizer", {"x": (dtype, ["n", "f"])}, [np.float32], norm=norm)
    is_same = norm != "MAX" and np.dtype(dtype).kind == "f"
    judge(model, [*rows(dtype), {"x": np.zeros((2, 3), dtype)}], ort=is_same, exact=False)


@pytest.mark.parametrize("old", [np.nan, 2.0])
@pytest.mark.parametrize("count", [1, 3])
def test_imputer_of_floats(judge, old, count):
    x = np.array([[1, np.nan, 2], [2, 0, np.nan]], np.float32)
    options = {"imputed_value_floats": [9.0, 8.0, 7.0][:count], "replaced_value_float": old}
    judge(model_of("Imputer", {"x": (np.float32, ["n", "f"])}, [np.float32], **options), [{"x": x}])


def test_imputer_of_integers(judge):
    options = {"imputed_value_int64s": [9, 8, 7], "replaced_value_int64": 2}
    feeds = [{"x": RNG.integers(0, 4, (6, 3))}, {"x": np.zeros((0, 3), np.int64)}]
    judge(model_of("Imputer", {"x": (np.int64, ["n", 3])}, [np.int64], **options), feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_binarizer(judge, dtype):
    x = np.array([[0, 1, 2], [-1, 3, 1]], dtype)
    model = model_of("Binarizer", {"x": (dtype, ["n", "f"])}, [dtype], threshold=1.0)
    judge(model, [{"x": x}], ort=dtype is np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 3, 6)])
def test_array_feature_extractor(judge, dtype, shape):
    shapes = {"x": (dtype, [f"d{i}" for i in range(len(shape))]), "places": (np.int64, ["k"])}
    model = model_of("ArrayFeatureExtractor", shapes, [dtype])
    x = RNG.integers(0, 99, shape).astype(dtype)
    judge(model, [{"x": x, "places": np.array(places)} for places in ([5], [0, 3, 0, 2])])
    native = load(model, engine="native", strict=True)
    for places in ([-1], [0, 6]):
        with pytest.raises(OperatorError, match="expected some of 0 to 5"):
            native.run({"x": x, "places": np.array(places)})


@pytest.mark.parametrize("widths", [None, (2, 4), (1, 1), (5, 5)])
def test_feature_vectorizer(judge, widths):
    options = {} if widths is None else {"inputdimensions": widths}
    shapes = {"x": (np.float32, ["n", "a"]), "z": (np.float32, ["n", "b"])}
    model = model_of("FeatureVectorizer", shapes, [np.float32], **options)
    feeds = [{"x": RNG.random((n, 2)).astype(np.float32), "z": RNG.random((n, 4)).astype(np.float32)} for n in (3, 1)]
    judge(model, feeds, ort=widths == (2, 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("zeros", [0, 1])
def test_one_hot_encoder(judge, dtype, zeros):
    model = model_of("OneHotEncoder", {"x": (dtype, ["n", "m"])}, [np.float32], cats_int64s=[4, 1, 7], zeros=zeros)
    judge(model, [{"x": np.array([[1, 4], [7, 7]], dtype)}, {"x": np.zeros((0, 2), dtype)}], ort=dtype is not np.int32)
    unknown = np.array([[1, 5]], dtype)
    if zeros:
        judge(model, [{"x": unknown}], ort=False)
    else:
        with pytest.raises(OperatorError, match="no known category"):
            load(model, engine="native", strict=True)(unknown)


LABELS = {
    "int64s": np.array([3, -5, 2**40, 3], np.int64),
    "floats": np.array([0.5, np.nan, -1.5, 0.5], np.float32),
}
DEFAULTS = {"int64s": {"default_int64": 42}, "floats": {"default_float": 0.75}}


@pytest.mark.parametrize("keys", LABELS)
@pytest.mark.parametrize("values", LABELS)
def test_label_encoder(judge, keys, values):
    table = {
        f"keys_{keys}": LABELS[keys].tolist(),
        f"values_{values}": np.array([4, 1, 9, 8], LABELS[values].dtype).tolist(),
    } | DEFAULTS[values]
    model = model_of("LabelEncoder", {"x": (LABELS[keys].dtype, ["n", "m"])}, [LABELS[values].dtype], **table)
    others = np.array([[0, 7, 3]], LABELS[keys].dtype)
    feeds = [{"x": LABELS[keys].reshape(2, 2)}, {"x": others}, {"x": RNG.choice(LABELS[keys], (40, 33))}]
    # Of equal keys ONNX Runtime takes the first.
    judge(model, feeds, ort=False)
    unique = {name: items[:3] if name[:4] in ("keys", "valu") else items for name, items in table.items()}
    model = model_of("LabelEncoder", {"x": (LABELS[keys].dtype, ["n", "m"])}, [LABELS[values].dtype], **unique)
    judge(model, feeds)


@pytest.mark.parametrize("key", [np.int16, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("value", [np.int16, np.int32, np.int64, np.float32, np.float64])
def test_label_encoder_of_tensors(judge, key, value):
    tensors = {
        "keys": np.array([4, -2, 9], key),
        "values": np.array([1, 2, 3], value),
        "default": np.array([-7], value),
    }
    table: dict[str, Any] = {f"{name}_tensor": numpy_helper.from_array(array, name) for name, array in tensors.items()}
    model = model_of("LabelEncoder", {"x": (key, ["n"])}, [value], **table)
    judge(model, [{"x": np.array([9, 9, 0, 4, -2, 5], key)}, {"x": np.zeros(0, key)}], ort=False)


def test_labels_as_text_are_looked_up_by_number_first():
    model = model_of(
        "LabelEncoder", {"x": (np.int64, ["n"])}, [str], keys_int64s=[3, 5], values_strings=["three", "five"]
    )
    native = load(model, engine="native")
    assert native(np.array([5, 3, 0])).tolist() == ["five", "three", "_Unused"]
    (host,) = native.explain().host_nodes
    assert host.title.startswith("Gather")


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 1, 5])
@pytest.mark.parametrize("lengths", [(1, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_grams(judge, mode, skips, lengths, dtype):
    options = {
        "mode": mode, "min_gram_length": lengths[0], "max_gram_length": lengths[1], "max_skip_count": skips,
        "ngram_counts": [0, 4, 10], "ngram_indexes": [0, 6, 2, 3, 4, 5, 1, 7, 8],
        "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 1, 2, 3, 2, 2, 2], "weights": np.linspace(0.5, 2, 9).tolist(),
    }  # fmt: skip
    model = model_of("TfIdfVectorizer", {"x": (dtype, ["n", "m"])}, [np.float32], domain="", **options)
    judge(model, [{"x": RNG.integers(1, 9, shape).astype(dtype)} for shape in [(1, 12), (7, 40), (3, 1)]])
    judge(model, [{"x": np.zeros((2, 0), dtype)}], ort=False)


def test_a_chain_is_one_compiled_segment(judge):
    linear = {
        "classlabels_ints": [2, 4, 8],
        "coefficients": np.linspace(-1, 1, 9).tolist(),
        "intercepts": [0.0, 0.1, 0.2],
    }
    steps = [
        ("Imputer", ["a"], {"imputed_value_floats": [0.5], "replaced_value_float": np.nan}),
        ("Scaler", ["b"], {"offset": [0.1, 0.2, 0.3], "scale": [1.0, 2.0, 3.0]}),
        ("Normalizer", ["c"], {"norm": "L2"}),
        ("LinearClassifier", ["label", "score"], linear | {"post_transform": "SOFTMAX"}),
    ]
    names = ["x", "a", "b", "c"]
    nodes = [
        helper.make_node(op, [name], outputs, domain="ai.onnx.ml", **attributes)
        for name, (op, outputs, attributes) in zip(names, steps, strict=True)
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
            helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n", 3]),
        ],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    judge(helper.make_model(graph, opset_imports=opsets, ir_version=10), list(rows()), exact=False)

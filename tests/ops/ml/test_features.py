"""ai.onnx.ml: operators that prepare features and labels."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT64, STRING
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS, Tensor
from intaglio.ir.types import MapType, SequenceType, TensorType

ML = "ai.onnx.ml"
N = dim.symbol("N")
X = np.array([[1, 2.5, -3], [0, -1, 0.25]], np.float32)
TYPES = [np.float32, np.float64, np.int64, np.int32]


def texts(*items):
    return np.array(items, object)


def reference(name, *values, **attributes):
    return OPERATORS[(ML, name)](**attributes).reference(*values)


def infer(name, type, **attributes):
    b = Builder(Graph())
    return b.apply(OPERATORS[(ML, name)], b.graph.add_input("x", type), **attributes).type


@pytest.mark.parametrize("shape", [(2, 3), (6,), (1, 2, 3)])
@pytest.mark.parametrize("dtype", [*TYPES, object])
def test_array_feature_extractor(agree, shape, dtype):
    data = np.arange(6).reshape(shape).astype(str if dtype is object else dtype).astype(dtype)
    agree("ArrayFeatureExtractor", data, np.array([[2, 0]], np.int64), domain=ML)


@pytest.mark.parametrize("index", [-1, 3, 2**62])
def test_array_feature_extractor_refuses(index):
    with pytest.raises(OperatorError, match="expected some of 0 to 2"):
        reference("ArrayFeatureExtractor", X, np.array([index]))


@pytest.mark.parametrize("dtype", [np.float32])
def test_binarizer(agree, dtype):
    agree("Binarizer", X.astype(dtype), domain=ML, threshold=0.25)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("options", [{"scale": [2.0], "offset": [1.0]}, {"scale": [2.0, 3, 4], "offset": [1.0, 0, -1]}])
def test_scaler(agree, dtype, options):
    agree("Scaler", X.astype(dtype), domain=ML, **options)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(agree, dtype, norm):
    data = np.concatenate([X, np.zeros((1, 3)), -np.abs(X)]).astype(dtype)
    agree("Normalizer", data, domain=ML, norm=norm)


def test_imputer(agree):
    holes = np.array([[1, np.nan], [np.nan, 2]], np.float32)
    agree("Imputer", holes, domain=ML, imputed_value_floats=[9.0, 8.0], replaced_value_float=np.nan)
    agree("Imputer", holes, domain=ML, imputed_value_floats=[9.0], replaced_value_float=2.0)
    agree("Imputer", np.array([[1, 0], [0, 2]], np.int64), domain=ML, imputed_value_int64s=[9, 7])
    with pytest.raises(OperatorError, match="3 imputed values for 2 features"):
        reference("Imputer", holes, imputed_value_floats=(1.0, 2.0, 3.0))
    with pytest.raises(ShapeError, match="of another kind"):
        infer("Imputer", TensorType(INT64, (2,)), imputed_value_floats=(1.0,))


@pytest.mark.parametrize("dimensions", [[3, 3], [2, 5]])
def test_feature_vectorizer(agree, dimensions):
    agree("FeatureVectorizer", X, X + 1, domain=ML, inputdimensions=dimensions)


def test_feature_vectorizer_takes_different_types():
    result = reference("FeatureVectorizer", X, np.array([[1], [2]]), inputdimensions=(3, 1))
    assert result.dtype == np.float32
    assert result[:, 3].tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_one_hot_encoder(agree, dtype):
    agree("OneHotEncoder", np.array([[1, 2], [9, 3]]).astype(dtype), domain=ML, cats_int64s=[1, 2, 3])


def test_one_hot_encoder_of_strings(agree):
    agree("OneHotEncoder", texts("a", "x", "b"), domain=ML, cats_strings=["a", "b"])
    with pytest.raises(OperatorError, match="no known category"):
        reference("OneHotEncoder", texts("x"), cats_strings=("a",), zeros=0)


def test_category_mapper(agree):
    cats = {"cats_strings": ["a", "b"], "cats_int64s": [4, 5]}
    agree("CategoryMapper", texts("b", "q"), domain=ML, default_int64=-7, **cats)
    agree("CategoryMapper", np.array([[4], [9]], np.int64), domain=ML, **cats)


ENCODERS = [
    (texts("a", "q"), {"keys_strings": ["a", "b"], "values_int64s": [3, 4], "default_int64": 9}),
    (np.array([1, 2], np.int64), {"keys_int64s": [1], "values_floats": [3.5]}),
    (np.array([1, 2], np.int64), {"keys_int64s": [1], "values_strings": ["x"]}),
    (np.array([np.nan, 1, 2], np.float32), {"keys_floats": [np.nan, 1.0], "values_strings": ["n", "x"]}),
    (np.array([1.5, 2], np.float32), {"keys_floats": [1.5], "values_int64s": [4]}),
]


@pytest.mark.parametrize(("data", "options"), ENCODERS)
@pytest.mark.parametrize("version", [2, 4])
def test_label_encoder(agree, data, options, version):
    if version == 2 and data.dtype == np.float32:
        data = data[~np.isnan(data)]  # in version 2 ONNX Runtime finds no NaN
    agree("LabelEncoder", data, domain=ML, ml=version, **options)


def test_label_encoder_with_tensors(agree):
    keys, values = np.array([1, 2], np.int32), np.array([7.5, 8.5], np.float64)
    options = {"keys_tensor": keys, "values_tensor": values, "default_tensor": np.array([-1.0])}
    agree(
        "LabelEncoder",
        np.array([[2, 3]], np.int32),
        domain=ML,
        expected=[np.array([[8.5, -1.0]])],
        **{name: numpy_helper.from_array(array) for name, array in options.items()},
    )
    assert infer(
        "LabelEncoder", TensorType(STRING, (N,)), keys_strings=("a",), values_tensor=Tensor(values[:1])
    ).shape == (N,)


def test_label_encoder_refuses():
    with pytest.raises(ShapeError, match=r"expected one attribute keys_\*, got none"):
        infer("LabelEncoder", TensorType(INT64, (2,)), values_int64s=(1,))
    with pytest.raises(ShapeError, match="2 keys and 1 values"):
        infer("LabelEncoder", TensorType(INT64, (2,)), keys_int64s=(1, 2), values_int64s=(1,))
    with pytest.raises(ShapeError, match="is float32, the keys are int64"):
        infer("LabelEncoder", TensorType(FLOAT32, (2,)), keys_int64s=(1,), values_int64s=(1,))


def test_label_encoder_takes_the_last_of_equal_keys():
    result = reference("LabelEncoder", np.array([1]), keys_int64s=(1, 1), values_int64s=(5, 6))
    assert result.tolist() == [6]


NUMBERS = {3: 1.5, 1: -2.7, 9: 3.0}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[-2.7, 1.5, 3.0]]),
        ({"cast_to": "TO_INT64"}, [[-2, 1, 3]]),
        ({"cast_to": "TO_STRING"}, [["-2.700000", "1.500000", "3.000000"]]),
        ({"map_form": "SPARSE", "max_map": 5}, [[0, -2.7, 0, 1.5, 0]]),
    ],
)
def test_cast_map(options, expected):
    result = reference("CastMap", NUMBERS, **options)
    assert result.tolist() == (np.array(expected, np.float32).tolist() if result.dtype == np.float32 else expected)
    type = infer("CastMap", MapType(INT64, TensorType(FLOAT32, ())), **options)
    assert type.dtype.numpy == result.dtype
    assert type.shape[0] == 1


def test_cast_map_of_strings():
    assert reference("CastMap", {2: "7", 0: "5"}, cast_to="TO_INT64").tolist() == [[5, 7]]
    with pytest.raises(OperatorError, match="the key -1 is below 0"):
        reference("CastMap", {-1: 1.0}, map_form="SPARSE", max_map=2)
    with pytest.raises(ShapeError, match="expected a map from integers"):
        infer("CastMap", MapType(STRING, TensorType(FLOAT32, ())))


def test_dict_vectorizer():
    assert reference("DictVectorizer", {"a": 4, "c": 8}, string_vocabulary=("a", "c", "b", "z")).tolist() == [
        [4, 8, 0, 0]
    ]
    assert reference("DictVectorizer", {2: "x"}, int64_vocabulary=(1, 2)).tolist() == [["", "x"]]
    type = infer("DictVectorizer", MapType(STRING, TensorType(FLOAT32, ())), string_vocabulary=("a", "b"))
    assert type == TensorType(FLOAT32, (1, 2))


def test_zip_map(agree):
    agree("ZipMap", X, domain=ML, classlabels_strings=["a", "b", "c"])
    agree("ZipMap", X[0], domain=ML, classlabels_int64s=[5, 6, 7])
    type = infer("ZipMap", TensorType(FLOAT32, (N, 2)), classlabels_strings=("a", "b"))
    assert type == SequenceType(MapType(STRING, TensorType(FLOAT32, ())))
    with pytest.raises(ShapeError, match="3 columns, there are 2 labels"):
        infer("ZipMap", TensorType(FLOAT32, (N, 3)), classlabels_strings=("a", "b"))

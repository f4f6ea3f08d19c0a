"""The recipes of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .matrix_recipes import ML, Types, constant, element, recipe, x

X = x(2, 3)


def ml(names: str, *inputs: Any, **attributes: Any) -> None:
    """Register a recipe for operators of this domain."""
    recipe(names, *inputs, **{"domain": ML, **attributes})


def is_text(variable: str, types: Types) -> bool:
    """Whether a variable is bound to strings."""
    return element(types[variable]).kind == "string"


def for_text(variable: str, value: Any) -> Callable[[Types, int], Any]:
    """An attribute that is only there for strings."""
    return lambda types, version: value if is_text(variable, types) else None


def for_numbers(variable: str, value: Any) -> Callable[[Types, int], Any]:
    """An attribute that is only there for numbers."""
    return lambda types, version: None if is_text(variable, types) else value


def for_element(variable: str, name: str, value: Any) -> Callable[[Types, int], Any]:
    """An attribute that is only there for one element type."""
    return lambda types, version: value if element(types[variable]).name == name else None


def other_kind(varied: str, types: dict[str, str]) -> dict[str, str]:
    """Strings to integers and integers to strings."""
    other = {"T1": "T2", "T2": "T1"}[varied]
    return {**types, other: "tensor(int64)" if is_text(varied, types) else "tensor(string)"}


ml("ArrayFeatureExtractor", X, [[2, 0]])
ml("Binarizer", X, threshold=0.25)
ml(
    "CategoryMapper",
    x(4, low=0, high=3),
    cats_strings=["0", "1", "2"],
    cats_int64s=[0, 1, 2],
    options={"tie": other_kind},
)
ml("FeatureVectorizer", X, X, inputdimensions=[3, 3])
ml("Normalizer", X, norm="L2")
ml("Scaler", X, scale=[2.0], offset=[1.0])
ml("OneHotEncoder", x(2, 3, low=0, high=3), cats_int64s=for_numbers("T", [0, 1, 2]),
   cats_strings=for_text("T", ["0", "1", "2"]))  # fmt: skip


def is_whole(types: Types) -> bool:
    return element(types["T"]).is_integer


ml("Imputer", x(2, 3, low=0, high=2),
   imputed_value_floats=lambda types, version: None if is_whole(types) else [9.0],
   imputed_value_int64s=lambda types, version: [9] if is_whole(types) else None,
   replaced_value_float=lambda types, version: None if is_whole(types) else 0.0)  # fmt: skip


def encoded(variable: str, kind: str, values: Any) -> Callable[[Types, int], Any]:
    """The keys or values of `LabelEncoder` in the attribute of their type."""

    def attribute(types: Types, version: int) -> Any:
        if labels_are_tensors(types):
            return constant(types[variable], values) if kind == "tensor" else None
        listed = {"string": "strings", "int64": "int64s", "float32": "floats"}[element(types[variable]).name]
        return [{"strings": str, "floats": float, "int64s": int}[kind](v) for v in values] if kind == listed else None

    return attribute


def labels_are_tensors(types: Types) -> bool:
    """Whether keys and values are given as tensors: where one of them has no attribute of its own."""
    return not {element(types[variable]).name for variable in ("T1", "T2")} <= {"string", "int64", "float32"}


def other_label(varied: str, types: dict[str, str]) -> dict[str, str]:
    """Labels of another type than the keys: the first version knows nothing else."""
    return other_kind(varied, types) if types["T1"] == types["T2"] else types


KEYS, LABELS = [0, 1, 2], [5, 6, 7]
ml("LabelEncoder", x(4, low=0, high=3), classes_strings=["0", "1", "2"],
   **{f"keys_{kind}": encoded("T1", kind, KEYS) for kind in ("strings", "int64s", "floats", "tensor")},
   **{f"values_{kind}": encoded("T2", kind, LABELS) for kind in ("strings", "int64s", "floats", "tensor")},
   default_tensor=lambda types, version: constant(types["T2"], [9]) if labels_are_tensors(types) else None,
   options={"tie": other_label, "changes": (2,),
            "defaults": {"T1": "tensor(string)", "T2": "tensor(int64)"}})  # fmt: skip


LINEAR = {"coefficients": [0.5, 0.25, 0.125, 0.25, -0.5, 0.5], "intercepts": [0.25, -0.25]}
CLASSES = {"classlabels_ints": for_numbers("T2", [4, 5]), "classlabels_strings": for_text("T2", ["a", "b"])}
TWO = {"outputs": 2, "defaults": {"T2": "tensor(int64)"}}
ml("LinearClassifier", X, **LINEAR, **CLASSES, options=TWO)
ml("LinearRegressor", X, **LINEAR, targets=2)
ml("SVMClassifier", X, **CLASSES, kernel_type="RBF", kernel_params=[0.5, 0.0, 0.0], vectors_per_class=[1, 1],
   support_vectors=[1.0, 0.0, 0.5, -1.0, 0.5, 0.0], coefficients=[1.0, -1.0], rho=[0.25], options=TWO)  # fmt: skip
ml("SVMRegressor", X, kernel_type="RBF", kernel_params=[0.5, 0.0, 0.0], n_supports=2, rho=[0.25],
   support_vectors=[1.0, 0.0, 0.5, -1.0, 0.5, 0.0], coefficients=[1.0, -1.0])  # fmt: skip
STUMP = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.25, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
ml("TreeEnsembleClassifier", X, **STUMP, class_treeids=[0, 0, 0], class_nodeids=[1, 2, 2], class_ids=[0, 1, 2],
   class_weights=[1.0, 2.0, 0.5], classlabels_int64s=for_numbers("T2", [4, 5, 6]),
   classlabels_strings=for_text("T2", ["a", "b", "c"]), options=TWO)  # fmt: skip
ml("TreeEnsembleRegressor", X, **STUMP, target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0],
   target_weights=[1.5, -2.0], n_targets=1)  # fmt: skip
ml("TreeEnsemble", X, tree_roots=[0], nodes_featureids=[0, 1],
   nodes_splits=lambda types, version: constant(types["T"], [0.5, 0.0]),
   nodes_modes=lambda types, version: constant("tensor(uint8)", [0, 3]),
   nodes_truenodeids=[1, 1], nodes_trueleafs=[0, 1], nodes_falsenodeids=[0, 2], nodes_falseleafs=[1, 1],
   leaf_targetids=[0, 1, 1], leaf_weights=lambda types, version: constant(types["T"], [1.0, 2.0, 3.0]),
   n_targets=2)  # fmt: skip


def map_parts(text: str) -> tuple[str, str]:
    """The key and value type of a map type."""
    key, _, value = text[len("map(") : -1].partition(", ")
    return key, value


def vectorized(varied: str, types: dict[str, str]) -> dict[str, str]:
    """`DictVectorizer` gives the map's values."""
    if varied == "T1":
        return {**types, "T2": f"tensor({map_parts(types['T1'])[1]})"}
    return {**types, "T1": f"map({'int64' if is_text('T2', types) else 'string'}, {types['T2'][len('tensor(') : -1]})"}


ml("DictVectorizer", x(3),
   int64_vocabulary=lambda types, version: [2, 0, 5] if map_parts(types["T1"])[0] == "int64" else None,
   string_vocabulary=lambda types, version: ["2", "0", "5"] if map_parts(types["T1"])[0] == "string" else None,
   options={"tie": vectorized, "defaults": {"T1": "map(string, float)"}})  # fmt: skip
CASTS = {"float32": "TO_FLOAT", "int64": "TO_INT64", "string": "TO_STRING"}
ml("CastMap", x(3), cast_to=lambda types, version: CASTS[element(types["T2"]).name],
   options={"defaults": {"T1": "map(int64, float)"}})  # fmt: skip
ml("ZipMap", X, classlabels_strings=lambda types, version: ["a", "b", "c"] if "string" in types["T"] else None,
   classlabels_int64s=lambda types, version: None if "string" in types["T"] else [4, 5, 6])  # fmt: skip

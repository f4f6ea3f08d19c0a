"""ai.onnx.ml: linear models, support vector machines and trees, judged by ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from tests.present import operator

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS, Tensor
from intaglio.ir.types import TensorType
from intaglio.ops.ml.scores import transform

ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
NO_PROBIT = TRANSFORMS[:-1]
"""ONNX Runtime leaves one of two columns unwritten where PROBIT meets a single score of two classes."""

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
CLOSE = {"domain": ML, "rtol": 1e-3, "atol": 1e-4}


def infer(name, **attributes):
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (2, 3)))
    return b.apply(OPERATORS[(ML, name)], x, **attributes)


@pytest.mark.parametrize("post_transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2])
def test_linear_regressor(agree, post_transform, targets):
    coefficients = [0.5, 0.25, 0.1, 0.1, 0.2, 0.3][: 3 * targets]
    options = {"coefficients": coefficients, "intercepts": [0.1, 0.3][:targets], "targets": targets}
    agree("LinearRegressor", X, post_transform=post_transform, **options, **CLOSE)


def test_linear_regressor_of_one_row(agree):
    agree("LinearRegressor", X[0], coefficients=[0.5, 0.25, 0.1], **CLOSE)


@pytest.mark.parametrize("post_transform", TRANSFORMS)
@pytest.mark.parametrize("labels", [{"classlabels_strings": ["a", "b", "c"]}, {"classlabels_ints": [5, 7, 9]}])
def test_linear_classifier(agree, post_transform, labels):
    options = {"coefficients": [0.5, 0.25, 0.1, 0.1, 0.2, 0.3, 0.1, 0.1, 0.2], "intercepts": [0.1, 0.3, 0.0]}
    agree("LinearClassifier", X, outputs=2, post_transform=post_transform, **options, **labels, **CLOSE)


@pytest.mark.parametrize("post_transform", NO_PROBIT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_linear_classifier_with_one_score_for_two_classes(agree, post_transform, dtype):
    options = {"coefficients": [0.5, 0.25, 0.1], "intercepts": [0.1], "classlabels_ints": [4, 5]}
    agree("LinearClassifier", X.astype(dtype), outputs=2, post_transform=post_transform, **options, **CLOSE)


KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]
VECTORS = np.random.default_rng(1).normal(size=12).astype(np.float32).tolist()
MACHINES = {
    "two": {
        "vectors_per_class": [2, 2],
        "rho": [0.1],
        "coefficients": [0.5, -0.3, 0.2, 0.4],
        "classlabels_ints": [3, 5],
    },
    "three": {
        "vectors_per_class": [2, 1, 1],
        "rho": [0.1, -0.2, 0.3],
        "coefficients": [0.5, -0.3, 0.2, 0.4, 0.1, 0.2, -0.6, 0.7],
        "classlabels_strings": ["a", "b", "c"],
    },
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(agree, kernel, one_class):
    options = {"kernel_type": kernel, "kernel_params": [0.5, 0.25, 3.0], "support_vectors": VECTORS, "n_supports": 4}
    options |= {"coefficients": [0.5, -0.3, 0.2, 0.4], "rho": [0.1], "one_class": one_class}
    agree("SVMRegressor", X, **options, **CLOSE)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("post_transform", NO_PROBIT)
@pytest.mark.parametrize("has_probabilities", [False, True])
def test_svm_classifier(agree, kernel, machine, post_transform, has_probabilities):
    options = {"kernel_type": kernel, "kernel_params": [0.5, 0.25, 3.0], "support_vectors": VECTORS}
    pairs = len(MACHINES[machine]["rho"])
    if has_probabilities:
        options |= {"prob_a": [-1.2, -0.8, -1.0][:pairs], "prob_b": [0.3, 0.0, 0.1][:pairs]}
    agree("SVMClassifier", X, outputs=2, post_transform=post_transform, **options, **MACHINES[machine], **CLOSE)


@pytest.mark.parametrize("labels", [[3, 5], [3, 5, 7]])
@pytest.mark.parametrize("sign", [1, -1])
def test_svm_without_support_vectors(agree, labels, sign):
    coefficients = (np.arange(1, 3 * len(labels) + 1) / 10 * sign).tolist()
    options = {"coefficients": coefficients, "rho": [0.1], "kernel_params": [0.0, 0.0, 0.0]}
    agree("SVMClassifier", X, outputs=2, classlabels_ints=labels, **options, **CLOSE)
    agree("SVMRegressor", X, **(options | {"coefficients": coefficients[:3]}), n_supports=0, **CLOSE)


def trees(ids, modes=("BRANCH_LEQ",), is_positive=True, seed=1, count=3):
    """Full trees of depth 2 with random splits, and a weight for each of `ids` at each leaf."""
    rng = np.random.default_rng(seed)
    keys = [
        "treeids",
        "nodeids",
        "featureids",
        "values",
        "modes",
        "truenodeids",
        "falsenodeids",
        "missing_value_tracks_true",
    ]
    nodes = {key: [] for key in keys}
    weights = {key: [] for key in ["treeids", "nodeids", "ids", "weights"]}
    for tree in range(count):
        for node in range(7):
            is_leaf = node >= 3
            row = [tree, node, int(rng.integers(3)), float(np.float32(rng.normal() / 2))]
            row += ["LEAF", 0, 0] if is_leaf else [modes[tree % len(modes)], 2 * node + 1, 2 * node + 2]
            for key, item in zip(keys, [*row, int(rng.integers(2))], strict=True):
                nodes[key].append(item)
            for target in ids if is_leaf else ():
                weight = float(np.float32(rng.random() * 0.4)) - (0 if is_positive else 0.2)
                for key, item in zip(weights, [tree, node, target, weight], strict=True):
                    weights[key].append(item)
    return {f"nodes_{key}": items for key, items in nodes.items()}, weights


HOLED = X.copy()
HOLED[0, 0] = HOLED[3] = np.nan
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tree_modes(agree, mode, dtype):
    nodes, weights = trees([0], [mode])
    nodes["nodes_values"] = np.round(nodes["nodes_values"]).tolist()
    data = np.round(HOLED).astype(dtype)
    targets = {f"target_{key}": items for key, items in weights.items()}
    agree("TreeEnsembleRegressor", data, n_targets=1, ml=3, **nodes, **targets, **CLOSE)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("ids", [[0], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("has_base", [False, True])
def test_tree_regressor(agree, aggregate, ids, has_base):
    nodes, weights = trees(ids, MODES[:4], is_positive=False)
    options = {f"target_{key}": items for key, items in weights.items()} | nodes
    options |= {"base_values": [0.1, 0.2, 0.3][: len(ids)]} if has_base else {}
    agree("TreeEnsembleRegressor", HOLED, n_targets=len(ids), aggregate_function=aggregate, ml=3, **options, **CLOSE)


@pytest.mark.parametrize("post_transform", NO_PROBIT)
@pytest.mark.parametrize(("classes", "ids"), [(2, [0]), (2, [1]), (3, [0, 1, 2]), (3, [0, 2])])
@pytest.mark.parametrize("is_positive", [False, True])
@pytest.mark.parametrize("version", [1, 3])
def test_tree_classifier(agree, post_transform, classes, ids, is_positive, version):
    nodes, weights = trees(ids, is_positive=is_positive, seed=2)
    options = {f"class_{key}": items for key, items in weights.items()} | nodes
    labels = (
        {"classlabels_strings": ["a", "b", "c"][:classes]}
        if version == 1
        else {"classlabels_int64s": [3, 5, 9][:classes]}
    )
    agree(
        "TreeEnsembleClassifier",
        HOLED,
        outputs=2,
        post_transform=post_transform,
        ml=version,
        **options,
        **labels,
        **CLOSE,
    )


@pytest.mark.parametrize(("classes", "ids", "base"), [(2, [0], [0.3]), (3, [0, 1, 2], [0.1, 0.2, 0.3])])
@pytest.mark.parametrize("is_positive", [False, True])
def test_tree_classifier_with_base_values(agree, classes, ids, base, is_positive):
    nodes, weights = trees(ids, is_positive=is_positive, seed=2)
    options = {f"class_{key}": items for key, items in weights.items()} | nodes | {"base_values": base}
    labels = {"classlabels_int64s": [3, 5, 9][:classes]}
    agree("TreeEnsembleClassifier", HOLED, outputs=2, ml=3, **options, **labels, **CLOSE)


def test_tree_classifier_weighs_both_of_two_classes():
    nodes, weights = trees([0, 1], seed=2)
    options = {f"class_{key}": tuple(items) for key, items in weights.items()} | {k: tuple(v) for k, v in nodes.items()}
    labels, scores = operator("TreeEnsembleClassifier", ML, classlabels_int64s=(3, 5), **options).reference(X)
    assert labels.tolist() == [[3, 5][i] for i in scores.argmax(axis=1)]


def test_deprecated_trees_are_still_read(agree):
    nodes, weights = trees([0])
    targets = {f"target_{key}": items for key, items in weights.items()}
    (expected,) = agree("TreeEnsembleRegressor", X, n_targets=1, ml=3, **nodes, **targets, **CLOSE)
    agree("TreeEnsembleRegressor", X, n_targets=1, ml=5, expected=[expected], **nodes, **targets, **CLOSE)


def test_trees_in_double_precision(agree):
    nodes, weights = trees([0])
    values = np.array(nodes.pop("nodes_values"), np.float64) + 1e-12
    targets = {f"target_{key}": items for key, items in weights.items()}
    summands = np.array(targets.pop("target_weights"), np.float64)
    doubles = {"nodes_values": values, "target_weights": summands}
    options: dict[str, Any] = {f"{key}_as_tensor": numpy_helper.from_array(item) for key, item in doubles.items()}
    options["n_targets"] = 1
    agree("TreeEnsembleRegressor", X.astype(np.float64), ml=3, **nodes, **targets, **options, **CLOSE)


ENSEMBLE = {
    "tree_roots": (0,),
    "nodes_featureids": (0, 1),
    "nodes_splits": np.array([0.5, 0.0], np.float32),
    "nodes_modes": np.array([0, 3], np.uint8),
    "nodes_truenodeids": (1, 1),
    "nodes_trueleafs": (0, 1),
    "nodes_falsenodeids": (0, 2),
    "nodes_falseleafs": (1, 1),
    "leaf_targetids": (0, 1, 1),
    "leaf_weights": np.array([1.0, 2.0, 3.0], np.float32),
    "n_targets": 2,
}


def ensemble(**changes):
    options = ENSEMBLE | changes
    return {name: Tensor(item) if isinstance(item, np.ndarray) else item for name, item in options.items()}


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_tree_ensemble(agree, aggregate):
    options = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in ENSEMBLE.items()}
    agree("TreeEnsemble", X, aggregate_function=aggregate, **options, **CLOSE)


@pytest.mark.parametrize(("number", "name"), [(1, "SOFTMAX"), (2, "LOGISTIC"), (3, "SOFTMAX_ZERO"), (4, "PROBIT")])
def test_tree_ensemble_numbers_its_transforms_as_the_schema_does(number, name):
    """ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX."""
    with np.errstate(all="ignore"):
        plain, other = (operator("TreeEnsemble", ML, **ensemble(), post_transform=i).reference(X) for i in (0, number))
        np.testing.assert_allclose(other, transform(plain, name), rtol=1e-6)


def test_tree_ensemble_tests_membership():
    sets = np.array([1, 2, np.nan, 7, np.nan], np.float32)
    op = OPERATORS[(ML, "TreeEnsemble")](
        **ensemble(nodes_modes=np.array([6, 6], np.uint8), membership_values=sets, n_targets=2)
    )
    data = np.array([[1, 7, 0], [2, 1, 0], [3, 7, 0]], np.float32)
    assert op.reference(data).tolist() == [[0, 2], [0, 3], [1, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes_truenodeids": (9, 1)}, "leads to node 9, which does not exist"),
        ({"nodes_falsenodeids": (0, 7)}, "leads to leaf 7, which does not exist"),
        ({"tree_roots": (5,)}, "node 5"),
        ({"leaf_targetids": (0, 1, 4)}, "expected 0 to 1"),
        ({"nodes_featureids": (-1, 0)}, "below 0"),
        ({"nodes_modes": np.array([0, 9], np.uint8)}, "expected 0 to 6"),
        ({"nodes_trueleafs": (0,)}, "differ in length"),
    ],
)
def test_wrong_trees_are_refused(changes, message):
    with pytest.raises(ShapeError, match=message):
        infer("TreeEnsemble", **ensemble(**changes))


def test_trees_with_a_cycle_end():
    op = OPERATORS[(ML, "TreeEnsemble")](**ensemble(nodes_truenodeids=(0, 1)))
    with pytest.raises(OperatorError, match="form a cycle"):
        op.reference(np.zeros((1, 3), np.float32))
    with pytest.raises(OperatorError, match="read feature 1, the rows have 1"):
        OPERATORS[(ML, "TreeEnsemble")](**ensemble()).reference(np.zeros((1, 1), np.float32))


def test_wrong_models_are_refused():
    with pytest.raises(ShapeError, match="post_transform 'TANH' is none of"):
        infer("LinearRegressor", coefficients=(1.0,) * 3, post_transform="TANH")
    with pytest.raises(ShapeError, match="kernel_type 'CUBE' is none of"):
        infer("SVMRegressor", coefficients=(1.0,), rho=(0.0,), kernel_type="CUBE")
    with pytest.raises(OperatorError, match="4 coefficients for 1 targets of 3 features"):
        operator("LinearRegressor", ML, coefficients=(1.0,) * 4).reference(X)

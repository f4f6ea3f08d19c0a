"""Ensembles of trees, judged by the reference and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.errors import OperatorError
from intaglio.runtime.model.loading import load

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
FEATURES = 5
NUMBERS = np.arange(-3.0, 4.0)
"""Few numbers, so that rows meet splits exactly."""


def tree_nodes(rng, depth, modes):
    """One tree that is not balanced: (mode, feature, split, true child, false child) for each node, root first."""
    nodes = []

    def grow(level):
        place = len(nodes)
        nodes.append(None)
        if level == 0 or (level < depth and rng.random() < 0.25):
            nodes[place] = ("LEAF", 0, 0.0, 0, 0)
        else:
            mode = str(rng.choice(modes))
            feature, split = int(rng.integers(FEATURES)), float(rng.choice(NUMBERS))
            true = grow(level - 1)
            nodes[place] = (mode, feature, split, true, grow(level - 1))
        return place

    grow(depth)
    return nodes


def forest(kind, trees, depth, targets, *, modes=MODES[:1], per_leaf=1, is_missing=False, seed=0, **options):
    """A TreeEnsembleRegressor or TreeEnsembleClassifier of random trees."""
    rng = np.random.default_rng(seed)
    lists = {
        name: [] for name in ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
    }
    weights = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        nodes = tree_nodes(rng, depth, modes)
        for place, (mode, feature, split, true, false) in enumerate(nodes):
            row = (tree, place, mode, feature, split, true, false)
            for values, item in zip(lists.values(), row, strict=True):
                values.append(item)
            for target in rng.choice(targets, per_leaf, replace=False) if mode == "LEAF" else ():
                row = (tree, place, int(target), float(np.float32(rng.normal())))
                for values, item in zip(weights.values(), row, strict=True):
                    values.append(item)
    prefix = "target" if kind == "TreeEnsembleRegressor" else "class"
    attributes = {f"nodes_{name}": values for name, values in lists.items()}
    attributes |= {f"{prefix}_{name}": values for name, values in weights.items()}
    if is_missing:
        attributes["nodes_missing_value_tracks_true"] = rng.integers(0, 2, len(lists["values"])).tolist()
    return attributes | options


def ml_model(op, attributes, outputs=("y",), dtype: Any = np.float32, version=3, shape=("n", FEATURES)):
    """A model of one node of ai.onnx.ml."""
    node = helper.make_node(op, ["x"], list(outputs), domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        op,
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
    )
    for value, number in zip(graph.output, _output_types(op, attributes, kind), strict=True):
        value.CopyFrom(helper.make_tensor_value_info(value.name, number, None))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _output_types(op, attributes, kind):
    if op == "TreeEnsembleClassifier":
        is_text = "classlabels_strings" in attributes
        return [TensorProto.STRING if is_text else TensorProto.INT64, TensorProto.FLOAT]
    return [kind if op == "TreeEnsemble" else TensorProto.FLOAT]


def feeds(dtype: Any = np.float32, nan=0.0):
    rng = np.random.default_rng(7)
    for rows in (1, 3, 4, 9, 130, 1100, 0):
        x = rng.choice(NUMBERS, (rows, FEATURES)).astype(dtype)
        if nan:
            x[rng.random(x.shape) < nan] = np.nan
        yield {"x": x}


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(("targets", "per_leaf"), [(1, 1), (3, 1), (3, 3)])
def test_regressors(judge, aggregate, targets, per_leaf):
    options = {"aggregate_function": aggregate, "n_targets": targets, "base_values": [0.5] * targets}
    attributes = forest("TreeEnsembleRegressor", 11, 6, targets, per_leaf=per_leaf, **options)
    # ONNX Runtime leaves the base out where no leaf has a weight for the target.
    is_weighed = per_leaf == targets
    judge(ml_model("TreeEnsembleRegressor", attributes), list(feeds())[:-1], ort=is_weighed, exact=False)


@pytest.mark.parametrize("modes", [[mode] for mode in MODES] + [MODES[:4], MODES])
@pytest.mark.parametrize("is_missing", [False, True])
def test_every_comparison_also_of_nan(judge, modes, is_missing):
    attributes = forest("TreeEnsembleRegressor", 9, 5, 1, modes=modes, is_missing=is_missing, n_targets=1)
    model = ml_model("TreeEnsembleRegressor", attributes)
    judge(model, list(feeds(nan=0.3)), ort=False, exact=False)
    judge(model, list(feeds())[:-1], exact=False)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_features_of_other_types(judge, dtype):
    attributes = forest("TreeEnsembleRegressor", 9, 5, 2, n_targets=2)
    judge(
        ml_model("TreeEnsembleRegressor", attributes, dtype=dtype),
        list(feeds(dtype))[:-1],
        ort=dtype is np.float64,
        exact=False,
    )


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("base", [0, 3])
def test_classifiers(judge, transform, base):
    options = {"post_transform": transform, "classlabels_int64s": [4, 9, 2]}
    if base:
        options["base_values"] = [0.25, -0.5, 0.125]
    attributes = forest("TreeEnsembleClassifier", 10, 5, 3, **options)
    model = ml_model("TreeEnsembleClassifier", attributes, ("label", "score"))
    judge(model, list(feeds())[:-1], exact=False, ort=transform != "PROBIT")


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("base", [0, 1, 2])
def test_one_weighed_class_of_two(judge, transform, column, base):
    options = {"post_transform": transform, "classlabels_int64s": [4, 9], "base_values": [0.25, -0.5][:base]}
    attributes = forest("TreeEnsembleClassifier", 10, 5, 1, **options)
    attributes["class_ids"] = [column] * len(attributes["class_ids"])
    if not base:
        del attributes["base_values"]
    judge(ml_model("TreeEnsembleClassifier", attributes, ("label", "score")), list(feeds()), exact=False, ort=False)


def test_labels_that_are_strings_are_all_that_the_host_does():
    attributes = forest("TreeEnsembleClassifier", 10, 5, 3, classlabels_strings=["a", "b", "c"])
    model = ml_model("TreeEnsembleClassifier", attributes, ("label", "score"))
    native, reference = load(model, engine="native"), load(model, engine="reference")
    for feed in feeds():
        got, expected = native.run(feed), reference.run(feed)
        np.testing.assert_array_equal(got["label"], expected["label"])
        np.testing.assert_allclose(got["score"], expected["score"], rtol=1e-6)
    (host,) = native.explain().host_nodes
    assert host.title.startswith("Gather")


def ensemble(dtype, *, aggregate=1, transform=0, missing=False, modes=(*MODES, "BRANCH_MEMBER"), seed=3):
    """A TreeEnsemble as version 5 writes it."""
    rng = np.random.default_rng(seed)
    names = ("featureids", "splits", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    lists = {name: [] for name in names}
    leaf_targets, leaf_weights, roots, members = [], [], [], []
    for _ in range(9):
        nodes = tree_nodes(rng, 5, modes)
        if nodes[0][0] == "LEAF":
            continue
        inner = [place for place, node in enumerate(nodes) if node[0] != "LEAF"]
        offset = len(lists["modes"])
        roots.append(offset)
        numbers = {place: offset + number for number, place in enumerate(inner)}
        for place in inner:
            mode, feature, split, *children = nodes[place]
            row = [feature, split, [*MODES, "BRANCH_MEMBER"].index(mode)]
            for child in children:
                if child in numbers:
                    row += [numbers[child], 0]
                else:
                    row += [len(leaf_targets), 1]
                    leaf_targets.append(int(rng.integers(2)))
                    leaf_weights.append(rng.normal())
            for values, item in zip(lists.values(), row, strict=True):
                values.append(item)
            if mode == "BRANCH_MEMBER":
                members += [*rng.choice(NUMBERS, int(rng.integers(1, 5)), replace=False), np.nan]
    tensors = {
        "nodes_splits": np.array(lists.pop("splits"), dtype),
        "nodes_modes": np.array(lists.pop("modes"), np.uint8),
        "leaf_weights": np.array(leaf_weights, dtype),
        "membership_values": np.array(members, dtype),
    }
    attributes = {f"nodes_{name}": values for name, values in lists.items()}
    if missing:
        attributes["nodes_missing_value_tracks_true"] = rng.integers(0, 2, len(lists["featureids"])).tolist()
    attributes |= {name: numpy_helper.from_array(array, name) for name, array in tensors.items()}
    return attributes | {
        "leaf_targetids": leaf_targets,
        "tree_roots": roots,
        "n_targets": 2,
        "aggregate_function": aggregate,
        "post_transform": transform,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_trees_of_version_5_with_sets(judge, dtype, aggregate, missing):
    attributes = ensemble(dtype, aggregate=aggregate, missing=missing)
    model = ml_model("TreeEnsemble", attributes, dtype=dtype, version=5)
    judge(model, list(feeds(dtype, nan=0.1)), ort=False, exact=False)
    judge(model, list(feeds(dtype))[:-1], exact=False)


def test_the_evaluator_of_onnx_agrees_where_there_are_no_sets():
    from onnx.reference import ReferenceEvaluator

    attributes = ensemble(np.float32, modes=MODES)
    del attributes["membership_values"]
    model = ml_model("TreeEnsemble", attributes, version=5)
    native, evaluator = load(model, engine="native", strict=True), ReferenceEvaluator(model)
    for feed in list(feeds())[:5]:
        (expected,) = map(np.asarray, evaluator.run(None, feed))
        np.testing.assert_allclose(native.run(feed)["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transform", [1, 2, 3, 4])
def test_half_precision(judge, transform):
    model = ml_model("TreeEnsemble", ensemble(np.float16, transform=transform), dtype=np.float16, version=5)
    judge(model, list(feeds(np.float16)), ort=False)


def test_a_tree_that_is_one_leaf(judge):
    attributes = {"nodes_treeids": [0], "nodes_nodeids": [0], "nodes_modes": ["LEAF"], "nodes_featureids": [0]}
    attributes |= {"nodes_values": [0.0], "nodes_truenodeids": [0], "nodes_falsenodeids": [0], "n_targets": 1}
    attributes |= {"target_treeids": [0], "target_nodeids": [0], "target_ids": [0], "target_weights": [2.5]}
    judge(ml_model("TreeEnsembleRegressor", attributes), list(feeds())[:-1])


def test_rows_with_too_few_features_are_refused():
    attributes = forest("TreeEnsembleRegressor", 5, 5, 1, n_targets=1)
    model = load(ml_model("TreeEnsembleRegressor", attributes, shape=("n", "f")), engine="native", strict=True)
    assert model(np.zeros((2, FEATURES + 3), np.float32)).shape == (2, 1)
    for rows in (0, 1, 200):
        with pytest.raises(OperatorError, match="the rows have 2"):
            model(np.zeros((rows, 2), np.float32))


def test_trees_that_never_end_run_on_the_host():
    attributes = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_modes": ["BRANCH_LEQ"] * 2 + ["LEAF"]}
    attributes |= {"nodes_featureids": [0, 0, 0], "nodes_values": [0.0] * 3, "n_targets": 1}
    attributes |= {"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 2, 0]}
    attributes |= {"target_treeids": [0], "target_nodeids": [2], "target_ids": [0], "target_weights": [2.5]}
    model = load(ml_model("TreeEnsembleRegressor", attributes), engine="native")
    np.testing.assert_array_equal(model(np.ones((1, FEATURES), np.float32)), [[2.5]])
    with pytest.raises(OperatorError, match="cycle"):
        model(-np.ones((1, FEATURES), np.float32))


def test_any_number_of_threads_gives_the_same_bits():
    model = ml_model("TreeEnsembleRegressor", forest("TreeEnsembleRegressor", 30, 7, 2, n_targets=2))
    x = np.random.default_rng(1).normal(size=(2000, FEATURES)).astype(np.float32)
    one, two = (load(model, engine="native", threads=threads)(x) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)

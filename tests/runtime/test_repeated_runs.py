"""Plans with host nodes that run again without checks: labels and maps at the end, columns of strings before."""

from __future__ import annotations

import json
import random
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio
from intaglio.errors import IntaglioError
from intaglio.runtime.engine.engine import EngineName

LABELS = {"strings": ["low", "mid", "high"], "numbers": [3, 5, 9]}
WORDS = ["red", "green", "blue", "other"]


def classifier(kind: str, has_text: bool, seed: int = 0) -> Any:
    """Scores, the label of the best and a map of all; with text, from words that are looked up."""
    rng = np.random.default_rng(seed)
    labels, name = LABELS[kind], "strings" if kind == "strings" else "ints"
    nodes, width, data = [], 4, "x"
    if has_text:
        pick = random.Random(seed).choice(["OneHotEncoder", "LabelEncoder"])
        if pick == "OneHotEncoder":
            nodes.append(
                helper.make_node("OneHotEncoder", ["x"], ["h"], domain="ai.onnx.ml", cats_strings=WORDS[:3], zeros=1)
            )
            nodes.append(helper.make_node("Flatten", ["h"], ["f"], axis=1))
            width, data = 6, "f"
        else:
            tables = {"keys_strings": WORDS, "values_floats": [0.5, -1.0, 2.0, 0.0]}
            nodes.append(helper.make_node("LabelEncoder", ["x"], ["f"], domain="ai.onnx.ml", **tables))
            width, data = 2, "f"
    weights = rng.normal(size=(len(labels), width)).astype(np.float32).reshape(-1).tolist()
    options = {f"classlabels_{name}": labels, "coefficients": weights, "intercepts": [0.1, 0.2, 0.3]}
    nodes.append(
        helper.make_node(
            "LinearClassifier", [data], ["y", "p"], domain="ai.onnx.ml", post_transform="SOFTMAX", **options
        )
    )
    zipped = {"classlabels_strings" if kind == "strings" else "classlabels_int64s": labels}
    nodes.append(helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", **zipped))
    element = TensorProto.STRING if has_text else TensorProto.FLOAT
    result = TensorProto.STRING if kind == "strings" else TensorProto.INT64
    info = helper.make_tensor_value_info("x", element, ["n", 2 if has_text else 4])
    maps = helper.make_map_type_proto(result, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [
        helper.make_tensor_value_info("y", result, ["n"]),
        helper.make_value_info("z", helper.make_sequence_type_proto(maps)),
    ]
    graph = helper.make_graph(nodes, "classifier", [info], outputs)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def data_for(has_text: bool, rows: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if has_text:
        return rng.choice(np.array(WORDS, object), size=(rows, 2))
    return rng.normal(size=(rows, 4)).astype(np.float32)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("has_text", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_classifiers(kind: str, has_text: bool, seed: int) -> None:
    proto = classifier(kind, has_text, seed)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    models = [intaglio.load(proto, engine=engine) for engine in ("native", "reference")]
    for turn, rows in enumerate([1, 5, 1, 5, 5, 0, 1]):
        x = data_for(has_text, rows, seed + turn)
        expected: list[Any] = list(session.run(None, {"x": x}))
        labels, maps = expected
        for model in models:
            found, zipped = model(x)
            assert found.tolist() == labels.tolist()
            assert len(zipped) == len(maps)
            for ours, theirs in zip(zipped, maps, strict=True):
                assert ours == pytest.approx(theirs, rel=1e-5)
                assert {type(key) for key in ours} == {type(key) for key in theirs}
                assert {type(score) for score in ours.values()} == {float}
            assert len(json.loads(json.dumps(zipped))) == rows


def test_host_nodes_are_counted_in_each_run() -> None:
    model = intaglio.load(classifier("strings", False))
    counts = []
    for _ in range(4):
        model(data_for(False, 3, 0))
        counts.append(model.host_runs)
    assert counts == [counts[0] * turn for turn in (1, 2, 3, 4)]
    assert counts[0] > 0


def test_results_belong_to_the_caller() -> None:
    model = intaglio.load(classifier("strings", False))
    x = data_for(False, 3, 0)
    first = model(x)
    kept = first[0].tolist()
    first[0][:] = "changed"
    first[1][0].clear()
    for _ in range(2):
        again = model(x)
        assert again[0].tolist() == kept
        assert len(again[1][0]) == 3


@pytest.mark.parametrize("other", [np.array([["red", "blue"]]), [["red", "blue"]]], ids=["numpy", "list"])
def test_what_is_no_array_of_texts_goes_the_long_way(other: Any) -> None:
    model = intaglio.load(classifier("strings", True, 1))
    expected = model(np.array([["red", "blue"]], object))
    for _ in range(3):
        found = model(other)
        assert found[0].tolist() == expected[0].tolist()
        assert found[1] == expected[1]


@pytest.mark.parametrize("wrong", [np.array([["red", 7]], object), np.array([[None, "red"]], object)], ids=str)
def test_what_is_no_text_is_refused_also_later(wrong: Any) -> None:
    model = intaglio.load(classifier("strings", True, 1))
    for _ in range(3):
        model(np.array([["red", "blue"]], object))
        with pytest.raises(IntaglioError):
            model(wrong)


def strict_lookup() -> Any:
    """Words that must be known, then the text at the place of a number that may be out of range."""
    nodes = [
        helper.make_node("OneHotEncoder", ["x"], ["h"], domain="ai.onnx.ml", cats_strings=WORDS[:2], zeros=0),
        helper.make_node("Gather", ["t", "i"], ["g"]),
    ]
    infos = [
        helper.make_tensor_value_info("x", TensorProto.STRING, ["n"]),
        helper.make_tensor_value_info("i", TensorProto.INT64, ["k"]),
    ]
    outputs = [
        helper.make_tensor_value_info("h", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("g", TensorProto.STRING, None),
    ]
    table = numpy_helper.from_array(np.array(WORDS, object), "t")
    graph = helper.make_graph(nodes, "lookup", infos, outputs, [table])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_faults_are_told_in_later_runs_too(engine: EngineName) -> None:
    model = intaglio.load(strict_lookup(), engine=engine)
    words, places = np.array(["green", "red"], object), np.array([3, -1, 0])
    for _ in range(3):
        hot, found = model(words, places)
        assert hot.tolist() == [[0, 1], [1, 0]]
        assert found.tolist() == ["other", "other", "red"]
        with pytest.raises(IntaglioError, match="4"):
            model(words, np.array([0, 4, 0]))
        with pytest.raises(IntaglioError, match=r"purple|no known"):
            model(np.array(["green", "purple"], object), places)


def sentences(stopwords: list[str], seed: int) -> Any:
    """Sentences as words, counted and weighed, into a class and a map: as skl2onnx writes pipelines of text."""
    rng = np.random.default_rng(seed)
    pool = ["red", "green", "blue", "red", "green", "green", "red"]  # three words and two pairs
    case = {"case_change_action": "LOWER", "locale": "C", **({"stopwords": stopwords} if stopwords else {})}
    count = {"max_gram_length": 2, "max_skip_count": 0, "min_gram_length": 1, "mode": "TF", "ngram_counts": [0, 3]}
    words = {"mark": 0, "mincharnum": 1, "pad_value": "#", "tokenexp": "[a-z]+"}
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["f"]),
        helper.make_node("StringNormalizer", ["f"], ["n"], **case),
        helper.make_node("Tokenizer", ["n"], ["t"], domain="com.microsoft", **words),
        helper.make_node("TfIdfVectorizer", ["t"], ["c"], **count, ngram_indexes=[0, 1, 2, 3, 4], pool_strings=pool),
        helper.make_node("MatMul", ["c", "w"], ["p"]),
        helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[3, 8]),
    ]
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [
        helper.make_tensor_value_info("t", TensorProto.STRING, None),
        helper.make_value_info("z", helper.make_sequence_type_proto(maps)),
    ]
    constants = [
        numpy_helper.from_array(np.array([-1]), "flat"),
        numpy_helper.from_array(rng.normal(size=(5, 2)).astype(np.float32), "w"),
    ]
    info = helper.make_tensor_value_info("x", TensorProto.STRING, ["n", 1])
    graph = helper.make_graph(nodes, "sentences", [info], outputs, constants)
    imports = [helper.make_opsetid(*each) for each in (("", 17), ("ai.onnx.ml", 3), ("com.microsoft", 1))]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("stopwords", [[], ["red", "red green"]], ids=["none", "some"])
def test_sentences(stopwords: list[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop words make the number of rows one that only the host knows."""
    monkeypatch.setattr("intaglio.runtime.artifact.warm._is_all_our_own", lambda: True)
    path, pick = tmp_path / "sentences.onnx", random.Random(5)
    onnx.save(sentences(stopwords, 0), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    models = [intaglio.load(path, engine="native") for _ in range(2)]  # the second from what the first left
    assert models[1]._main.held is None  # pyright: ignore[reportPrivateUsage]
    for rows in (1, 4, 1, 4, 2, 4):
        texts = [" ".join(pick.choices(["Red", "green", "blue", "a"], k=pick.randint(1, 5))) for _ in range(rows)]
        x = np.array([["red"], *([text] for text in texts[1:])] if rows > 1 else [[texts[0]]], object)
        tokens, maps = cast("list[Any]", session.run(None, {"x": x}))
        for model in models:
            found, zipped = model(x)
            assert found.tolist() == tokens.tolist()
            assert [pytest.approx(each, rel=1e-5) for each in maps] == zipped
    assert models[1]._main.held is None  # pyright: ignore[reportPrivateUsage]


def table(seed: int) -> Any:
    """Columns of words and of numbers, each with a number of rows of its own, side by side in a product."""
    rng = np.random.default_rng(seed)
    tables = {"keys_strings": WORDS, "values_floats": [0.5, -1.0, 2.0, 0.0]}
    nodes = [helper.make_node("LabelEncoder", [name], [f"{name}2"], domain="ai.onnx.ml", **tables) for name in "ab"]
    nodes.append(helper.make_node("Concat", ["a2", "x", "b2"], ["c"], axis=1))
    nodes.append(helper.make_node("MatMul", ["c", "w"], ["y"]))
    kinds = {"a": TensorProto.STRING, "b": TensorProto.STRING, "x": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info(name, kind, [None, 1]) for name, kind in kinds.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = numpy_helper.from_array(rng.normal(size=(3, 2)).astype(np.float32), "w")
    graph = helper.make_graph(nodes, "table", inputs, outputs, [weights])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def test_columns_of_a_table() -> None:
    proto = table(0)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    model = intaglio.load(proto)
    assert model.whole_engine().hosted is not None  # pyright: ignore[reportAttributeAccessIssue]
    for turn, rows in enumerate([1, 5, 1, 5, 3]):
        words = data_for(True, rows, turn)
        feeds = {"a": words[:, :1].copy(), "b": words[:, 1:].copy(), "x": data_for(False, rows, turn)[:, :1].copy()}
        expected = cast("list[Any]", session.run(None, feeds))
        np.testing.assert_allclose(model.run(feeds)["y"], expected[0], rtol=1e-5, atol=1e-6)
        with pytest.raises(IntaglioError):
            model.run(feeds | {"x": np.zeros((rows + 2, 1), np.float32)})


def tangle(seed: int, size: int) -> Any:
    """Numbers and words made of each other in any order: the words on the host, the numbers compiled."""
    pick = random.Random(seed)
    numbers, words, nodes = ["x"], ["w"], []
    forth = {"keys_int64s": [0, 1, 2, 3], "values_strings": WORDS, "default_string": "other"}
    back = {"keys_strings": WORDS, "values_int64s": [3, 1, 2, 0], "default_int64": 5}
    for place in range(size):
        kind = pick.choice(["add", "add", "concat", "forth", "back"])
        name = f"v{place}"
        if kind == "add":
            nodes.append(helper.make_node("Add", [pick.choice(numbers), pick.choice(numbers)], [name]))
        elif kind == "concat":
            nodes.append(helper.make_node("StringConcat", [pick.choice(words), pick.choice(words)], [name]))
        else:
            source, table = (pick.choice(numbers), forth) if kind == "forth" else (pick.choice(words), back)
            nodes.append(helper.make_node("LabelEncoder", [source], [name], domain="ai.onnx.ml", **table))
        (words if kind in ("concat", "forth") else numbers).append(name)
    kinds = dict.fromkeys(numbers, TensorProto.INT64) | dict.fromkeys(words, TensorProto.STRING)
    inputs = [helper.make_tensor_value_info(name, kinds[name], ["n"]) for name in "xw"]
    given = [name for name in kinds if name not in "xw"]
    outputs = [helper.make_tensor_value_info(name, kinds[name], None) for name in pick.sample(given, 4)]
    graph = helper.make_graph(nodes, "tangle", inputs, outputs)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


@pytest.mark.parametrize("seed", range(6))
def test_host_nodes_run_in_an_order_that_fits(seed: int) -> None:
    proto = tangle(seed, 24)
    native, reference = (intaglio.load(proto, engine=engine) for engine in ("native", "reference"))
    for rows in (3, 1, 3, 0):
        x, words = np.arange(rows), np.array(random.Random(seed).choices(WORDS, k=rows), object)
        expected = reference.run({"x": x, "w": words})
        for _ in range(2):
            found = native.run({"x": x, "w": words})
            assert {name: array.tolist() for name, array in found.items()} == {
                name: array.tolist() for name, array in expected.items()
            }


@pytest.mark.parametrize("kind", LABELS)
def test_labels_and_maps_cut_no_segment(kind: str) -> None:
    explained = intaglio.load(classifier(kind, False)).explain()
    assert explained.segments == 1
    assert len(explained.host_nodes) == (2 if kind == "strings" else 1)


def test_a_segment_that_finds_out_sizes_for_itself() -> None:
    """The rounds of a loop are known only in the run, and nobody else asks for them."""
    step = helper.make_node("Add", ["carried", "one"], ["next"])
    going = helper.make_node("Identity", ["going"], ["on"])
    numbers = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("carried", "next")]
    flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("going", "on")]
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    body = helper.make_graph([going, step], "body", [count, flags[0], numbers[0]], [flags[1], numbers[1]])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Cast", ["top"], ["rounds"], to=TensorProto.INT64),
        helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body),
        helper.make_node("ZipMap", ["y"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[3, 8]),
    ]
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])]
    outputs = [helper.make_value_info("z", helper.make_sequence_type_proto(maps))]
    one = numpy_helper.from_array(np.array(1, np.float32), "one")
    graph = helper.make_graph(nodes, "rounds", inputs, outputs, [one])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = intaglio.load(helper.make_model(graph, opset_imports=imports, ir_version=8))
    assert model.whole_engine().hosted is not None  # pyright: ignore[reportAttributeAccessIssue]
    for rows, top in ((2, 3), (1, 5), (2, 0), (2, 4)):
        x = np.zeros((rows, 2), np.float32)
        x[0, 1] = top
        expected = [dict(zip([3, 8], row, strict=True)) for row in (x + top).tolist()]
        assert model(x) == expected

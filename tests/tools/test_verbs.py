"""Every verb, judged by ONNX's checker and ONNX Runtime: what a model answers stays what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from tests.tools.edited_models import MODELS, assert_same, convolution, judged, made_up, parsed

import intaglio.tools as tools
from intaglio.errors import InputError, LoadError, UnsupportedError

ALL = sorted(MODELS)


def two_feeds(model: ModelProto) -> list[dict[str, Any]]:
    return [made_up(model, seed) for seed in (0, 3)]


@pytest.mark.parametrize("name", ALL)
def test_prune_dedupe_and_inline_keep_what_a_model_answers(name: str) -> None:
    model = MODELS[name]()
    pruned = tools.prune(model)
    deduped = tools.dedupe(model)
    inlined = tools.inline(model)
    both = tools.prune(tools.dedupe(inlined.document).document)
    for feed in two_feeds(model):
        expected = judged(model, feed)
        for changed in (pruned, deduped, inlined, both):
            assert_same(judged(changed.message(), feed), expected)
    assert not inlined.message().functions
    assert tools.read_document(model).message() == model, "the model itself is left alone"


def test_prune_takes_out_what_no_output_needs() -> None:
    model = MODELS["bodies"]()
    changed = tools.prune(model)
    assert changed.report["removed"]["nodes"] == 1
    assert "dead" not in [node.name for node in changed.message().graph.node]
    tool = tools.edit(model)
    tool.remove_output("y")
    changed = tools.prune(tool.document, inputs=True)
    assert [info.name for info in changed.message().graph.input] == ["x"]
    assert [node.op_type for node in changed.message().graph.node] == ["MatMul", "Relu", "Relu", "Mul"]


def test_dedupe_keeps_one_of_each() -> None:
    assert tools.dedupe(MODELS["bodies"]()).report == {"removed": {"constants": 0, "nodes": 1}}
    assert tools.dedupe(convolution()).report == {"removed": {"constants": 1, "nodes": 0}}
    text = """<ir_version: 8, opset_import: ["" : 17, "odd" : 1]> g (float[2] x) => (float[2] y, float[2] z) {
        a = RandomNormalLike (x)
        b = RandomNormalLike (x)
        c = odd.Nobody (x)
        d = odd.Nobody (x)
        e = Abs (x)
        f = Abs (x)
        h = Neg (e)
        i = Neg (f)
        j = Sum (a, b, c, d, h, i)
        y = Exp (j)
        z = Exp (j)
    }"""
    changed = tools.dedupe(onnx.parser.parse_model(text))
    assert changed.report["removed"]["nodes"] == 2
    kept = [node.op_type for node in changed.message().graph.node]
    assert kept == ["RandomNormalLike"] * 2 + ["Nobody"] * 2 + ["Abs", "Neg", "Sum", "Exp", "Exp"]


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("bodies", [], ["y"]),
        ("bodies", ["m"], ["b"]),
        ("bodies", ["r"], ["z"]),
        ("functions", ["a"], ["b"]),
        ("functions", [], ["a"]),
        ("odd names", ["naïve 名"], ["model/a b\tc", 'quo"te']),
        ("odd names", ["s1"], ["model/a b\tc"]),
        ("convolution", ["r1"], ["s"]),
        ("convolution", ["w2"], ["scores"]),
    ],
)
def test_a_part_answers_what_it_answered_in_the_whole(name: str, inputs: list[str], outputs: list[str]) -> None:
    model = MODELS[name]()
    part = tools.extract(model, inputs, outputs)
    message = part.message()
    assert [info.name for info in message.graph.output] == outputs
    assert len(message.graph.node) < len(model.graph.node)
    between = [each for each in dict.fromkeys([*inputs, *outputs]) if each not in _outputs(model) | _constants(model)]
    seen = tools.add_outputs(model, between).message()
    for feed in two_feeds(model):
        values = judged(seen, feed) | {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        given = {info.name: feed.get(info.name, values.get(info.name)) for info in message.graph.input}
        assert_same(judged(message, given), {each: values[each] for each in outputs})
    read = {each for node in message.graph.node for each in node.input}
    assert all(tensor.name in read for tensor in message.graph.initializer)


def _outputs(model: ModelProto) -> set[str]:
    return {info.name for info in model.graph.output}


def _constants(model: ModelProto) -> set[str]:
    return {tensor.name for tensor in model.graph.initializer}


def test_a_part_whose_input_has_no_type_is_refused() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "odd" : 1]> g (float[2] x) => (float[2] y) {
        a = odd.Nobody (x)
        y = Neg (a) }"""
    with pytest.raises(InputError, match="the type of 'a' is not known"):
        tools.extract(onnx.parser.parse_model(text), ["a"], ["y"])
    with pytest.raises(InputError, match="there is no value 'yy'; did you mean 'y'"):
        tools.extract(onnx.parser.parse_model(text), [], ["yy"])


HEAD = """<ir_version: 9, opset_import: ["" : 18]> h (float[N, 64] scores, float[1] m) => (float[N, 1] y)
<float[1] b1 = {3}> {
    r1 = ReduceMax <keepdims = 1> (scores, axes)
    axes = Constant <value = int64[1] {1}> ()
    s = Mul (r1, m)
    y = Add (s, b1)
}"""


def test_models_are_joined_across_names_and_operator_sets() -> None:
    first, second = convolution(), parsed(HEAD)
    with pytest.raises(InputError, match="both models have 'b1', 'r1', 's': give a prefix"):
        tools.merge(first, second)
    merged = tools.merge(first, second, prefix="head/")
    message = merged.message()
    assert [info.name for info in message.graph.input] == ["image", "head/m"]
    assert [info.name for info in message.graph.output] == ["mask", "head/y"]
    assert (message.opset_import[0].version, message.ir_version, message.producer_name) == (18, 9, "me")
    factor = np.array([2], np.float32)
    made = judged(first, made_up(first))
    expected = judged(second, {"scores": made["scores"], "m": factor})["y"]
    got = judged(message, {**made_up(first), "head/m": factor})
    np.testing.assert_array_equal(got["head/y"], expected)
    np.testing.assert_array_equal(got["mask"], made["mask"])
    kept = tools.merge(first, second, {"scores": "scores"}, prefix="p_", keep_outputs=True)
    assert [info.name for info in kept.message().graph.output] == ["mask", "scores", "p_y"]


def test_models_that_do_not_fit_are_refused_with_the_reason() -> None:
    first, second = convolution(), parsed(HEAD)
    with pytest.raises(
        InputError, match=r"'mask' cannot be the input 'scores'.*float32\[N, 5, 8, 8\] and float32\[N, 64\]"
    ):
        tools.merge(first, second, {"scores": "mask"}, prefix="p")
    with pytest.raises(InputError, match="the other model has no input 'score'; did you mean 'scores'"):
        tools.merge(first, second, {"score": "scores"}, prefix="p")
    scaler = "g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (x) }"
    one, other = (
        parsed(f'<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : {version}]> {scaler}') for version in (1, 3)
    )
    assert tools.merge(one, other, prefix="p").message().opset_import[1].version == 3


def test_functions_of_both_models_stay_apart() -> None:
    first, second = MODELS["functions"](), MODELS["functions"]()
    second.functions[0].node[2].op_type = "Sub"
    same = tools.merge(first, first, prefix="p_").message()
    assert len(same.functions) == 2
    merged = tools.merge(first, second, prefix="p_").message()
    assert sorted(each.name for each in merged.functions) == ["outer", "p_outer", "p_scaled", "scaled"]
    for feed in two_feeds(first):
        middle = judged(first, feed)["y"]
        np.testing.assert_array_equal(judged(same, feed)["p_y"], judged(first, {"x": middle})["y"])
        np.testing.assert_array_equal(judged(merged, feed)["p_y"], judged(second, {"x": middle})["y"])


@pytest.mark.parametrize("name", ALL)
def test_renamed_models_answer_the_same(name: str) -> None:
    model = MODELS[name]()
    changed = tools.rename(model, patterns=[(r"^(.*)$", r"all/\1")])
    message = changed.message()
    inner = {each for node in message.graph.node for each in (*node.input, *node.output)} - {""}
    assert all(each.startswith("all/") for each in inner)
    for feed in two_feeds(model):
        got = judged(message, {f"all/{each}": value for each, value in feed.items()})
        assert_same(got, {f"all/{each}": value for each, value in judged(model, feed).items()})


def test_two_values_change_names_and_sizes_get_others() -> None:
    model = convolution()
    changed = tools.rename(model, {"mask": "scores", "scores": "mask"}, nodes={"add": "sum"}, dimensions={"N": "batch"})
    message = changed.message()
    feed = made_up(model)
    before, after = judged(model, feed), judged(message, feed)
    np.testing.assert_array_equal(after["scores"], before["mask"])
    assert message.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert "sum" in [node.name for node in message.graph.node]
    with pytest.raises(InputError, match="'s' would be the name of two values"):
        tools.rename(model, {"r1": "s"})
    with pytest.raises(InputError, match="is no regular expression"):
        tools.rename(model, patterns=[("(", "x")])


def test_shapes_of_inputs_are_set_and_followed() -> None:
    model = tools.add_outputs(convolution(), ["c1"]).message()
    fixed = tools.set_shape(model, {"image": [1, 3, 16, 12]}).message()
    shapes = {info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in fixed.graph.output}
    assert shapes == {"mask": [1, 5, 16, 12], "scores": [1, 64], "c1": [1, 64, 16, 12]}
    feed = {"image": np.random.default_rng(1).standard_normal((1, 3, 16, 12)).astype(np.float32)}
    onnx.checker.check_model(fixed, full_check=True)
    open_again = tools.set_shape(fixed, {"image": ["B", 3, None, "W"]}).message()
    assert_same(judged(open_again, feed), judged(fixed, feed))
    named = tools.set_shape(model, dimensions={"N": 4}).message()
    assert [d.dim_value for d in named.graph.output[1].type.tensor_type.shape.dim] == [4, 64]
    with pytest.raises(InputError, match="has 4 dimensions, and 2 sizes were given"):
        tools.set_shape(model, {"image": [1, 3]})
    with pytest.raises(InputError, match="there is no input 'imag'; did you mean 'image'"):
        tools.set_shape(model, {"imag": [1, 3]})


def test_layouts_change_at_the_border_only() -> None:
    model = convolution()
    last = tools.layout(model, "nhwc").message()
    shapes = [
        [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim]
        for i in (last.graph.input[0], last.graph.output[0])
    ]
    assert shapes == [["N", 8, 8, 3], ["N", 8, 8, 5]]
    feed = made_up(model)
    before = judged(model, feed)
    after = judged(last, {"image": np.ascontiguousarray(feed["image"].transpose(0, 2, 3, 1))})
    np.testing.assert_array_equal(after["mask"].transpose(0, 3, 1, 2), before["mask"])
    np.testing.assert_array_equal(after["scores"], before["scores"])
    first = tools.layout(last, "nchw").message()
    assert_same(judged(first, feed), before)
    only = tools.layout(model, "nhwc", inputs=[], outputs=["mask"]).message()
    np.testing.assert_array_equal(judged(only, feed)["mask"], after["mask"])
    with pytest.raises(InputError, match="has 2 dimensions; a layout has three to five"):
        tools.layout(model, "nhwc", outputs=["scores"])


def test_values_become_outputs_by_pattern() -> None:
    model = convolution()
    changed = tools.add_outputs(model, ["c*"])
    assert changed.report == {"added": ["c1", "c2"]}
    everything = tools.add_outputs(MODELS["functions"](), ["*"]).message()
    assert set(judged(everything, made_up(everything), check=False)) == {"a", "b", "y"}
    with pytest.raises(InputError, match="no value fits the pattern"):
        tools.add_outputs(model, ["z*"])


@pytest.mark.parametrize("name", ALL)
def test_stripped_models_are_restored_as_they_were(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    stripped = tools.strip(path, threshold=16)
    stripped.save(tmp_path / "stripped.onnx")
    size = sum(1 for tensor in stripped.document.tensors() if tensor.data_location == TensorProto.EXTERNAL)
    assert size == stripped.report["tensors"]
    back = tools.restore(tmp_path / "stripped.onnx", path)
    assert back.report["differs"] == []
    feed = made_up(model)
    assert_same(judged(back.message(), feed), judged(model, feed))
    random = tools.restore(tmp_path / "stripped.onnx", seed=1)
    assert random.report["made_up"] == size
    judged(random.message(), feed)


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_weights_come_back_from_files_of_arrays(suffix: str, tmp_path: Path) -> None:
    model = convolution()
    model.graph.initializer.append(numpy_helper.from_array(np.arange(6, dtype=np.float32).astype("float16"), "half"))
    four = helper.make_tensor("four", TensorProto.INT4, [4096], np.arange(4096) % 7)
    model.graph.initializer.append(four)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert tools.convert(path, tmp_path / f"w.{suffix}") == []
    tools.strip(path).save(tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").stat().st_size < 3000
    back = tools.restore(tmp_path / "stripped.onnx", tmp_path / f"w.{suffix}")
    assert back.report["differs"] == []
    feed = made_up(model)
    assert_same(judged(back.message(), feed, check=False), judged(model, feed, check=False))
    with pytest.raises(InputError, match="3 weights are not there: 'w1'"):
        tools.restore(tmp_path / "stripped.onnx", {"w2": np.zeros((64, 64, 3, 3), np.float32)})
    with pytest.raises(InputError, match="'w1' is of shape"):
        tools.restore(tmp_path / "stripped.onnx", {"w1": np.zeros(3, np.float32)})


@pytest.mark.parametrize("name", ALL)
def test_text_and_json_give_the_model_back(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert tools.convert(path, tmp_path / "m.json", weights=True) == []
    tools.convert(tmp_path / "m.json", tmp_path / "back.onnx")
    assert onnx.load_model(tmp_path / "back.onnx") == model
    data = json.loads((tmp_path / "m.json").read_text())
    assert [node["id"] for node in data["graph"]["nodes"]] == [n.number for n in tools.read_document(path).graph.nodes]
    notes = tools.convert(path, tmp_path / "m.onnxtxt", weights=True)
    feed = made_up(model)
    assert bool(notes) == (name in ("functions", "convolution")), "it rounds, and has no references with defaults"
    if not notes:
        tools.convert(tmp_path / "m.onnxtxt", tmp_path / "text.onnx")
        assert_same(judged(onnx.load_model(tmp_path / "text.onnx"), feed), judged(model, feed))
    tools.convert(path, tmp_path / "short.json")
    tools.convert(tmp_path / "short.json", tmp_path / "short.onnx")
    restored = tools.restore(tmp_path / "short.onnx", path)
    assert_same(judged(restored.message(), feed), judged(model, feed))


def test_what_is_no_json_or_text_of_a_model_is_refused(tmp_path: Path) -> None:
    for name, text in (
        ("a.json", "{"),
        ("b.json", "{}"),
        ("c.onnxtxt", "hello"),
        ("d.json", '{"format": "intaglio-graph", "version": 1}'),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(LoadError):
            tools.convert(tmp_path / name, tmp_path / "out.onnx")
    with pytest.raises(InputError, match="has weights and no structure"):
        tools.convert(tmp_path / "w.npz", tmp_path / "out.onnx")
    with pytest.raises(InputError, match="say the form"):
        tools.convert(tmp_path / "w.bin", tmp_path / "out.onnx")


def test_weights_go_beside_the_model_and_back(tmp_path: Path) -> None:
    model = convolution()
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    written = tools.externalize(path, tmp_path / "out.onnx", location="w.bin")
    assert written == [tmp_path / "out.onnx", tmp_path / "w.bin"]
    outside = onnx.load_model(tmp_path / "out.onnx")
    feed = made_up(model)
    assert_same(judged(outside, feed), judged(model, feed))
    tools.internalize(tmp_path / "out.onnx").save(tmp_path / "in.onnx")
    assert onnx.load_model(tmp_path / "in.onnx") == model
    tools.externalize(tmp_path / "out.onnx", tmp_path / "out.onnx", location="w.bin")  # over itself
    assert_same(judged(onnx.load_model(tmp_path / "out.onnx"), feed), judged(model, feed))
    with pytest.raises(InputError, match="is no name for a file"):
        tools.externalize(path, tmp_path / "out.onnx", location="../w.bin")


def test_external_data_of_two_models_goes_along(tmp_path: Path) -> None:
    model, feed = convolution(), made_up(convolution())
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        tools.externalize(model, tmp_path / name / "m.onnx", location="m.bin")
    second = tools.rename(tmp_path / "two/m.onnx", {"image": "picture"})
    second = tools.layout(second.document, "nhwc", inputs=[], outputs=["mask"])
    merged = tools.merge(tmp_path / "one/m.onnx", second.document, {}, prefix="p_")
    assert merged.editor is not None
    assert not merged.editor.faults()
    (tmp_path / "three").mkdir()
    files = merged.save(tmp_path / "three/m.onnx")
    assert len(files) == 3
    got = judged(onnx.load_model(tmp_path / "three/m.onnx"), {"image": feed["image"], "p_picture": feed["image"]})
    np.testing.assert_array_equal(got["p_mask"].transpose(0, 3, 1, 2), got["mask"])
    assert_same({"mask": got["mask"]}, {"mask": judged(model, feed)["mask"]})


def test_external_data_of_nodes_comes_along(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] z) {'
    text += " k = Constant <value = float[2] {3, 4}> () z = Add (x, k) }"
    model = onnx.parser.parse_model(text)
    tensor = model.graph.node[0].attribute[0].t
    (tmp_path / "k.bin").write_bytes(numpy_helper.to_array(tensor).tobytes())
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="k.bin")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    first = onnx.parser.parse_model(text.replace("z", "x2"))
    merged = tools.merge(first, tmp_path / "m.onnx", prefix="p_").message()
    np.testing.assert_array_equal(judged(merged, {"x": np.zeros(2, np.float32)})["p_z"], [6, 8])


@pytest.mark.parametrize("name", [each for each in ALL if each != "functions"])
@pytest.mark.parametrize("version", [11, 12, 13, 15, 18, 20, 21, 22])
def test_operator_sets_go_up_and_down(name: str, version: int) -> None:
    model = MODELS[name]()
    message = tools.set_opset(model, version).message()
    assert message.opset_import[0].version == version
    for feed in two_feeds(model):
        one, other = judged(model, feed), judged(message, feed)
        for key in one:
            np.testing.assert_allclose(other[key], one[key], rtol=1e-6, atol=1e-7)
    back = tools.set_opset(message, model.opset_import[0].version).message()
    assert back.opset_import[0].version == model.opset_import[0].version
    for key, value in judged(back, made_up(model)).items():
        np.testing.assert_allclose(value, judged(model, made_up(model))[key], rtol=1e-6, atol=1e-7)


def test_functions_follow_where_their_operators_stay_the_same() -> None:
    model = MODELS["functions"]()
    message = tools.set_opset(model, 15).message()
    assert {entry.version for each in message.functions for entry in each.opset_import if not entry.domain} == {15}
    assert_same(judged(message, made_up(model)), judged(model, made_up(model)))
    with pytest.raises(UnsupportedError, match="in the function 'outer', which can be inlined before"):
        tools.set_opset(model, 12)
    inlined = tools.set_opset(tools.inline(model).document, 12).message()
    assert_same(judged(inlined, made_up(model)), judged(model, made_up(model)))


def test_what_a_version_cannot_say_is_listed() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "odd" : 1]>
    g (float[2, 3, 4] x, int64[1] a) => (float[2, 3, 4] y) {
        [one] u = Trilu (x)
        [two] v = ReduceSum (x, a)
        [three] w = LayerNormalization (x, s)
        [four] y = odd.Nobody (u, v, w)
    }"""
    model = onnx.parser.parse_model(text)
    with pytest.raises(UnsupportedError) as error:
        tools.set_opset(model, 12)
    assert "cannot say" in str(error.value)
    assert "'two'" in str(error.value)
    assert "the type of its input 's' is not known" in str(error.value)
    with pytest.raises(InputError, match="there is no version 99"):
        tools.set_opset(model, 99)


def test_scripts_replay_and_run_nothing(tmp_path: Path) -> None:
    model = MODELS["bodies"]()
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    editor = tools.edit(path)
    editor.rename_values({"x": "in"})
    editor.set_initializer("w", np.full((4, 4), np.inf, np.float32))
    editor.set_initializer("long", np.arange(500.0))
    editor.merge(
        parsed('<ir_version: 8, opset_import: ["" : 17]> h (float[N, 4] z) => (float[N, 4] q) { q = Neg (z) }')
    )
    editor.save_script(tmp_path / "change.py")
    changed = tools.replay(tmp_path / "change.py", path)
    assert changed.message() == editor.document.message()
    assert changed.report == {"commands": 4}
    for line, words in (
        ("import os\nos.system('true')", "line 2 is no command"),
        ("editor.save_script('x')\n", "there is no command 'save_script'"),
        ("editor.rename_value(__import__('os').name, 'x')\n", "is no plain value"),
        ("editor.rename_value('nothing', 'x')\n", "command 1, line 1: there is no value"),
        ("editor.rename_value(1, 2, 3)\n", "command 1, line 1: rename_value"),
        ("editor.prune(\n", "is no Python"),
    ):
        with pytest.raises(InputError, match=words):
            tools.replay(line, path)


OLDER = {
    "shape": ("float[2, N, 4] x", "int64[2] y", "y = Shape <start = 1> (x)", 17),
    "end": ("float[2, N, 4] x", "int64[1] y", "y = Shape <start = -2, end = -1> (x)", 17),
    "or equal": ("float[6] x, float[6] z", "bool[6] y", "y = GreaterOrEqual (x, z)", 13),
    "split": ("float[6] x", "float[3] y, float[3] z", "y, z = Split <num_outputs = 2> (x)", 18),
    "resize": (
        "float[1, 2, 3, 4] x",
        "float[1, 2, 6, 8] y",
        's = Constant <value = float[4] {1, 1, 2, 2}> () y = Resize <mode = "linear"> (x, , s)',
        17,
    ),
    "gelu": ("float[6] x", "float[6] y", "y = Gelu (x)", 20),
    "norm": (
        "float[2, 4] x",
        "float[2, 4] y",
        "s = Constant <value = float[4] {1, 2, 3, 4}> () y = LayerNormalization (x, s)",
        17,
    ),
}


@pytest.mark.parametrize("version", [11, 12, 13, 14, 16, 17])
@pytest.mark.parametrize("name", OLDER)
def test_operators_that_are_newer_are_said_in_older_ones(name: str, version: int) -> None:
    inputs, outputs, nodes, opset = OLDER[name]
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {nodes} }}'
    model = onnx.parser.parse_model(text)
    feed = made_up(model)
    if name == "or equal":
        feed["x"][:3], feed["z"][2:4] = feed["z"][:3], np.nan
    message = tools.set_opset(model, version).message()
    assert message.opset_import[0].version == version
    expected = judged(model, feed)
    for key, value in judged(message, feed).items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_official_models_in_other_operator_sets() -> None:
    """Where ONNX Runtime gives the stored answers, it gives them in every operator set that can say the model."""
    counts = {"same": 0, "refused": 0}
    for case in load_model_tests(kind="node"):
        feed, stored = _stored(case)
        if case.model is None or not feed or not _is_near(case.model, feed, stored):
            continue
        for version in (9, 11, 13, 17, 21, 23):
            try:
                message = tools.set_opset(case.model, version).message()
            except (InputError, UnsupportedError):
                counts["refused"] += 1
                continue
            assert _is_near(message, feed, stored), (case.name, version)
            counts["same"] += 1
    print(counts)
    assert counts["same"] > 5000


def _stored(case: Any) -> tuple[dict[str, Any], list[Any]]:
    """The inputs and outputs that a test stores, where all of them are arrays."""
    inputs, outputs = case.data_sets[0] if case.data_sets else ([], [])
    if not all(isinstance(each, np.ndarray) for each in (*inputs, *outputs)):
        return {}, []
    return dict(zip((info.name for info in case.model.graph.input), inputs, strict=False)), list(outputs)


def _is_near(model: ModelProto, feed: dict[str, Any], stored: list[Any]) -> bool:
    """Whether ONNX Runtime runs a model and gives the stored answers."""
    try:
        found = judged(model, feed, check=False)
    except Exception as error:  # ONNX Runtime lacks many kernels, and each of its errors is a class of its own
        return "NOT_IMPLEMENTED" in str(error) and not stored
    pairs = [(np.asarray(one), np.asarray(two)) for one, two in zip(found.values(), stored, strict=False)]
    return all(_equal(one, two) for one, two in pairs)


def _equal(one: np.ndarray, two: np.ndarray) -> bool:
    if one.dtype.kind in "OSUb":
        return np.array_equal(one.astype(str), two.astype(str))
    if one.shape != two.shape:
        return False
    rough = 1e-2 if one.dtype.itemsize < 4 and one.dtype.kind not in "iu" else 1e-3
    return bool(
        np.allclose(one.astype(np.complex128), two.astype(np.complex128), rtol=rough, atol=rough, equal_nan=True)
    )

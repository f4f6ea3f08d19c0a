"""`intaglio.load` and `Model`: how inputs are given, what comes back, and what is refused in which words."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

import intaglio
from intaglio.runtime.engine.engine import EngineName

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
Y = np.array([1, -1, 2], np.float32)
Z = np.maximum(X * Y + 1, 0)

Make = Callable[..., onnx.ModelProto]


def test_is_called_by_position_by_name_and_mixed(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)
    np.testing.assert_array_equal(model(X, Y), Z)
    np.testing.assert_array_equal(model(x=X, y=Y), Z)
    np.testing.assert_array_equal(model(X, y=Y), Z)
    assert list(model.run({"y": Y, "x": X})) == ["z"]


def test_several_outputs_come_as_a_tuple(make: Make, engine: EngineName) -> None:
    model = intaglio.load(make("g (float[n] x) => (float[n] a, float[n] b) { a = Neg(x) b = Abs(x) }"), engine=engine)
    a, b = model(Y)
    np.testing.assert_array_equal(a, -Y)
    np.testing.assert_array_equal(b, np.abs(Y))


def test_any_tensor_can_be_an_output(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)
    found = model.run({"x": X, "y": Y}, outputs=["shifted", "z", "scaled"])
    np.testing.assert_array_equal(found["scaled"], X * Y)
    np.testing.assert_array_equal(found["shifted"], X * Y + 1)
    np.testing.assert_array_equal(found["z"], Z)


def test_an_input_can_be_an_output(affine: onnx.ModelProto, engine: EngineName) -> None:
    found = intaglio.load(affine, engine=engine).run({"x": X, "y": Y}, outputs=["x"])
    np.testing.assert_array_equal(found["x"], X)
    assert not np.shares_memory(found["x"], X)


def test_defaults_are_used_and_overridden(make: Make, engine: EngineName) -> None:
    model = intaglio.load(
        make("g (float[n] x, float[1] scale) => (float[n] z) <float[1] scale = {2.0}> { z = Mul(x, scale) }"),
        engine=engine,
    )
    assert [item.is_optional for item in model.inputs] == [False, True]
    np.testing.assert_array_equal(model(Y), Y * 2)
    np.testing.assert_array_equal(model(Y, np.array([3], np.float32)), Y * 3)
    np.testing.assert_array_equal(model(Y, scale=np.array([4], np.float32)), Y * 4)
    np.testing.assert_array_equal(model(Y), Y * 2)


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({"x": X, "yy": Y}, ["'yy'", "did you mean 'y'?", "no value for 'y'"]),
        ({"x": X}, ["no value for 'y'"]),
        ({"x": X.astype(np.float64), "y": Y}, ["'x'", "float64", "float32", ".astype(numpy.float32)"]),
        ({"x": X[0], "y": Y}, ["'x'", "rank 1", "expected 2", "[rows, 3]"]),
        ({"x": X, "y": Y[:2]}, ["'y'", "2 in dimension 0", "expected 3"]),
        ({"x": object(), "y": Y}, ["'x'", "a object", "NumPy can read"]),
        ({"x": None, "y": Y}, ["'x'", "None"]),
        ({"x": [[1.0], [1.0, 2.0]], "y": Y}, ["'x'", "different lengths"]),
        ({"x": [["a", "b", "c"]], "y": Y}, ["'x'", "expected float32"]),
    ],
)
def test_wrong_inputs_are_named(
    affine: onnx.ModelProto, engine: EngineName, feeds: dict[str, Any], words: list[str]
) -> None:
    model = intaglio.load(affine, engine=engine)
    with pytest.raises(intaglio.InputError) as caught:
        model.run(feeds)
    for word in words:
        assert word in str(caught.value)


def map_model() -> onnx.ModelProto:
    """A row of the values of a map from strings to double-precision numbers."""
    number = onnx.helper.make_tensor_type_proto(onnx.TensorProto.DOUBLE, [])
    type = onnx.helper.make_map_type_proto(onnx.TensorProto.STRING, number)
    node = onnx.helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["b", "c", "a"])
    infos = [onnx.helper.make_value_info("x", type)], [onnx.ValueInfoProto(name="y")]
    graph = onnx.helper.make_graph([node], "g", *infos)
    imports = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    return onnx.helper.make_model(graph, opset_imports=imports)


def test_the_values_of_a_map_have_the_type_of_the_input(engine: EngineName) -> None:
    found = intaglio.load(map_model(), engine=engine)({"a": 0.1, "b": 2})
    assert found.dtype == np.float64
    assert found.tolist() == [[2.0, 0.0, 0.1]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([1.0], ["'x'", "a list", "expected a dictionary"]),
        ({3: 1.0}, ["'x'", "key 3", "a int", "string"]),
        ({"a": np.float32(1)}, ["item 'a' of input 'x'", "float32", "float64"]),
    ],
)
def test_wrong_maps_are_named(engine: EngineName, data: Any, words: list[str]) -> None:
    with pytest.raises(intaglio.InputError) as caught:
        intaglio.load(map_model(), engine=engine).run({"x": data})
    for word in words:
        assert word in str(caught.value)


def test_a_symbol_has_one_size(make: Make, engine: EngineName) -> None:
    model = intaglio.load(make("g (float[n] a, float[n] b) => (float[n] c) { c = Add(a, b) }"), engine=engine)
    with pytest.raises(intaglio.ShapeError, match=r"'b' is 2, expected 3 \(n was 3"):
        model(Y, Y[:2])


def test_too_many_inputs_and_twice_the_same(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)
    with pytest.raises(intaglio.InputError, match="3 inputs were given, the model has 2: x, y"):
        model(X, Y, Y)
    with pytest.raises(intaglio.InputError, match="'x' was given by position and by name"):
        model(X, x=X)


def test_an_unknown_output_is_named(affine: onnx.ModelProto, engine: EngineName) -> None:
    with pytest.raises(intaglio.InputError, match="no tensor 'scaledd'; did you mean 'scaled'"):
        intaglio.load(affine, engine=engine).run({"x": X, "y": Y}, outputs=["scaledd"])


def test_an_unknown_engine_is_named(affine: onnx.ModelProto) -> None:
    with pytest.raises(intaglio.InputError, match="no engine 'cuda'"):
        intaglio.load(affine, engine="cuda")  # pyright: ignore[reportArgumentType]


class Producer:
    """Something that only speaks DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    "given",
    [
        X.tolist(),
        tuple(map(tuple, X.tolist())),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1][::-1],
        X[:, ::-1].copy()[:, ::-1],
        X.astype(">f4"),
        Producer(X),
    ],
    ids=["list", "tuple", "fortran", "strided", "view", "negative stride", "big endian", "dlpack"],
)
def test_inputs_of_every_kind(affine: onnx.ModelProto, engine: EngineName, given: Any) -> None:
    np.testing.assert_array_equal(intaglio.load(affine, engine=engine)(given, Y), Z)


def test_inputs_are_left_alone_even_when_read_only(affine: onnx.ModelProto, engine: EngineName) -> None:
    x, y = X.copy(), Y.copy()
    x.flags.writeable = y.flags.writeable = False
    np.testing.assert_array_equal(intaglio.load(affine, engine=engine)(x, y), Z)
    np.testing.assert_array_equal(x, X)


def test_plain_numbers_take_the_dtype_of_the_input(make: Make, engine: EngineName) -> None:
    model = intaglio.load(make("g (int32 a) => (int32 b) { b = Neg(a) }"), engine=engine)
    found = model(3)
    assert (found.dtype, found.shape, int(found)) == (np.int32, (), -3)
    with pytest.raises(intaglio.InputError, match="int32 cannot represent"):
        model(2**40)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2, 3] x) => (float[2, 3] y) { y = Identity(x) }",
        "g (float[2, 3] x) => (float[3, 2] y) { y = Transpose(x) }",
        "g (float[2, 3] x) => (float[6] y) { s = Constant<value = int64[1] {-1}>() y = Reshape(x, s) }",
        "g (float[2, 3] x) => (float[2] y) { y = Constant<value = float[2] {1.0, 2.0}>() }",
    ],
)
def test_outputs_belong_to_the_caller(make: Make, engine: EngineName, text: str) -> None:
    model = intaglio.load(make(text), engine=engine)
    x = X.copy()
    first = model(x)
    expected = first.copy()
    assert not np.shares_memory(first, x)
    first[...] = 99
    np.testing.assert_array_equal(x, X)
    second = model(x)
    np.testing.assert_array_equal(second, expected)
    assert not np.shares_memory(first, second)


def test_empty_tensors(affine: onnx.ModelProto, engine: EngineName) -> None:
    found = intaglio.load(affine, engine=engine)(np.empty((0, 3), np.float32), Y)
    assert found.shape == (0, 3)


def test_sequences_and_optionals(make: Make, engine: EngineName) -> None:
    model = intaglio.load(
        make("g (seq(float[n]) s) => (float[m] y) { y = ConcatFromSequence<axis = 0>(s) }"), engine=engine
    )
    np.testing.assert_array_equal(model([Y, Y[:1]]), [1, -1, 2, 1])
    with pytest.raises(intaglio.InputError, match="expected a list"):
        model(Y)
    with pytest.raises(intaglio.InputError, match="item 1 of input 's' has dtype float64"):
        model([Y, Y.astype(np.float64)])


def test_strings(make: Make, engine: EngineName) -> None:
    model = intaglio.load(
        make("g (string[n] a, string[n] b) => (string[n] c) { c = StringConcat(a, b) }"), engine=engine
    )
    assert model(["x", "y"], np.array(["1", "2"])).tolist() == ["x1", "y2"]


def test_narrow_floats(make: Make, engine: EngineName) -> None:
    model = intaglio.load(make("g (bfloat16[n] a) => (bfloat16[n] b) { b = Add(a, a) }"), engine=engine)
    found = model(Y.astype(ml_dtypes.bfloat16))
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found.astype(np.float32), 2 * Y)


def test_the_signature_tells_names_and_types(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)
    assert [(item.name, str(item.type)) for item in model.inputs] == [("x", "float32[rows, 3]"), ("y", "float32[3]")]
    assert [(item.name, str(item.type)) for item in model.outputs] == [("z", "float32[rows, 3]")]
    assert repr(model) == f"<Model 'affine' (x: float32[rows, 3], y: float32[3]) -> (z: float32[rows, 3]) on {engine}>"


def test_pickle_and_copy(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine, threads=1, exact=True)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        np.testing.assert_array_equal(other(X, Y), Z)
        assert other.options == model.options
        assert other.info == model.info


def test_a_copy_outlives_its_original(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)
    other = copy.deepcopy(model)
    del model
    np.testing.assert_array_equal(other(X, Y), Z)


def test_simplification_changes_nothing_but_the_speed(affine: onnx.ModelProto, engine: EngineName) -> None:
    plain, simple = (intaglio.load(affine, engine=engine, simplify=flag) for flag in (False, True))
    assert plain.report is None
    np.testing.assert_array_equal(plain(X, Y), simple(X, Y))


def test_an_unknown_pass_is_named(affine: onnx.ModelProto) -> None:
    with pytest.raises(intaglio.InputError, match="algebr"):
        intaglio.load(affine, engine="reference", disable=["algebr"])


def test_strict_refuses_what_is_not_compiled(make: Make) -> None:
    model = make("g (string[n] a) => (string[n] c) { c = StringConcat(a, a) }")
    with pytest.raises(intaglio.UnsupportedError, match=r"strict=True[^$]*StringConcat"):
        intaglio.load(model, engine="native", strict=True)


def test_explanations(affine: onnx.ModelProto, engine: EngineName) -> None:
    explanation = intaglio.load(affine, engine=engine).explain()
    assert explanation.engine == engine
    assert "Relu" in str(explanation)
    assert explanation.to_dict()["calls"]
    assert explanation.host_nodes == ()


def test_the_engine_of_the_environment(affine: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTAGLIO_ENGINE", "reference")
    assert intaglio.load(affine).options.engine == "reference"
    assert intaglio.load(affine, engine="native").options.engine == "native"


def test_generated_c_can_be_read(affine: onnx.ModelProto) -> None:
    assert "static void kernel_" in intaglio.load(affine, engine="native").c_source()
    with pytest.raises(intaglio.CompileError, match="reference engine"):
        intaglio.load(affine, engine="reference").c_source()


def test_lists_and_repeated_outputs_belong_to_the_caller(make: Make, engine: EngineName) -> None:
    text = (
        "g (float[n] x) => (seq(float[n]) s, float[n] a, float[n] b) "
        "{ s = SequenceConstruct(x, x) a = Neg(x) b = Neg(x) }"
    )
    x = Y.copy()
    items, a, b = intaglio.load(make(text), engine=engine)(x)
    assert not any(np.shares_memory(one, other) for one in (*items, a, b) for other in (x,))
    assert not np.shares_memory(a, b)


def test_a_constant_of_a_branch_is_not_given_away(make: Make, engine: EngineName) -> None:
    text = (
        "g (bool c) => (float[2] y) { y = If(c)<"
        "then_branch = t () => (float[2] p) { p = Constant<value = float[2] {1.0, 2.0}>() }, "
        "else_branch = e () => (float[2] q) { q = Constant<value = float[2] {3.0, 4.0}>() }> }"
    )
    model = intaglio.load(make(text), engine=engine)
    model(np.array(True))[...] = 9
    np.testing.assert_array_equal(model(np.array(True)), [1, 2])


def test_arguments_of_the_wrong_kind_are_named(affine: onnx.ModelProto) -> None:
    with pytest.raises(intaglio.InputError, match="a dict of inputs by name and not a list"):
        intaglio.load(affine, engine="reference").run([X, Y])  # pyright: ignore[reportArgumentType]
    with pytest.raises(intaglio.InputError, match="threads is -1, expected at least 1"):
        intaglio.load(affine, threads=-1)


def newer_model(name: str = "x") -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["" : 99]> g (float[2] {name}) => (float[2] y) {{ y = Relu({name}) }}'
    return onnx.parser.parse_model(text)


def test_a_newer_opset_is_told_at_every_load_and_refused_by_strict(tmp_path: Path, engine: EngineName) -> None:
    path = tmp_path / "newer.onnx"
    path.write_bytes(newer_model(f"x_{engine}").SerializeToString())
    for _ in range(2):  # the second time it comes from what was kept of it
        with pytest.warns(
            UserWarning, match=r"opset 99 of ai.onnx is newer than \d+.*strict=True to refuse it"
        ) as told:
            model = intaglio.load(path, engine=engine)
        assert [warning.filename for warning in told] == [__file__]
        assert model(np.array([-1, 2], np.float32)).tolist() == [0, 2]
        with pytest.raises(intaglio.UnsupportedError, match=r"strict=True, and opset 99 of ai.onnx is newer"):
            intaglio.load(path, engine=engine, strict=True)


def test_options_that_a_compiled_model_cannot_obey(tmp_path: Path, affine: onnx.ModelProto) -> None:
    path = tmp_path / "model.intaglio"
    intaglio.load(affine, engine="native").save_compiled(path)
    refused: list[dict[str, Any]] = [{"exact": True}, {"disable": ["algebra"]}, {"implementations": {"Relu": "mine"}}]
    for options in refused:
        with pytest.raises(intaglio.InputError, match=f"compiled without {next(iter(options))}"):
            intaglio.load(path, **options)
    exact = tmp_path / "exact.intaglio"
    intaglio.load(affine, engine="native", exact=True).save_compiled(exact)
    assert intaglio.load(exact, exact=True).options.exact

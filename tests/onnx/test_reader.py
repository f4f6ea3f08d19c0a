"""Reading models: names, types, scopes, versions, and what is said when something is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser
from tests.present import constant

import intaglio
from intaglio.errors import IntaglioError, LoadError, ModelNotFoundError, ShapeError, UnsupportedError
from intaglio.ir import dim
from intaglio.ir.types import OptionalType, SequenceType, TensorType
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.reader import Imported, check_model, read_model
from intaglio.onnx.schema import NEWEST
from intaglio.ops.evaluate import evaluate

VALUE = helper.make_tensor_value_info


def parse(text: str) -> onnx.ModelProto:
    return parser.parse_model(text)


def read(body: str, ir_version: int = 8, opset: int = 17) -> Imported:
    return read_model(parse(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]> {body}'))


def test_from_path_bytes_view_and_message(tmp_path: Path) -> None:
    model = parse('<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Relu(x) }')
    data = model.SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    sources = [tmp_path / "m.onnx", str(tmp_path / "m.onnx"), data, bytearray(data), memoryview(data), model]
    for source in sources:
        assert [value.name for value in read_model(source).graph.outputs] == ["y"]
    assert read_model(tmp_path / "m.onnx").info.path == tmp_path / "m.onnx"


def test_info() -> None:
    model = parse(
        '<ir_version: 9, opset_import: ["" : 17, "ai.onnx.ml": 3]> g (float[N] x) => (float[N] y) {y=Relu(x)}'
    )
    model.producer_name, model.producer_version, model.domain, model.model_version = "p", "1.2", "d", 7
    model.doc_string = "about"
    model.metadata_props.add(key="k", value="v")
    info = read_model(model).info
    assert (info.ir_version, info.opset_imports) == (9, {"": 17, "ai.onnx.ml": 3})
    assert (info.producer_name, info.producer_version, info.domain, info.model_version) == ("p", "1.2", "d", 7)
    assert (info.doc, info.metadata_props, info.warnings, info.path) == ("about", {"k": "v"}, (), None)


def test_declared_types() -> None:
    graph = read(
        """g (float[N, 3, M] a, float16[?, 2] b, int64 c, seq(float[N]) d, optional(float[N]) e)
        => (float[N, 3, M] y) { y = Relu(a) }"""
    ).graph
    a, b, c, d, e = graph.inputs
    assert a.shape == (dim.symbol("N"), 3, dim.symbol("M"))
    assert b.shape == (dim.symbol("b.0"), 2)
    assert c.type == TensorType(c.dtype, ())
    assert isinstance(d.type, SequenceType)
    assert isinstance(e.type, OptionalType)


def test_input_without_shape_has_unknown_rank() -> None:
    model = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [VALUE("x", 1, None)], [VALUE("y", 1, None)]),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    graph = read_model(model).graph
    assert graph.inputs[0].type == TensorType(graph.inputs[0].dtype, None)


@pytest.mark.parametrize(("size", "is_fine"), [(-1, True), (0, True), (-2, False), (2**62, False)])
def test_declared_dimension(size: int, is_fine: bool) -> None:
    model = parse('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[N] y) { y = Relu(x) }')
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
    if is_fine:
        assert read_model(model).graph.inputs[0].shape == (dim.symbol("x.0") if size < 0 else size,)
    else:
        with pytest.raises(LoadError, match=r"input 'x': 'x' declares the dimension"):
            read_model(model)


def test_a_declared_name_is_never_one_that_was_made_up() -> None:
    """NonZero's size is a fresh symbol called `y.0`; the input's is another one, whatever the file calls it."""
    model = parse('<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (int64[1, M] y) { y = NonZero(x) }')
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "y.0"
    graph = read_model(model).graph
    assert graph.inputs[0].shape[0] not in graph.outputs[0].shape


def test_control_characters_never_reach_a_message() -> None:
    node = helper.make_node("Relu", ["z\x1b[31m\n"], ["y"], name="evil\x1b[2J\nname")
    graph = helper.make_graph([node], "g", [VALUE("x", 1, [2])], [VALUE("y", 1, [2])])
    with pytest.raises(LoadError) as raised:
        read_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    assert str(raised.value).isprintable()


def test_values_keep_their_names_also_behind_adapters() -> None:
    graph = read(
        """g (float[2,3] x) => (float[2,3] y) {
        constant = Softmax(x)
        softmax, mask = Dropout <ratio = 0.5> (constant)
        shape = Relu(softmax)
        y = Clip <min = 0.0> (shape) }""",
        opset=9,
    ).graph
    names = {value.name for node in graph.nodes for value in node.outputs}
    assert {"constant", "softmax", "mask", "shape", "y"} <= names
    assert [value.name for value in graph.outputs] == ["y"]


def test_node_sources() -> None:
    graph = read(
        """g (float[2] x, bool c) => (float[2] y) {
        [first] a = Relu(x)
        b = Abs(a)
        [choice] y = If (c) <then_branch = t () => (float[2] p) { p = Neg(b) },
            else_branch = e () => (float[2] q) { [inner] q = Exp(b) }> }"""
    ).graph
    sources = [node.origin.path for node in graph.all_nodes()]
    assert sources[:3] == ["first (Relu)", "#1 (Abs)", "choice (If)"]
    assert set(sources[3:]) == {"choice (If)/then_branch/#0 (Neg)", "choice (If)/else_branch/inner (Exp)"}


def test_branches_may_use_the_same_names() -> None:
    graph = read(
        """g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] z) { z = Neg(x) },
            else_branch = e () => (float[2] z) { z = Exp(x) }> }"""
    ).graph
    x = np.asarray([1.0, -2.0], np.float32)
    np.testing.assert_array_equal(evaluate(graph, [x, np.asarray(True)])[0], -x)
    np.testing.assert_allclose(evaluate(graph, [x, np.asarray(False)])[0], np.exp(x), rtol=1e-6)


def test_if_with_a_known_condition_keeps_only_the_branch_that_is_taken() -> None:
    graph = read(
        """g (float[2] x) => (float[2] y) <bool c = {1}> {
        y = If (c) <then_branch = t () => (float[2] p) { p = Neg(x) },
            else_branch = e () => (float[2] q) { q = Transpose <perm = [4, 2]> (x) }> }"""
    ).graph
    assert [node.op.name for node in graph.nodes] == ["Neg", "Identity"]
    assert graph.outputs[0].name == "y"


def test_initializers_are_constants() -> None:
    graph = read("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }").graph
    assert [value.name for value in graph.inputs] == ["x"]
    assert [(value.name, constant(value).tolist()) for value in graph.constants()] == [("w", [1.0, 2.0])]


@pytest.mark.parametrize("ir_version", [3, 4, 10])
def test_initializer_of_an_input(ir_version: int) -> None:
    model = parse(
        f'<ir_version: {ir_version}, opset_import: ["" : 8]>'
        "g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    graph = read_model(model).graph
    if ir_version < 4:
        assert [value.name for value in graph.inputs] == ["x"]
        assert graph.constants()[0].name == "w"
    else:
        assert [value.name for value in graph.inputs] == ["x", "w"]
        assert graph.inputs[1].constant is None
        np.testing.assert_array_equal(graph.inputs[1].default, [1, 1])


def test_default_that_contradicts_its_input_is_refused() -> None:
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    with pytest.raises(LoadError, match=r"input 'w': is declared as float32\[2\], but its initializer is float32\[3\]"):
        read_model(model)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value_int = 3", np.asarray(3)),
        ("value_ints = [1, 2]", np.asarray([1, 2])),
        ("value_float = 1.5", np.asarray(1.5, np.float32)),
        ("value_floats = [1.5, 2.5]", np.asarray([1.5, 2.5], np.float32)),
        ('value_string = "a"', np.asarray("a", object)),
        ('value_strings = ["a", "b"]', np.asarray(["a", "b"], object)),
        ("value = float[2] {1, 2}", np.asarray([1, 2], np.float32)),
    ],
)
def test_constant_nodes_become_constants(text: str, expected: np.ndarray) -> None:
    graph = read(f"g () => (float y) {{ y = Constant <{text}> () }}").graph
    (output,) = graph.outputs
    found = constant(output)
    assert (output.name, found.dtype, found.tolist()) == ("y", expected.dtype, expected.tolist())


def test_absent_inputs_and_outputs() -> None:
    graph = read(
        """g (float[2, 3] x, float h) => (float[2, 3] y) {
        y = Clip(x, , h)
        , indices = MaxPool <kernel_shape = [1]> (z)
        z = Unsqueeze(x, axes)
        axes = Constant <value_ints = [0]> () }"""
    ).graph
    clip, *_, pool = graph.nodes
    assert clip.inputs[1] is None
    assert len(pool.outputs) == 2
    assert pool.outputs[1].name == "indices"
    assert pool.outputs[0].name


def test_nodes_out_of_order_are_sorted_and_said() -> None:
    imported = read("g (float[2] x) => (float[2] y) { y = Relu(a)  a = Abs(x) }")
    assert [node.op.name for node in imported.graph.nodes] == ["Abs", "Relu"]
    assert imported.info.warnings == ("#0 (Relu) reads a value that is computed further down; the nodes were sorted",)


def test_a_declared_output_that_cannot_be_is_a_warning() -> None:
    imported = read("g (float[2] x) => (float[3] y) { y = Relu(x) }")
    assert len(imported.info.warnings) == 1
    assert "output 'y' is declared as float32[3], but it is float32[2]" in imported.info.warnings[0]


@pytest.mark.parametrize("opset", [1, 6, 7, 13, 28, 29, 1000])
def test_every_opset_is_tried(opset: int) -> None:
    assert len(read("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=opset).graph) == 1


@pytest.mark.parametrize("ir_version", [1, 2, 3, 14, 15, 100])
def test_every_ir_version_is_tried(ir_version: int) -> None:
    model = parse('<ir_version: 8, opset_import: ["" : 7]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    model.ir_version = ir_version
    if ir_version < 3:
        del model.opset_import[:]
    assert len(read_model(model).graph) == 1


def test_softmax_of_old_opsets_means_the_old_thing() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    graph = read("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }", opset=11).graph
    flat = np.exp(x.reshape(2, 12))
    expected = (flat / flat.sum(axis=1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(evaluate(graph, [x])[0], expected, rtol=1e-5)


def test_all_unknown_operators_in_one_message() -> None:
    text = """g (float[2] x) => (float[2] y) {
        [one] a = Rellu(x)
        [two] b = Rellu(a)
        [three] c = custom.Thing(b)
        [four] y = If (k) <then_branch = t () => (float[2] p) { [five] p = Frobnicate(x) },
            else_branch = e () => (float[2] q) { q = Neg(x) }> }"""
    model = parse(f'<ir_version: 8, opset_import: ["" : 17, "custom" : 1]> {text}')
    with pytest.raises(UnsupportedError) as raised:
        read_model(model)
    message = str(raised.value)
    assert "the model has 4 problems" in message
    assert (
        "one: the operator ai.onnx::Rellu version 17, which 2 nodes have, is not known (did you mean Relu?)" in message
    )
    assert "three: the operator custom::Thing version 1 is not known (a custom operator" in message
    assert "ai.onnx::Frobnicate" in message


def test_an_operator_newer_than_the_opset_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"Gelu version 17.*exists in ai.onnx, but not in version 17"):
        read("g (float[2] x) => (float[2] y) { y = Gelu(x) }")


UNIMPORTED = {
    "QuickGelu": ("com.microsoft", [], {}),
    "FusedMatMul": ("com.microsoft", ["x"], {"transB": 1}),
    "BiasGelu": ("com.microsoft", ["b"], {}),
    "Scaler": ("ai.onnx.ml", [], {"offset": [0.5], "scale": [2.0]}),
    "Binarizer": ("ai.onnx.ml", [], {"threshold": 0.25}),
    "Normalizer": ("ai.onnx.ml", [], {"norm": "L1"}),
}


def model_without_import(operator: str, is_inside: bool, is_other_imported: bool) -> onnx.ModelProto:
    """One node whose operator set the model does not import, alone or in the branch of an If."""
    domain, more, attributes = UNIMPORTED[operator]
    node = helper.make_node(operator, ["x", *more], ["y"], domain=domain, **attributes)
    if is_inside:
        branch = helper.make_graph([node], "branch", [], [VALUE("y", 1, None)])
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "other", [], [VALUE("z", 1, None)])
        node = helper.make_node("If", ["c"], ["r"], then_branch=branch, else_branch=other)
    inputs = [VALUE("x", 1, ["n", 4]), VALUE("b", 1, [4]), VALUE("c", 9, [])]
    graph = helper.make_graph([node], "g", inputs, [VALUE(node.output[0], 1, None)])
    others = [helper.make_opsetid("org.example", 3)] if is_other_imported else []
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), *others], ir_version=8)


@pytest.mark.parametrize("is_other_imported", [False, True], ids=["", "other import"])
@pytest.mark.parametrize("is_inside", [False, True], ids=["node", "branch"])
@pytest.mark.parametrize("operator", sorted(UNIMPORTED))
def test_operator_sets_that_need_no_import(operator: str, is_inside: bool, is_other_imported: bool) -> None:
    model = model_without_import(operator, is_inside, is_other_imported)
    domain = UNIMPORTED[operator][0]
    with pytest.warns(UserWarning, match=f"the operator set {domain} is used and not imported"):
        loaded = intaglio.load(model, engine="reference")
    with pytest.raises(UnsupportedError, match=f"strict=True, and the operator set {domain}"):
        intaglio.load(model, engine="reference", strict=True)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    feeds = {"x": x, "b": np.ones(4, np.float32), "c": np.array(True)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = np.asarray(session.run(None, {each.name: feeds[each.name] for each in session.get_inputs()})[0])
    np.testing.assert_allclose(next(iter(loaded.run(feeds).values())), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("domain", ["ai.onnx.preview.training", "org.example"])
def test_other_operator_sets_must_be_imported(domain: str) -> None:
    node = helper.make_node("Adagrad", ["x"], ["y"], domain=domain)
    graph = helper.make_graph([node], "g", [VALUE("x", 1, [2])], [VALUE("y", 1, [2])])
    with pytest.raises(IntaglioError):
        read_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


ERRORS: dict[str, tuple[str, type[IntaglioError], str]] = {
    "unknown attribute": ("y = Relu <alpha = 1.0> (x)", LoadError, r"#0 \(Relu\): has the attribute 'alpha'"),
    "misspelt attribute": ("y = Softmax <axes = 1> (x)", LoadError, "did you mean 'axis'"),
    "missing attribute": ("y = Cast (x)", LoadError, "needs the attribute to"),
    "wrong kind": ("y = Softmax <axis = [1]> (x)", LoadError, "kind INTS, expected INT"),
    "missing input": ("y = Add (x)", IntaglioError, "needs its input 'B'"),
    "too many inputs": ("y = Relu (x, x)", IntaglioError, "takes at most 1 inputs, got 2"),
    "dangling": ("y = Relu (xx)", LoadError, r"#0 \(Relu\): reads 'xx', which nothing defines; did you mean 'x'\?"),
    "wrong shapes": ("y = MatMul (x, x)", ShapeError, r"#0 \(MatMul\)"),
    "constant without value": ("y = Constant ()", LoadError, "exactly one value"),
    "two values": ("y = Constant <value_int = 1, value_float = 1.0> ()", LoadError, "value_int, value_float"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_node(name: str) -> None:
    nodes, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        read(f"g (float[2, 3] x) => (float[2, 3] y) {{ {nodes} }}")


def test_all_problems_at_once_and_none_twice() -> None:
    text = """g (float[2] x) => (float[2] y) {
        [a] p = Relu(q)  [b] r = Neg <bad = 1> (x)  [c] s = Add(p, r)  [d] y = Exp(s) }"""
    model = parse(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    problems = check_model(model)
    assert [problem.where for problem in problems] == ["a (Relu)", "b (Neg)"]
    with pytest.raises(LoadError, match=r"the model has 2 problems:\n  a \(Relu\).*\n  b \(Neg\)"):
        read_model(model)


def test_check_of_a_good_model_is_empty() -> None:
    assert (
        check_model(parse('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'))
        == []
    )


def test_check_of_no_model_at_all(tmp_path: Path) -> None:
    (problem,) = check_model(tmp_path / "absent.onnx")
    assert isinstance(problem.error, ModelNotFoundError)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_model(tmp_path / "absent.onnx")
    with pytest.raises(LoadError, match="not a regular file"):
        read_model(tmp_path)
    with pytest.raises(LoadError, match="there is no file"):
        read_model("a\0b")


def test_a_dead_link_is_missing(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").symlink_to("gone")
    with pytest.raises(ModelNotFoundError):
        read_model(tmp_path / "m.onnx")


def test_depth_limit_counts_graphs() -> None:
    model = parse('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, bool c) => (float[2] y) { y = Relu(x) }')
    graph = model.graph
    for level in range(100):  # in place: no message this deep can be copied or parsed
        node = graph.node.add(op_type="If", input=["c"], output=[f"v{level}"])
        node.attribute.add(name="else_branch", type=5, g=_leaf())
        graph = node.attribute.add(name="then_branch", type=5).g
        graph.output.add(name=f"v{level + 1}")
    graph.node.add(op_type="Identity", input=["x"], output=["v100"])
    with pytest.raises(MemoryError, match="nested more than 40 deep"):
        read_model(model)
    graph = model.graph
    for _ in range(39):
        graph = graph.node[-1].attribute[1].g
    graph.Clear()
    graph.MergeFrom(_leaf())
    assert len(list(read_model(model).graph.all_nodes())) == 1 + 39 * 2 + 1


def _leaf() -> onnx.GraphProto:
    return helper.make_graph([helper.make_node("Identity", ["x"], ["leaf2"])], "b", [], [VALUE("leaf2", 1, [2])])


def test_node_limit() -> None:
    model = parse('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { a = Relu(x) y = Relu(a) }')
    with pytest.raises(MemoryError, match=r"2 nodes .* the limit is 1"):
        read_model(model, limits=ReadLimits(nodes=1))


def test_operator_without_a_class_is_read_through_its_schema_body(monkeypatch: pytest.MonkeyPatch) -> None:
    from intaglio.ir.op import OPERATORS

    text = "g (float[2, 3] x, float[3] s, float[3] b) => (float[2, 3] y) { y = LayerNormalization(x, s, b) }"
    monkeypatch.delitem(OPERATORS, ("", "LayerNormalization"), raising=False)
    graph = read(text).graph
    assert len(graph) > 5
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    mean, deviation = x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)
    result = evaluate(graph, [x, np.full(3, 2, np.float32), np.ones(3, np.float32)])[0]
    np.testing.assert_allclose(result, (x - mean) / deviation * 2 + 1, rtol=1e-3)


def test_a_registered_class_stands_for_a_custom_operator() -> None:
    from intaglio.ir.op import OPERATORS, Op

    before = set(OPERATORS)

    class Shift(Op):
        """x + by."""

        domain = "custom.test"
        by: float = 1.0

        def infer(self, x):
            return x.type

        def reference(self, x):
            return x + np.float32(self.by)

    try:
        text = "g (float[2] x) => (float[2] y) { m = custom.test.Shift(x) y = custom.test.Shift <by = 2.0> (m) }"
        model = parse(f'<ir_version: 8, opset_import: ["" : 17, "custom.test" : 1]> {text}')
        assert evaluate(read_model(model).graph, [np.zeros(2, np.float32)])[0].tolist() == [3.0, 3.0]
        model.graph.node[1].attribute[0].name = "bye"
        with pytest.raises(LoadError, match=r"has the attribute 'bye'.*did you mean 'by'"):
            read_model(model)
    finally:
        for key in set(OPERATORS) - before:
            del OPERATORS[key]


INDEPENDENT = {
    "an unknown operator": ("[n{i}] a{i} = Nonsense{i}(x)", "the operator ai.onnx::Nonsense{i}"),
    "an unknown attribute": ("[n{i}] a{i} = Relu <bad{i} = 1> (x)", "'bad{i}'"),
    "a missing attribute": ("[n{i}] a{i} = Cast(x)", "n{i} (Cast): needs the attribute to"),
    "an undefined input": ("[n{i}] a{i} = Neg(zz{i})", "'zz{i}'"),
    "shapes": ("[n{i}] a{i} = Add(x, w)", "n{i} (Add)"),
    "an attribute behind a broken input": (
        "[m{i}] b{i} = Neg(yy{i}) [n{i}] a{i} = Softmax <axes{i} = 1> (b{i})",
        "'axes{i}'",
    ),
    "an attribute behind an unknown operator": (
        "[m{i}] b{i} = What{i}(x) [n{i}] a{i} = Elu <beta{i} = 1.0> (b{i})",
        "'beta{i}'",
    ),
    "a body": (
        "[n{i}] a{i} = If (c) <then_branch = t () => (float[2] p{i}) { p{i} = Inner{i}(x) }, "
        "else_branch = e () => (float[2] q{i}) { q{i} = Neg(x) }>",
        "Inner{i}",
    ),
}


@pytest.mark.parametrize("seed", range(5))
def test_independent_problems_are_all_found(seed: int) -> None:
    """Any mixture of problems, each of which is told of once; what only follows from one is not."""
    generator = np.random.default_rng(seed)
    chosen = [list(INDEPENDENT.values())[k] for k in generator.integers(0, len(INDEPENDENT), 12)]
    nodes = " ".join(node.replace("{i}", str(i)) for i, (node, _) in enumerate(chosen))
    text = f"g (float[2] x, float[3] w, bool c) => (float[2] y) {{ {nodes} s = Sum(a0, a1, a5) y = Exp(s) }}"
    problems = [str(problem) for problem in check_model(parse(f'<ir_version: 8, opset_import: ["" : 17]> {text}'))]
    for i, (_, word) in enumerate(chosen):
        found = [problem for problem in problems if word.replace("{i}", str(i)) in problem]
        assert len(found) == 1, (word, problems)
    behind = sum("m{i}" in node for node, _ in chosen)
    assert len(problems) == len(chosen) + behind


def test_all_undefined_inputs_and_all_attributes_of_one_node() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Add <one = 1, two = 2> (aa, bb) z = Cast <three = 1> (x) }"
    first, second = (str(p) for p in check_model(parse(f'<ir_version: 8, opset_import: ["" : 17]> {text}')))
    assert "'aa', which nothing defines, and 'bb', which nothing defines" in first
    for word in ("'three'", "needs the attribute to"):
        assert word in second


def test_operator_sets_that_are_imported_wrongly_do_not_hide_the_rest() -> None:
    model = parse('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu <bad = 1> (x) }')
    model.opset_import.add(domain="", version=18)
    model.opset_import.add(domain="ai.onnx.ml", version=-3)
    texts = [str(problem) for problem in check_model(model)]
    assert len(texts) == 3
    assert "imported in two versions, 17 and 18" in texts[0]
    assert "'ai.onnx.ml' is imported in version -3" in texts[1]
    assert "'bad'" in texts[2]


@pytest.mark.parametrize(
    ("opset", "ir_version", "words"),
    [
        (NEWEST[""], onnx.IR_VERSION, []),
        (NEWEST[""] + 1, onnx.IR_VERSION, [f"opset {NEWEST[''] + 1} of ai.onnx is newer than {NEWEST['']}"]),
        (999, onnx.IR_VERSION + 5, ["opset 999 of ai.onnx", f"IR version {onnx.IR_VERSION + 5} is newer"]),
    ],
)
def test_versions_newer_than_known(opset: int, ir_version: int, words: list[str]) -> None:
    graph = parse('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }').graph
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    info = read_model(model).info
    assert len(info.newer) == len(words)
    for word, text in zip(words, info.newer, strict=True):
        assert word in text
    assert info.warnings == info.newer

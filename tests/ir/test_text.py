from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intaglio.ops  # noqa: F401  (registers the operators that the texts name)
from intaglio.errors import GraphError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import DTYPES, FLOAT32, INT64, DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import OPERATORS, Op, Tensor
from intaglio.ir.text import format_graph, parse_graph, quote, summary
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from intaglio.ir.verify import verify

names = st.text(max_size=8)
dimensions = st.one_of(
    st.integers(0, 9),
    names.map(dims.symbol),
    st.tuples(names, st.integers(1, 3), st.integers(-2, 5)).map(lambda t: dims.symbol(t[0]) * t[1] + t[2]),
    st.tuples(names, names).map(lambda t: dims.broadcast(dims.symbol(t[0]), dims.symbol(t[1]))),
    st.tuples(names, names).map(lambda t: dims.floordiv(dims.symbol(t[0]), 3) + dims.maximum(dims.symbol(t[1]), 7)),
)
dtypes = st.sampled_from(list(DTYPES.values()))
tensor_types = st.builds(
    TensorType, dtypes, st.one_of(st.none(), st.lists(dimensions, max_size=3).map(lambda sizes: tuple(sizes)))
)
types = st.recursive(
    tensor_types,
    lambda inner: st.one_of(
        inner.map(SequenceType), inner.map(OptionalType), st.builds(MapType, st.just(INT64), inner)
    ),
    max_leaves=3,
)


@st.composite
def arrays(draw: st.DrawFn, dtype: DType | None = None) -> np.ndarray:
    chosen = draw(dtypes) if dtype is None else dtype
    shape = draw(st.sampled_from([(), (0,), (1,), (3,), (2, 2), (5, 7)]))
    count = math.prod(shape)
    if chosen.kind == "string":
        items = np.empty(count, dtype=object)
        items[:] = draw(st.lists(names, min_size=count, max_size=count))
        return items.reshape(shape)
    raw = draw(st.binary(min_size=count * chosen.itemsize, max_size=count * chosen.itemsize))
    if chosen.kind == "bool":
        return (np.frombuffer(raw, np.uint8) > 127).reshape(shape)
    if chosen.bits < 8:
        raw = bytes(byte % (1 << chosen.bits) for byte in raw)
    return np.frombuffer(raw, chosen.numpy).reshape(shape)


attributes = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        names,
        st.binary(max_size=5),
        arrays().map(Tensor),
        types,
        dtypes,
        dimensions.filter(lambda dim: not isinstance(dim, int)),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


class Anything(Op):
    """An operator for these tests that takes and gives whatever it is told."""

    domain = "test.intaglio"
    variadic_outputs = True
    value: Any = None
    body: Graph | None = None
    output_count: int = 1

    def infer(self, *inputs: Value) -> tuple[Type, ...]:
        return tuple(inputs[0].type for _ in range(self.output_count))


del OPERATORS["test.intaglio", "Anything"]


@pytest.fixture(autouse=True)
def _registered():
    OPERATORS["test.intaglio", "Anything"] = Anything
    yield
    del OPERATORS["test.intaglio", "Anything"]


@st.composite
def graphs(draw: st.DrawFn, outer: Graph | None = None, visible: tuple[Value, ...] = ()) -> Graph:
    graph = Graph(draw(names), outer)
    graph.doc = draw(names)
    graph.metadata = draw(st.dictionaries(names, names, max_size=2))
    values = list(visible)
    for type in draw(st.lists(types, min_size=1, max_size=2)):
        value = graph.add_input(draw(names), type)
        if draw(st.booleans()) and isinstance(type, TensorType):
            value.default = draw(arrays(type.dtype))
            value.type = TensorType(type.dtype, value.default.shape)
        values.append(value)
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            values.append(graph.constant(draw(arrays()), draw(names)))
        count = draw(st.integers(1, 2))
        body = None
        if outer is None and draw(st.integers(0, 3)) == 0:
            body = draw(graphs(graph, tuple(values)))
        inputs = draw(st.lists(st.one_of(st.none(), st.sampled_from(values)), max_size=3))
        node = Node(Anything(value=draw(attributes), body=body, output_count=count), inputs, draw(names))
        node.outputs = tuple(Value(graph.unique_name(draw(names)), draw(types), node) for _ in range(count))
        graph.insert(node)
        values += node.outputs
    graph.set_outputs(draw(st.lists(st.sampled_from(values), max_size=3)))
    return graph


@given(graphs())
def test_round_trip_of_any_graph(graph: Graph) -> None:
    OPERATORS["test.intaglio", "Anything"] = Anything
    text = format_graph(graph)
    again = parse_graph(text)
    assert format_graph(again) == text
    assert again == graph
    assert again.metadata == graph.metadata
    assert again.doc == graph.doc


@given(graphs())
def test_summary_prints_every_node(graph: Graph) -> None:
    assert summary(graph).count("Anything(") == sum(1 for _ in graph.all_nodes())


@given(arrays())
def test_constants_keep_every_bit(array: np.ndarray) -> None:
    graph = Graph("g")
    graph.set_outputs([graph.constant(array)])
    (value,) = parse_graph(format_graph(graph)).outputs
    assert value.constant is not None
    assert value.constant.dtype == array.dtype
    assert value.constant.shape == array.shape
    if array.dtype == object:
        assert value.constant.tolist() == array.tolist()
    else:
        assert value.constant.tobytes() == array.tobytes()


@given(st.text())
def test_quoted_text_is_one_visible_line(text: str) -> None:
    assert quote(text).isprintable()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_small_constants_are_printed_in_digits(dtype: DType) -> None:
    graph = Graph("g")
    items = ["1", "2"] if dtype.kind == "string" else [0.5, 1] if dtype.kind == "float" else [0, 1]
    graph.set_outputs([graph.constant(np.array(items).astype(dtype.numpy))])
    assert ("base64" in format_graph(graph)) == (dtype.kind == "complex")


EXAMPLE = """\
graph "example" (%x: float32[N, 4], %c: bool[]) -> (%z, %odd, %k) {
  doc "two\\nlines"
  metadata "author" = "somebody"
  %w: float32[4] = {0.1, -0.0, inf, nan}
  %a: float32[N, 4] = Add(%x, %w) @"block/0/add"
  %z: float32[N, 1], %odd: float32[N, 3] = Split(%a; axis=1, num_outputs=2)
  %k: float32[N, 4] = If(%c;
      else_branch=graph "else" () -> (%w) {
      },
      then_branch=graph "then" () -> (%p) {
        %p: float32[N, 4] = Relu(%a)
      }) @"block/1/if"
}"""


def test_the_form() -> None:
    assert str(parse_graph(EXAMPLE)) == EXAMPLE


def test_missing_types_are_inferred_and_constants_may_stand_as_operands() -> None:
    graph = parse_graph("""
        graph "g" (%x: float32[N, 6]) -> (%y) { # a comment
          %s = Shape(%x; end=1)
          %t = Concat(%s, int64[2] {2, 3}; axis=0)
          %y = Reshape(%x, %t)
        }""")
    verify(graph)
    assert str(graph.outputs[0].type) == "float32[N, 2, 3]"


def test_a_subgraph_alone_names_what_it_reads_from_outside() -> None:
    graph = parse_graph(EXAMPLE)
    (node,) = (node for node in graph.nodes if node.op.name == "If")
    _, (_, branch) = node.op.subgraphs()
    assert "%a: float32[N, 4] = outer" in str(branch)
    assert parse_graph(str(branch)) == branch


def test_summary_leaves_out_the_elements_of_large_constants() -> None:
    graph = Graph("g")
    graph.set_outputs([graph.constant(np.zeros((100, 10), np.float32), "w")])
    assert "%w: float32[100, 10] = <1000 elements>" in summary(graph)
    with pytest.raises(GraphError, match="line 2"):
        parse_graph(summary(graph))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1, column 1: expected 'graph', got the end of the text"),
        ('graph "g" () -> () {', r"expected a value such as %x, got the end"),
        ('graph "g" () -> () {} x', r"expected the end of the text, got 'x'"),
        ('graph "g" (%x: float3[]) -> () {}', r"no element type 'float3'; did you mean float32\?"),
        ('graph "g" (%x: float32[N)) -> () {}', r"column 25: expected '\]', got '\)'"),
        ('graph "g" (%x: int64[f(N, M)]) -> () {}', r"no function 'f'"),
        ('graph "g" (%x: int64[floordiv(N, 0)]) -> () {}', r"by zero"),
        ('graph "g" (%input: int64[]) -> (%inptu) {}', r"%inptu is not defined before .* did you mean %input\?"),
        ('graph "g" (%x: int64[], %x: int64[]) -> () {}', r"%x is defined twice"),
        (
            'graph "g" () -> () {\n  %a = Rellu()\n}',
            r"line 2, column 8: there is no operator 'Rellu'; did you mean Relu",
        ),
        ('graph "g" (%x: float32[]) -> () { %a = Relu(%x; axis=1) }', r"Relu has no attribute 'axis'; it has none"),
        ('graph "g" (%x: float32[]) -> () { %a = Concat(%x) }', r"Concat needs the attribute 'axis'"),
        ('graph "g" (%x: string[]) -> () { %a = Relu(%x) }', r"Relu cannot take"),
        ('graph "g" () -> () { %a: int64[2] = {1} }', r"not those of int64\[2\]"),
        ('graph "g" () -> () { %a: int8[1] = {1000} }', r"not those of int8\[1\]"),
        ('graph "g" () -> () { %a: int64[N] = {1} }', r"known dimensions"),
        ('graph "g" () -> () { %a: int64[1] = base64 "!" }', r"not base64"),
        ('graph "g" () -> () { doc "\\q" }', r"escape"),
        ('graph "g" () -> () { doc "open }', r"expected a quoted text"),
        ('graph "g" (%x: ' + "seq(" * 5000 + "int64[]", r"nested deeper"),
        ('graph "g" (%x: int64[' + "-" * 5000 + "N", r"nested deeper"),
    ],
)
def test_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parse_graph(text)


def test_an_error_points_at_its_place() -> None:
    with pytest.raises(GraphError) as caught:
        parse_graph('graph "g" () -> () {\n  %a = Rellu()\n}')
    *_, line, caret = str(caught.value).splitlines()
    assert line[caret.index("^") :].startswith("Rellu")


def test_long_and_deep_graphs_print_without_recursion() -> None:
    graph = Graph("long")
    builder = Builder(graph)
    value = graph.add_input("x", TensorType(FLOAT32, (dims.symbol("N"),)))
    for _ in range(20_000):
        value = builder.Relu(value)
    graph.set_outputs([value])
    text = format_graph(graph)
    assert text.count("Relu") == 20_000


def test_nested_graphs_print_without_recursion() -> None:
    inner = Graph("innermost")
    value = inner.constant(np.array(1, np.float32))
    inner.set_outputs([value])
    for _ in range(3000):
        around = Graph("around")
        node = Node(Anything(body=inner), ())
        node.outputs = (Value("v", value.type, node),)
        around.insert(node)
        inner = around
    assert str(inner).count("graph") == 3001
    with pytest.raises(GraphError, match="nested deeper"):
        parse_graph(str(inner))


def kept(array: np.ndarray) -> np.ndarray:
    """An array that went through the text as a constant."""
    graph = Graph("g")
    graph.set_outputs([graph.constant(array, "w")])
    text = format_graph(graph)
    again = parse_graph(text)
    assert format_graph(again) == text
    constant = again.outputs[0].constant
    assert constant is not None
    return constant


def all_or_sampled_bits(dtype: DType) -> np.ndarray:
    """Every element of a type of at most 16 bits, and many of a wider one."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.itemsize == 1:
        return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)
    if dtype.itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    return np.frombuffer(np.random.default_rng(7).bytes(3000 * dtype.itemsize), dtype.numpy)


def special_numbers(dtype: DType) -> np.ndarray:
    if not dtype.is_float or dtype.is_narrow:
        return np.zeros(0, dtype.numpy)
    limits = np.finfo(dtype.numpy)
    edges = [limits.tiny, limits.max, limits.smallest_subnormal, limits.eps, 2**27 + 2, 1 / 3]
    return np.array([0.0, -0.0, np.inf, -np.inf, np.nan, *edges, *(-edge for edge in edges)]).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES.values() if dtype.kind != "string"], ids=str)
def test_constants_of_each_type_keep_every_bit(dtype: DType) -> None:
    with np.errstate(over="ignore"):
        numbers = np.concatenate([all_or_sampled_bits(dtype), special_numbers(dtype)])
    for start in range(0, numbers.size, 16):
        part = numbers[start : start + 16].copy()
        again = kept(part)
        assert again.dtype == part.dtype
        assert again.tobytes() == part.tobytes()


def sampled_singles() -> list[float]:
    drawn = np.frombuffer(np.random.default_rng(8).bytes(4 * 2000), np.float32)
    denormal = np.float32(1e-45) * np.arange(1, 60, dtype=np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 2**27, 2**27 + 16, 3.4028235e38, 1 / 3, 1e-38], np.float32)
    return [float(item) for item in (*special, *denormal, *drawn) if item == item]


def test_attributes_keep_every_bit_of_single_precision() -> None:
    x = Graph("g").add_input("x", TensorType(FLOAT32, ()))
    for number in sampled_singles():
        graph = Graph("g")
        graph.inputs.append(x)
        with Builder(graph).active() as b:
            graph.set_outputs([b.LeakyRelu(x, alpha=number)])
        again = next(iter(parse_graph(format_graph(graph)).nodes))
        assert repr(again.op.alpha) == repr(number)


@pytest.mark.parametrize("number", [float(2**27), 2.0**27 + 2, 0.1, float(np.float32(0.1)), 5e-324, -0.0, 1.7e308])
def test_attributes_of_no_declared_type_keep_double_precision(number: float) -> None:
    graph = Graph("g")
    node = Node(Anything(value=(number, -number)), [])
    node.outputs = (Value("y", TensorType(FLOAT32, ()), node),)
    graph.insert(node)
    again = next(iter(parse_graph(format_graph(graph)).nodes))
    assert repr(again.op.value) == repr((number, -number))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%a: int32[1] = {0.5}", "not those of int32"),
        ("%a: int32[1] = {1.0}", "not those of int32"),
        ("%a: int4[1] = {9}", "not those of int4"),
        ("%a: uint8[1] = {-1}", "not those of uint8"),
        ("%a: bool[1] = {2}", "not those of bool"),
        ("%a: float32[1] = {1e39}", "not those of float32"),
        ("%a: float16[2] = {65504, 70000}", "not those of float16"),
        ("%a: float8e4m3fn[1] = {1000.0}", "not those of float8e4m3fn"),
        ("%a: float64[1] = {1e400}", "too large for double precision"),
        ("%a: int64[1] = {" + "9" * 5000 + "}", "too many digits"),
        ("%a = LeakyRelu(%x; alpha=1e39)", "too large for single precision"),
    ],
)
def test_numbers_that_a_type_does_not_have(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parse_graph(f'graph "g" (%x: float32[]) -> () {{ {text} }}')

"""Loops that never run: stacked outputs have no element, and the sizes that an element of the first round would have.

Random bodies over captured values, states that keep or change their size, slices, inner loops and branches run on both
engines, by compiled code and by the host, for no, one and two rounds.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import intaglio
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.engine.native import NativeEngine

F = np.float32
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
CONSTANTS = """
  true = Constant<value = bool {1}>()  one = Constant<value_ints = [1]>()  two = Constant<value_ints = [2]>()
  flat = Constant<value_ints = [-1]>()  pair = Constant<value_ints = [-1, 1]>()  last = Constant<value_ints = [-1]>()
  cube = Constant<value_ints = [1, 1, -1]>()  far = Constant<value_ints = [1000]>()
  w = Constant<value = float[1,1,3] {1,2,3}>()
"""

PIECES = {
    "negative": "{o} = Neg({i})",
    "captured": "{o} = Mul(x, x)",
    "doubled": "{o} = Concat<axis = 0>({i}, {i})",
    "joined": "{o} = Concat<axis = 0>({i}, x)",
    "cut": "{o} = Slice({i}, one, last)",
    "tail": "{o} = Slice({i}, two, far)",
    "picked": "{o}_z = NonZero({i})  {o}_c = Cast<to = 1>({o}_z)  {o} = Reshape({o}_c, flat)",
    "column": "{o}_r = Reshape({i}, pair)  {o} = ReduceSum<keepdims = 0>({o}_r, one)",
    "windows": "{o}_r = Reshape({i}, cube)  {o}_k = Conv({o}_r, w)  {o} = Reshape({o}_k, flat)",
    "sized": "{o}_s = Shape({i})  {o}_e = ConstantOfShape({o}_s)  {o} = Concat<axis = 0>({o}_e, x)",
    "branch": """{o} = If (b) <then_branch = t{o} () => (float[A] {o}t) {{ {o}t = Neg({i}) }},
                 else_branch = e{o} () => (float[B] {o}e) {{ {o}e = Abs({i}) }}>""",
    "loop": """{o}_v, {o}_l = Loop (k, true, {i}) <body = l{o} (int64 {o}j, bool {o}c, float[A] {o}p)
                 => (bool {o}d, float[B] {o}q, float[C] {o}e) {{ {o}d = Identity({o}c)  {o}q = Neg({o}p)
                 {o}e = Concat<axis = 0>({o}p, x) }}>  {o} = Reshape({o}_l, flat)""",
}
"""What a body may compute of one vector, or of what it captures."""


def chain(rng: random.Random, start: str, prefix: str, most: int = 3) -> tuple[str, str]:
    """Random pieces one behind the other, and the name of the last result."""
    lines, name = [], start
    for place in range(rng.randint(1, most)):
        result = f"{prefix}{place}"
        lines.append(PIECES[rng.choice(sorted(PIECES))].format(i=name, o=result))
        name = result
    return "\n      ".join(lines), name


def loop_model(rng: random.Random, is_host: bool) -> str:
    """A Loop with two states and two stacked outputs; text in its body leaves it to the host."""
    state, kept = chain(rng, "v", "s", 2)
    first, one = chain(rng, rng.choice(["v", "u", "x"]), "f")
    second, two = chain(rng, rng.choice(["v", "u", "x"]), "g")
    text = "m0 = Cast<to = 8>(i)  m1 = Cast<to = 7>(m0)" if is_host else "m1 = Identity(i)"
    return f"""agraph (float[N] x, int64 m, int64 k, bool b)
    => (float[P] y, float[Q] z, float[R,S] p, float[R,T] q, int64[R] n) {{
  {CONSTANTS}
  y, z, p, q, n = Loop (m, true, x, x) <body = body (int64 i, bool c, float[V] v, float[U] u)
      => (bool d, float[W] {kept}o, float[U2] h, float[E] {one}o, float[G] {two}o, int64 m1) {{
      d = Identity(c)
      {text}
      {state}
      {kept}o = Identity({kept})
      h = Neg(u)
      {first}
      {one}o = Identity({one})
      {second}
      {two}o = Identity({two}) }}> }}"""


def scan_model(rng: random.Random, is_host: bool) -> str:
    """A Scan of the rows of a matrix, with one state."""
    first, one = chain(rng, rng.choice(["v", "u", "x"]), "f")
    text = "t = Shape(u)  m0 = Cast<to = 8>(t)  m1 = Cast<to = 7>(m0)" if is_host else "m1 = Shape(u)"
    axis = rng.randint(0, 1)
    return f"""agraph (float[N] x, float[M,K] r, int64 k, bool b) => (float[N] y, float[A,B] p, int64[A,L] n) {{
  {CONSTANTS}
  y, p, n = Scan<num_scan_inputs = 1, scan_output_axes = [{axis}, 0], body = body (float[N] v, float[K] u)
      => (float[N] h, float[E] {one}o, int64[L] m1) {{
      h = Neg(v)
      {text}
      {first}
      {one}o = Identity({one}) }}> (x, r) }}"""


def run(proto: Any, engine: EngineName, feeds: tuple[Any, ...]) -> Any:
    """What comes out, or None where the sizes are refused."""
    try:
        return intaglio.load(proto, engine=engine)(*feeds)
    except intaglio.IntaglioError:
        return None


def check(proto: Any, feeds: tuple[Any, ...]) -> None:
    native, reference = run(proto, "native", feeds), run(proto, "reference", feeds)
    assert (native is None) == (reference is None)
    if native is None:
        return
    assert [array.shape for array in native] == [array.shape for array in reference]
    for ours, right in zip(native, reference, strict=True):
        np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize("is_host", [False, True], ids=["compiled", "host"])
@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed: int, is_host: bool) -> None:
    rng = random.Random(seed)
    proto = parser.parse_model(HEADER + loop_model(rng, is_host))
    for rounds, inner in [(0, 0), (0, 2), (1, 0), (2, 2), (0, 1)]:
        x = np.arange(1, rng.choice([1, 3, 4, 7]) + 1, dtype=F)
        check(proto, (x, np.array(rounds), np.array(inner), np.array(rng.random() < 0.5)))


@pytest.mark.parametrize("is_host", [False, True], ids=["compiled", "host"])
@pytest.mark.parametrize("seed", range(8))
def test_random_scans(seed: int, is_host: bool) -> None:
    rng = random.Random(100 + seed)
    proto = parser.parse_model(HEADER + scan_model(rng, is_host))
    for rows, inner in [(0, 0), (0, 2), (1, 0), (2, 2)]:
        x, width = np.arange(1, rng.choice([3, 4, 7]) + 1, dtype=F), rng.choice([1, 4, 6])
        check(proto, (x, np.ones((rows, width), F), np.array(inner), np.array(rng.random() < 0.5)))


@pytest.mark.parametrize("sizes", [(3,), (0, 2), (1, 4, 5), ()])
def test_sizes_that_are_numbers_are_those_of_onnx_runtime(sizes: tuple[int, ...]) -> None:
    one, many = (f"float[{','.join(map(str, shape))}]" for shape in (sizes, ("K", *sizes)))
    text = f"""agraph ({one} x, int64 m, bool g) => ({one} y, {many} s) {{
      y, s = Loop (m, g, x) <body = a (int64 i, bool c, {one} v) => (bool d, {one} w, {one} o) {{
        d = Identity(c)  w = Add(v, x)  o = Mul(w, w) }}> }}"""
    proto = parser.parse_model(HEADER + text)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for rounds, goes in [(0, True), (3, False), (-1, True), (2, True)]:
        feeds = (np.ones(sizes, F), np.array(rounds), np.array(goes))
        check(proto, feeds)
        theirs = map(np.asarray, session.run(None, dict(zip(("x", "m", "g"), feeds, strict=True))))
        assert [array.shape for array in run(proto, "native", feeds)] == [array.shape for array in theirs]


@pytest.mark.parametrize("sizes", [(3, 4), (3, 1), (1, 4), (1, 1)])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_what_a_loop_stacks_meets_other_sizes(rounds: int, sizes: tuple[int, int]) -> None:
    """A number of rounds that only the loop tells meets a size of an input: it is looked at behind the loop."""
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (int64 count, float[3,4] x, float[r,a,b] y) => (float[r,a,b] z, float[r,a,b] w) {
            true = Constant <value = bool {1}> ()
            state, stacked = Loop (count, true, x) <
                body = b (int64 i, bool c, float[3,4] s) => (bool d, float[3,4] t, float[3,4] e) {
                    d = Identity (c)
                    t = Neg (s)
                    e = Identity (s)
                }
            >
            z = Max (stacked, y)
            w = Add (y, stacked)
        }
    """)
    graph = read_model(model).graph
    engine = NativeEngine(graph, 2).load()
    generator = np.random.default_rng(rounds)
    for each in (rounds, 3, rounds):
        inputs = [
            np.array(each),
            generator.standard_normal((3, 4)).astype(np.float32),
            generator.standard_normal((each, *sizes)).astype(np.float32),
        ]
        for got, expected in zip(engine.run(inputs), evaluate(graph, inputs), strict=True):
            np.testing.assert_array_equal(got, expected)


SOURCES = {
    "element of a sequence": "k = Identity(two)  q = SplitToSequence<axis = 0>(x, k)  h = SequenceAt(q, zero)",
    "text": "t = Cast<to = 8>(x)  h = Cast<to = 1>(t)",
    "optional": "q = Optional(x)  h = OptionalGetElement(q)",
    "chosen rows": "s = ReduceSum<keepdims = 0>(x, one)  k = Greater(s, low)  h = Compress<axis = 0>(x, k)",
    "a part": "h = Slice(x, first, last)",
}
"""Values whose sizes only the run tells, some of them by the host."""
ELEMENTS = {
    "alone": "e = Neg(h)",
    "with an input": "e = Mul(h, x)",
    "with another input": "e = Add(h, y)",
    "turned": "o = Mul(h, x)  e = Transpose(o)",
    "joined": "o = Mul(h, x)  e = Concat<axis = 0>(o, x)",
    "summed": "o = Sub(h, y)  e = ReduceSum<keepdims = 1>(o, one)",
}
"""What is stacked, made of such a value."""


@pytest.mark.parametrize("element", sorted(ELEMENTS))
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_a_captured_value_whose_sizes_the_run_tells(source: str, element: str) -> None:
    text = f"""agraph (float[N,M] x, float[A,B] y, int64 m) => (float[N,M] z, s) {{
      zero = Constant<value_int = 0>()  two = Constant<value_int = 2>()  one = Constant<value_ints = [1]>()
      first = Constant<value_ints = [0]>()
      last = Constant<value_ints = [1000]>()  low = Constant<value_float = -1e9>()
      {SOURCES[source]}
      z, s = Loop (m, "", x) <body = body (int64 i, bool c, float[N,M] v) => (bool d, float[N,M] w, float[?,?] e) {{
        d = Less(i, zero)  w = Neg(v)
        {ELEMENTS[element]} }}> }}"""
    proto = parser.parse_model(HEADER + text)
    for rounds, columns in [(0, 3), (1, 3), (0, 1)]:
        x = np.arange(1, 2 * columns + 1, dtype=F).reshape(2, columns)
        check(proto, (x, np.full((2, 1), 2, F), np.array(rounds)))
        check(proto, (x, np.full((2, columns), 2, F), np.array(rounds)))

"""Loops: text in, text out, and random loops before and after, on both engines and with any number of rounds."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from onnx import parser

import intaglio
from intaglio.errors import IntaglioError
from intaglio.onnx.reader import read_model
from intaglio.passes import Report, simplify
from intaglio.runtime.engine.engine import EngineName

Check = Callable[[str, str, str], Report]
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
F = np.float32


def test_an_unchanged_state_is_captured(check: Check) -> None:
    check(
        "loops",
        """
        graph "g" (%x: float32[N], %w: float32[N], %m: int64[1]) -> (%y, %s) {
          %k = Reshape(%m, int64[0] {})
          %y, %v, %s = Loop(%k, bool[] {true}, %x, %w; body=graph "b"
              (%i: int64[], %c: bool[], %p: float32[N], %q: float32[N]) -> (%c, %r, %o, %r) {
            %r = Add(%p, %q)
            %o = Identity(%q)
          })
        }
        """,
        """
        %constant: int64[0] = {}
        %k: int64[] = Reshape(%m, %constant)
        %constant_1: bool[] = {true}
        %y: float32[N], %s: float32['y.0', N] = Loop(%k, %constant_1, %x;
        body=graph "b" (%i: int64[], %c: bool[], %p: float32[N]) -> (%c, %r, %r) {
        %r: float32[N] = Add(%p, %w)
        })
        """,
    )


def test_what_is_the_same_in_each_round_is_computed_before(check: Check) -> None:
    check(
        "loops",
        """
        graph "g" (%x: float32[N, 3], %w: float32[3, 3]) -> (%y) {
          %y = Loop(int64[] {2}, _, %x; body=graph "b"
              (%i: int64[], %c: bool[], %p: float32[N, 3]) -> (%c, %r) {
            %t = Transpose(%w; perm=[1, 0])
            %e = Exp(%t)
            %r = MatMul(%p, %e)
          })
        }
        """,
        """
        %t: float32[3, 3] = Transpose(%w; perm=[1, 0])
        %e: float32[3, 3] = Exp(%t)
        %constant: int64[] = {2}
        %y: float32[N, 3] = Loop(%constant, _, %x;
        body=graph "b" (%i: int64[], %c: bool[], %p: float32[N, 3]) -> (%c, %r) {
        %r: float32[N, 3] = MatMul(%p, %e)
        })
        """,
    )


def test_a_sequence_that_grows_is_stacked(check: Check) -> None:
    check(
        "loops",
        """
        graph "g" (%x: float32[2, 3]) -> (%z) {
          %e = SequenceEmpty()
          %y, %l = Loop(int64[] {4}, _, %x, %e; body=graph "b"
              (%i: int64[], %c: bool[], %p: float32[2, 3], %q: seq(float32[...])) -> (%c, %r, %k) {
            %r = Neg(%p)
            %k = SequenceInsert(%q, %r)
          })
          %z = ConcatFromSequence(%l; axis=0, new_axis=1)
        }
        """,
        """
        %constant: int64[] = {4}
        %y: float32[2, 3], %r_all: float32[4, 2, 3] = Loop(%constant, _, %x;
        body=graph "b" (%i: int64[], %c: bool[], %p: float32[2, 3]) -> (%c, %r, %r) {
        %r: float32[2, 3] = Neg(%p)
        })
        %z: float32[4, 2, 3] = Identity(%r_all)
        """,
    )


KEPT = {
    "a node that data may make fail": """agraph (float[N] x, int64[K] g, int64 m) => (float[N] y) {
      t = Constant<value = bool {1}>()
      y = Loop (m, t, x) <body = b (int64 i, bool c, float[N] p) => (bool d, float[N] r) {
        d = Identity(c)  e = Gather(x, g)  f = ReduceSum<keepdims = 0>(e)  r = Add(p, f) }> }""",
    "sizes that may not fit": """agraph (float[N] x, float[K] g, int64 m) => (float[A] y) {
      t = Constant<value = bool {1}>()
      y = Loop (m, t, x) <body = b (int64 i, bool c, float[N] p) => (bool d, float[A] r) {
        d = Identity(c)  e = Mul(x, g)  f = ReduceSum<keepdims = 0>(e)  r = Add(p, f) }> }""",
    "random numbers": """agraph (float[N] x, int64[K] g, int64 m) => (float[N] y) {
      t = Constant<value = bool {1}>()
      y = Loop (m, t, x) <body = b (int64 i, bool c, float[N] p) => (bool d, float[N] r) {
        d = Identity(c)  e = RandomUniform<shape = [1]>()  r = Add(p, e) }> }""",
}


@pytest.mark.parametrize("what", KEPT)
def test_what_stays_in_a_loop(what: str) -> None:
    graph = read_model(parser.parse_model(HEADER + KEPT[what])).graph
    report = simplify(graph)
    assert report.applied["loops"] == []


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_work_that_would_fail_is_not_done_for_no_rounds(engine: EngineName) -> None:
    for text in (KEPT["a node that data may make fail"], KEPT["sizes that may not fit"]):
        model = intaglio.load(parser.parse_model(HEADER + text), engine=engine)
        other = np.array([7, 8], np.int64 if "int64[K]" in text else F)
        np.testing.assert_array_equal(model(np.ones(3, F), other, np.array(0)), np.ones(3, F))
        with pytest.raises(IntaglioError):
            model(np.ones(3, F), other, np.array(1))


STEPS = {
    "turned": "{o} = Transpose<perm = [1, 0]>({i})",
    "negative": "{o} = Neg({i})",
    "product": "{o} = MatMul({i}, {j})",
    "sum": "{o} = Add({i}, {j})",
    "joined": """{o}_k = Concat<axis = 0>({i}, {j})  {o}_a = Constant<value_ints = [0]>()
        {o} = ReduceSum<keepdims = 1>({o}_k, {o}_a)""",
    "softmax": "{o} = Softmax({i})",
    "row": "{o}_r = Constant<value_ints = [0]>()  {o} = Gather({i}, {o}_r)",
    "fit": "{o}_s = Shape({j})  {o} = Expand({i}, {o}_s)",
}
ROWS = {"joined", "row"}
"""Steps that give one row."""


def random_loop(seed: int) -> str:
    """A loop over square matrices; states change, stay or follow others, a sequence grows, and work repeats."""
    rng = random.Random(seed)
    known = {"x": False, "w": False, "p": False, "q": False, "u": False}
    lines: list[str] = []
    for place in range(rng.randint(3, 8)):
        name = rng.choice(sorted(STEPS))
        left, right = rng.choice(sorted(known)), rng.choice(sorted(known))
        if known[left] and name in ("turned", "product"):
            name = "negative"
        if known[right] and name in ("product", "fit"):
            right = "x"
        lines.append(STEPS[name].format(i=left, j=right, o=f"v{place}"))
        is_row = name in ROWS or (known[left] and (name in ("negative", "softmax") or (name == "sum" and known[right])))
        known[f"v{place}"] = is_row
    full = [name for name, is_row in known.items() if not is_row]
    rows = [name for name, is_row in known.items() if is_row] or ["x"]
    joined = rng.choice([*rows, *full])
    axis, is_new = rng.choice([0, 1, -1]), rng.randint(0, 1)
    others = rng.choice(["q", "q", rng.choice(full)])
    body = "\n        ".join(lines)
    return f"""agraph (float[3,3] x, float[3,3] w, int64 m)
      => (float[3,3] y, float[3,3] z, float[A,B] s, float[C,D,E] k) {{
      t = Constant<value = bool {{1}}>()  n = SequenceEmpty()
      y, z, u9, n9, k = Loop (m, t, x, w, w, n) <body = body
          (int64 i, bool c, float[3,3] p, float[3,3] q, float[3,3] u, seq(float) l)
          => (bool d, float[3,3] p2, float[3,3] q2, float[3,3] u2, seq(float) l2, float[D,E] o) {{
        d = Identity(c)
        {body}
        p1 = Tanh({rng.choice(full)})  p2 = Identity(p1)  q2 = Identity({others})  u2 = Identity(u)
        l2 = SequenceInsert(l, {joined})  o = Identity({rng.choice([*rows, *full])}) }}>
      s0 = ConcatFromSequence<axis = {axis}, new_axis = {is_new}>(n9)  s1 = Neg(s0)
      f = Constant<value_ints = [1, -1]>()  s = Reshape(s1, f) }}"""


@pytest.mark.parametrize("seed", range(25))
def test_random_loops(seed: int) -> None:
    proto = parser.parse_model(HEADER + random_loop(seed))
    native, simpler = intaglio.load(proto, engine="native"), intaglio.load(proto, engine="reference")
    plain = intaglio.load(proto, engine="reference", simplify=False)
    rng = np.random.default_rng(seed)
    for rounds in (1, 4, 2):
        feeds = (*(rng.normal(size=(3, 3)).astype(F) for _ in range(2)), np.array(rounds))
        expected = plain(*feeds)
        for found in (native(*feeds), simpler(*feeds)):
            for ours, right in zip(found, expected, strict=True):
                assert ours.shape == right.shape
                np.testing.assert_allclose(ours, right, rtol=1e-4, atol=1e-4)


def test_the_random_loops_are_rewritten_in_every_way() -> None:
    rules = set()
    for seed in range(25):
        report = simplify(read_model(parser.parse_model(HEADER + random_loop(seed))).graph)
        rules |= {event.rule for event in report.applied["loops"]}
    assert rules == {"capture-unchanged-state", "hoist", "stack-sequence"}

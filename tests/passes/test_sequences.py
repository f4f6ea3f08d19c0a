"""Sequences of parts, and rows that a loop repeats, at many sizes and against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import intaglio
from intaglio.errors import IntaglioError
from intaglio.ir.text import parse_graph
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.targets.c.compiler import Compiler

ort = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("sizes", ["int64[2] {1, 2}", "int64[] {2}", "int64[3] {0, 1, 2}"])
def test_other_parts_stay_sequences(sizes: str) -> None:
    text = f'graph "g" (%x: float32[3]) -> (%n) {{ %s = SplitToSequence(%x, {sizes})  %n = SequenceLength(%s) }}'
    assert not simplify(parse_graph(text)).applied["sequences"]


def repeating(axis: int, place: int, rank: int, counts: str = "N", limit: str = "r", on: str = "c") -> onnx.ModelProto:
    """The loop that PyTorch's exporter makes of `repeat_interleave`; `place` is where it repeats."""
    shape = ["1"] * rank
    shape[axis] = "N"
    ones = ", ".join(["1"] * place), ", ".join(["-1"] * (rank - place))
    target = ", ".join("-1" if each == axis else "0" if each < axis else "1" for each in range(rank))
    parts = [f"o{i} = Constant<value_ints = [{text}]>()" for i, text in enumerate(ones) if text]
    names = ", ".join(name for name, text in (("o0", ones[0]), ("k", "k"), ("o1", ones[1])) if text)
    return parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
    agraph (float[{", ".join(shape)}] x, int64[{counts}] d) => (y) {{
      r = Shape<start = {axis}, end = {axis + 1}>(x)  h = Constant<value_ints = [2]>()
      w = ConstantOfShape<value = int64[1] {{1}}>(r)  t = Constant<value = bool {{1}}>()  e = SequenceEmpty()
      u = SplitToSequence<axis = {axis}>(x, w)
      s = Loop({limit}, t, e) <body = body (int64[1] i, bool c, seq(float) l) => (bool c2, seq(float) l2) {{
        k = Gather(d, i)  v = SequenceAt(u, i)  z = Constant<value_ints = [{axis + 1}]>()  f = Unsqueeze(v, z)
        {"  ".join(parts)}
        a = Concat<axis = 0>({names})  m = Constant<value_ints = [-1]>()  b = Equal(a, m)
        j = Shape(a)  q = ConstantOfShape<value = int64[1] {{1}}>(j)  g = Where(b, q, a)
        p = Expand(f, g)  n = Constant<value_ints = [{target}]>()  o = Reshape(p, n)
        l2 = SequenceInsert(l, o)  c2 = Identity({on}) }}>
      y = ConcatFromSequence<axis = {axis}>(s) }}""")


def feeds(rank: int, axis: int, counts: list[int]) -> list[Any]:
    shape = [1] * rank
    shape[axis] = len(counts)
    data = np.random.default_rng(len(counts)).normal(size=shape).astype(np.float32)
    return [data, np.array(counts, np.int64)]


COUNTS = [[2, 0, 3], [1], [0, 0, 1, 0], [4] * 40, [0, 0], [3, 0], [-1, 2]]


@pytest.mark.parametrize(("axis", "place", "rank"), [(0, 1, 1), (0, 0, 2), (1, 2, 3), (2, 2, 3)])
def test_repeated_rows_are_gathered(axis: int, place: int, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = repeating(axis, place, rank)
    assert [event.rule for event in simplify(read_model(proto).graph).applied["sequences"]][-1] == "repeated-rows"
    ours, theirs = intaglio.load(proto), ort.InferenceSession(proto.SerializeToString())
    assert "0 host nodes" in str(ours.explain())
    ours(*feeds(rank, axis, [1, 2]))
    monkeypatch.setattr(Compiler, "compile_unit", None)  # whatever is compiled from here on fails
    for counts in COUNTS:
        inputs = feeds(rank, axis, counts)
        (expected,) = theirs.run(None, dict(zip("xd", inputs, strict=True)))
        np.testing.assert_array_equal(ours(*inputs), expected, strict=True)


def test_negative_counts_are_an_error() -> None:
    ours = intaglio.load(repeating(0, 1, 2))
    with pytest.raises(IntaglioError, match="negative"):
        ours(*feeds(2, 0, [5, -2, 1]))


@pytest.mark.parametrize("how", [{"counts": "M"}, {"limit": "h"}, {"on": "t"}])
def test_loops_of_another_length_stay(how: dict[str, str]) -> None:
    """As many counts as rows are not certain, or other rounds."""
    proto = repeating(0, 1, 2, **how)
    rules = [event.rule for event in simplify(read_model(proto).graph).applied["sequences"]]
    assert ("repeated-rows" in rules) == ("on" in how)
    inputs = feeds(2, 0, [2, 3])
    (expected,) = ort.InferenceSession(proto.SerializeToString()).run(None, dict(zip("xd", inputs, strict=True)))
    np.testing.assert_array_equal(intaglio.load(proto)(*inputs), expected)

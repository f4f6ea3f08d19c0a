"""Type rules where ranks, sizes and contents are known only at run time: they say what is known, and never fail."""

from __future__ import annotations

import pytest

from intaglio.errors import ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, FLOAT32, INT64, STRING
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType

F, I, B, S = FLOAT32, INT64, BOOL, STRING
CASES = [
    ("Reshape", [F, I], {}, 1),
    ("Squeeze", [F], {}, 1),
    ("Squeeze", [F, I], {}, 1),
    ("Unsqueeze", [F, I], {}, 1),
    ("Flatten", [F], {}, 1),
    ("Shape", [F], {}, 1),
    ("Size", [F], {}, 1),
    ("Expand", [F, I], {}, 1),
    ("Tile", [F, I], {}, 1),
    ("ConstantOfShape", [I], {}, 1),
    ("Range", [I, I, I], {}, 1),
    ("EyeLike", [F], {}, 1),
    ("Transpose", [F], {}, 1),
    ("Transpose", [F], {"perm": (1, 0)}, 1),
    ("Concat", [F, F], {"axis": 1}, 1),
    ("Split", [F, I], {}, 2),
    ("Split", [F], {"num_outputs": 2}, 2),
    ("Slice", [F, I, I, I, I], {}, 1),
    ("Pad", [F, I, F, I], {}, 1),
    ("ReverseSequence", [F, I], {}, 1),
    ("Trilu", [F, I], {}, 1),
    ("CenterCropPad", [F, I], {}, 1),
    ("Gather", [F, I], {}, 1),
    ("GatherElements", [F, I], {}, 1),
    ("GatherND", [F, I], {}, 1),
    ("ScatterElements", [F, I, F], {}, 1),
    ("ScatterND", [F, I, F], {}, 1),
    ("TensorScatter", [F, F, I], {"axis": 1}, 1),
    ("OneHot", [I, I, F], {}, 1),
    ("Resize", [F, F, F], {}, 1),
    ("Resize", [F, None, None, I], {}, 1),
    ("NonZero", [F], {}, 1),
    ("Compress", [F, B], {"axis": 0}, 1),
    ("Unique", [F], {"axis": 0}, 4),
    ("TopK", [F, I], {}, 2),
    ("NonMaxSuppression", [F, F], {}, 1),
    ("SplitToSequence", [F, I], {}, 1),
    ("StringConcat", [S, S], {}, 1),
    ("StringSplit", [S], {}, 2),
    ("StringNormalizer", [S], {}, 1),
    ("RegexFullMatch", [S], {"pattern": "a"}, 1),
]


def build(name, dtypes, attributes, outputs, shape):
    b = Builder(Graph())
    inputs = [
        None if dtype is None else b.graph.add_input(f"x{i}", TensorType(dtype, shape(name, i)))
        for i, dtype in enumerate(dtypes)
    ]
    result = b.apply(OPERATORS[("", name)], *inputs, outputs=outputs, **attributes)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize(("name", "dtypes", "attributes", "outputs"), CASES)
def test_unknown_ranks(name, dtypes, attributes, outputs):
    for value in build(name, dtypes, attributes, outputs, lambda name, i: None):
        assert value.type is not None


RANKS = {
    "Range": (0, 0, 0),
    "ReverseSequence": (2, 1),
    "Trilu": (2, 0),
    "OneHot": (2, 0, 1),
    "NonMaxSuppression": (3, 3),
    "TopK": (2, 1),
    "ConstantOfShape": (1,),
    "SplitToSequence": (2, 0),
    "StringNormalizer": (1,),
    "GatherElements": (2, 2),
    "ScatterElements": (2, 2, 2),
    "TensorScatter": (2, 2, 1),
    "Concat": (2, 2),
}


@pytest.mark.parametrize(("name", "dtypes", "attributes", "outputs"), CASES)
def test_unknown_sizes_and_contents(name, dtypes, attributes, outputs):
    def shape(name, i):
        return tuple(dim.symbol(f"N{i}_{axis}") for axis in range(RANKS.get(name, (2, 1, 1, 1, 1))[i]))

    for value in build(name, dtypes, attributes, outputs, shape):
        assert value.contents is None or name in ("Shape", "Size")


@pytest.mark.parametrize(
    ("name", "shapes", "last"),
    [
        ("Expand", [(3,)], [-1]),
        ("ConstantOfShape", [], [2, -3]),
        ("TopK", [(3,)], [-1]),
        ("CenterCropPad", [(3,)], [-1]),
        ("Split", [(3,)], [4, -1]),
    ],
)
def test_negative_sizes_are_refused(name, shapes, last):
    b = Builder(Graph())
    inputs = [b.graph.add_input("x", TensorType(F, shape)) for shape in shapes]
    with pytest.raises(ShapeError, match="negative"):
        b.apply(OPERATORS[("", name)], *inputs, last, outputs=2 if name in ("Split", "TopK") else 1)

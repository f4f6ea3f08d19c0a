"""Expand to sizes that fit, and to sizes that do not: the same with and without simplification, on both engines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import parser

import intaglio

TARGETS = {
    "shape": "q = Shape(z)",
    "part of a shape": "s = Shape(z)  q = Slice(s, first, last)",
    "joined": "s = Shape(z)  a = Gather(s, first)  b = Gather(s, second)  q = Concat<axis = 0>(a, b)",
    "product of sizes": "s = Shape(z)  q = Mul(s, ones)",
    "largest sizes": "s = Shape(z)  q = Max(s, ones)",
}
SIZES = [*itertools.product((1, 2, 4), (1, 3))]


@pytest.mark.parametrize("data", ["float[4,3]", "float[4,m]", "float[n,m]", "float[1,3]"])
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_an_expansion_that_does_not_fit_is_never_removed(target: str, data: str) -> None:
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]> g ({data} x, float[a,b] z) => (y) {{
        first = Constant<value_ints = [0]>()  second = Constant<value_ints = [1]>()
        last = Constant<value_ints = [2]>()  ones = Constant<value_ints = [1, 1]>()
        {TARGETS[target]}
        e = Expand(x, q)  y = Neg(e) }}""")
    ways = [
        intaglio.load(model, engine=engine, simplify=simplify)
        for engine in ("reference", "native")
        for simplify in (False, True)
    ]
    x = np.arange(3 if data == "float[1,3]" else 12, dtype=np.float32).reshape(-1, 3)
    for sizes in SIZES:
        z = np.zeros(sizes, np.float32)
        fits = all(a == b or 1 in (a, b) for a, b in zip(x.shape, sizes, strict=True))
        for model_of_way in ways:
            if not fits:
                with pytest.raises(intaglio.IntaglioError):
                    model_of_way(x, z)
                continue
            np.testing.assert_array_equal(model_of_way(x, z), -np.broadcast_to(x, np.broadcast_shapes(x.shape, sizes)))

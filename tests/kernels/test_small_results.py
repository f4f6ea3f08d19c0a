"""Functions whose results are far smaller than their operands keep their digits in compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import intaglio

EXACT = {
    "Softplus": lambda x: np.logaddexp(x, 0),
    "Mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
}


@pytest.mark.parametrize("simplify", [True, False])
@pytest.mark.parametrize(("dtype", "name"), [("float32", "float"), ("float64", "double")])
@pytest.mark.parametrize("operator", sorted(EXACT))
def test_digits_are_kept(operator: str, dtype: str, name: str, simplify: bool) -> None:
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 22]>
        g ({name}[n] x) => ({name}[n] y) {{ y = {operator}(x) }}""")
    x = np.concatenate([np.linspace(-80, 80, 1001), np.linspace(-1, 1, 101), [1e-20, -1e-20, 0]]).astype(dtype)
    expected = EXACT[operator](x.astype(np.float64))
    got = intaglio.load(model, simplify=simplify)(x)
    np.testing.assert_allclose(got, expected, rtol=12 * float(np.finfo(dtype).eps), atol=0)

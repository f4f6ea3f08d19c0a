"""Operators of `torch.library` with a meaning of ours, and models of ours as such operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import Tensor  # noqa: E402

import intaglio  # noqa: E402
from intaglio import InputError, ops  # noqa: E402
from intaglio.torch import as_operator, backend, operator, report  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@torch.library.custom_op("intaglio_tests::cube", mutates_args=())
def cube(x: Tensor, factor: float) -> Tensor:
    return x**3 * factor


@cube.register_fake
def _(x: Any, factor: float) -> Any:
    return torch.empty_like(x)


def test_an_operator_of_a_library() -> None:
    def f(x: Any) -> Any:
        return cube(x + 1, 2.0).sum(0)

    x = torch.randn(3, 4)
    close(torch.compile(f, backend=backend)(x), f(x))
    assert "intaglio_tests.cube.default" in report().eager

    @operator("intaglio_tests::cube")
    def translate(b: Any, x: Any, factor: float) -> Any:
        return b.Mul(b.Pow(x, b.constant(np.float32(3))), factor)

    torch._dynamo.reset()
    intaglio.torch.clear()
    close(torch.compile(f, backend=backend)(x), f(x))
    assert report().eager == {}
    assert [graph.models for graph in report().graphs] == [1]


def test_names_of_no_operator() -> None:
    for name in ("intaglio_tests::nothing", "cube", "intaglio_tests::cube.other"):
        with pytest.raises(InputError, match=r"register it with torch\.library first"):
            operator(name)


def test_a_model_inside_of_exported_and_compiled_programs() -> None:
    with intaglio.build("m", inputs={"x": "float32[N, 4]"}) as g:
        g.output(y=ops.Concat(g["x"], ops.Relu(g["x"]), axis=0), s=ops.ReduceSum(g["x"], keepdims=0))
    model = g.model()
    call = as_operator(model, "intaglio_tests::model")

    class Pipeline(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y, s = call(x * 2)
            return y + s

    x = torch.randn(3, 4)
    expected = torch.cat([x * 2, torch.relu(x * 2)]) + (x * 2).sum()
    program = torch.export.export(Pipeline(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert "intaglio_tests.model.default" in str(program.graph)
    close(program.module()(x), expected)
    wide = torch.randn(5, 4)
    close(program.module()(wide), torch.cat([wide * 2, torch.relu(wide * 2)]) + (wide * 2).sum())
    close(torch.compile(Pipeline(), backend=backend)(x), expected)
    with pytest.raises(InputError, match="expected 'namespace::name'"):
        as_operator(model, "model")

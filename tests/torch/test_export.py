"""`intaglio.load` of modules and of what PyTorch exports."""

from __future__ import annotations

from typing import Any

import pytest
from tests.present import tensor

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import intaglio  # noqa: E402
from intaglio import InputError, LoadError, UnsupportedError  # noqa: E402

nn = torch.nn


def net() -> Any:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(64, 5)).eval()


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)


def test_a_module_with_an_example() -> None:
    module, x = net(), torch.randn(2, 3, 8, 8)
    model = intaglio.load(module, x)
    close(model(x), module(x))
    assert [tensor(item.type).shape for item in model.inputs] == [(2, 3, 8, 8)]
    assert [item.name for item in model.outputs] == ["output"]


def test_sizes_that_may_change() -> None:
    module = net()
    model = intaglio.load(module, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    for batch in (1, 2, 5):
        x = torch.randn(batch, 3, 8, 8)
        close(model(x), module(x))


def test_an_exported_program() -> None:
    module, x = net(), torch.randn(2, 3, 8, 8)
    close(intaglio.load(torch.export.export(module, (x,)), engine="reference")(x), module(x))


class Several(nn.Module):
    def forward(self, x: Any, pair: Any, *, bias: Any) -> Any:
        left, right = pair
        return {"sum": x + left, "rest": (right * bias, None, x)}


def test_several_inputs_and_outputs_in_order() -> None:
    tensors = [torch.randn(3) for _ in range(4)]
    program = torch.export.export(Several(), (tensors[0], (tensors[1], tensors[2])), {"bias": tensors[3]})
    found = intaglio.load(program)(*tensors)
    for mine, theirs in zip(found, (tensors[0] + tensors[1], tensors[2] * tensors[3], tensors[0]), strict=True):
        close(mine, theirs)


def test_weights_are_the_memory_of_the_module() -> None:
    module = nn.Linear(3, 2)
    graph = intaglio.load(module, torch.ones(1, 3), engine="reference").graph
    places = {value.constant.ctypes.data for value in graph.constants() if value.constant is not None}
    assert {parameter.data_ptr() for parameter in module.parameters()} <= places


def test_what_cannot_be_loaded_says_why() -> None:
    class Branch(nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    class Singular(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svdvals(x)

    x = torch.ones(2, 2)
    with pytest.raises(InputError, match="load\\(module, example_inputs\\)"):
        intaglio.load(Branch())
    with pytest.raises(InputError, match="example inputs are for modules"):
        intaglio.load("model.onnx", x)
    with pytest.raises(LoadError, match=r"PyTorch cannot export Branch: .*data-dependent"):
        intaglio.load(Branch(), x)
    with pytest.raises(UnsupportedError, match=r"aten\._linalg_svd\.default: PyTorch has LAPACK"):
        intaglio.load(Singular(), x)
    with pytest.raises(UnsupportedError, match=r"changes 1\.running_mean.*module\.eval"):
        intaglio.load(net().train(), torch.randn(2, 3, 8, 8))

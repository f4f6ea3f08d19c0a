"""What users of PyTorch meet at the edges: modes, types, strides, devices, buffers, families that PyTorch keeps."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from onnx import ModelProto, parser

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import intaglio  # noqa: E402
from intaglio import InputError  # noqa: E402
from intaglio.torch import Module, backend, report  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh")


def close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def make(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')


def test_models_take_and_give_narrow_tensors() -> None:
    text = "g (bfloat16[n] x, bfloat16[n] z) => (bfloat16[n] y) { y = Add(x, z) }"
    x, z = torch.randn(5).bfloat16(), torch.randn(5).bfloat16()
    for engine in ("native", "reference"):
        y = intaglio.load(make(text), engine=engine)(x, z)
        assert y.dtype == torch.bfloat16
        assert torch.equal(y, x + z)


def test_models_refuse_tensors_of_other_devices() -> None:
    with pytest.raises(InputError, match="meta"):
        intaglio.load(make("g (float[n] x) => (float[n] y) { y = Relu(x) }"))(torch.ones(3, device="meta"))


def test_autocast_of_a_module() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    model, x = Module(net, backward=True), torch.randn(4, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = model(x), net(x)
    assert found.dtype == expected.dtype == torch.bfloat16
    close(found.float(), expected.float(), 3e-2)
    close(model(x), net(x))


def test_dropout_follows_the_mode_and_the_seed() -> None:
    net = nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.5))
    model, x = Module(net, training=True, backward=True), torch.randn(4, 6)
    found = []
    for run in (model, net):
        torch.manual_seed(7)
        found.append(run(x))
    close(*found)
    assert (found[0] == 0).any()
    model.eval()
    close(model(x), net[0](x))


class Counter(nn.Module):
    """How often it ran, and what it saw last, stand in buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: Any
        self.last: Any
        self.register_buffer("runs", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.runs += 1
        self.last.copy_(x.detach().mean(0))
        return x * self.runs + self.last


@pytest.mark.parametrize("is_differentiable", [False, True])
def test_buffers_that_change(is_differentiable: bool) -> None:
    model: Any = Module(Counter(), backward=is_differentiable)
    twin = copy.deepcopy(model.model)
    for _ in range(3):
        x = torch.randn(4, 3, requires_grad=is_differentiable)
        close(model(x), twin(x))
        close(model.model.last, twin.last)
    assert int(model.model.runs) == 3


def test_inputs_that_need_gradients_where_none_are_asked_for() -> None:
    net = nn.Linear(3, 2)
    x = torch.randn(4, 3, requires_grad=True)
    y = Module(net)(x)
    assert not y.requires_grad
    close(y, net(x).detach())
    with torch.no_grad():
        close(torch.compile(net, backend=backend)(x), net(x))


class Mixed(nn.Module):
    def forward(self, x: Any, index: Any, mask: Any, scale: Any, flag: bool) -> Any:
        y = torch.where(mask, x[index], x[index] * scale)
        return y if flag else -y, index + 1, ~mask, None


def test_integers_truth_values_scalars_and_none() -> None:
    model = Module(Mixed(), backward=True)
    x = torch.randn(5, 3, requires_grad=True)
    index, mask = torch.tensor([0, 4, 2]), torch.tensor([[True, False, True]])
    for scale, flag in ((torch.tensor(2.5), True), (torch.tensor(-1.0), False), (3, True)):
        found = model(x, index, mask, scale, flag)
        expected = model.model(x, index, mask, scale, flag)
        for mine, theirs in zip(found[:3], expected[:3], strict=True):
            close(mine, theirs)
            assert mine.dtype == theirs.dtype
        assert found[3] is None
        gradients = [torch.autograd.grad(each[0].square().sum(), x)[0] for each in (found, expected)]
        close(*gradients)


@pytest.mark.parametrize("optimize", [False, True])
def test_graphs_as_translated_or_simplified(optimize: bool) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    model = Module(net, optimize=optimize)
    x = torch.randn(2, 3)
    close(model(x), net(x).detach())
    (compiled,) = model.compiled
    assert (compiled.report is None) == (not optimize)


def test_every_size_may_change() -> None:
    model = Module(nn.Sequential(nn.ReLU(), nn.Softmax(-1)), dynamic_shapes=True)
    for shape in ((3, 4), (5, 4), (5, 7)):
        x = torch.randn(shape)
        close(model(x), torch.softmax(torch.relu(x), -1))
    assert len(model.compiled) == 1


def spectrum(x: Any) -> Any:
    y = torch.fft.rfft(torch.tanh(x))
    return (y.abs() + 1).log() * 2


def determinant(x: Any) -> Any:
    y = x @ x.T + 3 * torch.eye(4)
    return torch.linalg.det(y).log() + torch.linalg.inv(y).sum() * 0.5


@pytest.mark.parametrize(
    ("function", "reason"),
    [(spectrum, "complex numbers are left to PyTorch"), (determinant, "PyTorch has LAPACK")],
    ids=["spectrum", "determinant"],
)
def test_families_that_pytorch_keeps_are_told(function: Any, reason: str) -> None:
    fast = torch.compile(function, backend=backend)
    found = []
    given = torch.randn(4, 4)
    for run in (fast, function):
        x = given.clone().requires_grad_()
        y = run(x)
        y.sum().backward()
        found.append((y.detach(), x.grad))
    close(found[0], found[1], 1e-3)
    eager = report().eager
    assert eager
    assert any(why.startswith(reason) for why in eager.values()), str(report())
    assert not any("not in the table" in why for why in eager.values()), str(report())
    assert all(graph.models for graph in report().graphs), str(report())


def test_second_derivatives_of_compiled_functions_are_refused_aloud() -> None:
    x = torch.randn(3, requires_grad=True)
    y = torch.compile(lambda x: x.sin().sum(), backend=backend)(x)
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        slope.sum().backward()

"""`intaglio.torch.Module` and `@intaglio.torch.module`: DaCeML's examples, and the fine print of modules."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import intaglio  # noqa: E402
from intaglio import InputError, LoadError  # noqa: E402
from intaglio.torch import Module, module  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh")


def close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def check_gradients(wrapped: Any, *inputs: Any) -> None:
    """The outputs, and the gradients of inputs and parameters, against PyTorch's."""
    found = []
    for run in (wrapped, wrapped.model):
        given = [each.detach().clone().requires_grad_(each.is_floating_point()) for each in inputs]
        wrapped.model.zero_grad()
        y = run(*given)
        y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
        grads = [each.grad for each in (*given, *wrapped.model.parameters()) if each.requires_grad]
        found.append([y.detach(), *(grad.clone() for grad in grads)])
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs)


def test_multihead_attention() -> None:
    batch, heads, width, length = 2, 4, 8, 12
    size = heads * width
    q, k, v = (torch.randn(length, batch, size) for _ in range(3))
    plain = nn.MultiheadAttention(size, heads, bias=False)
    for found, expected in zip(Module(plain)(q, k, v), plain(q, k, v), strict=True):
        close(found, expected.detach())


@module
class Convolutions(nn.Module):
    """Two of them."""

    def __init__(self, kernel_size: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, kernel_size)
        self.conv2 = nn.Conv2d(4, 4, kernel_size)

    def forward(self, x: Any) -> Any:
        return F.relu(self.conv2(F.relu(self.conv1(x))))


def test_a_decorated_class() -> None:
    model = Convolutions(3)
    assert (Convolutions.__name__, Convolutions.__doc__) == ("Convolutions", "Two of them.")
    for batch in (1, 3):
        x = torch.rand(batch, 1, 8, 8)
        y = model(x)
        close(y, model.model(x).detach())
        assert not y.requires_grad


@module(backward=True)
class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(20, 12), nn.Linear(12, 10)
        self.ls = nn.LogSoftmax(dim=-1)

    def forward(self, x: Any) -> Any:
        return self.ls(self.fc2(F.relu(self.fc1(x))))


def test_the_classifier_has_gradients() -> None:
    model: Any = Classifier()
    x, y = torch.randn(8, 20), torch.arange(8)
    assert model.model.fc2.weight.grad is None
    nn.NLLLoss()(model(x), y).backward()
    weight = model.model.fc2.weight
    found = weight.grad.clone()
    model.model.zero_grad()
    nn.NLLLoss()(model.model(x), y).backward()
    close(found, weight.grad)


class LogSqrt(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sqrt(torch.log(x))


def test_the_logarithm_and_the_root() -> None:
    assert Module(LogSqrt())(torch.ones(2)).tolist() == [0, 0]
    check_gradients(Module(LogSqrt(), backward=True), torch.rand(5) + 2)


class Mish(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * torch.tanh(F.softplus(x))


def test_mish_is_one_kernel_forward_and_backward() -> None:
    mish = Module(Mish(), backward=True)
    check_gradients(mish, torch.randn(2, 3, 8, 8))
    assert len(mish.compiled) == 2
    for model in mish.compiled:
        assert model.explain().kernels == 1, str(model.explain())


def test_a_bert_encoder_layer() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True)
    check_gradients(Module(layer, backward=True, training=True), torch.randn(2, 5, 16))


@pytest.mark.parametrize(("layers", "both", "has_bias"), [(1, False, True), (2, True, True), (1, False, False)])
def test_an_lstm_is_one_model(layers: int, both: bool, has_bias: bool) -> None:
    plain = nn.LSTM(3, 4, layers, bias=has_bias, bidirectional=both, batch_first=True)
    model = Module(plain)
    for batch in (2, 5):
        x = torch.randn(batch, 6, 3)
        found, expected = (torch.utils._pytree.tree_leaves(each(x)) for each in (model, plain))
        for mine, theirs in zip(found, expected, strict=True):
            close(mine, theirs.detach())
    assert intaglio.torch.report().eager == {}


def test_hooks_see_and_change_graphs() -> None:
    model = Module(Mish(), backward=True, name="mish")
    seen: list[Any] = []

    def imported(each: Any) -> None:
        seen.append(("import", each.forward_graph.name))

    model.append_post_import_hook("second", imported)
    model.prepend_post_import_hook("first", lambda each: seen.append(("before", each is model)))
    model.append_post_autodiff_hook("graphs", lambda f, b: seen.append(("autodiff", f.name, b.name)))
    model.append_post_compile_hook("models", lambda each: seen.append(("compiled", type(each))))
    x = torch.randn(4, requires_grad=True)
    model(x).sum().backward()
    assert seen == [
        ("before", True),
        ("import", "mish"),
        ("autodiff", "mish", "mish_backward"),
        ("compiled", intaglio.Model),
        ("compiled", intaglio.Model),
    ]
    with pytest.raises(InputError, match="there is a hook 'first' already"):
        model.append_post_import_hook("first", print)


def test_a_hook_may_rewrite_what_is_computed() -> None:
    model = Module(LogSqrt())

    def without_root(each: Any) -> None:
        graph = each.forward_graph
        (root,) = (node for node in graph.nodes if node.op.name == "Sqrt")
        root.output.replace_uses(root.input)

    x = torch.rand(3) + 2
    close(model(x), x.log().sqrt())
    model.append_post_import_hook("without_root", without_root)
    model.reset()
    close(model(x), x.log())


def test_a_hook_may_rewrite_what_gradients_are() -> None:
    class Logarithm(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.log(x)

    def without_quotient(forward: Any, backward: Any) -> None:
        (quotient,) = (node for node in backward.nodes if node.op.name in ("Div", "Mul"))
        bar = next(value for value in quotient.inputs if "tangents" in value.name)
        quotient.output.replace_uses(bar)

    x = torch.rand(3) + 2
    for is_changed in (False, True):
        model = Module(Logarithm(), backward=True)
        if is_changed:
            model.append_post_autodiff_hook("without_quotient", without_quotient)
        given = x.clone().requires_grad_()
        model(given).sum().backward()
        close(given.grad, torch.ones(3) if is_changed else 1 / x)


def test_an_optimizer_step_is_seen() -> None:
    model = Module(nn.Linear(3, 2), backward=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.randn(4, 3)
    before = model(x)
    before.square().sum().backward()
    optimizer.step()
    after = model(x)
    assert not torch.allclose(before, after)
    close(after, model.model(x))


@dataclass
class Pair:
    left: Any
    right: Any


torch.utils._pytree.register_dataclass(Pair)


class Nested(nn.Module):
    def forward(self, x: Any, pair: Pair, *, extra: dict[str, Any], flag: bool = True) -> Any:
        total = x + pair.left * pair.right
        return {"total": total, "rest": [total.sum(), None], "extra": extra["bias"] if flag else x}


def test_nested_structures_keywords_and_none() -> None:
    model = Module(Nested(), backward=True)
    tensors = [torch.randn(2, 3, requires_grad=True) for _ in range(3)]
    bias = torch.randn(3)
    for flag in (True, False):
        found = model(tensors[0], Pair(tensors[1], tensors[2]), extra={"bias": bias}, flag=flag)
        expected = model.model(tensors[0], Pair(tensors[1], tensors[2]), extra={"bias": bias}, flag=flag)
        close(found["total"], expected["total"])
        close(found["rest"][0], expected["rest"][0])
        assert found["rest"][1] is None
        close(found["extra"], expected["extra"])


def test_modes_statistics_and_state() -> None:
    model: Any = Module(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), training=True, backward=True)
    twin = copy.deepcopy(model.model)
    x = torch.randn(6, 3)
    close(model(x), twin(x))
    close(model.model[1].running_mean, twin[1].running_mean)
    model.eval()
    close(model(x), twin.eval()(x))
    assert list(model.state_dict()) == [f"model.{name}" for name in twin.state_dict()]
    assert model.to(torch.float64)(x.double()).dtype == torch.float64


def test_example_inputs_compile_and_leave_no_trace() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = copy.deepcopy(net.state_dict())
    example = torch.randn(4, 3)
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    model = Module(net, example_inputs=example, training=True, backward=True)
    assert model.compiled
    assert torch.equal(torch.rand(2), expected)
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_copies_and_pickles() -> None:
    model, x = Classifier(), torch.randn(2, 20)
    y = model(x)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(twin) is Classifier
        assert twin.model.fc1.weight.data_ptr() != model.model.fc1.weight.data_ptr()
        close(twin(x), y)


def test_composition_no_grad_and_module_hooks() -> None:
    inner = Module(nn.Linear(3, 4), backward=True)
    net = nn.Sequential(inner, nn.ReLU(), nn.Linear(4, 1))
    calls: list[Any] = []
    inner.register_forward_hook(lambda m, given, found: calls.append(found.shape))
    x = torch.randn(5, 3)
    net(x).sum().backward()
    assert inner.model.weight.grad is not None
    assert calls == [(5, 4)]
    with torch.no_grad():
        assert not net(x).requires_grad


def test_double_backward() -> None:
    model: Any = Module(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), double_backward=True)
    x = torch.randn(5, 3, requires_grad=True)
    found = []
    for run in (model, model.model):
        model.model.zero_grad()
        (slope,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        found.append((slope, model.model[0].weight.grad.clone()))
    close(found[0], found[1])
    check_gradients(model, torch.randn(5, 3))


def test_every_value_for_who_looks_for_a_fault() -> None:
    model: Any = Module(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), debug_values=True)
    x = torch.randn(2, 3)
    y = model(x)
    close(model.values["tanh"], y)
    close(model.values["add"], model.model[0](x).detach())


def test_a_module_that_cannot_be_traced() -> None:
    class Branch(nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(LoadError, match=r"PyTorch cannot trace Branch: .*[Dd]ata-dependent"):
        Module(Branch())(torch.ones(3))


def test_other_devices_are_refused() -> None:
    with pytest.raises(InputError, match="computes on the CPU"):
        Module(nn.ReLU(), device="cuda")
    with pytest.raises(InputError, match="an input is on meta"):
        Module(nn.ReLU())(torch.ones(3, device="meta"))


def test_sizes_that_may_change() -> None:
    model = Module(nn.Linear(3, 4), dynamic_shapes=({0: "batch"},))
    for batch in (2, 5, 7):
        x = torch.randn(batch, 3)
        close(model(x), model.model(x).detach())
    assert len(model.compiled) == 1


@pytest.mark.slow
def test_many_modules_of_one_class_do_not_run_into_limits() -> None:
    for width in range(9):
        net = nn.Linear(3, width + 1)
        x = torch.randn(2, 3)
        close(Module(net)(x), net(x).detach())


class Scaled(nn.Module):
    """A recurrent layer, which PyTorch traces only where it is told to, and a number that is part of the code."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4)
        self.scale = 2.0

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0] * self.scale


def test_calls_like_one_before_may_still_need_other_code() -> None:
    model: Any = Module(Scaled())
    x = torch.randn(5, 2, 3)
    for scale in (2.0, 2.0, 3.0, 3.0, 5.0):
        model.model.scale = scale
        close(model(x), model.model(x).detach())


class Product(nn.Module):
    def forward(self, x: Any) -> Any:
        return x @ torch.ones(3, 3)


class Refusing(nn.Module):
    def forward(self, x: Any) -> Any:
        if x.shape[0] == 2:
            raise KeyError("two rows")
        return x


class Power(nn.Module):
    def forward(self, x: Any, exponent: int) -> Any:
        return x**exponent


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (nn.Sequential(Product()), "must have same reduction dim, but got"),
        (Refusing(), "KeyError.*two rows"),
    ],
)
def test_an_error_says_why_and_where(module: Any, why: str) -> None:
    with pytest.raises(LoadError, match=rf"{why}.*test_module.py\", line \d+, in forward"):
        Module(module)(torch.randn(2, 5))


def test_an_error_behind_tracing_says_why() -> None:
    model = Module(Power(), backward=True, dynamic_shapes=True)
    with pytest.raises(LoadError, match=r"PyTorch cannot trace Power: RuntimeError: .*SymInt"):
        model(torch.randn(2, 5, requires_grad=True), 3)


def test_what_a_hook_raises_comes_out() -> None:
    def refuse(module: Any) -> None:
        raise ValueError("not this graph")

    model = Module(nn.Linear(5, 5))
    model.append_post_import_hook("refuse", refuse)
    with pytest.raises(ValueError, match="not this graph"):
        model(torch.randn(2, 5))

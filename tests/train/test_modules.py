"""Modules of PyTorch: their names, what is trained of them, dropout and statistics, and weights on the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import train

torch: Any = pytest.importorskip("torch", reason="modules are of PyTorch")
nn: Any = torch.nn

RNG = np.random.default_rng(4)
X = RNG.standard_normal((12, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 12)


class Net(nn.Module):
    """Layers with names, a normalization with a momentum of its own, dropout, and a buffer."""

    def __init__(self, ratio: float = 0.0) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8, momentum=0.3)
        self.drop = nn.Dropout(ratio)
        self.head = nn.Linear(8, 3)
        self.register_buffer("shift", torch.linspace(0, 1, 8))

    def forward(self, x: Any) -> Any:
        return self.head(self.drop(torch.tanh(self.norm(self.fc(x)) + self.shift)))


class Attending(nn.Module):
    """Attention that drops inside."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x, need_weights=False)[0]


def net(ratio: float = 0.0) -> Any:
    torch.manual_seed(0)
    return Net(ratio)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_module_is_trained_as_pytorch_trains_it_and_gets_its_weights_back(engine: str) -> None:
    module, judge = net(), net()
    trainer = train.Trainer(module, optimizer=train.SGD(0.1), example_inputs=torch.tensor(X[:1]), engine=engine)
    assert trainer.trained == ("fc.weight", "fc.bias", "norm.weight", "norm.bias", "head.weight", "head.bias")
    assert module.training, "the module is in the mode that it was in"
    optimizer = torch.optim.SGD(judge.parameters(), 0.1)
    for rows in (12, 5, 7):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(judge(torch.tensor(X[:rows])), torch.tensor(Y[:rows]))
        loss.backward()
        optimizer.step()
        assert trainer.step(X[:rows], Y[:rows]) == pytest.approx(loss.item(), rel=1e-5)
    assert trainer.to_torch(module) is module
    for name, tensor in judge.state_dict().items():
        if name != "norm.num_batches_tracked":
            np.testing.assert_allclose(module.state_dict()[name], tensor, rtol=1e-5, atol=1e-6, err_msg=name)
    with torch.no_grad():
        np.testing.assert_allclose(trainer.predict(X), module.eval()(torch.tensor(X)), rtol=1e-5, atol=1e-6)


def test_patterns_are_of_the_modules_names() -> None:
    model = intaglio.load(net().eval(), torch.tensor(X), engine="reference")
    assert train.Trainer(model, trainable="fc.*").trained == ("fc.weight", "fc.bias")
    assert train.Trainer(model, trainable=["shift"]).trained == ("shift",), "what is named is trained"
    module = net().eval()
    module.fc.requires_grad_(False)
    loaded = intaglio.load(module, torch.tensor(X), engine="reference")
    assert "fc.weight" not in train.Trainer(loaded).trained
    module.requires_grad_(False)
    with pytest.raises(intaglio.InputError, match="no weight of the module needs a gradient"):
        train.Trainer(intaglio.load(module, torch.tensor(X), engine="reference"))


def test_dropout_of_a_module_in_evaluation_drops_in_training() -> None:
    program = torch.export.export(net(0.5).eval(), (torch.tensor(X),))
    model = intaglio.load(program, engine="reference")
    trainer = train.Trainer(model, optimizer=train.SGD(0.0))
    assert len({trainer.step(X, Y) for _ in range(3)}) == 3
    np.testing.assert_array_equal(trainer.predict(X), trainer.predict(X))
    with torch.no_grad():
        np.testing.assert_allclose(model(X), program.module()(torch.tensor(X)), rtol=1e-5, atol=1e-6)
    targets = [str(node.target) for node in program.graph.nodes]
    assert "aten.dropout.default" in targets, "the program is as it was"


def test_a_compiled_module_has_no_node_for_its_dropout() -> None:
    model = intaglio.load(net(0.5).eval(), torch.tensor(X))
    assert "Dropout" not in str(model.explain())


def test_what_trains_in_another_way_than_in_pytorch_is_warned_of() -> None:
    attending = Attending().eval()
    with pytest.warns(UserWarning, match="the dropout inside of 'attention'"):
        train.Trainer(intaglio.load(attending, torch.zeros(2, 5, 4), engine="reference"), "mse")
    double = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).double().eval()
    with pytest.warns(UserWarning, match="'1.running_var': batches are normalized by these running statistics"):
        trainer = train.Trainer(intaglio.load(double, torch.zeros(2, 4).double(), engine="reference"), "mse")
    assert set(trainer.trained) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_another_module_gets_nothing() -> None:
    trainer = train.Trainer(net(), example_inputs=torch.tensor(X), engine="reference")
    trainer.step(X, Y)
    other = nn.Sequential(nn.Linear(4, 8))
    before = other[0].weight.clone()
    with pytest.raises(intaglio.InputError, match=r"it has no 'fc\.weight'"):
        trainer.to_torch(other)
    assert (other[0].weight == before).all()
    with pytest.raises(intaglio.InputError, match="without inputs to trace it"):
        train.Trainer(net())


def test_normalizations_of_a_module_count_their_batches() -> None:
    module = net()
    module.norm.num_batches_tracked.fill_(5)
    options: dict[str, Any] = {"nonfinite": "skip", "engine": "reference", "accumulate": 2}
    trainer = train.Trainer(module, optimizer=train.SGD(0.1), example_inputs=torch.tensor(X), **options)
    for _ in range(3):
        trainer.step(X, Y)
    assert trainer.to_torch(module).norm.num_batches_tracked.item() == 8
    with pytest.warns(UserWarning, match="left out"):
        trainer.step(X * np.float32(np.nan), Y)
    trainer.step(X, Y)
    assert trainer.to_torch(module).norm.num_batches_tracked.item() == 9
    assert trainer.to_torch(module).norm.num_batches_tracked.item() == 9


def test_frozen_normalizations_count_no_batches() -> None:
    module = net()
    trainer = train.Trainer(module, example_inputs=torch.tensor(X), frozen="norm.*", engine="reference")
    trainer.step(X, Y)
    assert trainer.to_torch(module).norm.num_batches_tracked.item() == 0

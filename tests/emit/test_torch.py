"""Models as modules of PyTorch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.emit.models import FEEDS, MODELS, drawn, open_rank, parse
from tests.emit.test_python import SNAPSHOTS, check_snapshot

import intaglio
from intaglio.conformance.exported import UNSAID, export_row, export_subject, import_exported
from intaglio.conformance.suite import cases
from intaglio.errors import UnsupportedError

torch = pytest.importorskip("torch", reason="exported PyTorch code needs PyTorch, which development does not install")
from tests.emit.torch_models import NETWORKS, exported_network  # noqa: E402
from torch import Tensor, nn  # noqa: E402

SAMPLE = 29
"""Every so many of ONNX's tests is in the quick part."""


def tensors(arrays: list[np.ndarray]) -> list[Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape) for array in arrays]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_source_is_as_it_was_and_right(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    intaglio.export(model, "torch", tmp_path)
    check_snapshot((tmp_path / "model.py").read_text(), SNAPSHOTS / f"{name}.torch.txt", update=False)
    expected = intaglio.load(model, engine="reference")(*FEEDS[name])
    found = import_exported(tmp_path).load()(*tensors(FEEDS[name]))
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for left, right in pairs:
        np.testing.assert_allclose(left.detach().numpy(), right, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("axes", [1, 2])
def test_convolutions_of_open_rank(axes: int, tmp_path: Path) -> None:
    x, flag = drawn(2, 3, *[8] * axes), np.array(True)
    intaglio.export(open_rank(axes), "torch", tmp_path)
    expected = intaglio.load(open_rank(axes), engine="reference")(x, flag)
    for left, right in zip(import_exported(tmp_path).load()(*tensors([x, flag])), expected, strict=True):
        np.testing.assert_allclose(left.detach().numpy(), right, rtol=1e-5, atol=1e-5)
    with pytest.raises(UnsupportedError, match="Conv"):
        intaglio.export(open_rank(axes, "SAME_UPPER"), "torch", tmp_path)


@pytest.mark.parametrize("name", list(cases())[::SAMPLE])
def test_onnx_tests_in_torch(name: str) -> None:
    result, error = cases()[name].run(export_subject("torch"))
    if error is not None and not isinstance(error, UnsupportedError) and result.outcome != "random":
        raise error


@pytest.mark.slow
def test_all_of_onnx_tests() -> None:
    subject = export_subject("torch")
    results = [case.run(subject)[0] for case in cases().values()]
    _, passed, _, _ = export_row("torch", results)
    assert passed >= 1734
    wrong = {result.name for result in results if result.outcome == "failed" and not result.reason.startswith(UNSAID)}
    assert wrong == KNOWN.keys()


KNOWN = {
    "test_dft_inverse_opset19_cpu": "what should be zero is rounding noise of 1e-7, which is the limit of the test"
}


@pytest.mark.parametrize("is_dynamo", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks_come_back_as_they_were_written(name: str, is_dynamo: bool, tmp_path: Path) -> None:
    network, inputs, model = exported_network(name, is_dynamo)
    intaglio.export(model, "torch", tmp_path)
    text = (tmp_path / "model.py").read_text()
    loaded = import_exported(tmp_path).load()
    for batch in (1, 3):
        given = [each[:1].repeat_interleave(batch, 0) for each in inputs]
        torch.testing.assert_close(loaded(*given), network(*given), rtol=1e-4, atol=1e-5)
    assert not re.search(r"\bmatmul|\.tolist\(|torch\.tensor\(\[", text), text
    expected = {kind for kind in LAYERS if any(type(each) is kind for each in network.modules())}
    found = {type(each) for each in loaded.modules()}
    assert expected - {nn.BatchNorm2d} <= found


LAYERS = (nn.Conv2d, nn.Linear, nn.LayerNorm, nn.Embedding, nn.LSTM, nn.BatchNorm2d)


@pytest.mark.slow  # as all that PyTorch's newer exporter takes part in, which is slow to start
def test_equal_blocks_are_one_class(tmp_path: Path) -> None:
    _, _, model = exported_network("transformer", True)
    intaglio.export(model, "torch", tmp_path)
    text = (tmp_path / "model.py").read_text()
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert names == ["Attention", "Layer", "Model"]
    assert "self.layers = nn.Sequential(*(Layer() for _ in range(3)))" in text
    assert "functional.scaled_dot_product_attention(" in text
    keys = set(import_exported(tmp_path).load().state_dict())
    assert {"layers.2.attention.query.weight", "layers.0.norm1.bias", "embed.weight"} <= keys


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_it_trains(name: str, tmp_path: Path) -> None:
    _, inputs, model = exported_network(name, False)
    intaglio.export(model, "torch", tmp_path)
    loaded = import_exported(tmp_path).load().train()
    wanted = torch.ones_like(loaded(*inputs))
    optimiser = torch.optim.SGD(loaded.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(loaded(*inputs), wanted)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(parameter.grad is not None for parameter in loaded.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_it_is_exported_again(name: str, tmp_path: Path) -> None:
    _, inputs, model = exported_network(name, False)
    intaglio.export(model, "torch", tmp_path)
    loaded = import_exported(tmp_path).load()
    with warnings.catch_warnings(action="ignore"):  # the exporter warns of its own use of other parts of PyTorch
        again = torch.onnx.export(loaded, tuple(inputs), dynamo=True, verbose=False)
    found = intaglio.load(again.model_proto, engine="reference")(*(each.numpy() for each in inputs))
    np.testing.assert_allclose(found, loaded(*inputs).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_source_is_clean(name: str, tmp_path: Path) -> None:
    intaglio.export(MODELS[name](), "torch", tmp_path)
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "E,F,W,I,B,UP,SIM",
        "--line-length",
        "120",
    ]
    done = subprocess.run([*command, "model.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_pretrained_folders(tmp_path: Path) -> None:
    intaglio.export(MODELS["convolution"](), "torch", tmp_path)
    module = import_exported(tmp_path)
    x = tensors(FEEDS["convolution"])[0]
    torch.testing.assert_close(module.Model.from_pretrained(tmp_path)(x), module.load(tmp_path)(x))
    assert set(module.load().state_dict()) == {"conv.weight", "conv.bias", "fc.weight", "fc.bias"}


def heads(batch: str, kept: int) -> str:
    """Heads that are split off and joined again, channels that are merged with the batch, and an image made flat."""
    return f"""g (float[{batch}, 3, 8] x, float[{batch}, 4, 2, 2] image) => (y, z, u)
    <int64[4] apart = {{{kept}, 3, 2, 4}}, int64[3] whole = {{{kept}, 3, 8}}, int64[2] flat = {{{kept}, 16}},
     int64[3] merged = {{{4 * kept}, 2, 2}}, int64[4] again = {{{kept}, 4, 2, 2}}> {{
        a = Reshape (x, apart)
        b = Softmax (a)
        y = Reshape (b, whole)
        r = Relu (image)
        z = Reshape (r, flat)
        m = Reshape (r, merged)
        s = Softmax (m)
        u = Reshape (s, again) }}"""


def test_a_batch_of_any_size_goes_through_a_model_of_one(tmp_path: Path) -> None:
    intaglio.export(parse(heads("1", 1)), "torch", tmp_path)
    loaded = import_exported(tmp_path).load()
    for batch in (1, 5):
        feeds = [drawn(batch, 3, 8), drawn(batch, 4, 2, 2)]
        expected = intaglio.load(parse(heads(str(batch), batch)), engine="reference")(*feeds)
        for found, right in zip(loaded(*tensors(feeds)), expected, strict=True):
            np.testing.assert_allclose(found.detach().numpy(), right, rtol=1e-5, atol=1e-6)


def test_an_input_behind_one_with_a_default(tmp_path: Path) -> None:
    model = parse("net (float b, float[n] x) => (float[n] y) { y = Add(x, b) }", b=np.array(2, np.float32))
    intaglio.export(model, "torch", tmp_path)
    loaded = import_exported(tmp_path).load()
    x = torch.zeros(2)
    assert loaded(x=x).tolist() == [2, 2]
    assert loaded(torch.tensor(3.0), x).tolist() == [3, 3]
    with pytest.raises(TypeError, match="x is missing"):
        loaded()

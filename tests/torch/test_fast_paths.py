"""The fused operators of PyTorch's transformer modules in evaluation: compiled whole, and equal to eager."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from intaglio.torch import backend, report  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("fresh")

BATCH, LENGTH, WIDTH, HEADS = 2, 7, 32, 4


def padding() -> Any:
    found = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    found[0, 4:] = True
    return found


def causal() -> Any:
    return torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)


LAYER_MASKS: dict[str, Any] = {
    "none": dict,
    "padding": lambda: {"src_key_padding_mask": padding()},
    "causal": lambda: {"src_mask": causal()},
    "both": lambda: {"src_mask": causal(), "src_key_padding_mask": padding()},
}


def check(module: Any, given: tuple[Any, ...], **named: Any) -> None:
    """The same as eager, in one graph with nothing left to PyTorch."""
    with torch.no_grad():
        expected, found = module(*given, **named), torch.compile(module, backend=backend)(*given, **named)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
    (graph,) = report().graphs
    assert graph.eager == ()


@pytest.mark.parametrize("masks", LAYER_MASKS)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer(masks: str, activation: str, norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 48, activation=activation, norm_first=norm_first, batch_first=True
    ).eval()
    check(layer, (torch.randn(BATCH, LENGTH, WIDTH),), **LAYER_MASKS[masks]())


def test_an_encoder_of_two_layers_takes_any_batch() -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 48, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    fast = torch.compile(net, backend=backend, dynamic=True)
    with torch.no_grad():
        for batch in (2, 5, 3):
            x = torch.randn(batch, LENGTH, WIDTH)
            torch.testing.assert_close(fast(x), net(x), rtol=1e-5, atol=1e-5)
    (graph,) = report().graphs
    assert graph.eager == ()


def test_a_sample_that_is_masked_whole_is_nan_as_in_eager() -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 48, batch_first=True).eval()
    mask = padding()
    mask[1] = True
    check(layer, (torch.randn(BATCH, LENGTH, WIDTH),), src_key_padding_mask=mask)


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("mask", ["none", "padding", "causal"])
@pytest.mark.parametrize("weights", ["none", "mean", "all"])
def test_attention_of_several_heads(is_own: bool, mask: str, weights: str) -> None:
    net = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    key = torch.randn(BATCH, LENGTH, WIDTH)
    query = key if is_own else torch.randn(BATCH, LENGTH, WIDTH)
    masks = {"none": {}, "padding": {"key_padding_mask": padding()}, "causal": {"attn_mask": causal()}}
    wanted = {"need_weights": weights != "none", "average_attn_weights": weights == "mean"}
    check(net, (query, key, key), **masks[mask], **wanted)

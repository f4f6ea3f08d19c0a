"""Whole models against PyTorch: a residual network, transformers, a recurrent classifier, a U-net, a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio

torch: Any = pytest.importorskip("torch", reason="PyTorch judges these, and it is not a part of `dev`")

from tests.autodiff.torch_models import MODELS, exported  # noqa: E402 (it imports torch)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_a_whole_model(name: str) -> None:
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    module, given = make().eval(), inputs()
    with torch.no_grad():
        for parameter in module.parameters():  # none equal to another, which the exporter would make one
            parameter.add_(0.1 * torch.randn(parameter.shape))
    data = exported(module, given)
    given = tuple(item.requires_grad_() if item.is_floating_point() else item for item in given)
    result = module(*given)
    weights = torch.randn(result.shape)
    (result * weights).sum().backward()
    expected = {key: parameter.grad.numpy() for key, parameter in module.named_parameters()}
    if given[0].is_floating_point():
        assert given[0].grad is not None
        expected["x"] = given[0].grad.numpy()
    arrays = zip(("x", "count"), given, strict=False)
    feeds = {key: item.detach().numpy() for key, item in arrays} | {"y.bar": weights.numpy()}
    for engine in ("reference", "native"):
        found = intaglio.vjp(data, of="y", wrt=list(expected), engine=engine).run(feeds)
        for key, array in expected.items():
            limit = 1e-4 * np.abs(array).max() + 1e-6
            np.testing.assert_allclose(found[f"{key}.gradient"], array, rtol=0, atol=limit, err_msg=f"{key}, {engine}")

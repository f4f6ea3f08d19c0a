"""The conventions of gradients at kinks, ties, bounds and zeros: PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch judges these, and it is not a part of `dev`")

from tests.autodiff.kinks import KINKS, Kink, compare


@pytest.mark.parametrize("kink", KINKS, ids=map(str, KINKS))
def test_gradients_at_kinks_are_those_of_pytorch(kink: Kink) -> None:
    for seed in range(2):
        found = compare(kink, np.random.default_rng(seed))
        assert not found.differences, str(found.differences[0])
        assert found.open < found.elements / 2, "PyTorch decides nothing where it gives NaN"


NATIVELY = (
    "LeakyRelu, alpha=0.25",
    "Elu, alpha=2.0",
    "HardSwish",
    "Clip",
    "Attention {'softcap': 2.0}",
    "Max of three",
)


@pytest.mark.parametrize("kink", [kink for kink in KINKS if kink.name in NATIVELY], ids=str)
def test_compiled_code_follows_them_too(kink: Kink) -> None:
    found = compare(kink, np.random.default_rng(0), engine="native")
    assert not found.differences, str(found.differences[0])

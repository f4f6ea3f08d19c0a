"""One architecture in one process, one way: compiled, compared with double, then run in turns as a parent asks."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SMALL = 1e-2
"""Tensors that are smaller than this part of the largest are compared at that size: some gradients are zero by nature,
such as those of a shift ahead of a batch normalisation, and what is left of them is rounding of others."""


LARGE = "large-"
"""How the names of the larger modules begin."""


def large() -> dict[str, Any]:
    """Three modules of the size that people have, beside the small architectures of the tests."""
    import torch
    from tests.torch.architectures import Case, ResidualBlock
    from torch import nn

    class Stages(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (64, 64, 128, 256)
            self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
            pairs = itertools.pairwise(widths)
            self.body = nn.Sequential(*(ResidualBlock(a, b, 1 if a == b else 2) for a, b in pairs))
            self.head = nn.Linear(256, 100)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.stem(x)).mean((2, 3)))

    def encoder() -> nn.Module:
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True)
        return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    return {
        f"{LARGE}resnet": Case(Stages, lambda n: (torch.randn(n, 3, 128, 128),)),
        f"{LARGE}encoder": Case(encoder, lambda n: (torch.randn(n, 64, 256),)),
        f"{LARGE}mlp": Case(mlp, lambda n: (torch.randn(n, 784),)),
    }


def step(run: Callable[..., Any], module: Any, mode: str, given: Sequence[Any]) -> list[Any]:
    """One call, in training with gradients for bars that rise evenly from -1 to 1 along each output; gives outputs."""
    import torch
    from torch.utils._pytree import tree_leaves

    if mode == "inference":
        with torch.no_grad():
            return tree_leaves(run(*given))
    module.zero_grad()
    found = [each for each in tree_leaves(run(*given)) if isinstance(each, torch.Tensor)]
    outputs = [each for each in found if each.requires_grad]
    torch.autograd.backward(outputs, [_bar(each.shape, each.dtype) for each in outputs])
    return found


@cache
def _bar(shape: tuple[int, ...], dtype: Any) -> Any:
    import torch

    return torch.linspace(-1, 1, math.prod(shape), dtype=dtype).reshape(shape)


def results(run: Callable[..., Any], module: Any, mode: str, given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs, and in training the gradients of all weights."""
    found = [each.detach().clone() for each in step(run, module, mode, given)]
    return found, [each.grad for each in module.parameters()] if mode == "training" else []


def exact_results(module: Any, mode: str, given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What eager gives in double."""
    import torch

    wide = [each.double() if each.is_floating_point() else each for each in given]
    torch.set_default_dtype(torch.float64)
    try:
        return results(module, module, mode, wide)
    finally:
        torch.set_default_dtype(torch.float32)


def difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference of two lists of tensors, each relative to the largest element of the tensor."""
    scales = [0.0 if each is None or not each.numel() else float(each.abs().max()) for each in expected]
    least = SMALL * max(scales, default=0.0)
    worst = 0.0
    for mine, theirs, scale in zip(found, expected, scales, strict=True):
        if (mine is None) != (theirs is None):
            return float("inf")
        if mine is not None and mine.numel():
            apart = float((mine.double() - theirs.double()).abs().max()) / max(scale, least, 1e-30)
            worst = max(worst, apart if apart == apart else float("inf"))
    return worst


def processor_seconds() -> float:
    """The processor time of this process and of the children that have ended, to the microsecond for its own part."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def compiled(way: str, function: Any) -> Any:
    """A function or module run one way."""
    import torch

    from intaglio.torch import backend

    chosen: dict[str, Any] = {"intaglio": {"backend": backend}, "inductor": {}}
    return function if way == "eager" else torch.compile(function, dynamic=False, **chosen[way])


def warm_up(way: str) -> None:
    """Compile a function of one operator, so that a first call counts no imports and no preparation of a compiler."""
    import torch

    x = torch.ones(3, requires_grad=True)
    compiled(way, lambda x: x * 2)(x).sum().backward()


def work(name: str, way: str, mode: str, batch: int) -> None:
    """Print the time of the first call and how far it is from double; then run as many calls as each line asks for."""
    sys.path.insert(0, str(ROOT))
    import torch
    from tests.torch.architectures import ARCHITECTURES

    warm_up(way)
    torch.manual_seed(0)
    case = {**ARCHITECTURES, **large()}[name]
    net = case.make().train(mode == "training")
    twin = copy.deepcopy(net).double()
    given = case.inputs(batch)
    run = compiled(way, net)
    clock = time.perf_counter if torch.get_num_threads() > 1 else processor_seconds
    with torch._dynamo.config.patch(allow_rnn=True):
        begin = clock()
        mine = results(run, net, mode, given)
        first = clock() - begin
        pairs = zip(mine, exact_results(twin, mode, given), strict=True)
        print(json.dumps([first, *(difference(*pair) for pair in pairs)]), flush=True)
        for _ in range(3):
            step(run, net, mode, given)
        for line in sys.stdin:
            times: list[float] = []
            for _ in range(int(line)):
                begin = clock()
                step(run, net, mode, given)
                times.append(clock() - begin)
            print(json.dumps(times), flush=True)

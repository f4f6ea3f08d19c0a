"""A random program of PyTorch as text: what makes its inputs, its module, its statements, and what it returns."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

HEADER = """import torch
from torch import nn
from torch.nn import functional as F
"""

INDENT = "        "


@dataclass(frozen=True)
class Call:
    """One call: the sizes that inputs are made with, and the seed of their values and of the program's dice."""

    sizes: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Text:
    """A program. `inputs` and `setup` are pairs of a name and an expression, `body` are lines of `forward`."""

    inputs: tuple[tuple[str, str], ...]
    setup: tuple[tuple[str, str], ...]
    body: tuple[str, ...]
    returned: tuple[str, ...]
    calls: tuple[Call, ...]
    mode: str = "plain"
    """`plain` (gradients are not tracked), `gradients`, or `training` (gradients, and the module is in training)."""
    is_dynamic: bool | None = None
    engine: str = "reference"
    tangents: str = "contiguous"
    """How the gradients of outputs lie in memory: `contiguous`, `expanded` or `transposed`."""
    settings: tuple[tuple[str, Any], ...] = ()
    """Settings of `torch._dynamo.config`."""

    def with_body(self, body: Sequence[str]) -> Text:
        """The program with other statements."""
        return replace(self, body=tuple(body))

    @property
    def source(self) -> str:
        """The definitions of the program: a module and a function that makes its inputs."""
        return f"{self._module()}\n\n{self._maker()}"

    def _module(self) -> str:
        setup = [f"{INDENT}{name} = {value}" for name, value in self.setup]
        names = ", ".join(name for name, _ in self.inputs)
        body = [INDENT + line for line in self.body]
        made = "".join(f"{name}, " for name in self.returned)
        head = ["class Program(nn.Module):"]
        if setup:
            head += ["    def __init__(self):", f"{INDENT}super().__init__()", *setup, ""]
        return "\n".join([*head, f"    def forward(self, {names}):", *body, f"{INDENT}return ({made})"])

    def _maker(self) -> str:
        lines = [f"    {name} = {value}" for name, value in self.inputs]
        names = ", ".join(name for name, _ in self.inputs)
        return "\n".join(["def inputs(n, m):", *lines, f"    return [{names}]"])

    def script(self) -> str:
        """A script that prints what eager and the compiled program return."""
        gradients = "torch.no_grad()" if self.mode == "plain" else "torch.enable_grad()"
        settings = "".join(f"torch._dynamo.config.{name} = {value!r}\n" for name, value in self.settings)
        train = "" if self.mode == "training" else ".eval()"
        options = {"engine": self.engine}
        return f"""{HEADER}

{self.source}


{settings}torch.manual_seed(0)
eager = Program(){train}
torch.manual_seed(0)
twin = Program(){train}
compiled = torch.compile(twin, backend="intaglio", dynamic={self.is_dynamic}, options={options})
for sizes, seed in {[(call.sizes, call.seed) for call in self.calls]}:
    for run in (eager, compiled):
        torch.manual_seed(seed)
        given = inputs(*sizes)
        with {gradients}:
            print(run(*given), given)
"""


def namespace() -> dict[str, Any]:
    """The names that programs use."""
    return {"torch": torch, "nn": nn, "F": functional}


def defined(text: Text) -> dict[str, Any]:
    """The program's module and maker of inputs, defined; its lines can be seen in stacks."""
    name = f"<program {abs(hash(text.source))}>"
    source = f"{HEADER}\n\n{text.source}\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    found = namespace()
    exec(compile(source, name, "exec"), found)
    return found

"""Runs of one program: what can be seen of a call, and how two of them differ."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import torch

from ..expectation import difference
from .program_shaking import Shaking
from .program_text import Call, Text, defined

SAMPLES = (1, 5, 40)
"""How many shaken runs are asked before something is called wrong: few are enough for most results that are right."""


@dataclass
class Observed:
    """What a call shows: values by name, and how tensors lie and share memory, as text by name."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    traits: dict[str, str] = field(default_factory=dict[str, str])


class Subject:
    """A program with a module of its own, in eager mode or compiled; calls follow each other, as buffers may change."""

    def __init__(self, text: Text, compiler: Callable[[Any], Any] | None = None) -> None:
        self.text = text
        found = defined(text)
        self.make: Callable[..., list[Any]] = found["inputs"]
        torch.manual_seed(0)
        self.module = found["Program"]()
        self.module.train(text.mode == "training")
        self.run: Callable[..., Any] = self.module if compiler is None else compiler(self.module)

    def inputs(self, call: Call) -> list[Any]:
        """Fresh inputs of a call."""
        torch.manual_seed(call.seed)
        return self.make(*call.sizes)

    def observe(self, call: Call, shaking: Shaking | None = None) -> Observed:
        """Call the program once, perhaps with shaken roundings."""
        given = self.inputs(call)
        torch.manual_seed(call.seed + 1)
        with shaking or nullcontext(), torch.no_grad() if self.text.mode == "plain" else nullcontext():
            outputs = self.run(*given)
        found = _observed(given, outputs, self.module)
        if self.text.mode != "plain":
            found.values |= self._gradients(outputs, [*given, *self.module.parameters()], shaking)
        found.values["random"] = torch.rand(4).numpy()
        return found

    def _gradients(self, outputs: Sequence[Any], leaves: Sequence[Any], shaking: Shaking | None) -> dict[str, Any]:
        wanted = [each for each in leaves if _is_tensor(each) and each.requires_grad and each.is_leaf]
        reached = [each for each in outputs if _is_tensor(each) and each.requires_grad]
        if not wanted or not reached:
            return {}
        given = [_tangent(each, self.text.tangents) for each in reached]
        with shaking or nullcontext():
            found = torch.autograd.grad(reached, wanted, given, allow_unused=True)
        return {f"gradient {i}": array_of(value) for i, value in enumerate(found)}


def _observed(given: Sequence[Any], outputs: Sequence[Any], module: Any) -> Observed:
    named = {f"output {i}": value for i, value in enumerate(outputs)}
    named |= {f"input {i}": value for i, value in enumerate(given)}
    named |= dict(module.state_dict(keep_vars=True))
    named |= {
        f"base of {k}": v._base for k, v in named.items() if _is_tensor(v) and v._base is not None and k[0] == "i"
    }
    found = Observed({name: array_of(value) for name, value in named.items()})
    shared = list(_sharing(named))
    for i in range(len(outputs)):
        is_shared = any(f"output {i}" in pair for pair in shared)
        found.traits[f"output {i}"] = _lie(outputs[i], is_shared)
    found.traits["sharing"] = ", ".join(" ".join(pair) for pair in shared)
    return found


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def array_of(value: Any) -> Any:
    """A tensor as an array of its own; other values as text with their types."""
    if not _is_tensor(value):
        return f"{type(value).__name__} {value!r}"
    plain = value.detach().clone(memory_format=torch.contiguous_format)
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


def _lie(value: Any, is_shared: bool) -> str:
    """How a tensor lies in memory.

    Strides of axes with one element, and of nothing, mean nothing, nor does the offset of what shares its memory with
    nothing.
    """
    if not _is_tensor(value):
        return ""
    is_empty = value.numel() == 0
    strides = [
        "-" if is_empty or size == 1 else str(stride) for size, stride in zip(value.shape, value.stride(), strict=True)
    ]
    offset = value.storage_offset() if is_shared and not is_empty else "-"
    return f"strides ({', '.join(strides)}) offset {offset} requires_grad {value.requires_grad}"


def _sharing(named: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The pairs of tensors that share memory or are the same object."""
    tensors = [(name, value) for name, value in named.items() if _is_tensor(value) and not name.startswith("base")]
    for place, (name, value) in enumerate(tensors):
        for other_name, other in tensors[:place]:
            if value is other:
                yield name, "is", other_name
            elif value.numel() and other.numel() and _shares(value, other):
                yield name, "shares", other_name


def _shares(left: Any, right: Any) -> bool:
    if left.untyped_storage()._cdata == right.untyped_storage()._cdata:
        return True
    (low, high), (other_low, other_high) = _extent(left), _extent(right)
    return low < other_high and other_low < high


def _extent(tensor: Any) -> tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _tangent(output: Any, kind: str) -> Any:
    """The gradient of an output: different numbers, or one number without memory for each."""
    if kind == "expanded" or not output.numel():
        return torch.ones((), dtype=output.dtype).expand(output.shape)
    shape = tuple(reversed(output.shape)) if kind == "transposed" else tuple(output.shape)
    numbers = torch.cos(torch.arange(math.prod(shape), dtype=torch.float64)).to(output.dtype).reshape(shape)
    return numbers.permute(tuple(reversed(range(len(shape))))) if kind == "transposed" else numbers


class Shaken:
    """Results of the last of some calls with shaken roundings, made when they are asked for.

    A module that keeps numbers from call to call keeps their roundings too, so all calls are shaken there.
    """

    def __init__(self, subject: Subject, beginning: Any, calls: Sequence[Call]) -> None:
        self._subject, self._beginning = subject, beginning
        self._calls = calls if beginning.state_dict() else calls[-1:]
        self._found: list[dict[str, Any]] = []

    def samples(self, count: int) -> list[dict[str, Any]]:
        """The values that `count` shaken runs show."""
        while len(self._found) < count:
            subject = copy.copy(self._subject)
            subject.module = subject.run = copy.deepcopy(self._beginning)
            number = len(self._found)
            shaking = Shaking(number, is_flushing=self._subject.text.engine == "native" and number % 2 == 0)
            seen = [subject.observe(call, shaking).values for call in self._calls]
            self._found.append(seen[-1])
        return self._found


def differences(ours: Observed, theirs: Observed, shaken: Shaken) -> dict[str, str]:
    """What differs, by name."""
    found: dict[str, str] = {}
    for name, plain in theirs.values.items():
        if text := _difference(ours.values.get(name), plain, name, shaken):
            found[name] = text
    for name, trait in theirs.traits.items():
        if ours.traits[name] != trait and _shape(ours, name) == _shape(theirs, name):
            found.setdefault(name, f"{ours.traits[name]} instead of {trait}")
    return found


def _shape(seen: Observed, name: str) -> Any:
    """The shape of what a call shows; where two differ, that was judged, and strides tell nothing more."""
    return getattr(seen.values.get(name), "shape", None)


def _difference(ours: Any, plain: Any, name: str, shaken: Shaken) -> str:
    if isinstance(ours, str) or isinstance(plain, str):
        same = ours == plain if type(ours) is type(plain) else False
        return "" if same or _is_loose(ours, plain, name, shaken) else f"{ours!r} instead of {plain!r}"
    if ours.dtype == plain.dtype and ours.shape == plain.shape and ours.tobytes() == plain.tobytes():
        return ""
    text = ""
    for count in SAMPLES:
        try:
            values = [sample[name] for sample in shaken.samples(count)]
        except RuntimeError:
            return ""  # even whether it runs hangs on rounding
        text = difference(ours, plain, values, max(count, SAMPLES[1]))
        if not text:
            return ""
    return text


def _is_loose(ours: Any, plain: Any, name: str, shaken: Shaken) -> bool:
    """Whether a Python number differs by rounding alone; an integer does where rounding makes another of it."""
    if not isinstance(ours, str) or not isinstance(plain, str):
        return False
    kind, _, number = plain.partition(" ")
    own_kind, _, own = ours.partition(" ")
    if kind != own_kind or kind not in ("float", "int", "bool"):
        return False
    if kind != "float":
        return any(sample[name] != plain for sample in shaken.samples(SAMPLES[-1]))
    read = [np.asarray(float(sample[name].partition(" ")[2]), np.float32) for sample in shaken.samples(SAMPLES[-1])]
    return not difference(np.asarray(float(own), np.float32), np.asarray(float(number), np.float32), read)

"""Programs that grow by trial: a statement is proposed, run in eager for all sizes, and dropped where it fails."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..dice import Dice
from .program_runs import Subject
from .program_slots import FLOATS, INTEGERS, Filler, NoFill, Scope
from .program_statements import BUFFERS, FAMILIES, LAYERS, WRITES
from .program_text import Call, Text, defined, namespace

MOST_ELEMENTS = 5000
SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 16, 17)
SHAPES = (
    "n, m", "n, m", "n, 4", "m, n", "n", "m", "n, 3, m", "2, n, 4", "n, m, 6", "n, 2, 6, 6", "n, 4, m, 5", "2, 4, n, m",
    "n, n", "1, m", "n, 1", "3, 5", "",
)  # fmt: skip
FAILURES = (RuntimeError, TypeError, ValueError, LookupError, NoFill, AttributeError, ArithmeticError)
"""What PyTorch and Python raise for a line that is not valid; NoFill is for a template that nothing fits."""


def grow(*seed: int, engine: str = "reference") -> Text:
    """The program of a seed."""
    for attempt in range(20):
        dice = Dice(*seed, attempt)
        try:
            text = _Growth(dice, _beginning(dice, engine)).run()
        except FAILURES:  # not even the inputs could be made
            continue
        for mode in dict.fromkeys((text.mode, "plain")):
            tried = replace(text, mode=mode)
            if len(text.body) >= 3 and _is_valid(tried):
                return tried
    raise RuntimeError(f"no program came of the seed {seed}")


def _is_valid(text: Text) -> bool:
    subject = Subject(text)
    try:
        for call in text.calls:
            subject.observe(call)
            copy.deepcopy(subject.module)  # a buffer that a gradient goes through cannot be copied
    except FAILURES:
        return False
    return True


def _beginning(dice: Dice, engine: str) -> Text:
    mode = dice.of(("plain", "plain", "gradients", "training"))
    names = ("a", "b", "c")[: dice.integer(1, 3)]
    inputs: list[tuple[str, str]] = []
    for name in names:
        inputs.append((name, _input(dice, inputs, mode != "plain" and dice.chance(0.7))))
    return Text(
        tuple(inputs),
        (),
        (),
        (),
        _calls(dice),
        mode,
        dice.of((True, None)),
        engine,
        dice.of(("contiguous", "contiguous", "expanded", "transposed")),
        (("capture_scalar_outputs", True),) if dice.chance(0.2) else (),
    )


def _calls(dice: Dice) -> tuple[Call, ...]:
    """Three sets of sizes; two of them come again, with other values."""
    sizes = SIZES if dice.chance(0.7) else (0, 1, 1, 2, 3, 5)
    sets = [(dice.of(sizes), dice.of(sizes)) for _ in range(3)]
    return tuple(Call(sets[place], seed) for seed, place in enumerate((0, 1, 2, 2, 0)))


def _input(dice: Dice, others: Sequence[tuple[str, str]], is_tracked: bool) -> str:
    if others and not is_tracked and dice.chance(0.08):
        name = dice.of([name for name, _ in others])
        return dice.of((name, f"{name}.detach()[1:]", f"{name}.detach().mT"))
    shape = dice.of(SHAPES)
    dtype = dice.of((torch.float32,) * 8 + FLOATS + INTEGERS + (torch.int64, torch.bool))
    if dtype in FLOATS:
        made = _laid(dice, shape, lambda sizes: f"torch.randn({sizes or '()'}{_typed(dtype)})")
        special = dice.of((".log()", ".mul(1e3)", ".round().reciprocal()", ".mul(1e-30)")) if dice.chance(0.08) else ""
        return made + special + (".requires_grad_()" if is_tracked else "")
    if dtype == torch.bool:
        return _laid(dice, shape, lambda sizes: f"(torch.rand({sizes or '()'}) > 0.4)")
    low = 0 if dtype == torch.uint8 else -4
    return _laid(dice, shape, lambda sizes: f"torch.randint({low}, 9, ({sizes},), dtype={dtype})".replace("(,)", "()"))


def _typed(dtype: Any) -> str:
    return "" if dtype == torch.float32 else f", dtype={dtype}"


def _laid(dice: Dice, shape: str, make: Any) -> str:
    """A tensor of that shape that lies in memory in one of several ways."""
    sizes = [size for size in shape.split(", ") if size]
    if len(sizes) == 2 and dice.chance(0.2):
        return f"{make(f'{sizes[1]}, {sizes[0]}')}.t()"
    if len(sizes) == 4 and dice.chance(0.3):
        return f"{make(shape)}.to(memory_format=torch.channels_last)"
    if sizes and dice.chance(0.15):
        first, *others = sizes
        way = dice.integer(0, 3)
        if way == 0:
            return f"{make(', '.join((f'2 * {first}', *others)))}[::2]"
        if way == 1:
            return f"{make(', '.join((f'{first} + 1', *others)))}[1:]"
        if way == 2:
            return f"{make(', '.join(('1', *others)))}.expand({shape})"
        return f"{make(', '.join((*sizes, '2')))}[..., 0]"
    return make(shape)


class _Growth:
    """A program while it grows."""

    def __init__(self, dice: Dice, text: Text) -> None:
        self.dice, self.text = dice, text
        self.count = 0
        self.is_writing = False
        self.environments: list[dict[str, Any]] = []
        self.replay()

    def replay(self) -> None:
        """Make the environments anew."""
        made = defined(self.text)["inputs"]
        self.environments = []
        for call in self.text.calls[:3]:
            torch.manual_seed(call.seed)
            names = [name for name, _ in self.text.inputs]
            module = nn.Module().train(self.text.mode == "training")
            self.environments.append(dict(zip(names, made(*call.sizes), strict=True)) | {"self": module})
        for name, value in self.text.setup:
            self._execute(f"{name} = {value}")
        for line in self.text.body:
            self._execute(line)

    def _execute(self, line: str) -> None:
        with torch.no_grad() if self.text.mode == "plain" else nullcontext():
            for environment in self.environments:
                torch.manual_seed(len(line))
                exec(line, namespace() | environment, environment)

    def run(self) -> Text:
        """The grown program."""
        wanted = self.dice.integer(4, 20)
        for _ in range(6 * wanted):
            if len(self.text.body) >= wanted:
                break
            self._propose()
        return replace(self.text, returned=self._returned())

    def _returned(self) -> tuple[str, ...]:
        names = [name for name in self.environments[0] if name != "self"]
        made = [name for name in names if name.startswith("t")] or names
        chosen = {made[-1], *self.dice.subset(names, 1, 7)}
        return tuple(name for name in names if name in chosen)

    def _fresh(self) -> str:
        self.count += 1
        return f"t{self.count - 1}"

    def _propose(self) -> None:
        before = self.text
        count = self.count
        visible = [{k: v for k, v in each.items() if k != "self"} for each in self.environments]
        try:
            filler = Filler(self.dice, Scope(visible), self._fresh)
            self._add(filler, *self._template())
            self._check()
        except FAILURES:
            is_started = self.text != before
            self.text, self.count = before, count
            if is_started:
                self._undo(visible)

    def _undo(self, visible: list[dict[str, Any]]) -> None:
        """Take back what a line did that failed: what it made, and where it may have written, everything."""
        if self.is_writing:
            self.replay()
            return
        for environment, names in zip(self.environments, visible, strict=True):
            for name in [name for name in environment if name != "self" and name not in names]:
                del environment[name]

    def _template(self) -> tuple[str, str]:
        weights = [weight for weight, _ in FAMILIES]
        place = self.dice.integer(1, sum(weights))
        for weight, family in FAMILIES:
            place -= weight
            if place <= 0:
                line = self.dice.of(family)
                self.is_writing = family in (WRITES, BUFFERS, LAYERS)
                return ("layer" if family is LAYERS else "buffer" if family is BUFFERS else ""), line
        raise AssertionError

    def _add(self, filler: Filler, kind: str, line: str) -> None:
        setup, lines = self._written(filler, kind, line)
        self.text = replace(self.text, setup=(*self.text.setup, *setup), body=(*self.text.body, *lines))
        for name, value in setup:
            self._execute(f"{name} = {value}")
        for each in lines:
            self._execute(each)

    def _written(self, filler: Filler, kind: str, line: str) -> tuple[list[tuple[str, str]], list[str]]:
        if not kind:
            return [], [filler.fill(line)]
        made, _, used = line.partition(" | ")
        name = f"self.part{len(self.text.setup)}"
        if kind == "buffer":
            return [(name, made)], [filler.fill(used).replace("{}", name)]
        used = filler.fill(used)
        sized = re.sub(r"\{(-?\d)\}", lambda found: str(filler.scope.fixed(filler.head, int(found[1]))), made)
        result = f"{self._fresh()} = {name}({used})"
        return [(name, sized)], [result + "[0]" * (made.startswith(("nn.LSTM", "nn.GRU", "nn.RNN", "nn.Multi")))]

    def _check(self) -> None:
        """Raise where a value grew out of all bounds, or is no tensor or number."""
        for environment in self.environments:
            for name, value in environment.items():
                if name == "self":
                    continue
                if isinstance(value, torch.Tensor):
                    if value.numel() > MOST_ELEMENTS or value.ndim > 6 or value.is_complex():
                        raise NoFill
                elif not isinstance(value, (bool, int, float)):
                    raise NoFill

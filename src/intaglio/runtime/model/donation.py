"""Inputs that the caller gives away: outputs take their memory.

After a run, the output is the array that was given as the input. Where compiled code can write over the input, nothing
is copied; elsewhere the result is copied to it at the end of the run, which is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.types import TensorType
from intaglio.runtime.model.arrays import Typed

if TYPE_CHECKING:
    from intaglio.runtime.engine.deadline import Deadline
    from intaglio.runtime.engine.engine import Engine
    from intaglio.targets.step import Into


class StateUpdates(dict[str, str]):
    """For `donate`: inputs that are a state, and the outputs that it becomes, in the same memory.

    A run changes all of the state or nothing. Nothing is checked or copied for it: where an output cannot take the
    memory of its input, no output does, and all are new arrays.
    """


def donated_pairs(donate: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """The pairs of input and output in the option `donate`; raises InputError for anything but a dict of names."""
    if donate is None:
        return ()
    pairs = list(donate.items()) if isinstance(donate, Mapping) else [(donate, None)]  # pyright: ignore
    if not all(isinstance(each, str) for pair in pairs for each in pair):  # pyright: ignore
        raise InputError(f"donate is {donate!r}, expected a dict from the names of inputs to the names of outputs")
    return tuple(sorted(donate.items()))


def check_pairs(pairs: Sequence[tuple[str, str]], inputs: Sequence[Typed], outputs: Sequence[Typed]) -> None:
    """Raise InputError for an output that cannot take the memory of its input."""
    given, made = {item.name: item for item in inputs}, {item.name: item for item in outputs}
    for name, output in pairs:
        _check_name(name, given, "input")
        _check_name(output, made, "output")
        kind, result = given[name].type, made[output].type
        if not isinstance(kind, TensorType) or kind.dtype.kind == "string":
            raise InputError(f"donate: the input {name!r} is {kind}, expected a tensor of numbers")
        if kind != result or kind.shape is None:
            raise InputError(
                f"donate: the output {output!r} is {result}, and the input {name!r} is {kind}; an output takes the "
                "memory of an input of its own type and shape. A cache that grows is state with a capacity: "
                f"intaglio.stateful(model, state={{{name!r}: array}}, updates={{{name!r}: {output!r}}}, capacity=...)"
            )
    twice = [output for _, output in pairs if sum(output == other for _, other in pairs) > 1]
    if twice:
        raise InputError(f"donate: the output {twice[0]!r} is to take the memory of two inputs")


def _check_name(name: str, items: Mapping[str, Typed], what: str) -> None:
    if name not in items:
        near = get_close_matches(name, items, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the {what}s are {', '.join(map(repr, items)) or 'none'}"
        raise InputError(f"donate: there is no {what} {name!r}; {hint}")


class Donation:
    """The inputs of an engine that are given away, by name and by place, with the places of their outputs."""

    def __init__(self, pairs: Sequence[tuple[str, str]], inputs: Sequence[str], outputs: Sequence[str]) -> None:
        known = [(name, made) for name, made in pairs if name in inputs and made in outputs]
        self.names = tuple(name for name, _ in known)
        self.outputs = tuple(made for _, made in known)
        self.pairs = tuple((inputs.index(name), outputs.index(made)) for name, made in known)
        self.copied_bytes = 0
        """How many bytes were copied to inputs at the end of runs, because nothing could be written in place."""

    def check_given(self, given: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Raise InputError for something given away that is no memory that a run could write to."""
        for name, (place, _) in zip(self.names, self.pairs, strict=True):
            item = given[place]
            is_tensor = type(item).__module__.partition(".")[0] == "torch"
            if arrays[place] is not item and not is_tensor:
                raise InputError(
                    f"the input {name!r} is given away, so it must be a NumPy array of the native byte order, or a "
                    f"tensor of PyTorch, and it is a {type(item).__name__}"
                )

    def check_fed(
        self, feeds: Mapping[str, Any], inputs: Sequence[str], arrays: Sequence[Any], out: Mapping[str, Any]
    ) -> None:
        """Raise InputError for feeds that are no memory to write to, and for other arrays for their outputs."""
        self.check_given([feeds.get(name) for name in inputs], arrays)
        wrong = next((name for name in self.outputs if name in out), None)
        if wrong is not None:
            raise InputError(f"out has an array for {wrong!r}, which takes the memory of an input that is given away")
        targets = [target for target in out.values() if isinstance(target, np.ndarray)]
        if any(np.may_share_memory(target, arrays[place]) for target in targets for place, _ in self.pairs):
            raise InputError("an array of `out` shares memory with an input that is given away; give another array")

    def check(self, arrays: Sequence[Any]) -> None:
        """Raise InputError for an array given away that cannot be written to, or of which memory is used twice."""
        for name, (place, _) in zip(self.names, self.pairs, strict=True):
            flags = arrays[place].flags
            if not (flags.writeable and flags.c_contiguous):
                wrong = "not contiguous (in C order)" if flags.writeable else "read-only"
                raise InputError(
                    f"the input {name!r} is given away and {wrong}; give a writable copy of it: array.copy()"
                )
        self._check_apart(arrays)

    def _check_apart(self, arrays: Sequence[Any]) -> None:
        """Raise InputError where an array given away shares memory with another input."""
        given = {place: name for name, (place, _) in zip(self.names, self.pairs, strict=True)}
        spans = sorted((*_span(array), place) for place, array in enumerate(arrays) if isinstance(array, np.ndarray))
        end, given_end = (0, -1), (0, -1)
        for first, last, place in spans:
            behind, other = end if place in given else given_end
            if first < last and first < behind:
                name = given.get(place, given.get(other))
                raise InputError(f"the input {name!r} is given away, and another input shares memory with it")
            end = max(end, (last, place))
            given_end = max(given_end, (last, place)) if place in given else given_end

    def settle(self, arrays: Sequence[Any], results: list[Any]) -> list[Any]:
        """The results with the arrays given away in the places of their outputs, which hold these by now."""
        for given, made in self.pairs:
            if results[made] is not arrays[given]:
                np.copyto(arrays[given], results[made])
                self.copied_bytes += results[made].nbytes
                results[made] = arrays[given]
        return results


def _span(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The first byte of an array and the one behind the last, of any strides; equal where it has no elements."""
    start = array.__array_interface__["data"][0]
    if not array.size:
        return start, start
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    return start + sum(step for step in steps if step < 0), start + sum(s for s in steps if s > 0) + array.itemsize


def donation_of(pairs: Sequence[tuple[str, str]], inputs: Sequence[str], outputs: Sequence[str]) -> Donation | None:
    """What is given away in runs with these inputs and outputs; None where that is nothing."""
    found = Donation(pairs, list(inputs), list(outputs)) if pairs else None
    return found if found is not None and found.pairs else None


class DonatingRuns:
    """The runs of an engine whose inputs are given away, with checks before each, and copies behind it if need be."""

    def __init__(self, engine: Engine, donation: Donation) -> None:
        self.engine = engine
        self.donation = donation

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """See `Engine.run`."""
        self.donation.check(inputs)
        return self.donation.settle(inputs, self.engine.run(inputs, deadline, into))

    def run_again(self, inputs: Sequence[Any], time: int = 0, into: Into | None = None) -> list[Any] | None:
        """See `Engine.run_again`."""
        if any(type(inputs[given]) is not np.ndarray for given, _ in self.donation.pairs):
            return None
        if into is not None:  # targets are looked at by name
            return None
        self.donation.check(inputs)
        results = self.engine.run_again(inputs, time, into)
        return None if results is None else self.donation.settle(inputs, results)

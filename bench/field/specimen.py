"""One model of the field corpus: how it is made, and the folder that keeps it with its inputs and expected answers."""

import importlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.models import cache_folder

Feeds = dict[str, np.ndarray]
MODEL, CASES, FACTS = "model.onnx", "cases.npz", "facts.json"


class NotExported(RuntimeError):
    """The exporter refuses the network, or ONNX Runtime does not run what it wrote: no model of the corpus."""


class Made(NamedTuple):
    """What a builder returns: a model, or the file of one, and inputs of several sizes. The first are those timed."""

    model: Any
    cases: list[Feeds]


@dataclass(frozen=True)
class Specimen:
    """One model: `bench.field.MODULE.FUNCTION(*arguments)` makes it.

    `is_large` ones have a realistic size. `needs` are the packages without which it cannot be made.
    """

    name: str
    kind: str
    module: str
    function: str
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    is_large: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Made:
        """Build it now; needs the packages."""
        function = getattr(importlib.import_module(f"bench.field.{self.module}"), self.function)
        return function(*self.arguments, **self.options)

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return field_folder() / self.name

    @property
    def path(self) -> Path:
        """The model's file."""
        return self.folder / MODEL

    def facts(self) -> dict[str, Any] | None:
        """What its making told, or None if it was not made."""
        path = self.folder / FACTS
        return json.loads(path.read_text()) if path.exists() else None

    def cases(self) -> list[Feeds]:
        """The inputs."""
        return [case["feeds"] for case in read_cases(self.folder / CASES)]

    def expected(self) -> list[list[np.ndarray]]:
        """What ONNX Runtime without optimisations answers to each case, flat."""
        return [list(case["expected"].values()) for case in read_cases(self.folder / CASES)]

    def forget(self) -> None:
        """Remove what is kept."""
        shutil.rmtree(self.folder, ignore_errors=True)


def field_folder() -> Path:
    """Where the corpus is kept: $INTAGLIO_FIELD_MODELS, else `field` in the folder of the benchmark's models."""
    return Path(os.environ.get("INTAGLIO_FIELD_MODELS") or cache_folder() / "field")


def flat(value: Any) -> list[np.ndarray]:
    """An output as arrays: those of a sequence one after the other, of maps their keys and values."""
    if value is None:
        return [np.empty(0, "U1")]
    if isinstance(value, Mapping):
        values = np.array(list(value.values()))  # one engine gives Python's numbers, the other NumPy's
        return [
            strings(np.array(list(value.keys()))),
            values.astype(np.float64) if values.dtype.kind == "f" else values,
        ]
    if isinstance(value, list):
        return [np.array(len(value)), *(array for item in value for array in flat(item))]
    return [strings(np.asarray(value))]


def strings(array: np.ndarray) -> np.ndarray:
    """Objects as text, which a file can hold; anything else as it is."""
    return array.astype(str) if array.dtype == object else array


def read_cases(path: Path) -> list[dict[str, dict[str, np.ndarray]]]:
    """What `save_cases` wrote; text comes back as objects among the inputs."""
    with np.load(path) as file:
        index = json.loads(str(file["index"]))
        cases = [{part: {n: file[k] for n, k in named.items()} for part, named in case.items()} for case in index]
    for case in cases:
        case["feeds"] = {n: a.astype(object) if a.dtype.kind == "U" else a for n, a in case["feeds"].items()}
    return cases


def save_cases(path: Path, cases: list[dict[str, dict[str, np.ndarray]]]) -> None:
    """Inputs and expected answers as one file."""
    arrays: dict[str, Any] = {}
    index = []
    for case in cases:
        index.append({part: {} for part in case})
        for part, named in case.items():
            for name, array in named.items():
                index[-1][part][name] = f"a{len(arrays)}"
                arrays[f"a{len(arrays)}"] = strings(array)
    np.savez(path, index=np.array(json.dumps(index)), **arrays)

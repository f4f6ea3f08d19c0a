"""Rows of columns through a model: columns become its inputs, and its outputs columns. Knows nothing of Ray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from intaglio.errors import InputError, UnsupportedError
from intaglio.ir.types import TensorType
from intaglio.runtime.model.model import Model
from intaglio.serve.rows import Joining

Array = np.ndarray[Any, Any]
Columns = Mapping[str, Array]


class RowRunner:
    """Runs a model on batches of columns; each row of an answer is that of the row of the batch.

    `inputs` has the column of each input, `outputs` the column of each output that is wanted. Rows whose shapes differ
    run in groups of equal ones. Raises InputError for columns that do not fit.
    """

    def __init__(self, model: Model, rows: Joining, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
        self._model, self._inputs = model, inputs
        self._dtypes = {item.name: item.type.dtype.numpy for item in model.inputs if isinstance(item.type, TensorType)}
        places = {item.name: place for place, item in enumerate(model.outputs)}
        self._wanted = [(column, places[name]) for name, column in outputs.items()]
        self._axes = rows.axes or (0,) * len(places)
        self._is_single = bool(rows.reason)

    def __call__(self, batch: Columns) -> dict[str, Array]:
        """The columns of outputs for a batch of columns."""
        arrays = {name: self._column(batch, name, column) for name, column in self._inputs.items()}
        counts = {name: len(array) for name, array in arrays.items()}
        rows = next(iter(counts.values()))
        if any(count != rows for count in counts.values()):
            raise InputError(f"the columns have different numbers of rows: {counts}")
        if not rows:
            return {}
        if self._is_single and rows > 1:
            raise UnsupportedError(f"{rows} rows were given to a model whose rows run one by one")
        groups = _groups(arrays, rows)
        if len(groups) == 1:
            return self._run({name: _stacked(array) for name, array in arrays.items()}, rows)
        found = [
            self._run({name: _stacked(a[rows_of]) for name, a in arrays.items()}, len(rows_of)) for rows_of in groups
        ]
        return {column: _joined([part[column] for part in found], groups, rows) for column, _ in self._wanted}

    def _column(self, batch: Columns, name: str, column: str) -> Array:
        """A column with the element type of its input; raises InputError where that would change numbers."""
        if column not in batch:
            listed = ", ".join(map(repr, batch))
            raise InputError(f"input {name!r} is fed by column {column!r}, and the dataset has {listed}; see `inputs`")
        array, wanted = np.asarray(batch[column]), self._dtypes[name]
        found = array[0].dtype if _is_ragged(array) else array.dtype
        if found == wanted or found.kind == "O":
            return array
        if not np.can_cast(found, wanted, "safe"):
            text = f"column {column!r} is {found}, and input {name!r} takes {wanted}"
            raise InputError(f"{text}; cast the column where that loses nothing that matters")
        return _ragged([row.astype(wanted) for row in array]) if _is_ragged(array) else array.astype(wanted)

    def _run(self, feeds: Mapping[str, Array], rows: int) -> dict[str, Array]:
        results = self._model.run_arrays([feeds[name] for name in self._model.fed])
        return {
            column: self._rows_of(np.asarray(results[place]), self._axes[place], rows) for column, place in self._wanted
        }

    def _rows_of(self, result: Array, axis: int | None, rows: int) -> Array:
        """An output with a row for each row of the batch; one that has no rows is repeated."""
        if self._is_single:
            return result[None] if not result.ndim or result.shape[0] != 1 else result
        if axis is None:
            return np.broadcast_to(result, (rows, *result.shape)).copy()
        size = result.shape[axis]
        if size % rows:
            raise UnsupportedError(f"{size} rows came of {rows}")
        if size != rows:
            result = result.reshape(*result.shape[:axis], rows, size // rows, *result.shape[axis + 1 :])
        return np.moveaxis(result, axis, 0)


def chosen(names: Sequence[str], given: Mapping[str, str] | Sequence[str] | None, kind: str) -> dict[str, str]:
    """The column of each of some inputs or outputs: given by name, as a list of those wanted, or all by their own."""
    if given is None:
        return {name: name for name in names}
    pairs = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
    unknown = [name for name in pairs if name not in names]
    if unknown:
        raise InputError(f"the model has no {kind} {unknown[0]!r}; it has {', '.join(map(repr, names))}")
    if len(set(pairs.values())) != len(pairs):
        raise InputError(f"two {kind}s have one column: {pairs}")
    return pairs


def _is_ragged(array: Array) -> bool:
    """Whether the rows of a column are arrays of their own."""
    return array.dtype == object and len(array) > 0 and all(isinstance(row, np.ndarray) for row in array)


def _groups(arrays: Mapping[str, Array], rows: int) -> list[Array]:
    """The rows of equal shapes, group by group."""
    ragged = [array for array in arrays.values() if _is_ragged(array)]
    found: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for row in range(rows) if ragged else ():
        found.setdefault(tuple([array[row].shape for array in ragged]), []).append(row)
    return [np.array(each) for each in found.values()] if ragged else [np.arange(rows)]


def _stacked(array: Array) -> Array:
    return np.stack(list(array)) if _is_ragged(array) else array


def _ragged(rows: Sequence[Array]) -> Array:
    """A column of arrays of any shapes."""
    column = np.empty(len(rows), object)
    for place, row in enumerate(rows):
        column[place] = row
    return column


def _joined(parts: Sequence[Array], groups: Sequence[Array], rows: int) -> Array:
    """The rows of groups in their order; arrays of their own where their shapes differ."""
    if len({part.shape[1:] for part in parts}) == 1:
        whole = np.empty((rows, *parts[0].shape[1:]), parts[0].dtype)
    else:
        whole = np.empty(rows, object)
    for part, group in zip(parts, groups, strict=True):
        for place, row in zip(group, part, strict=True):
            whole[place] = row
    return whole

"""`predict`: a dataset of Ray Data through a model, by actors that share its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from intaglio.errors import InputError, UnsupportedError
from intaglio.ray import require_extra
from intaglio.ray.columns import Array, Columns, RowRunner, chosen
from intaglio.ray.sending import SentModel, send, threads_of

if TYPE_CHECKING:
    Dataset = Any

BATCH = 256
"""Rows of a batch where nobody says how many."""


def predict(
    dataset: Dataset,
    model: Any,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | Sequence[str] | None = None,
    batch_size: int | None = None,
    actors: int | tuple[int, int] = 1,
    num_cpus: float = 1,
    keep: bool = True,
    **options: Any,
) -> Dataset:
    """The dataset with the outputs of a model as further columns; nothing runs until somebody asks for its rows.

    `model` is a `Model`, or anything that `load` reads, with its `options`; or an address such as `s3://bucket/m.onnx`.
    `inputs` has the column of each input, by default the one of its name; `outputs` the column of each output that is
    wanted. Without `keep`, the dataset has no other columns. `actors` are so many processes, or between so many. Each
    of them is granted `num_cpus` and computes on as many threads; those of one machine hold the weights once. What a
    killed actor was working on is given to another one.

    Rows run in batches of `batch_size` only where the model's graph proves that they do not mix. Raises
    UnsupportedError with the node that may mix them; with `batch_size=1` each row runs by itself.
    """
    ray = require_extra("ray")
    threads = threads_of(num_cpus)
    pool = _pool(actors)
    sent = send(model, options)
    if sent.rows.reason and batch_size != 1:
        raise UnsupportedError(
            f"{sent.rows.reason}; batch_size=1 runs each row by itself, and `intaglio make-dynamic` opens a fixed batch"
        )
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}, expected at least 1")
    work = {
        "inputs": _all_fed(sent, inputs),
        "outputs": chosen(sent.outputs, outputs, "output"),
        "threads": threads,
        "keep": keep,
    }
    return dataset.map_batches(
        _Worker,
        batch_size=batch_size or BATCH,
        batch_format="numpy",
        zero_copy_batch=True,
        compute=pool,
        num_cpus=num_cpus,
        udf_modifying_row_count=False,
        fn_constructor_args=(ray.put(sent),),
        fn_constructor_kwargs=work,
    )


def _pool(actors: int | tuple[int, int]) -> Any:
    """What Ray calls so many actors."""
    least, most = (actors, actors) if isinstance(actors, int) else actors
    if not 1 <= least <= most:
        raise InputError(f"actors is {actors}, expected a number from 1 on, or two in order")
    strategy = require_extra("ray.data").ActorPoolStrategy
    return strategy(size=least) if least == most else strategy(min_size=least, max_size=most)


def _all_fed(sent: SentModel, inputs: Mapping[str, str] | None) -> dict[str, str]:
    """The column of each input that a run must be given: that of its own name where nothing else is said."""
    return {name: name for name in sent.fed} | ({} if inputs is None else chosen(sent.fed, inputs, "input"))


class _Worker:
    """The model in the process of an actor."""

    def __init__(
        self, sent: Any, *, inputs: Mapping[str, str], outputs: Mapping[str, str], threads: int, keep: bool
    ) -> None:
        ray = require_extra("ray")
        model: SentModel = ray.get(sent) if isinstance(sent, ray.ObjectRef) else sent
        self._runner = RowRunner(model.load(threads), model.rows, inputs, outputs)
        self._keep = keep

    def __call__(self, batch: Columns) -> dict[str, Array]:
        """A batch with the columns of outputs."""
        found = self._runner(batch)
        return {**batch, **found} if self._keep else found

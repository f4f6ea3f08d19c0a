"""Profiles of models: the time of every kernel over some runs, how much it did, and how near to the machine's limit."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from intaglio.errors import CompileError, InputError
from intaglio.runtime.model.counting import CountedRow, Counts
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.random_inputs import make_feeds
from intaglio.runtime.model.trace import trace_events
from intaglio.targets.c.limits import MachineLimits, machine_limits
from intaglio.tools.profiling.record import Profile, ProfileRow

__all__ = ["Profile", "ProfileRow", "profile", "read_profile"]

WARM_UP = 3
"""Runs before those that count: they compile what is left, and fill caches."""
MOST_SPANS = 100_000
"""How many single times are kept for a trace."""


def profile(
    model: Any,
    inputs: Mapping[str, Any] | None = None,
    runs: int = 20,
    *,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    has_limits: bool = True,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Profile:
    """The times of a model's kernels and host nodes over `runs` runs; `model` is one, or what `load` takes.

    `inputs` that are not given are made up, with `dims` for named dimensions and `seed`. `options` are those of `load`
    for what is no model yet. Without `has_limits`, what the machine can do is not measured. `progress` is called after
    each run, with how many of how many are done. Raises InputError for less than one run and for options of a model
    that is loaded already, and UnsupportedError for the reference engine.
    """
    if runs < 1:
        raise InputError(f"a profile is made of one run at least, got runs={runs}")
    if isinstance(model, Model) and options:
        raise InputError(f"the model is loaded already, so {', '.join(options)} cannot be obeyed: give it to `load`")
    loaded = model if isinstance(model, Model) else load(model, **options)
    feeds = dict(inputs or {})
    feeds |= make_feeds(loaded.graph, feeds, dims or {}, seed)
    for _ in range(WARM_UP):
        loaded.run(feeds)
    begin = time.monotonic_ns()
    with loaded.count(feeds, most_spans=MOST_SPANS) as counts:
        times: list[float] = []
        for _ in range(runs):
            times.append(_timed(loaded, feeds))
            if progress is not None:
                progress(len(times), runs)
    limits = _limits(loaded) if has_limits else None
    return _profile(loaded, counts, times, limits, feeds, begin)


def _timed(model: Model, feeds: Mapping[str, Any]) -> float:
    begin = time.perf_counter()
    model.run(feeds)
    return time.perf_counter() - begin


def _limits(model: Model) -> MachineLimits | None:
    try:
        return machine_limits(model.options.executor.target, model.options.threads)
    except CompileError:
        return None  # a compiled model runs without a compiler, and the kernels that measure need one


def _profile(
    model: Model,
    counts: Counts,
    times: list[float],
    limits: MachineLimits | None,
    feeds: Mapping[str, Any],
    begin: int,
) -> Profile:
    rows = tuple(_row(row, len(times), limits) for row in counts.rows)
    target = model.options.executor.target
    return Profile(
        name=model.graph.name,
        target=target.description,
        threads=model.options.threads,
        run_seconds=tuple(times),
        rows=rows,
        inputs={name: str(getattr(value, "shape", "")) for name, value in feeds.items()},
        peak_flops=None if limits is None else limits.flops,
        peak_bandwidth=None if limits is None else limits.bandwidth,
        events=tuple(trace_events(counts, begin)),
    )


def _row(row: CountedRow, runs: int, limits: MachineLimits | None) -> ProfileRow:
    """A counted row by run; a row that was done in some runs only has less than one call a run."""
    least = None
    if limits is not None and row.kind == "kernel" and row.flops is not None and row.bytes is not None:
        least = limits.least_seconds(row.flops, row.bytes)
    return ProfileRow(
        kind=row.kind,
        title=row.title,
        kernel=row.kernel,
        nodes=row.nodes,
        operators=row.operators,
        calls=row.calls / runs,
        seconds=row.seconds / runs,
        waited=row.waited / runs,
        best=row.best,
        flops=row.flops,
        bytes=row.bytes,
        live=row.live,
        least_seconds=least,
    )


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """A profile from the JSON that `intaglio profile --json` prints or `Profile.to_json` gives; raises InputError."""
    try:
        with open(path, encoding="utf-8") as file:
            return Profile.from_dict(json.load(file))
    except OSError as error:
        raise InputError(f"the profile {os.fspath(path)!r} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{os.fspath(path)!r} is no profile: {error}; `intaglio profile MODEL --json > FILE` writes one"
        ) from None

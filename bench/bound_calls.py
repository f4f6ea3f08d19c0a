"""The cost of one run by the ways to call a model: plainly, bound, with `out`, with `timeout`, with state."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from intaglio import build, ops, stateful

ROUNDS, CALLS = 2001, 20


def ways() -> dict[str, Callable[[], object]]:
    """The calls, each of a model that adds a number to eight others."""
    with build("small") as g:
        g.output(y=ops.Add(g.input("x", "float32[N]"), np.float32(1)))
    model = g.model()
    with build("state") as s:
        given, total = s.input("x", "float32[8]"), s.input("total", "float32[8]")
        s.output(y=ops.Add(given, np.float32(1)), next=ops.Add(given, total))
    counted = stateful(s.graph, {"total": np.zeros(8, np.float32)}, updates={"total": "next"})
    x, y = np.ones(8, np.float32), np.empty(8, np.float32)
    bound, out, feeds = model.bind(x), {"y": y}, {"x": x}
    return {
        "model(x)": lambda: model(x),
        "bound(x)": lambda: bound(x),
        "bound(x, out=)": lambda: bound(x, out=out),
        "bound(x, timeout=)": lambda: bound(x, timeout=1.0),
        "bound(x, out=, timeout=)": lambda: bound(x, out=out, timeout=1.0),
        "run(feeds)": lambda: model.run(feeds),
        "run(feeds, out=)": lambda: model.run(feeds, out=out),
        "run(feeds, timeout=)": lambda: model.run(feeds, timeout=1.0),
        "stateful.run(feeds)": lambda: counted.run(feeds),
    }


def medians() -> dict[str, float]:
    """Microseconds a call, all ways in turn so that a busy machine slows all of them."""
    candidates, times = ways(), dict[str, list[float]]()
    for _ in range(ROUNDS):
        for name, function in candidates.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                function()
            times.setdefault(name, []).append((time.perf_counter() - start) / CALLS * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Print the medians."""
    for name, microseconds in medians().items():
        print(f"{name:26} {microseconds:6.2f} us")


if __name__ == "__main__":
    main()

"""The seeds that tests run; `tests.hunt.covering` tells which lines of `kernels/` they reach."""

QUICK: dict[str, tuple[int, ...]] = {
    "operators": (0, 1, 2, 3),
    "chains": tuple(range(6)),
    "graphs": tuple(range(5)),
    "quantised": tuple(range(6)),
}
LONG: dict[str, tuple[int, ...]] = {
    "operators": tuple(range(100, 130)),
    "chains": tuple(range(100, 150)),
    "graphs": tuple(range(100, 140)),
    "control": tuple(range(100, 120)),
    "quantised": tuple(range(100, 140)),
}

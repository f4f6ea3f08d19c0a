"""The seeds that tests run: chosen for the lines of `kernels/` that they reach, by `tests.hunt.covering`."""

QUICK: dict[str, tuple[int, ...]] = {}
LONG: dict[str, tuple[int, ...]] = {}

"""The seeds that tests run, chosen by `python -m tests.hunt.covering --choose` among seeds 100 to 139 of each kind."""

QUICK: dict[str, tuple[int, ...]] = {
    "chains": (114, 139),
    "control": (100, 108, 117, 131, 133),
    "operators": (100, 101, 108, 109, 110, 123, 128, 132, 135),
    "quantised": (109, 116, 122, 134),
}
"""The most lines of lowering and of the printers of C in a minute of processor time."""
LONG: dict[str, tuple[int, ...]] = {
    kind: tuple(seed for seed in range(100, 138) if seed not in QUICK.get(kind, ()))
    for kind in ("chains", "control", "graphs", "operators", "quantised")
}
"""Ten minutes of it, in which nearly all of the measured seeds have room."""

"""The seeds that tests run, chosen by `python -m tests.hunt.covering --choose` among seeds 100 to 139 of each kind."""

QUICK: dict[str, tuple[int, ...]] = {
    "chains": (139,),
    "control": (102, 117, 126, 136),
    "operators": (102, 103, 107, 117, 123, 135),
    "quantised": (100, 104, 111, 113, 116, 128, 134, 137),
}
"""The most lines of lowering and of the printers of C in a minute of processor time."""
LONG: dict[str, tuple[int, ...]] = {
    kind: tuple(seed for seed in range(100, 138) if seed not in QUICK.get(kind, ()))
    for kind in ("chains", "control", "graphs", "operators", "quantised")
}
"""Ten minutes of it, in which nearly all of the measured seeds have room."""

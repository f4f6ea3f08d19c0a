"""Random programs of PyTorch under torch.compile, judged by eager mode, with `aot_eager` as the witness.

`aot_eager` traces and functionalises a program like our backend, and then runs it by PyTorch. Where it differs from
eager too, or raises, the difference is PyTorch's own, and a doubt instead of a finding.
"""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._dynamo import config

from intaglio.torch import backend

from ..judging import Finding, Verdict
from . import Seen, Tell
from .program_growth import grow
from .program_minimise import Minimiser, sort_of
from .program_runs import Shaken, Subject, differences
from .program_text import Text

PROGRAMS = 10
"""How many programs a seed holds in the tests."""
COMPILED = int(os.environ.get("HUNT_COMPILED", "5"))
"""Every so manieth program runs in compiled code, the others on the reference engine: `--compiled` of the hunt."""


def look(seed: int, times: int, tell: Tell) -> Seen:
    """Make and judge the programs of a seed."""
    seen = Seen(PROGRAMS * times)
    for text in programs(seed, times):
        tell("judging")
        examined = examine(text)
        seen.verdict.findings += examined.findings
        seen.verdict.doubts += examined.doubts
        seen.verdict.judges.update(examined.judges)
        tell("generating")
    return seen


def programs(seed: int, times: int) -> Iterator[Text]:
    """The programs of a seed."""
    for place in range(PROGRAMS * times):
        with quietly():
            text = grow(20, seed, place, engine="native" if (seed + place) % COMPILED == 0 else "reference")
        yield text


@contextmanager
def quietly() -> Iterator[None]:
    """One thread, no warnings and no log lines; nothing that was compiled before."""
    threads = torch.get_num_threads()
    level = logging.getLogger("torch").level
    torch.set_num_threads(1)
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)
        logging.getLogger("torch").setLevel(level)


def examine(text: Text) -> Verdict:
    """Run a program compiled by us, and by the witness where something differs from eager."""
    verdict = Verdict()
    compiler: Any = partial(torch.compile, dynamic=text.is_dynamic)
    with quietly():
        ours = compared(text, partial(compiler, backend=backend, options={"engine": text.engine}))
        verdict.judges["eager"] += 1
        verdict.judges[f"{text.engine} engine"] += 1
        if ours:
            witness = compared(text, partial(compiler, backend="aot_eager"))
            verdict.judges["aot_eager"] += 1
            _weigh(text, ours, witness, verdict)
    return verdict


def _weigh(text: Text, ours: list[Finding], witness: list[Finding], verdict: Verdict) -> None:
    """A difference counts unless the witness shows one at the same place, or cannot run the program."""
    theirs = {finding.output: finding.text for finding in witness}
    for finding in ours:
        finding.who = text.engine
        if "raised" in theirs or _is_alike(finding.text, theirs.get(finding.output, "")):
            verdict.doubts.append(finding)
        else:
            finding.node = text.script()
            verdict.findings.append(finding)


def _is_alike(ours: str, theirs: str) -> bool:
    """Whether two differences are the same, or both are other values, which may be rounded in their own ways."""
    return ours == theirs or (ours[:1].isdigit() and theirs[:1].isdigit())


def compared(text: Text, compiler: Any) -> list[Finding]:
    """The differences between a compiled program and eager, of the first call that shows some.

    Calls go on where only the state of the random generator differs: each call sets it anew.
    """
    with config.patch(dict(text.settings)):
        torch._dynamo.reset()
        eager, compiled = Subject(text), Subject(text, compiler)
        others: list[Finding] = []
        beginning = copy.deepcopy(eager.module)
        for number, call in enumerate(text.calls):
            theirs = eager.observe(call)
            try:
                ours = compiled.observe(call)
            except Exception as error:  # whatever comes out is a finding
                return [Finding("", "raised", number, f"{type(error).__name__}: {_brief(error)}")]
            found = differences(ours, theirs, Shaken(eager, beginning, text.calls[: number + 1]))
            random = found.pop("random", "")
            if random and not others:
                others = [Finding("", "random", number, random)]
            if found:
                return others + [Finding("", name, number, difference) for name, difference in found.items()]
        return others


def _brief(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " / ".join(lines[:6])[:600]


def minimise(seed: int, times: int) -> int:
    """Print a short script for each finding of a seed; returns how many there are."""
    count = 0
    for text in programs(seed, times):
        verdict = examine(text)
        for finding in verdict.findings[:1]:
            small = Minimiser(examine, sort_of(finding)).run(text)
            print(f"# {examine(small).findings[0].text}\n{small.script()}", flush=True)
            count += 1
    return count

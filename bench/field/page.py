"""What the field corpus shows, as a page and as plain data."""

import math
import os
import re
import statistics
from typing import Any

from bench import report
from bench.field.measure import (
    Settings,
    agrees,
    is_late,
    is_processor_time,
    problems,
    ratio,
    read_result,
    source_hash,
    spread_of,
    start,
    told,
)
from bench.field.specimen import Specimen
from bench.peers import Intaglio, OnnxRuntime
from bench.production import markdown_table
from bench.race import geometric_mean

NOTHING = report.NOTHING
HEADER = [
    "model", "sizes", "worst error", "host nodes", "cold s", "cold CPU s", "warm s", "ORT warm s", "ORT / ours", "MiB",
    "ORT MiB",
]  # fmt: skip

BEFORE = """# Models from the field

Models of the kinds people have, with random weights: exported by PyTorch's two exporters with open sizes, converted
from scikit-learn and boosted trees, quantised, made half precision and optimised by ONNX Runtime, and out of wheels.
Each is loaded once, run at several sizes forth and back, and compared with ONNX Runtime without optimisations.
"""

AFTER = """
## What the columns mean

- **sizes** is at how many sizes the answers agree, of how many were tried. The tolerance follows from the types that a
  model computes in, and is never that of one model: relative to the largest value of an output, 1e-4 in float32, 1e-6
  in float64, 2e-2 in float16, 5e-2 where values are quantised on the way. Whole numbers and text must be the same.
  Where values are rounded in the middle, ONNX Runtime with and without its optimisations differ from each other by as
  much; what is as near to one of them as the tolerance, or as they are to each other, agrees. The notes tell these
  cases.
- **worst error** is the largest difference in any output, relative to the largest value of that output.
- **host nodes** is how many nodes the reference engine ran in one run.
- **cold** is the time from the path to the first answer with an empty cache of compiled code, **warm** the same in a
  new process with what that left; **cold CPU** is the processor time of a cold start, the compiler's included, which a
  busy machine does not change much; the import of the package is in neither. **ORT warm** is that of ONNX Runtime.
- **ORT / ours** is ONNX Runtime's time for one run over ours, both optimised, medians of turns that they take in
  processes of their own: above 1, Intaglio is faster.
- A figure with a `*` counts processor time on one thread, that of compilers included, which is what a busy machine can
  tell. There is no waiting in it, and it says nothing of several threads.
- **MiB** is the peak memory of the process, interpreter included.
"""


def page(specimens: list[Specimen], settings: Settings, command: str) -> str:
    """The page docs/field.md."""
    kinds = list(dict.fromkeys(specimen.kind for specimen in specimens))
    parts = [BEFORE.strip(), "\n".join(f"- {line}" for line in [*conditions(settings, command), *summary(specimens)])]
    for kind in kinds:
        mine = [s for s in specimens if s.kind == kind and _is_made(s) and read_result(s).get("check")]
        if mine:
            parts.append(f"## {kind}\n\n{markdown_table([HEADER, *map(line, mine)])}")
            notes = [f"- {s.name}: {text}" for s in mine for text in notes_of(read_result(s))]
            parts += ["\n".join(notes)] if notes else []
    return "\n\n".join([*parts, left_out(specimens), AFTER.strip()]) + "\n"


def conditions(settings: Settings, command: str) -> list[str]:
    """Versions, machine and command."""
    versions = f"{Intaglio.title} {Intaglio.version()}, {OnnxRuntime.title} {OnnxRuntime.version()}"
    machine = f"{report.cpu_name()}, {len(os.sched_getaffinity(0))} cores"
    turns = f"{settings.rounds} turns of {settings.seconds} s, {settings.starts} warm starts"
    how = [f"threads: {settings.threads}; {turns}; made by `{command}`"]
    if settings.clock == "process_time":
        how.append(
            "other work ran on the machine meanwhile, so processor time is counted, on one thread, that of compilers "
            "included; figures of it have a `*`"
        )
    return [versions, f"{machine}, load average {os.getloadavg()[1]:.1f}", *how]


def summary(specimens: list[Specimen]) -> list[str]:
    """The counts that matter."""
    made = [s for s in specimens if _is_made(s)]
    results = {s.name: read_result(s) for s in made}
    known = {name: result for name, result in results.items() if result.get("check")}
    right = [name for name, result in known.items() if not problems(result)]
    lines = [
        f"{len(made)} models that ONNX Runtime runs; {len(known)} examined, {len(right)} load and agree at all sizes"
    ]
    source = source_hash()
    if old := sum(result.get("source") != source for result in known.values()):
        lines.append(f"{old} of them were examined with an earlier state of the package")
    ratios = {name: ratio(result) for name, result in known.items() if not math.isnan(ratio(result))}
    if ratios:
        slow, slower = (sum(value < bound for value in ratios.values()) for bound in (0.9, 0.5))
        lines.append(f"ONNX Runtime's time over ours: geometric mean {geometric_mean(ratios.values()):.2f}, "
                     f"median {statistics.median(ratios.values()):.2f} of {len(ratios)}; "
                     f"{slow} under 0.9, {slower} under 0.5")  # fmt: skip
        under = sorted((value, name) for name, value in ratios.items() if value < 0.9)
        lines += [f"under 0.9: {', '.join(f'{name} {value:.2f}' for value, name in under)}"] if under else []
        for kind in dict.fromkeys(s.kind for s in made):
            mine = [ratios[s.name] for s in made if s.kind == kind and s.name in ratios]
            if mine:
                lines.append(f"{kind}: median {statistics.median(mine):.2f} of {len(mine)}")
    waited = [result for result in known.values() if not is_processor_time(result)]
    colds = [result["check"]["cold"] for result in waited if "cold" in result["check"]]
    if colds:
        lines.append(f"cold loads: median {statistics.median(colds):.1f} s, longest {max(colds):.1f} s, "
                     f"{sum(cold > 15 for cold in colds)} over 15 s")  # fmt: skip
    times = [result["check"]["cold_cpu"] for result in known.values() if "cold_cpu" in result["check"]]
    if times:
        middle, late = statistics.median(times), sum(time > 15 for time in times)
        lines.append(
            f"processor time of cold loads: median {middle:.1f} s, longest {max(times):.1f} s, {late} over 15 s"
        )
    if ratios:
        late = [name for name, result in known.items() if is_late(result)]
        named = f" ({', '.join(late)})" if late else ""
        lines.append(f"warm loads over twice ONNX Runtime's and 0.1 s: {len(late)} of {len(ratios)}{named}")
    return lines


def line(specimen: Specimen) -> list[str]:
    """A row of the table."""
    result = read_result(specimen)
    check, race = result.get("check", {}), result.get("race", {})
    cases = check.get("cases", [])
    agreed = {str(c["sizes"]) for c in cases} - {str(c["sizes"]) for c in cases if not agrees(c, check["tolerance"])}
    tried = len({str(case["sizes"]) for case in cases})
    error = max((case["error"] for case in cases), default=math.nan)
    memories = [race.get(engine, {}).get("memory") for engine in ("ours", "theirs")]
    mark = "*" if is_processor_time(result) else ""
    return [
        specimen.name,
        f"{len(agreed)} of {tried}" if tried else "fails" if check else NOTHING,
        _number(error, ".0e"),
        str(check.get("host_runs", NOTHING)),
        NOTHING if mark else _number(check.get("cold", math.nan), ".2f"),
        _number(check.get("cold_cpu", math.nan), ".2f"),
        _number(start(result, "ours"), ".3f") + mark,
        _number(start(result, "theirs"), ".3f") + mark,
        _number(ratio(result), ".2f") + mark,
        *(f"{value / 2**20:.0f}" if value else NOTHING for value in memories),
    ]


def notes_of(result: dict[str, Any]) -> list[str]:
    """What is wrong, and why nodes run on the host."""
    reasons: dict[str, int] = {}
    for nodes, reason in result.get("check", {}).get("host", ()):
        kinds = ", ".join(dict.fromkeys(node.split("(")[0].split()[-1] for node in nodes))
        reasons[f"{kinds}: {reason}"] = reasons.get(f"{kinds}: {reason}", 0) + 1
    check = result.get("check", {})
    spread = [
        f"{told(case['sizes'])}: error {case['error']:.1e}; ONNX Runtime with and without its optimisations differ by "
        f"{spread_of(case):.1e}" + (f", ours and the former by {case['optimised']:.1e}" if "optimised" in case else "")
        for case in check.get("cases", ())
        if check["tolerance"] < case["error"] and agrees(case, check["tolerance"])
    ]
    host = [f"on the host, {count} times: {reason}" for reason, count in reasons.items()]
    race = result.get("race", {})
    is_theirs = race.get("failed") == "theirs"
    theirs = [f"not timed, for ONNX Runtime with its optimisations fails: {race['failure']}"] if is_theirs else []
    return [_one_line(text)[:400] for text in dict.fromkeys([*problems(result), *spread, *theirs, *host])]


def left_out(specimens: list[Specimen]) -> str:
    """Which networks the exporters or ONNX Runtime do not take, and which were not tried."""
    failures = {s.name: (s.facts() or {"failure": ""})["failure"] for s in specimens}
    lines = [f"- {name}: {_one_line(failure)[:160]}" for name, failure in failures.items() if failure]
    waiting = [specimen.name for specimen in specimens if specimen.facts() is None]
    unseen = [specimen.name for specimen in specimens if _is_made(specimen) and not read_result(specimen).get("check")]
    parts = ["## Not in the corpus"]
    if lines:
        parts += ["What an exporter does not take, or ONNX Runtime does not run:", "\n".join(lines)]
    if unseen:
        parts.append(f"Made, and not examined: {', '.join(unseen)}.")
    if waiting:
        parts.append(f"Not made in this run: {', '.join(waiting)}.")
    return "\n\n".join(parts) if len(parts) > 1 else ""


def _is_made(specimen: Specimen) -> bool:
    """Whether there is such a model, and ONNX Runtime runs it."""
    return (specimen.facts() or {}).get("failure") == ""


def _one_line(text: str) -> str:
    """A text for a cell or an item of a list, without colours and without the folders of this machine."""
    plain = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).replace("|", "/").split())
    return re.sub(r"(?<![\w.])/[\w.+-]+(/[\w.+-]+)*/(?=[\w-]+\.(onnx|py)\b)", "", plain)


def _number(value: float, form: str) -> str:
    return NOTHING if math.isnan(value) else format(value, form)


def as_json(specimens: list[Specimen], settings: Settings, command: str) -> dict[str, Any]:
    """All that was found."""
    return {
        "conditions": conditions(settings, command),
        "summary": summary(specimens),
        "models": [
            {"name": s.name, "kind": s.kind, "facts": s.facts(), "problems": problems(read_result(s)), **read_result(s)}
            for s in specimens
        ],
    }

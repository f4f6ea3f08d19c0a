"""Generates, examines and times the models of the field corpus, each step in processes of its own."""

import hashlib
import json
import math
import os
import queue
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.field.specimen import FACTS, Specimen
from bench.peers import Engine, Intaglio, OnnxRuntime
from bench.race import PAUSE, ROOT, Worker, WorkerDied
from bench.worker import Job

Say = Callable[[str], None]
RESULT, CACHE = "result.json", "cache"


@dataclass(frozen=True)
class Settings:
    """How the corpus is measured."""

    threads: int = 2
    rounds: int = 7
    seconds: float = 0.15
    starts: int = 3
    patience: float = 300.0  # seconds for making or examining one model
    jobs: int = 1
    clock: str = "perf_counter"  # of the module `time`; `process_time` on a busy machine, with one thread


def source_hash() -> str:
    """What a result belongs to: the text of our package."""
    import intaglio

    digest = hashlib.sha256()
    for path in sorted(Path(intaglio.__file__).parent.rglob("*")):
        if path.suffix in (".py", ".c", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def read_result(specimen: Specimen) -> dict[str, Any]:
    """What earlier runs found, or nothing."""
    path = specimen.folder / RESULT
    return json.loads(path.read_text()) if path.exists() else {}


def keep(specimen: Specimen, **facts: Any) -> dict[str, Any]:
    """Add to what is known of a model."""
    result = read_result(specimen) | facts
    partial = specimen.folder / f"{RESULT}.partial"
    partial.write_text(json.dumps(result, indent=1))
    partial.replace(specimen.folder / RESULT)
    return result


def environment(cache: Path | None = None) -> dict[str, str]:
    """For a process of ours."""
    found = {**os.environ, "ORT_DISABLE_TELEMETRY": "1", "PYTHONWARNINGS": "ignore"}
    return found | ({"INTAGLIO_CACHE": str(cache)} if cache is not None else {})


def generate(specimens: Iterable[Specimen], settings: Settings, say: Say) -> None:
    """Make the models that are not there, in as many processes as there are jobs."""
    waiting = [specimen for specimen in specimens if specimen.facts() is None]
    shares = [waiting[job :: settings.jobs] for job in range(settings.jobs)]
    with ThreadPoolExecutor(settings.jobs) as pool:
        list(pool.map(lambda share: _generate_share(share, settings, say), shares))


def _generate_share(waiting: list[Specimen], settings: Settings, say: Say) -> None:
    """One process makes them all; where it ends or falls silent, another goes on behind that model."""
    while waiting:
        reached = _generate_until(waiting, settings.patience, say)
        if reached < len(waiting) and waiting[reached].facts() is None:
            specimen = waiting[reached]
            specimen.folder.mkdir(parents=True, exist_ok=True)
            failure = f"the process that makes it ended, or took over {settings.patience:.0f} s"
            (specimen.folder / FACTS).write_text(json.dumps({"failure": failure, "made": time.time()}))
            say(f"{specimen.name}: {failure}")
        waiting = waiting[reached + 1 :]


def _generate_until(waiting: list[Specimen], patience: float, say: Say) -> int:
    """How many were made until the process ended."""
    command = [sys.executable, "-m", "bench.field.generation", *(specimen.name for specimen in waiting)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read_lines, args=(process.stdout, lines), daemon=True)
    reader.start()
    done = 0
    try:
        while (line := lines.get(timeout=patience)) is not None:
            if line.startswith("done "):
                done += 1
                say(line.strip())
    except queue.Empty:
        pass
    process.kill()
    process.wait()
    reader.join()
    return done


def _read_lines(stream: Any, lines: queue.Queue[str | None]) -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(None)


def check(specimen: Specimen, settings: Settings) -> dict[str, Any]:
    """Examine one model with an empty cache, which stays for its warm starts."""
    cache, answer = specimen.folder / CACHE, specimen.folder / "examined.json"
    shutil.rmtree(cache, ignore_errors=True)
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench.field.examine", specimen.name, str(answer), str(settings.threads)]
    ended = ""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment(cache), capture_output=True, timeout=settings.patience, check=False
        )
        if done.returncode:
            ended = f"the process ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}"
    except subprocess.TimeoutExpired:
        ended = f"no end in {settings.patience:.0f} s"
    found = json.loads(answer.read_text()) if answer.exists() else {"step": "start"}
    if ended:
        found.setdefault("failure", ended)
    return found


def race(specimen: Specimen, settings: Settings) -> dict[str, Any]:
    """Warm starts and times of single runs, the two engines in turns."""
    cache, feeds = specimen.folder / CACHE, specimen.cases()[0]
    kinds: dict[str, type[Engine]] = {"ours": Intaglio, "theirs": OnnxRuntime}
    jobs = {name: Job(kind, specimen.path, settings.threads, feeds, settings.clock) for name, kind in kinds.items()}
    found: dict[str, Any] = {name: {"starts": [], "starts_cpu": [], "rounds": []} for name in kinds}
    found["clock"], found["threads"] = settings.clock, settings.threads
    workers: dict[str, Worker] = {}
    name = "ours"
    try:
        for _ in range(settings.starts):
            for name, job in jobs.items():
                if name in workers:
                    workers.pop(name).__exit__()
                workers[name] = Worker(job, cache)
                ready = workers[name].ready()
                found[name]["starts"].append(ready.seconds)
                found[name]["starts_cpu"].append(ready.processor_seconds)
                time.sleep(PAUSE)
        for _ in range(settings.rounds):
            for name, worker in workers.items():
                time.sleep(PAUSE)
                found[name]["rounds"].append(statistics.median(worker.ask(settings.seconds)))
        for name, worker in workers.items():
            found[name]["memory"] = worker.ask(None)
    except WorkerDied as error:
        return {"failure": str(error), "failed": name, "clock": settings.clock}
    finally:
        for worker in workers.values():
            worker.__exit__()
    return found


def ratio(result: dict[str, Any]) -> float:
    """ONNX Runtime's time over ours, or NaN."""
    return _part(result, "theirs", "rounds") / _part(result, "ours", "rounds")


def start(result: dict[str, Any], engine: str) -> float:
    """The seconds of a warm start, of processors where the race counted those, or NaN."""
    return _part(result, engine, "starts_cpu" if is_processor_time(result) else "starts")


def is_processor_time(result: dict[str, Any]) -> bool:
    """Whether the race counted processor time, which a busy machine does not change much."""
    return result.get("race", {}).get("clock") == "process_time"


def is_late(result: dict[str, Any]) -> bool:
    """Whether a warm start takes longer than twice that of ONNX Runtime and 0.1 s."""
    return start(result, "ours") > 2 * start(result, "theirs") + 0.1


def _part(result: dict[str, Any], engine: str, name: str) -> float:
    values = result.get("race", {}).get(engine, {}).get(name)
    return statistics.median(values) if values else math.nan


def problems(result: dict[str, Any]) -> list[str]:
    """What is not as it should be, in words; nothing of speed."""
    check = result.get("check", {})
    found = [f"{check.get('step')}: {check['failure']}"] if check.get("failure") else []
    if check and not found and check.get("step") != "done":
        found = [f"{check.get('step')}: the examination did not end"]
    tolerance = check.get("tolerance", 0.0)
    for case in check.get("cases", ()):
        if not agrees(case, tolerance):
            last = case["why"].strip().splitlines()[-1:] or [""]
            found.append(f"{told(case['sizes'])}: error {case['error']:.1e}, {last[0][:300]}")
    found += [f"fault: {text}" for text in check.get("faults", ())]
    for step in ("explain", "plan"):
        if check.get(step, {}).get("failure"):
            found.append(f"{step}: {check[step]['failure'].strip().splitlines()[-1][:300]}")
    race = result.get("race", {})
    if race.get("failure") and race.get("failed") != "theirs":
        found.append(f"race: {race['failure']}")
    return list(dict.fromkeys(found))


def agrees(case: dict[str, Any], tolerance: float) -> bool:
    """Whether an answer is that of the judge, with or without its optimisations, or as near as these are together."""
    is_near = min(case["error"], case.get("optimised", math.inf)) <= tolerance
    return is_near or case["error"] <= spread_of(case)


def spread_of(case: dict[str, Any]) -> float:
    """How far the judge is from itself, with and without its optimisations; 0 where that was not asked."""
    return case.get("spread", 0.0) if math.isfinite(case.get("spread", 0.0)) else 0.0


def told(sizes: dict[str, list[int]]) -> str:
    """The shapes of the first few inputs."""
    shown = [f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in list(sizes.items())[:3]]
    return ", ".join(shown)

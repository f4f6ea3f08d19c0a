"""One engine with one model in a fresh process: how soon it answers, what it holds, and what waiting costs.

`python -m bench.footprint FOLDER` reads `job.json` and `feeds.npz` there and leaves `result.json` and `outputs.npz`.
Nothing but the standard library is imported before the clock runs.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNS = 3  # until the peak of memory is read
GAP = 0.05  # seconds between two requests of the idle loop
MOST_SECONDS = 2.0  # of requests back to back


def measure(folder: Path) -> dict[str, Any]:
    """The figures of one process, in seconds and bytes; the folder gets the answer."""
    job = json.loads((folder / "job.json").read_text())
    kind, imported = _import(job["engine"])
    feeds = read_arrays(folder / "feeds.npz")
    start = time.perf_counter()
    engine = kind(Path(job["path"]), job["threads"], feeds)
    loaded = time.perf_counter() - start
    resident = memory("VmRSS")
    start = time.perf_counter()
    outputs = engine.run()
    first = time.perf_counter() - start
    cpu = time.process_time()
    for _ in range(RUNS - 1):
        engine.run()
    times = {"import": imported, "load": loaded, "first": first, "cpu": cpu}
    result = {**times, "resident": resident, "peak": memory("VmHWM")}
    save_arrays(folder / "outputs.npz", {str(place): output for place, output in enumerate(outputs)})
    if job.get("save"):
        result["compiled_size"] = engine.model.save_compiled(job["save"])
    if job.get("requests"):
        result["idle"] = idle(engine.run, job["requests"])
    return result


def plan(folder: Path) -> dict[str, Any]:
    """What the model plans to hold in a run, and what the process grew by when it was loaded and run."""
    import intaglio

    job = json.loads((folder / "job.json").read_text())
    feeds = read_arrays(folder / "feeds.npz")
    _ready_everything()
    before = memory("VmRSS")
    model = intaglio.load(job["path"], engine="native", threads=job["threads"])
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    outputs = model.run(feeds)
    grown = memory("VmHWM") - before
    del outputs
    planned = model.memory_plan(sizes_of(model, feeds))  # builds the whole model, where only its program was loaded
    return {"planned": planned.total if isinstance(planned.total, int) else None, "grown": grown,
            "notes": list(planned.notes)}  # fmt: skip


def _ready_everything() -> None:
    """Load and run a small model, so that modules, runtime and threads are there before memory is compared."""
    import numpy as np

    import intaglio

    with intaglio.build("small", {"x": "float32[n, 64]"}) as b:
        b.output(y=b["x"] @ b.constant(np.eye(64, dtype=np.float32)))
    b.model(engine="native").run({"x": np.ones((64, 64), np.float32)})


def sizes_of(model: Any, feeds: dict[str, Any]) -> dict[str, int]:
    """The value of each named size of a model's inputs."""
    from intaglio.ir.dim import symbol, symbols

    found: dict[str, int] = {}
    for item in model.inputs:
        for size, given in zip(item.type.shape or (), feeds[item.name].shape, strict=True):
            found |= {name: given for name in symbols(size) if size == symbol(name)}
    return found


def idle(request: Callable[[], object], count: int) -> float:
    """Seconds of CPU that a pause before each request costs: with pauses, less without."""
    start = time.perf_counter()
    request()
    count = max(3, min(count, int(MOST_SECONDS / (time.perf_counter() - start))))
    return _cpu_seconds(request, count, GAP) - _cpu_seconds(request, count, 0)


def _cpu_seconds(request: Callable[[], object], count: int, gap: float) -> float:
    """CPU time of all threads for one request, with the pause before it."""
    start = time.process_time()
    for _ in range(count):
        if gap:
            time.sleep(gap)
        request()
    return (time.process_time() - start) / count


def memory(field: str) -> int:
    """Bytes of one line of /proc/self/status."""
    match = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(match.group(1)) * 1024 if match else 0


def _import(name: str) -> tuple[Any, float]:
    """An engine's class, and the seconds that its import took."""
    start = time.perf_counter()
    from bench.peers import ENGINES, Judge

    kind = Judge if name == "judge" else ENGINES[name]
    __import__(kind.module)
    return kind, time.perf_counter() - start


def read_arrays(path: Path) -> dict[str, Any]:
    """What `save_arrays` wrote."""
    import numpy as np

    with np.load(path) as file:
        names = json.loads(str(file["names"]))
        return {name: file[f"array{place}"] for place, name in enumerate(names)}


def save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Named arrays as a file; names may hold any character."""
    import numpy as np

    numbered = {f"array{place}": array for place, array in enumerate(arrays.values())}
    np.savez(path, names=np.array(json.dumps(list(arrays))), **numbered)


def main(folder: Path) -> None:
    """Measure, and say what went wrong where something did."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    job = json.loads((folder / "job.json").read_text())
    try:
        result = plan(folder) if job["engine"] == "plan" else measure(folder)
    except Exception as error:  # whatever an engine raises is a result
        from bench.worker import reason

        result = {"failure": reason(error)}
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

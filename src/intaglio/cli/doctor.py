"""`intaglio doctor`: whether this machine has what Intaglio needs, and everything a bug report should say."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

import numpy as np

from intaglio.cli.demo_model import demo_model
from intaglio.cli.terminal import JsonOption, print_json, print_pairs, size
from intaglio.errors import IntaglioError
from intaglio.processor import usable_cores
from intaglio.runtime.model.loading import load
from intaglio.targets.c import cache
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import cache_sizes, host_target
from intaglio.version import __version__

PACKAGES = ("numpy", "ml_dtypes", "onnx", "protobuf", "onnxruntime", "torch", "ziglang", "pillow")
VARIABLES = ("INTAGLIO_ENGINE", "INTAGLIO_CACHE", "INTAGLIO_TARGET", "INTAGLIO_POISON", "CC", "XDG_CACHE_HOME")


def doctor(as_json: JsonOption = False) -> int:
    """Show compiler, processor, cache and versions, and try a small model; exits with 1 where something is wrong."""
    report = examine()
    print_json(report) if as_json else _show(report)
    return 1 if report["problems"] else 0


def examine() -> dict[str, Any]:
    """The state of this machine as data; `problems` is empty where all is well."""
    problems: list[str] = []
    report: dict[str, Any] = {
        "intaglio": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    for name, part in (("compiler", _compiler), ("processor", _processor), ("cache", _cache), ("trial", _trial)):
        try:
            report[name] = part()
        except IntaglioError as error:
            report[name] = None
            problems.append(f"{name}: {error}")
    return report | {"problems": problems}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _compiler() -> dict[str, Any]:
    found = find_compiler()
    if found is None:
        raise IntaglioError("no C compiler found; install gcc or clang, or `pip install ziglang`")
    return {"command": " ".join(found.command), "kind": found.kind, "version": found.version.splitlines()[0]}


def _processor() -> dict[str, Any]:
    target = host_target()
    caches = {f"L{level}": bytes for level, bytes in sorted(cache_sizes().items())}
    return {"target": target.name, "extensions": sorted(target.features), "threads": usable_cores(), "caches": caches}


def _cache() -> dict[str, Any]:
    found = cache.info()
    return {"folder": str(found.root), "functions": found.functions, "bytes": found.size_bytes}


def _trial() -> dict[str, Any]:
    """A small model on both engines, which must agree."""
    model = demo_model()
    image = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    native, reference = (load(model, engine=engine)(image) for engine in ("native", "reference"))
    difference = float(np.abs(native - reference).max())
    if not difference < 1e-4:
        raise IntaglioError(f"the engines differ by {difference:g} on a small model; please report this")
    return {"largest_difference": difference}


def _show(report: dict[str, Any]) -> None:
    compiler, processor, store = report["compiler"], report["processor"], report["cache"]
    pairs: list[tuple[str, object]] = [
        ("intaglio", report["intaglio"]),
        ("python", report["python"]),
        ("system", report["system"]),
        ("packages", ", ".join(f"{name} {version}" for name, version in report["versions"].items())),
        ("variables", ", ".join(f"{name}={value}" for name, value in report["variables"].items()) or "none set"),
        ("compiler", f"{compiler['version']} ({compiler['command']})" if compiler else "none"),
        ("processor", _processor_text(processor) if processor else "unknown"),
        (
            "cache",
            f"{store['folder']}, {store['functions']} functions, {size(store['bytes'])}" if store else "unusable",
        ),
        ("trial", "a small model runs, and both engines agree" if report["trial"] else "failed"),
        *(("problem", text) for text in report["problems"]),
    ]
    print_pairs(pairs)


def _processor_text(processor: dict[str, Any]) -> str:
    caches = ", ".join(f"{name} {size(count)}" for name, count in processor["caches"].items())
    target = " + ".join([processor["target"], *processor["extensions"]])
    return f"target {target}, {processor['threads']} threads, {caches}"

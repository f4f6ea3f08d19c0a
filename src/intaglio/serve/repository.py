"""The models of a server: which there are, which are loaded, and what happens when their files change."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intaglio.errors import IntaglioError, LoadError, ModelNotFoundError
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.serve.datatypes import short
from intaglio.serve.ensembles import ENDING, steps_of, write_joined
from intaglio.serve.lane import Lane
from intaglio.serve.messages import RequestError
from intaglio.serve.served import Served
from intaglio.serve.settings import Settings

LOG = logging.getLogger("intaglio.serve")

PLAIN = (".onnx", ".onnxtxt", ".textproto", ".json")
"""Endings of models that are data. Only the first is looked for in folders."""
CODE = (".py", ".pt2", ".intaglio")
"""Endings of models that are code."""

Stamp = tuple[tuple[int, int, int], ...]


@dataclass
class Entry:
    """One version of a model. `source` is a path or a model that was given; `lane` is there while it is loaded."""

    name: str
    version: str
    source: Path | Model
    lane: Lane | None = None
    state: str = "UNAVAILABLE"
    reason: str = ""
    stamp: Stamp = ()
    is_wanted: bool = True

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests."""
        return self.lane is not None


class Repository:
    """Models by name and version. Safe to use from several threads."""

    def __init__(self, source: str | os.PathLike[str] | Mapping[str, Any], settings: Settings) -> None:
        """Take a file, a folder, or models by name; raises ModelNotFoundError where there is nothing."""
        self.settings = settings
        self._lock = threading.RLock()
        self._entries: dict[str, dict[str, Entry]] = {}
        self._seen: dict[tuple[str, str], Stamp] = {}
        self._root: Path | None = None
        self._refused: dict[str, str] = {}
        self.is_draining = False
        if isinstance(source, Mapping):
            for name, model in source.items():
                self._add(Entry(name, "1", model if isinstance(model, Model) else Path(model)))
            return
        root = Path(source)
        if not root.exists():
            raise ModelNotFoundError(f"there is no file or folder {str(source)!r}")
        if root.is_dir():
            self._root = root
            self._scan()
            if not self._entries:
                raise ModelNotFoundError(_nothing(str(source), self._refused))
        else:
            self._add(Entry(root.stem, "1", root))

    def _add(self, entry: Entry) -> None:
        self._entries.setdefault(entry.name, {})[entry.version] = entry

    def _scan(self) -> list[Entry]:
        """Take what is new in the folder; returns the entries whose files are gone, which it drops."""
        assert self._root is not None
        found: dict[tuple[str, str], Path] = {}
        for name, version, path in models_in(self._root):
            if path.suffix in CODE and not self.settings.allow_code:
                if str(path) not in self._refused:
                    self._refused[str(path)] = path.name
                    LOG.warning("%s is code and not loaded; --allow-python allows it", path.name)
                continue
            found.setdefault((name, version), path)
        for (name, version), path in found.items():
            if version not in self._entries.get(name, {}):
                self._add(Entry(name, version, path))
        gone = [entry for entry in self.entries() if (entry.name, entry.version) not in found]
        for entry in gone:
            del self._entries[entry.name][entry.version]
        return gone

    def entries(self) -> list[Entry]:
        """All versions of all models, by name and number."""
        with self._lock:
            return [
                versions[version]
                for _, versions in sorted(self._entries.items())
                for version in sorted(versions, key=_number)
            ]

    def versions(self, name: str) -> list[str]:
        """The versions of a model that take requests."""
        found = self._entries.get(name, {})
        return sorted((version for version, entry in list(found.items()) if entry.is_ready), key=_number)

    def named(self, name: str, version: str = "") -> Entry:
        """A model, by default its highest version that takes requests; raises RequestError where there is none."""
        versions = self._entries.get(name)
        if not versions:
            raise RequestError(f"there is no model {short(name)}", 404)
        if version:
            entry = versions.get(version)
            if entry is None:
                raise RequestError(f"model {short(name)} has no version {short(version)}", 404)
            return entry
        if len(versions) == 1:
            return next(iter(versions.values()))
        ready = self.versions(name)
        return versions[ready[-1] if ready else max(versions, key=_number)]

    def find(self, name: str, version: str = "") -> Entry:
        """A model that takes requests, by default its highest version; raises RequestError where there is none."""
        entry = self.named(name, version)
        if entry.lane is None:
            raise RequestError(f"model {short(name)} is not loaded: {entry.reason or entry.state.lower()}", 400)
        return entry

    def load_all(self) -> None:
        """Load all models; what cannot be loaded is unavailable, with the reason."""
        for entry in self.entries():
            self._load(entry)

    def raise_if_empty(self) -> None:
        """Raise LoadError with the first reason where models were to be loaded and none is."""
        entries = self.entries()
        if entries and not any(entry.is_ready for entry in entries):
            raise LoadError(f"model {entries[0].name!r} cannot be served: {entries[0].reason}")

    def load(self, name: str) -> None:
        """Load all versions of a model, again where they are; raises RequestError where one cannot be loaded."""
        with self._lock:
            if self._root is not None:
                self._let_go(self._scan())
            found = [entry for entry in self.entries() if entry.name == name]
        if not found:
            raise RequestError(f"there is no model {short(name)} in the repository", 404)
        for entry in found:
            entry.is_wanted = True
            self._load(entry)
        if not any(entry.is_ready and not entry.reason for entry in found):
            raise RequestError(f"model {short(name)} cannot be loaded: {found[-1].reason}", 400)

    def unload(self, name: str) -> None:
        """Let go of all versions of a model; requests that are under way are still answered."""
        with self._lock:
            found = [entry for entry in self.entries() if entry.name == name]
            if not found:
                raise RequestError(f"there is no model {short(name)}", 404)
            for entry in found:
                entry.is_wanted = False
                entry.reason = "unloaded"
        self._let_go(found)

    def _let_go(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            lane, entry.lane, entry.state = entry.lane, None, "UNAVAILABLE"
            if lane is not None:
                lane.close()
                LOG.info("model %s version %s: unloaded", entry.name, entry.version)

    def _load(self, entry: Entry) -> None:
        """Load a model and put it in the place of the one that was loaded; that one stays where this one fails."""
        stamp = stamp_of(entry.source)
        try:
            if entry.lane is None:
                entry.state = "LOADING"
            served = self._serve(entry)
        except Exception as error:
            text = _without_folders(error, entry.source)
            if not isinstance(error, IntaglioError):
                LOG.exception("model %s version %s", entry.name, entry.version)
                text = type(error).__name__
            entry.reason, entry.stamp = text, stamp
            entry.state = "READY" if entry.lane is not None else "UNAVAILABLE"
            LOG.error("model %s version %s cannot be loaded: %s", entry.name, entry.version, text)
            return
        with self._lock:
            before, entry.lane = entry.lane, Lane(served, self.settings)
            if before is not None:
                entry.lane.statistics = before.statistics
            entry.state, entry.reason, entry.stamp = "READY", "", stamp
        if before is not None:
            before.close()
        batching = f"not batched: {served.rows.reason}" if served.rows.reason else f"rows along {served.rows.symbol!r}"
        LOG.info("model %s version %s is ready; %s", entry.name, entry.version, batching)

    def _serve(self, entry: Entry) -> Served:
        settings = self.settings
        model = entry.source if isinstance(entry.source, Model) else open_model(entry.source, settings)
        why_not = ""
        if settings.exact:
            why_not = "--exact: other batches may have other last bits"
        elif settings.max_batch < 2:
            why_not = "the limit is one row"
        return Served(entry.name, entry.version, model, is_batched=not why_not, why_not=why_not)

    def refresh(self) -> bool:
        """Load what is new or has changed since it was loaded, and let go of what is gone; returns whether any was.

        A file that changed is loaded when it is the same in two calls: before, somebody may still be writing it.
        """
        gone: list[Entry] = []
        before = {id(entry.lane) for entry in self.entries()}
        with self._lock:
            if self._root is not None:
                gone = self._scan()
        self._let_go(gone)
        for entry in self.entries():
            if not entry.is_wanted or isinstance(entry.source, Model):
                continue
            stamp, key = stamp_of(entry.source), (entry.name, entry.version)
            if stamp and stamp != entry.stamp and self._seen.get(key) == stamp:
                self._load(entry)
            self._seen[key] = stamp
        return before != {id(entry.lane) for entry in self.entries()}

    def index(self, only_ready: bool = False) -> list[dict[str, str]]:
        """The protocol's list of models."""
        found: list[dict[str, str]] = []
        for entry in self.entries():
            if entry.is_ready or not only_ready:
                fields = {"name": entry.name, "version": entry.version, "state": entry.state}
                found.append(fields | ({"reason": entry.reason} if entry.reason else {}))
        return found

    @property
    def is_folder(self) -> bool:
        """Whether models come from a folder."""
        return self._root is not None

    @property
    def is_ready(self) -> bool:
        """Whether requests should be sent here: nothing is draining, and every wanted model is loaded."""
        return not self.is_draining and all(entry.is_ready for entry in self.entries() if entry.is_wanted)

    def close(self) -> None:
        """End all lanes; returns when what waits in them is run."""
        for entry in self.entries():
            if entry.lane is not None:
                entry.lane.close(wait=True)


def models_in(root: Path) -> list[tuple[str, str, Path]]:
    """The models of a folder: `NAME.onnx`, `NAME.ensemble.json`, and `NAME/NUMBER/ANY.onnx`, a version."""
    endings = (".onnx", *CODE)
    files = sorted(path for path in root.iterdir() if path.is_file())
    found = [(path.stem, "1", path) for path in files if path.suffix in endings]
    found += [(path.name.removesuffix(ENDING), "1", path) for path in files if path.name.endswith(ENDING)]
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        for version in folder.iterdir():
            if version.is_dir() and version.name.isdecimal() and version.name.isascii():
                files = sorted(path for path in version.iterdir() if path.suffix in endings and path.is_file())
                found += [(folder.name, version.name, path) for path in files[:1]]
    return found


def open_model(path: Path, settings: Settings) -> Model:
    """Load a file; a Python file is run, and what it calls `model` is loaded."""
    if path.name.endswith(ENDING):
        return _open_ensemble(path, settings)
    source: Any = path
    if path.suffix == ".py":
        import runpy

        source = runpy.run_path(str(path)).get("model")
        if isinstance(source, Model):
            return source
    elif path.suffix == ".pt2":
        import torch

        source = torch.export.load(path)
    limits, shares = settings.limits, settings.shared_weights and path.suffix in PLAIN
    return load(
        source, exact=settings.exact, threads=settings.threads, limits=limits, progress=False, shared_weights=shares
    )


def _open_ensemble(path: Path, settings: Settings) -> Model:
    """Load the models of an ensemble as one; the file that they become is there as long as the process."""
    folder = tempfile.mkdtemp(prefix="intaglio-ensemble-")
    try:
        found = open_model(write_joined(path, Path(folder)), settings)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found


def stamp_of(source: Path | Model) -> Stamp:
    """What shows that a file has changed, with those beside it that may hold its weights; empty where it is gone."""
    if isinstance(source, Model):
        return ()
    found: list[tuple[int, int, int]] = []
    try:
        weights = [path for path in source.parent.iterdir() if path.name.startswith(source.name) and path != source]
        steps = [step.path for step in steps_of(source)] if source.name.endswith(ENDING) else []
        for path in (source, *sorted(weights), *steps):
            status = path.stat()
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    except (OSError, LoadError):
        return ()
    return tuple(found)


def _number(version: str) -> tuple[int, str]:
    return (int(version), version) if version.isdecimal() else (0, version)


def _without_folders(error: BaseException, source: Path | Model) -> str:
    """The text of an error without the folder of the model, which is nobody's business."""
    text = str(error)
    for folder in () if isinstance(source, Model) else (source.parent, source.parent.resolve()):
        text = text.replace(f"{folder}{os.sep}", "")
    return text


def _nothing(root: str, refused: Mapping[str, str]) -> str:
    text = f"there is no model in {root!r}: expected NAME.onnx or NAME/VERSION/model.onnx"
    if refused:
        text += f"; {', '.join(refused.values())} is code, which --allow-python loads"
    return text

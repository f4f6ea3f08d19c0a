"""Who computes tensors: Intaglio, other runtimes, files of results, functions of users."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from onnx import ModelProto, ValueInfoProto

from intaglio.errors import InputError, IntaglioError, UnsupportedError
from intaglio.runtime.model.model import Model
from intaglio.tools.document import Document

Feeds = Mapping[str, Any]


class PeerError(IntaglioError, RuntimeError):
    """Another runtime is not there, or does not take a model."""


class Subject(Protocol):
    """Somebody who computes the tensors of a model."""

    title: str

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        """The outputs of the model by name."""
        ...

    def tensors(self, feeds: Feeds, names: Sequence[str]) -> dict[str, Any]:
        """Those of these tensors that this subject can give, by name."""
        ...


class IntaglioSubject:
    """A model that Intaglio runs."""

    def __init__(self, model: Model, title: str = "") -> None:
        self.model = model
        self.title = title or f"intaglio, {model.options.engine} engine"
        self._known: set[str] | None = None

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        """The outputs, from the code that every run uses."""
        return self.model.run(dict(feeds))

    def tensors(self, feeds: Feeds, names: Sequence[str]) -> dict[str, Any]:
        """Tensors in between; what is computed together is decided anew for them."""
        if self._known is None:
            graph = self.model.graph
            self._known = {value.name for value in graph.values()} | {value.name for value in graph.constants()}
        wanted = [name for name in names if name in self._known]
        return self.model.run(dict(feeds), outputs=wanted, prune=True) if wanted else {}


class StoredSubject:
    """Results that somebody stored in an .npz file."""

    def __init__(self, arrays: Mapping[str, Any], names: Sequence[str], title: str) -> None:
        self.arrays, self.title = dict(arrays), title
        self.names = [name for name in names if name in self.arrays]
        if not self.names:
            raise InputError(
                f"{title} holds {', '.join(map(repr, list(self.arrays)[:8])) or 'nothing'}, and none of the outputs "
                f"{', '.join(map(repr, names))}"
            )

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        """Those outputs that are stored."""
        del feeds
        return {name: self.arrays[name] for name in self.names}

    def tensors(self, feeds: Feeds, names: Sequence[str]) -> dict[str, Any]:
        """Those tensors that are stored."""
        del feeds
        return {name: self.arrays[name] for name in names if name in self.arrays}


class FunctionSubject:
    """A function of a user: it takes the inputs as a dict, and returns results by name or in the order of outputs."""

    def __init__(self, function: Callable[..., Any], names: Sequence[str], title: str) -> None:
        self.function, self.names, self.title = function, list(names), title

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        """What the function returns."""
        found = self.function(dict(feeds))
        if isinstance(found, Mapping):
            return {str(name): _array(value) for name, value in cast("Mapping[Any, Any]", found).items()}
        items = list(cast("Sequence[Any]", found)) if isinstance(found, (list, tuple)) else [found]
        if len(items) != len(self.names):
            raise InputError(f"{self.title} returned {len(items)} results, expected {len(self.names)}")
        return {name: _array(item) for name, item in zip(self.names, items, strict=True)}

    def tensors(self, feeds: Feeds, names: Sequence[str]) -> dict[str, Any]:
        """Those tensors that the function returns by name."""
        found = self.outputs(feeds)
        return {name: found[name] for name in names if name in found}


def _array(value: Any) -> Any:
    if isinstance(value, (list, tuple, dict)) or value is None:
        return cast("Any", value)
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


class RuntimeSubject:
    """ONNX Runtime without its own rewrites, which cost accuracy."""

    title = "onnxruntime"

    def __init__(self, document: Document, *, optimised: bool = False, threads: int | None = None) -> None:
        self.document = document
        self.optimised, self.threads = optimised, threads
        self._runtime = peer("onnxruntime", "ONNX Runtime")
        self.title = f"onnxruntime {self._runtime.__version__}"
        self.names = [info.name for info in document.graph.outputs]
        self._session: Any = None

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        """The outputs of the model."""
        if self._session is None:
            self._session = self._open(self.document.message())
        return self._run(self._session, feeds, self.names)

    def tensors(self, feeds: Feeds, names: Sequence[str]) -> dict[str, Any]:
        """Tensors in between, as further outputs of the model."""
        wanted = [name for name in names if name]
        return self._run(self._open(with_outputs(self.document, wanted)), feeds, wanted)

    def _open(self, message: ModelProto) -> Any:
        runtime = self._runtime
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        if not self.optimised:
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if self.threads is not None:
            options.intra_op_num_threads = self.threads
        if self.document.folder is not None:
            folder = str(self.document.folder)
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        try:
            data = message.SerializeToString()
            return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # what it raises has no common class
            raise PeerError(f"{self.title} does not take the model: {brief(error)}") from error

    def _run(self, session: Any, feeds: Feeds, names: Sequence[str]) -> dict[str, Any]:
        known = {item.name for item in session.get_inputs()}
        known |= {item.name for item in session.get_overridable_initializers()}
        try:
            found = session.run(list(names), {name: value for name, value in feeds.items() if name in known})
        except Exception as error:
            raise PeerError(f"{self.title} cannot run the model: {brief(error)}") from error
        return dict(zip(names, found, strict=True))


class OpenVinoSubject:
    """OpenVINO on the processor, in the precision of the model."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._runtime = peer("openvino", "OpenVINO")
        self.title = f"openvino {self._runtime.__version__}"
        self.names = [info.name for info in document.graph.outputs]

    def outputs(self, feeds: Feeds) -> dict[str, Any]:
        """The outputs of the model."""
        return self.tensors(feeds, self.names)

    def tensors(self, feeds: Feeds, names: Sequence[str]) -> dict[str, Any]:
        """Tensors in between, as further outputs of the model."""
        core = self._runtime.Core()
        message = with_outputs(self.document, names)
        try:
            model = core.read_model(model=message.SerializeToString())
            compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            known = {name for item in compiled.inputs for name in item.get_names()}
            found = compiled({name: value for name, value in feeds.items() if name in known})
            return {name: np.array(found[place]) for place, name in enumerate(names)}
        except Exception as error:
            raise PeerError(f"{self.title} cannot run the model: {brief(error)}") from error


def brief(error: BaseException) -> str:
    """The first line of an error's text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"


def peer(module: str, title: str) -> Any:
    """The module of another runtime; raises PeerError with the command that installs it where it is not there."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PeerError(f"{title} is not installed ({error}); install it: pip install {module}") from None


def with_outputs(document: Document, names: Sequence[str]) -> ModelProto:
    """The model with other outputs, of types that are left open where the file does not say them."""
    message = document.message()
    known = {info.name: info for info in (*message.graph.output, *message.graph.value_info, *message.graph.input)}
    infos = [known.get(name) or ValueInfoProto(name=name) for name in names]
    del message.graph.output[:]
    message.graph.output.extend(infos)
    return message


def open_subject(against: Any, document: Document, names: Sequence[str], open_model: Callable[[Any], Model]) -> Subject:
    """The subject that `against` names: a runtime, a file, a function, a model or something that is a subject.

    `open_model` loads another model as the first one was loaded; of None, the first one on the reference engine.
    """
    if isinstance(against, Model):
        return IntaglioSubject(against, "the other model")
    if hasattr(against, "outputs") and hasattr(against, "tensors"):
        return cast("Subject", against)
    if isinstance(against, Mapping):
        return StoredSubject(cast("Mapping[str, Any]", against), names, "the stored results")
    if callable(against):
        return FunctionSubject(against, names, getattr(against, "__name__", "the function"))
    if isinstance(against, (ModelProto, bytes)):
        return IntaglioSubject(open_model(against), "the other model")
    return _open_named(os.fspath(against), document, names, open_model)


def _open_named(text: str, document: Document, names: Sequence[str], open_model: Callable[[Any], Model]) -> Subject:
    if text == "reference":
        return IntaglioSubject(open_model(None), "the reference engine without passes")
    if text in ("ort", "onnxruntime"):
        return RuntimeSubject(document)
    if text == "openvino":
        return OpenVinoSubject(document)
    if Path(text).suffix == ".npz":
        return StoredSubject(read_npz(text), names, text)
    if Path(text).suffix in (".onnx", ".intaglio", ".onnxtxt", ".pb") or Path(text).exists():
        return IntaglioSubject(open_model(text), text)
    module, _, function = text.partition(":")
    if module and function:
        return FunctionSubject(_import_function(module, function), names, text)
    raise InputError(
        f"{text!r} is nothing to compare with: give ort, reference, openvino, a model, an .npz file or MODULE:FUNCTION"
    )


def read_npz(path: str) -> dict[str, Any]:
    """The arrays of an .npz file; raises InputError where it is none."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path!r} cannot be read as an .npz file: {error}") from None
    except AttributeError:
        raise InputError(f"{path!r} holds one array and not several by name; an .npz file is expected") from None


def _import_function(module: str, name: str) -> Callable[..., Any]:
    """A function of a module, which may lie in the folder in which the command is given."""
    before = list(sys.path)
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{module}:{name} cannot be imported: {error}") from None
    finally:
        sys.path[:] = before
    if not callable(found):
        raise UnsupportedError(f"{module}:{name} is a {type(found).__name__} and not a function")
    return found

"""Intaglio in the place of the package `onnxruntime`, for libraries that import it by that name."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution
from types import ModuleType
from typing import Any

from intaglio.errors import InputError

NAME = "onnxruntime"
_COLLECTION = "AdapterFormat", "IOBinding", "InferenceSession", "ModelCompiler", "OrtDevice", "OrtDeviceVendorId"


def install() -> ModuleType:
    """Put a package `onnxruntime` in place that is Intaglio, for all imports that follow in this process.

    Raises InputError where ONNX Runtime was imported already: whoever did so has the real one. The pure Python tools of
    an installed ONNX Runtime (`onnxruntime.quantization`, `onnxruntime.transformers`, `onnxruntime.tools`) stay
    importable and see Intaglio; its library is not loaded.
    """
    present = sys.modules.get(NAME)
    if present is not None:
        if hasattr(present, "_intaglio"):
            return present
        raise InputError(f"{NAME} was imported before: call intaglio.compat.install() first in the program")
    folder = _real_folder()
    for name, module in _modules(folder).items():
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    sys.meta_path.insert(0, _distributions)
    return sys.modules[NAME]


def uninstall() -> None:
    """Take the package away again; whoever imported it keeps it."""
    if hasattr(sys.modules.get(NAME), "_intaglio"):
        for name in [each for each in sys.modules if each == NAME or each.startswith(f"{NAME}.")]:
            del sys.modules[name]
    if _distributions in sys.meta_path:
        sys.meta_path.remove(_distributions)


def _real_folder() -> str | None:
    """Where the files of an installed ONNX Runtime are; nothing of it is imported."""
    spec = PathFinder.find_spec(NAME)
    places = None if spec is None else spec.submodule_search_locations
    return None if not places else next(iter(places))


def _modules(folder: str | None) -> dict[str, ModuleType]:
    compat = importlib.import_module("intaglio.compat")
    errors = importlib.import_module("intaglio.compat.errors")
    types = importlib.import_module("intaglio.compat.types")
    public = {name: getattr(compat, name) for name in compat.__all__ if name not in ("install", "uninstall")}
    raised = {name: each for name, each in vars(errors).items() if isinstance(each, type)}
    native = public | {name: raised[name] for name in raised if name in _NATIVE_ERRORS}
    collection = {name: public[name] for name in (*_COLLECTION, "OrtValue", "SparseTensor", "copy_tensors")}
    about = {name: public[name] for name in ("package_name", "version", "cuda_version", "__version__")}
    top = {name: each for name, each in public.items() if name not in raised}
    found = {
        NAME: _module(NAME, top | {"_intaglio": compat} | _LEFTOVERS, folder or ""),
        f"{NAME}.capi": _module(f"{NAME}.capi", {}, ""),
        f"{NAME}.capi.onnxruntime_pybind11_state": _module(f"{NAME}.capi.onnxruntime_pybind11_state", native),
        f"{NAME}.capi._pybind_state": _module(f"{NAME}.capi._pybind_state", native),
        f"{NAME}.capi.onnxruntime_inference_collection": _module(
            f"{NAME}.capi.onnxruntime_inference_collection", collection | {"Session": public["InferenceSession"]}
        ),
        f"{NAME}.capi.onnxruntime_validation": _module(
            f"{NAME}.capi.onnxruntime_validation",
            {"get_package_name_and_version_info": lambda: tuple(about.values())[:3], "check_distro_info": lambda: None},
        ),
        f"{NAME}.capi.build_and_package_info": _module(f"{NAME}.capi.build_and_package_info", about),
    }
    vars(found[NAME])["onnxruntime_validation"] = found[f"{NAME}.capi.onnxruntime_validation"]
    if folder is None:
        helper = f"{NAME}.transformers.io_binding_helper"
        found[f"{NAME}.transformers"] = _module(f"{NAME}.transformers", {}, "")
        found[helper] = _module(helper, {"TypeHelper": types.TypeHelper})
    return found


_LEFTOVERS = {"__author__": "Intaglio", "contextlib": contextlib, "import_capi_exception": None}
"""What can be seen in ONNX Runtime's module because of how that is written."""

_NATIVE_ERRORS = (
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "RuntimeException",
)


def _module(name: str, contents: dict[str, Any], folder: str | None = None) -> ModuleType:
    """A module with these contents; a package where a folder is given, which may be empty text."""
    module = ModuleType(name, f"Intaglio in the place of {name}; see intaglio.compat.")
    spec = ModuleSpec(name, None, origin=__file__, is_package=folder is not None)
    module.__file__ = __file__
    module.__spec__ = spec
    if folder is not None:
        module.__path__ = spec.submodule_search_locations = [folder] if folder else []
    vars(module).update(contents)
    return module


class _Standin(Distribution):
    """What `importlib.metadata` finds under the name `onnxruntime`."""

    def read_text(self, filename: str) -> str | None:
        """The metadata of a package that has no files."""
        from intaglio.compat.environment import __version__

        return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {__version__}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """Where a file of it would be."""
        return os.path.join(os.path.dirname(__file__), path)


class _Distributions:
    """Finds the stand-in among installed distributions; it finds no modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Nothing: the modules are in place already."""

    def find_distributions(self, context: Any) -> Iterable[Distribution]:
        """The stand-in where it, or everything, is asked for."""
        return [_Standin()] if context.name in (None, NAME) else []


_distributions: Any = _Distributions()

"""Files that are no ONNX models: what they are, and how one comes from them to an ONNX model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_EXPORT = "torch.onnx.export(module, inputs, 'model.onnx', dynamo=True)"

_ADVICE = {
    "pickle": "a file that PyTorch or pickle wrote, with weights or a whole module; make the module in Python and give "
    f"it to intaglio.load(module, example_inputs), or write it with {_EXPORT}",
    "pt2": "a program of torch.export; load it with intaglio.load(torch.export.load(path))",
    "safetensors": "a file of weights without a graph; load them into their module and write that with "
    f"{_EXPORT}, or use `optimum-cli export onnx` on the folder of a Hugging Face model",
    "tflite": "a TensorFlow Lite model; convert it with `python -m tf2onnx.convert --tflite FILE --output model.onnx`",
    "tensorflow": "a TensorFlow graph; convert it with `python -m tf2onnx.convert`, with --saved-model FOLDER or "
    "--graphdef FILE, and --output model.onnx",
    "keras": "a Keras model; load it with Keras and write model.export('model.onnx', format='onnx')",
    "gguf": "a file of weights for llama.cpp, without a graph; take the checkpoint that it was made from, and write "
    "that with `optimum-cli export onnx`",
    "coreml": "a Core ML model; export the model that it was made from to ONNX",
    "ort": "a model in ONNX Runtime's own format; use the ONNX file that it was made from",
    "lfs": "a pointer of Git LFS to a file that is not here; `git lfs pull` gets it",
    "page": "a web page or XML, and not what was to be downloaded",
    "arrays": "a file of NumPy arrays, and no model",
    "archive": "a packed archive; unpack it first",
}

_BEGINNINGS = {
    b"GGUF": "gguf",
    b"\x89HDF\r\n\x1a\n": "keras",
    b"version https://git-lfs": "lfs",
    b"\x93NUMPY": "arrays",
    b"\x1f\x8b": "archive",
    b"BZh": "archive",
    b"\xfd7zXZ": "archive",
    b"7z\xbc\xaf": "archive",
}

_SUFFIXES = {
    ".bin": "pickle",
    ".ckpt": "pickle",
    ".gguf": "gguf",
    ".h5": "keras",
    ".hdf5": "keras",
    ".keras": "keras",
    ".mlmodel": "coreml",
    ".mlpackage": "coreml",
    ".npy": "arrays",
    ".npz": "arrays",
    ".ort": "ort",
    ".pb": "tensorflow",
    ".pickle": "pickle",
    ".pkl": "pickle",
    ".pt": "pickle",
    ".pt2": "pt2",
    ".pth": "pickle",
    ".safetensors": "safetensors",
    ".tflite": "tflite",
    ".zip": "archive",
}


def foreign_format(data: memoryview, path: Path | None) -> str:
    """What a file that is no ONNX model seems to be, and what to do with it; empty where that is not known."""
    kind = _kind_of_bytes(bytes(data[:512])) or (_SUFFIXES.get(path.suffix.lower()) if path is not None else None)
    return f"it seems to be {_ADVICE[kind]}" if kind else ""


def foreign_folder(path: Path) -> str:
    """The same for a folder."""
    if (path / "saved_model.pb").is_file():
        return f"it seems to be {_ADVICE['tensorflow']}"
    found = sorted(each.name for each in path.glob("*.onnx"))
    if found:
        return f"it holds {found[0]}" + (f" and {len(found) - 1} more models" if len(found) > 1 else "")
    kind = _SUFFIXES.get(path.suffix.lower())
    if any(path.glob("*.safetensors")):
        kind = "safetensors"
    return f"it seems to be {_ADVICE[kind]}" if kind else ""


def _kind_of_bytes(start: bytes) -> str | None:
    named = next((kind for beginning, kind in _BEGINNINGS.items() if start.startswith(beginning)), None)
    return named or next((kind for kind, matches in _MATCHES.items() if matches(start)), None)


def _is_pickle(start: bytes) -> bool:
    return start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def _is_torch_archive(start: bytes) -> bool:
    return start.startswith(b"PK\x03\x04") and any(name in start for name in (b"/data.pkl", b"/version", b"/byteorder"))


_MATCHES: dict[str, Callable[[bytes], bool]] = {
    "tflite": lambda start: start[4:8] == b"TFL3",
    "ort": lambda start: start[4:8] == b"ORTM",
    "safetensors": lambda start: start[8:10] == b'{"',
    "page": lambda start: start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")),
    "pickle": lambda start: _is_pickle(start) or _is_torch_archive(start),
}

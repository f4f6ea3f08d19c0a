"""Models that were exported to Zig as programs: several are compiled together, for a compiler takes long to start."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from intaglio.emit.zig.graph_text import GraphText
from intaglio.emit.zig.module import graph_source, write_library, write_weights
from intaglio.emit.zig.values import read_values, write_values
from intaglio.errors import CompileError, IntaglioError, UnsupportedError
from intaglio.ir.graph import Graph
from intaglio.ir.types import Type
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify

TOGETHER = 120
"""So many models are compiled into one program."""

TIME_LIMIT_SECONDS = 600

_CACHE = str(Path(tempfile.gettempdir()) / "intaglio-zig-cache")

_CASES = """\
const std = @import("std");
const files = @import("onnx/files.zig");
const tensor = @import("onnx/tensor.zig");
const walk = @import("onnx/walk.zig");

pub const Paths = struct {
    io: std.Io,
    allocator: std.mem.Allocator,
    weights: []const u8,
    inputs: []const u8,
    outputs: []const u8,
};

pub fn run(comptime graph: anytype, paths: Paths) !void {
    const model = walk.Model(graph);
    const here: std.Io.Dir = .cwd();
    const weights = try here.readFileAllocOptions(paths.io, paths.weights, paths.allocator, .unlimited, .@"64", null);
    const bytes = try here.readFileAllocOptions(paths.io, paths.inputs, paths.allocator, .unlimited, .@"64", null);
    var c: tensor.Context = .{ .allocator = paths.allocator };
    var reader: files.Reader = .{ .bytes = bytes };
    var inputs: model.Inputs = undefined;
    inline for (&inputs) |*input| input.* = try reader.value(&c, @TypeOf(input.*));
    const outputs = try model.run(paths.allocator, weights, inputs);
    var writer: files.Writer = .{ .allocator = paths.allocator };
    inline for (outputs) |output| try writer.value(output);
    try here.writeFile(paths.io, .{ .sub_path = paths.outputs, .data = writer.bytes.items });
}
"""


def zig_command() -> list[str] | None:
    """The command of the Zig compiler; None where the package `ziglang` is not installed."""
    return [sys.executable, "-m", "ziglang"] if importlib.util.find_spec("ziglang") is not None else None


@dataclass
class ZigModel:
    """A model in Zig: its text, its weights, and the types of what it takes and gives."""

    text: str
    weights: GraphText
    inputs: list[Type]
    defaults: list[Any]
    outputs: list[Type]

    @property
    def key(self) -> str:
        """A name for it in files."""
        digest = hashlib.sha256(self.text.encode())
        for _, array in self.weights.arrays:
            digest.update(array.tobytes())
        return f"g{digest.hexdigest()[:24]}"


def zig_model(model: Any) -> ZigModel:
    """A model of ONNX as Zig; raises UnsupportedError where it has no words."""
    graph: Graph = read_model(model).graph
    simplify(graph, disable=["integer-arithmetic"])
    inputs, outputs = [value.type for value in graph.inputs], [value.type for value in graph.outputs]
    defaults = [value.default for value in graph.inputs]
    text, weights = graph_source(graph, graph.name)
    return ZigModel(text, weights, inputs, defaults, outputs)


class ZigPrograms:
    """A folder in which models are compiled and run."""

    def __init__(self, folder: Path, mode: str = "Debug") -> None:
        self.folder, self.mode = folder, mode
        self._programs: dict[str, tuple[Path, int]] = {}
        self.faults: dict[str, str] = {}
        self.keep: object = None
        write_library(folder)
        (folder / "cases.zig").write_text(_CASES)

    def compile(self, models: Iterable[ZigModel], progress: Callable[[int, int], None] | None = None) -> None:
        """Compile models that are not there yet, several at once; those that fail are kept out of the others' way.

        `progress(done, total)` is told of models.
        """
        waiting = {model.key: model for model in models}
        waiting = {key: model for key, model in waiting.items() if key not in self._programs and key not in self.faults}
        keys = list(waiting)
        for start in range(0, len(keys), TOGETHER):
            self._compile_some([waiting[key] for key in keys[start : start + TOGETHER]])
            if progress is not None:
                progress(min(start + TOGETHER, len(keys)), len(keys))

    def _compile_some(self, models: Sequence[ZigModel]) -> None:
        for model in models:
            (self.folder / f"{model.key}.zig").write_text(model.text)
            write_weights(self.folder / f"{model.key}.bin", model.weights)
            (self.folder / f"run_{model.key}.zig").write_text(_case(model.key))
        left = [model.key for model in models]
        while left:
            errors = self._build(left)
            if not errors:
                return
            guilty = set(re.findall(r"run_(g[0-9a-f]{24})\.zig", errors)) & set(left)
            for key in guilty or left:
                self.faults[key] = errors if len(guilty) <= 1 else _faults_of(errors, key)
            left = [key for key in left if key not in guilty] if guilty else []

    def _build(self, keys: Sequence[str]) -> str:
        """Compile one program; returns what the compiler says against it."""
        name = f"p{hashlib.sha256(' '.join(keys).encode()).hexdigest()[:24]}"
        (self.folder / f"{name}.zig").write_text(_main(keys))
        command = zig_command()
        if command is None:
            raise CompileError("the Zig compiler is missing: `pip install ziglang`")
        done = subprocess.run(
            [
                *command,
                "build-exe",
                f"{name}.zig",
                f"-O{self.mode}",
                "-fstrip",
                "-freference-trace=200",
                f"-femit-bin={name}",
            ],
            cwd=self.folder,
            env=zig_environment(),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
            check=False,
        )
        if done.returncode == 0:
            self._programs |= {key: (self.folder / name, number) for number, key in enumerate(keys)}
            return ""
        return done.stderr or f"status {done.returncode}"

    def run(self, model: ZigModel, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for arrays, lists of arrays and None."""
        self.compile([model])
        key = model.key
        if key in self.faults:
            raise CompileError(f"Zig does not compile what was written: {self.faults[key]}")
        program, number = self._programs[key]
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            given, made = Path(place) / "inputs", Path(place) / "outputs"
            fed = [*inputs, *model.defaults[len(inputs) :]]
            given.write_bytes(write_values(zip(fed, model.inputs, strict=True)))
            done = subprocess.run(
                [program, str(number), self.folder / f"{key}.bin", given, made],
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT_SECONDS,
                check=False,
            )
            if done.returncode != 0:
                raise IntaglioError(f"the program failed with {done.returncode}: {done.stderr.strip()[:2000]}")
            return read_values(made.read_bytes(), model.outputs)


@cache
def shared_programs(mode: str = "Debug") -> ZigPrograms:
    """The programs of this process that are optimised so, in a folder that goes when it ends."""
    folder = tempfile.TemporaryDirectory(prefix="intaglio-zig-")
    programs = ZigPrograms(Path(folder.name), mode)
    programs.keep = folder
    return programs


class ZigBackend:
    """An ONNX backend that writes each model as Zig, compiles it and runs that."""

    def __init__(self, mode: str = "Debug") -> None:
        self.mode = mode

    def prepare(self, model: Any, device: str = "CPU", **options: Any) -> PreparedZig:
        """Export a model; it is compiled when it first runs, unless that has been done with others."""
        del device, options
        return PreparedZig(zig_model(model), self.mode)


@dataclass
class PreparedZig:
    """A model that can be run."""

    model: ZigModel
    mode: str = "Debug"

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for arrays."""
        return shared_programs(self.mode).run(self.model, inputs)


def compile_together(models: Iterable[Any], progress: Callable[[int, int], None] | None = None) -> None:
    """Compile many models of ONNX; what cannot be said is left to its own test to report."""
    sayable: list[ZigModel] = []
    for model in models:
        try:
            sayable.append(zig_model(model))
        except (IntaglioError, UnsupportedError):
            continue
    shared_programs().compile(sayable, progress)


def zig_environment() -> dict[str, str]:
    """The environment of the compiler, with a cache that all programs share."""
    return {"ZIG_GLOBAL_CACHE_DIR": _CACHE, "ZIG_LOCAL_CACHE_DIR": _CACHE, **os.environ}


def _case(key: str) -> str:
    return f'''\
const cases = @import("cases.zig");

pub fn run(paths: cases.Paths) anyerror!void {{
    return cases.run(@import("{key}.zig").graph, paths);
}}
'''


def _main(keys: Sequence[str]) -> str:
    entries = "\n".join(f'    @import("run_{key}.zig").run,' for key in keys)
    return f"""\
const std = @import("std");
const cases = @import("cases.zig");

const table = [_]*const fn (cases.Paths) anyerror!void{{
{entries}
}};

pub fn main(init: std.process.Init) !void {{
    const arena = init.arena.allocator();
    const args = try init.minimal.args.toSlice(arena);
    const number = try std.fmt.parseInt(usize, args[1], 10);
    const paths: cases.Paths = .{{
        .io = init.io,
        .allocator = arena,
        .weights = args[2],
        .inputs = args[3],
        .outputs = args[4],
    }};
    return table[number](paths);
}}
"""


def _faults_of(errors: str, key: str) -> str:
    """The part of the compiler's words that names a model."""
    parts = re.split(r"(?m)^(?=\S+:\d+:\d+: error:)", errors)
    return "".join(part for part in parts if key in part) or errors

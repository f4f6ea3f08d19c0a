"""What stands around the graph in a folder of Zig: the model, a program that tests it, how it is built, a README."""

from __future__ import annotations

from intaglio.emit.names import comment
from intaglio.ir.graph import Graph

MODEL = """\
//! The model: `Inputs`, `Outputs` and `run`, made of `graph.zig` while it is compiled.

const walk = @import("onnx/walk.zig");

pub const graph = @import("graph.zig").graph;

const model = walk.Model(graph);

/// Tensors in the order of the model's inputs.
pub const Inputs = model.Inputs;

/// Tensors in the order of the model's outputs.
pub const Outputs = model.Outputs;

pub const run = model.run;
pub const runSeeded = model.runSeeded;
"""

MAIN = """\
//! Runs the model on stored inputs and compares the outputs with stored answers.

const std = @import("std");
const check = @import("onnx/check.zig");
const files = @import("onnx/files.zig");
const model = @import("model.zig");
const tensor = @import("onnx/tensor.zig");

const weights align(64) = @embedFile("weights.bin").*;
const answers align(64) = @embedFile("answers.bin").*;

pub fn main(init: std.process.Init) !void {
    const allocator = init.arena.allocator();
    var c: tensor.Context = .{ .allocator = allocator };
    var reader: files.Reader = .{ .bytes = &answers };
    var inputs: model.Inputs = undefined;
    inline for (&inputs) |*input| input.* = try reader.value(&c, @TypeOf(input.*));
    const outputs = try model.run(allocator, &weights, inputs);
    var is_right = true;
    inline for (outputs, model.graph.output) |found, output| {
        const expected = try reader.value(&c, @TypeOf(found));
        const is_close = check.isClose(found, expected);
        std.debug.print("{s}: {s}\\n", .{ output.name, if (is_close) "ok" else "differs" });
        is_right = is_right and is_close;
    }
    if (!is_right) std.process.exit(1);
}
"""

MAIN_WITHOUT_ANSWERS = """\
//! Compiles the model. There are no stored answers: no inputs could be made up for it.

const std = @import("std");
const model = @import("model.zig");

pub fn main() void {
    _ = &model.run;
    std.debug.print("no stored answers for {d} outputs\\n", .{model.graph.output.len});
}
"""

BUILD = """\
//! `zig build test` compares the model with stored answers; `zig build` makes the program that does so.

const std = @import("std");

pub fn build(b: *std.Build) void {
    const program = b.addExecutable(.{
        .name = "model",
        .root_module = b.createModule(.{
            .root_source_file = b.path("main.zig"),
            .target = b.standardTargetOptions(.{}),
            .optimize = b.standardOptimizeOption(.{}),
        }),
    });
    b.installArtifact(program);
    const run = b.addRunArtifact(program);
    b.step("test", "Compare the model with stored answers").dependOn(&run.step);
}
"""

MAKEFILE = """\
# ZIG may also be "python -m ziglang", the compiler as a Python package.
ZIG = zig
# ReleaseFast makes fast code, and takes longer to compile.
MODE = Debug

test: model-test
\t./model-test

model-test: $(wildcard *.zig onnx/*.zig) weights.bin
\t$(ZIG) build-exe main.zig -O $(MODE) -femit-bin=$@

.PHONY: test
"""


def readme(graph: Graph, name: str, has_answers: bool) -> str:
    """The README of a folder."""
    taken = "\n".join(f"- `{comment(value.name)}`: {comment(str(value.type))}" for value in graph.inputs)
    given = "\n".join(f"- `{comment(value.name)}`: {comment(str(value.type))}" for value in graph.outputs)
    stored = "compares the model with stored answers" if has_answers else "compiles the model; no answers are stored"
    return f"""# {name}

A model as Zig, written by Intaglio for Zig 0.17.

- `graph.zig` is the whole graph as one anonymous struct, in ONNX's own names.
- `model.zig` walks it while it is compiled: each node becomes a call of its operator.
- `operators.zig` lists the operators, `onnx/` has them by family. Only those that the graph uses are compiled.
- `weights.bin` are the constants that the graph refers to by `offset`.
- `main.zig` tests all of it: `zig build test`, or `make test ZIG="python -m ziglang"`, {stored}.

```zig
const model = @import("model.zig");
const weights align(64) = @embedFile("weights.bin").*;

const outputs = try model.run(arena.allocator(), &weights, .{{
    .{{ .shape = &.{{ 1, 3 }}, .data = &.{{ 1, 2, 3 }} }}, // one tensor for each input
}});
```

The sizes of tensors are known when the model runs, so one program takes inputs of any size that fits the graph. All
results are allocated by the given allocator and freed with it: an arena, or a `FixedBufferAllocator` where there is no
heap.

Inputs:

{taken or "none"}

Outputs:

{given}
"""

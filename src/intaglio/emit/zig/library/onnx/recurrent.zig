//! Recurrent layers in one or both directions.

const std = @import("std");
const convert = @import("convert.zig");
const functions = @import("functions.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const asFloat = tensor.asFloat;
const get = tensor.get;
const has = tensor.has;
const list = tensor.list;
const wants = tensor.wants;

const Name = enum { affine, elu, hardsigmoid, leakyrelu, relu, scaledtanh, sigmoid, softplus, softsign, tanh, thresholdedrelu };

/// A function of a gate, whose input is bounded first.
const Activation = struct {
    name: Name,
    alpha: f64 = 0,
    beta: f64 = 0,
    clip: f64 = std.math.inf(f64),

    fn apply(f: Activation, given: f64) f64 {
        const x = functions.bounded(given, -f.clip, f.clip);
        return switch (f.name) {
            .affine => f.alpha * x + f.beta,
            .elu => if (x >= 0) x else f.alpha * std.math.expm1(x),
            .hardsigmoid => functions.bounded(f.alpha * x + f.beta, 0, 1),
            .leakyrelu => if (x >= 0) x else f.alpha * x,
            .relu => functions.relu(x),
            .scaledtanh => f.alpha * std.math.tanh(f.beta * x),
            .sigmoid => functions.sigmoid(x),
            .softplus => functions.softplus(x),
            .softsign => functions.softsign(x),
            .tanh => std.math.tanh(x),
            .thresholdedrelu => if (x >= f.alpha) x else 0,
        };
    }
};

/// The activations of all directions; their parameters are taken from their lists in order.
fn activationsOf(comptime attribute: anytype, comptime defaults: []const []const u8, comptime directions: usize) [defaults.len * directions]Activation {
    @setEvalBranchQuota(100_000);
    const alphas = list(f32, attribute, "activation_alpha") orelse &.{};
    const betas = list(f32, attribute, "activation_beta") orelse &.{};
    const given = list([]const u8, attribute, "activations");
    var found: [defaults.len * directions]Activation = undefined;
    var alpha_at, var beta_at = .{ 0, 0 };
    for (&found, 0..) |*activation, i| {
        const text = if (given) |names| names[i] else defaults[i % defaults.len];
        var buffer: [32]u8 = undefined;
        const name = std.meta.stringToEnum(Name, std.ascii.lowerString(&buffer, text)).?;
        activation.* = .{ .name = name };
        if (std.mem.findScalar(Name, &.{ .affine, .elu, .hardsigmoid, .leakyrelu, .scaledtanh, .thresholdedrelu }, name) != null) {
            const usual: f64 = if (name == .hardsigmoid) 0.2 else if (name == .leakyrelu) 0.01 else 1;
            activation.alpha = if (alpha_at < alphas.len) alphas[alpha_at] else usual;
            alpha_at += 1;
        }
        if (std.mem.findScalar(Name, &.{ .affine, .hardsigmoid, .scaledtanh }, name) != null) {
            const usual: f64 = if (name == .hardsigmoid) 0.5 else if (name == .scaledtanh) 1 else 0;
            activation.beta = if (beta_at < betas.len) betas[beta_at] else usual;
            beta_at += 1;
        }
        const is_bounded = i % defaults.len != 2 and @hasField(@TypeOf(attribute), "clip");
        if (is_bounded) activation.clip = attribute.clip;
    }
    return found;
}

const Kind = enum { rnn, gru, lstm };

/// One direction of a layer: its weights as doubles, gate by gate.
const Cell = struct {
    kind: Kind,
    hidden: usize,
    inputs: usize,
    w: []const f64,
    r: []const f64,
    bias: []const f64,
    peephole: []const f64,
    activations: []const Activation,
    linear_before_reset: bool,
    input_forget: bool,

    fn gates(kind: Kind) usize {
        return switch (kind) {
            .rnn => 1,
            .gru => 3,
            .lstm => 4,
        };
    }

    fn dot(a: []const f64, b: []const f64) f64 {
        var sum: f64 = 0;
        for (a, b) |x, y| sum += x * y;
        return sum;
    }

    fn fromInput(cell: Cell, gate: usize, unit: usize, x: []const f64) f64 {
        const row = gate * cell.hidden + unit;
        return dot(cell.w[row * cell.inputs ..][0..cell.inputs], x) + cell.bias[row];
    }

    fn fromState(cell: Cell, gate: usize, unit: usize, h: []const f64) f64 {
        const row = gate * cell.hidden + unit;
        return dot(cell.r[row * cell.hidden ..][0..cell.hidden], h) + cell.bias[gates(cell.kind) * cell.hidden + row];
    }

    /// The states after one step of time; `scratch` holds two vectors of the hidden size.
    fn step(cell: Cell, x: []const f64, h: []f64, state: []f64, scratch: []f64) void {
        const new, const reset = .{ scratch[0..cell.hidden], scratch[cell.hidden..] };
        const f = cell.activations;
        switch (cell.kind) {
            .rnn => for (new, 0..) |*to, unit| {
                to.* = f[0].apply(cell.fromInput(0, unit, x) + cell.fromState(0, unit, h));
            },
            .gru => {
                for (reset, 0..) |*to, unit| to.* = f[0].apply(cell.fromInput(1, unit, x) + cell.fromState(1, unit, h));
                if (!cell.linear_before_reset) for (reset, h) |*to, old| {
                    to.* *= old;
                };
                for (new, 0..) |*to, unit| {
                    const past = if (cell.linear_before_reset) reset[unit] * cell.fromState(2, unit, h) else cell.fromState(2, unit, reset);
                    const update = f[0].apply(cell.fromInput(0, unit, x) + cell.fromState(0, unit, h));
                    to.* = (1 - update) * f[1].apply(cell.fromInput(2, unit, x) + past) + update * h[unit];
                }
            },
            .lstm => for (new, 0..) |*to, unit| {
                const p = cell.peephole;
                const old = state[unit];
                const input = f[0].apply(cell.fromInput(0, unit, x) + cell.fromState(0, unit, h) + p[unit] * old);
                const kept = f[0].apply(cell.fromInput(2, unit, x) + cell.fromState(2, unit, h) + p[2 * cell.hidden + unit] * old);
                const fresh = f[1].apply(cell.fromInput(3, unit, x) + cell.fromState(3, unit, h));
                const value = (if (cell.input_forget) 1 - input else kept) * old + input * fresh;
                const output = f[0].apply(cell.fromInput(1, unit, x) + cell.fromState(1, unit, h) + p[cell.hidden + unit] * value);
                state[unit] = value;
                to.* = output * f[2].apply(value);
            },
        }
        @memcpy(h, new);
    }
};

fn wide(c: *Context, x: anytype) Error![]const f64 {
    const result = try c.alloc(f64, x.data.len);
    for (result, x.data) |*to, from| to.* = asFloat(f64, from);
    return result;
}

fn zeros(c: *Context, size: usize) Error![]f64 {
    const result = try c.alloc(f64, size);
    @memset(result, 0);
    return result;
}

fn Layer(comptime kind: Kind, comptime defaults: []const []const u8) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const T = Of(@TypeOf(in[0]));
            const direction = comptime get(attribute, "direction", @as([]const u8, "forward"));
            const directions = comptime if (std.mem.eql(u8, direction, "bidirectional")) 2 else 1;
            const is_batch_first = get(attribute, "layout", @as(i64, 0)) != 0;
            const steps = in[0].shape[@intFromBool(is_batch_first)];
            const batch = in[0].shape[@intFromBool(!is_batch_first)];
            const inputs, const hidden = .{ in[0].shape[2], in[2].shape[2] };
            const rows = Cell.gates(kind) * hidden;
            if (in[1].shape[2] != inputs or in[1].shape[1] != rows or in[2].shape[1] != rows) return error.Shape;
            const x, const w, const r = .{ try wide(c, in[0]), try wide(c, in[1]), try wide(c, in[2]) };
            const bias = if (has(in, 3)) try wide(c, in[3]) else try zeros(c, directions * 2 * rows);
            const size = directions * batch * hidden;
            const h = if (has(in, 5)) @constCast(try wide(c, in[5])) else try zeros(c, size);
            const state = if (has(in, 6)) @constCast(try wide(c, in[6])) else try zeros(c, size);
            const peephole = if (has(in, 7)) try wide(c, in[7]) else try zeros(c, directions * 3 * hidden);
            const y = try zeros(c, steps * size);
            const activations = comptime activationsOf(attribute, defaults, directions);
            const scratch = try zeros(c, 2 * hidden);
            inline for (0..directions) |d| {
                const cell: Cell = .{
                    .kind = kind,
                    .hidden = hidden,
                    .inputs = inputs,
                    .w = w[d * rows * inputs ..][0 .. rows * inputs],
                    .r = r[d * rows * hidden ..][0 .. rows * hidden],
                    .bias = bias[d * 2 * rows ..][0 .. 2 * rows],
                    .peephole = peephole[d * 3 * hidden ..][0 .. 3 * hidden],
                    .activations = activations[d * defaults.len ..][0..defaults.len],
                    .linear_before_reset = get(attribute, "linear_before_reset", @as(i64, 0)) != 0,
                    .input_forget = get(attribute, "input_forget", @as(i64, 0)) != 0,
                };
                const is_reverse = d == 1 or (comptime std.mem.eql(u8, direction, "reverse"));
                for (0..batch) |n| {
                    const own = (if (is_batch_first) n * directions + d else d * batch + n) * hidden;
                    const length: usize = if (has(in, 4)) @intCast(in[4].data[n]) else steps;
                    if (length > steps) return error.Value;
                    for (0..length) |i| {
                        const t = if (is_reverse) length - 1 - i else i;
                        const from = (if (is_batch_first) n * steps + t else t * batch + n) * inputs;
                        cell.step(x[from..][0..inputs], h[own..][0..hidden], state[own..][0..hidden], scratch);
                        const to = if (is_batch_first) (n * steps + t) * directions + d else (t * directions + d) * batch + n;
                        @memcpy(y[to * hidden ..][0..hidden], h[own..][0..hidden]);
                    }
                }
            }
            const outer = if (is_batch_first) [_]usize{ batch, steps, directions, hidden } else [_]usize{ steps, directions, batch, hidden };
            const ends = if (is_batch_first) [_]usize{ batch, directions, hidden } else [_]usize{ directions, batch, hidden };
            const shape = try c.allocator.dupe(usize, &ends);
            if (wants(out, 0)) out[0].* = .{ .shape = try c.allocator.dupe(usize, &outer), .data = try narrowed(c, T, y) };
            if (wants(out, 1)) out[1].* = .{ .shape = shape, .data = try narrowed(c, T, h) };
            if (wants(out, 2)) out[2].* = .{ .shape = shape, .data = try narrowed(c, T, state) };
        }
    };
}

fn narrowed(c: *Context, comptime T: type, values: []const f64) Error![]const T {
    const data = try c.alloc(T, values.len);
    for (data, values) |*to, from| to.* = convert.convert(T, from, false, .up);
    return data;
}

pub const RNN = Layer(.rnn, &.{"Tanh"}).run;
pub const GRU = Layer(.gru, &.{ "Sigmoid", "Tanh" }).run;
pub const LSTM = Layer(.lstm, &.{ "Sigmoid", "Tanh", "Tanh" }).run;

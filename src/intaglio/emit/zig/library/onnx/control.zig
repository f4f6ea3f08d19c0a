//! Branches and loops: their bodies are graphs in the attributes of the node.

const std = @import("std");
const movement = @import("movement.zig");
const tensor = @import("tensor.zig");
const walk = @import("walk.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const has = tensor.has;

pub fn If(c: *Context, comptime attribute: anytype, in: anytype, out: anytype, scope: anytype) Error!void {
    if (try tensor.item(in[0])) {
        try give(out, try walk.runGraph(c, attribute.then_branch, scope, .{}));
    } else {
        try give(out, try walk.runGraph(c, attribute.else_branch, scope, .{}));
    }
}

fn give(out: anytype, results: anytype) Error!void {
    inline for (out, 0..) |place, number| {
        if (@TypeOf(place) != void) place.* = results[number];
    }
}

/// The rows that rounds of a loop give, to be stacked along a new axis.
fn Rows(comptime body: anytype, comptime first: usize) type {
    var types: [body.output.len - first]type = undefined;
    for (&types, first..) |*T, place| T.* = std.ArrayList(walk.TypeOf(body.output[place].type));
    return @Tuple(&types);
}

/// Memory for the rounds of a loop. What a round allocates is gone when the one after the next begins, so a loop needs
/// no more memory the longer it runs.
const Rounds = struct {
    arenas: [2]std.heap.ArenaAllocator,

    fn init(c: *Context) Rounds {
        return .{ .arenas = .{ .init(c.allocator), .init(c.allocator) } };
    }

    fn deinit(rounds: *Rounds) void {
        for (&rounds.arenas) |*arena| arena.deinit();
    }

    fn begin(rounds: *Rounds, c: *Context, number: usize) Context {
        const arena = &rounds.arenas[number % 2];
        _ = arena.reset(.retain_capacity);
        return .{ .allocator = arena.allocator(), .weights = c.weights, .random = c.random };
    }
};

pub fn Loop(c: *Context, comptime attribute: anytype, in: anytype, out: anytype, scope: anytype) Error!void {
    const body = attribute.body;
    const states = body.input.len - 2;
    var rows: Rows(body, 1 + states) = undefined;
    inline for (&rows) |*each| each.* = .empty;
    var given: walk.TypesOf(body.input) = undefined;
    inline for (0..states) |place| given[2 + place] = in[2 + place];
    var goes_on = if (has(in, 1)) try tensor.item(in[1]) else true;
    const limit: i64 = if (has(in, 0)) try tensor.item(in[0]) else std.math.maxInt(i64);
    var rounds = Rounds.init(c);
    defer rounds.deinit();
    var round: i64 = 0;
    while (goes_on and round < limit) : (round += 1) {
        var inner = rounds.begin(c, @intCast(round));
        given[0] = try tensor.scalar(&inner, round);
        given[1] = try tensor.scalar(&inner, goes_on);
        const results = try walk.runGraph(&inner, body, scope, given);
        goes_on = try tensor.item(results[0]);
        inline for (0..states) |place| given[2 + place] = try tensor.kept(&inner, results[1 + place]);
        inline for (&rows, 0..) |*each, place| try each.append(c.allocator, try tensor.kept(c, results[1 + states + place]));
        c.random = inner.random;
    }
    inline for (out, 0..) |place, number| {
        if (@TypeOf(place) == void) continue;
        if (number < states) {
            place.* = try tensor.kept(c, given[2 + number]);
        } else {
            const type_of_row = body.output[1 + number].type;
            place.* = try stacked(c, type_of_row, rows[number - states].items, 0);
        }
    }
}

/// Tensors side by side along a new axis.
fn stacked(c: *Context, comptime row: anytype, items: anytype, axis: i64) Error!walk.TypeOf(row) {
    const T = Of(walk.TypeOf(row));
    if (items.len == 0) return .{ .shape = try shapeWithoutRows(c, row, axis), .data = &.{} };
    const place = try tensor.axisOf(axis, items[0].shape.len + 1);
    const parts = try c.alloc(Tensor(T), items.len);
    for (parts, items) |*part, each| {
        part.* = .{ .shape = try movement.withExtent(c, each.shape, place, 1), .data = each.data };
    }
    return movement.concatenated(c, T, parts, place);
}

/// What is stacked from no rows at all: sizes that only data tells are zero.
fn shapeWithoutRows(c: *Context, comptime row: anytype, axis: i64) Error![]const usize {
    if (!@hasField(@TypeOf(row.tensor_type), "shape")) return movement.withExtent(c, &.{}, 0, 0);
    const written = row.tensor_type.shape;
    const shape = try c.alloc(usize, written.len);
    inline for (written, 0..) |extent, place| shape[place] = if (@TypeOf(extent) == comptime_int) extent else 0;
    return movement.withExtent(c, shape, try tensor.axisOf(axis, written.len + 1), 0);
}

pub fn Scan(c: *Context, comptime attribute: anytype, in: anytype, out: anytype, scope: anytype) Error!void {
    const body = attribute.body;
    const scanned = attribute.num_scan_inputs;
    const states = body.input.len - scanned;
    const axes = tensor.ints(attribute, "scan_input_axes") orelse &@as([scanned]i64, @splat(0));
    const directions = tensor.ints(attribute, "scan_input_directions") orelse &@as([scanned]i64, @splat(0));
    var rows: Rows(body, states) = undefined;
    inline for (&rows) |*each| each.* = .empty;
    var given: walk.TypesOf(body.input) = undefined;
    inline for (0..states) |place| given[place] = in[place];
    const first = in[states];
    const rounds = first.shape[try tensor.axisOf(axes[0], first.shape.len)];
    var memory = Rounds.init(c);
    defer memory.deinit();
    for (0..rounds) |round| {
        var inner = memory.begin(c, round);
        inline for (0..scanned) |place| {
            const x = in[states + place];
            const at = if (directions[place] == 0) round else rounds - 1 - round;
            given[states + place] = try movement.slab(&inner, x, try tensor.axisOf(axes[place], x.shape.len), at);
        }
        const results = try walk.runGraph(&inner, body, scope, given);
        inline for (0..states) |place| given[place] = try tensor.kept(&inner, results[place]);
        inline for (&rows, 0..) |*each, place| try each.append(c.allocator, try tensor.kept(c, results[states + place]));
        c.random = inner.random;
    }
    const stacks = body.output.len - states;
    const out_axes = tensor.ints(attribute, "scan_output_axes") orelse &@as([stacks]i64, @splat(0));
    const out_directions = tensor.ints(attribute, "scan_output_directions") orelse &@as([stacks]i64, @splat(0));
    inline for (out, 0..) |place, number| {
        if (@TypeOf(place) == void) continue;
        if (number < states) {
            place.* = try tensor.kept(c, given[number]);
        } else {
            const items = rows[number - states].items;
            if (out_directions[number - states] != 0) std.mem.reverse(@TypeOf(items[0]), items);
            const row = body.output[number].type;
            const rank = if (items.len > 0) items[0].shape.len + 1 else 1;
            place.* = try stacked(c, row, items, @intCast(try tensor.axisOf(out_axes[number - states], rank)));
        }
    }
}

pub fn SequenceMap(c: *Context, comptime attribute: anytype, in: anytype, out: anytype, scope: anytype) Error!void {
    const body = attribute.body;
    var rows: Rows(body, 0) = undefined;
    inline for (&rows) |*each| each.* = .empty;
    for (0..in[0].items.len) |round| {
        var given: walk.TypesOf(body.input) = undefined;
        inline for (in, 0..) |operand, place| {
            given[place] = if (@hasField(@TypeOf(operand), "items")) operand.items[round] else operand;
        }
        const results = try walk.runGraph(c, body, scope, given);
        inline for (&rows, 0..) |*each, place| try each.append(c.allocator, results[place]);
    }
    inline for (out, 0..) |place, number| {
        if (@TypeOf(place) != void) place.* = .{ .items = rows[number].items };
    }
}

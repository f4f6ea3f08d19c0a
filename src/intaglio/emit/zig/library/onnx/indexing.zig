//! Gathering and scattering by index.

const std = @import("std");
const convert = @import("convert.zig");
const functions = @import("functions.zig");
const movement = @import("movement.zig");
const tensor = @import("tensor.zig");

const Around = tensor.Around;
const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const get = tensor.get;
const has = tensor.has;
const indexOf = tensor.indexOf;
const product = tensor.product;

pub fn Gather(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const indices = .{ in[0], in[1] };
    const axis = try indexOf(get(attribute, "axis", @as(i64, 0)), x.shape.len);
    const around = Around.of(x.shape, axis);
    const shape = try std.mem.concat(c.allocator, usize, &.{ x.shape[0..axis], indices.shape, x.shape[axis + 1 ..] });
    const data = try c.alloc(Of(@TypeOf(x)), product(shape));
    var at: usize = 0;
    for (0..around.outer) |row| for (indices.data) |given| {
        const index = try indexOf(given, around.extent);
        @memcpy(data[at..][0..around.inner], x.data[(row * around.extent + index) * around.inner ..][0..around.inner]);
        at += around.inner;
    };
    out[0].* = .{ .shape = shape, .data = data };
}

/// Where each element of `indices` points to in a tensor, when it takes the place of one axis.
fn elementPlaces(c: *Context, shape: []const usize, indices: anytype, axis: usize) Error![]const usize {
    const strides = try tensor.stridesOf(c, shape);
    const places = try c.alloc(usize, indices.data.len);
    for (places, indices.data, 0..) |*place, given, i| {
        place.* = 0;
        var rest = i;
        var dimension = shape.len;
        while (dimension > 0) {
            dimension -= 1;
            const own = rest % indices.shape[dimension];
            rest /= indices.shape[dimension];
            const index = if (dimension == axis) try indexOf(given, shape[axis]) else own;
            if (index >= shape[dimension]) return error.Index;
            place.* += index * @as(usize, @intCast(strides[dimension]));
        }
    }
    return places;
}

pub fn GatherElements(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const indices = .{ in[0], in[1] };
    if (x.shape.len != indices.shape.len) return error.Shape;
    const axis = try indexOf(get(attribute, "axis", @as(i64, 0)), x.shape.len);
    const data = try c.alloc(Of(@TypeOf(x)), indices.data.len);
    for (data, try elementPlaces(c, x.shape, indices, axis)) |*to, place| to.* = x.data[place];
    out[0].* = .{ .shape = indices.shape, .data = data };
}

/// Where the tuples of indices in the last axis of `indices` point to, and how many elements lie there.
const Blocks = struct {
    places: []const usize,
    size: usize,

    fn of(c: *Context, shape: []const usize, indices: Tensor(i64), batch: usize) Error!Blocks {
        const depth = indices.shape[indices.shape.len - 1];
        if (batch + depth > shape.len) return error.Shape;
        const size = product(shape[batch + depth ..]);
        const count = product(indices.shape[0 .. indices.shape.len - 1]);
        const per_batch = @max(1, count / @max(1, product(shape[0..batch])));
        const places = try c.alloc(usize, count);
        for (places, 0..) |*place, i| {
            place.* = if (batch == 0) 0 else i / per_batch;
            for (indices.data[i * depth ..][0..depth], shape[batch..][0..depth]) |given, extent| {
                place.* = place.* * extent + try indexOf(given, extent);
            }
            place.* *= size;
        }
        return .{ .places = places, .size = size };
    }
};

pub fn GatherND(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const indices = .{ in[0], in[1] };
    const batch: usize = @intCast(get(attribute, "batch_dims", @as(i64, 0)));
    const blocks = try Blocks.of(c, x.shape, indices, batch);
    const depth = indices.shape[indices.shape.len - 1];
    const shape = try std.mem.concat(c.allocator, usize, &.{ indices.shape[0 .. indices.shape.len - 1], x.shape[batch + depth ..] });
    const data = try c.alloc(Of(@TypeOf(x)), product(shape));
    for (blocks.places, 0..) |place, i| @memcpy(data[i * blocks.size ..][0..blocks.size], x.data[place..][0..blocks.size]);
    out[0].* = .{ .shape = shape, .data = data };
}

/// How an update is put to an element that is there.
fn update(comptime attribute: anytype, comptime T: type, old: T, new: T) T {
    const reduction = comptime get(attribute, "reduction", @as([]const u8, "none"));
    if (comptime std.mem.eql(u8, reduction, "none")) return new;
    if (T == bool) return if (comptime std.mem.eql(u8, reduction, "add") or std.mem.eql(u8, reduction, "max")) old or new else old and new;
    const x, const y = .{ tensor.wide(old), tensor.wide(new) };
    const f = comptime if (std.mem.eql(u8, reduction, "add")) functions.add else if (std.mem.eql(u8, reduction, "mul")) functions.mul else if (std.mem.eql(u8, reduction, "max")) functions.max else functions.min;
    return tensor.rounded(T, f(.{}, x, y));
}

pub fn ScatterElements(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const indices, const updates = .{ in[0], in[1], in[2] };
    const T = Of(@TypeOf(x));
    const axis = try indexOf(get(attribute, "axis", @as(i64, 0)), x.shape.len);
    if (updates.data.len != indices.data.len) return error.Shape;
    const data = try c.allocator.dupe(T, x.data);
    for (try elementPlaces(c, x.shape, indices, axis), updates.data) |place, new| {
        data[place] = update(attribute, T, data[place], new);
    }
    out[0].* = .{ .shape = x.shape, .data = data };
}

pub const Scatter = ScatterElements;

pub fn ScatterND(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const indices, const updates = .{ in[0], in[1], in[2] };
    const T = Of(@TypeOf(x));
    const blocks = try Blocks.of(c, x.shape, indices, 0);
    if (updates.data.len != blocks.places.len * blocks.size) return error.Shape;
    const data = try c.allocator.dupe(T, x.data);
    for (blocks.places, 0..) |place, i| {
        for (data[place..][0..blocks.size], updates.data[i * blocks.size ..][0..blocks.size]) |*old, new| {
            old.* = update(attribute, T, old.*, new);
        }
    }
    out[0].* = .{ .shape = x.shape, .data = data };
}

pub fn TensorScatter(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const past, const updates = .{ in[0], in[1] };
    const axis = try indexOf(get(attribute, "axis", @as(i64, -2)), past.shape.len);
    const is_circular = comptime std.mem.eql(u8, get(attribute, "mode", @as([]const u8, "linear")), "circular");
    const T = Of(@TypeOf(past));
    const data = try c.allocator.dupe(T, past.data);
    const around = Around.of(past.shape, axis);
    const count = updates.shape[axis];
    const rows_per_batch = around.outer / past.shape[0];
    for (0..around.outer) |row| {
        const start: usize = if (has(in, 2)) @intCast(in[2].data[row / rows_per_batch]) else 0;
        for (0..count) |step| {
            const place = if (is_circular) (start + step) % around.extent else start + step;
            if (place >= around.extent) return error.Index;
            const from = updates.data[(row * count + step) * around.inner ..][0..around.inner];
            @memcpy(data[(row * around.extent + place) * around.inner ..][0..around.inner], from);
        }
    }
    out[0].* = .{ .shape = past.shape, .data = data };
}

pub fn OneHot(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const indices = in[0];
    const depth: i64 = convert.convert(i64, try tensor.item(in[1]), true, .up);
    const axis = try tensor.axisOf(get(attribute, "axis", @as(i64, -1)), indices.shape.len + 1);
    if (depth < 0) return error.Value;
    const shape = try movement.withExtent(c, indices.shape, axis, @intCast(depth));
    const around = Around.of(shape, axis);
    const data = try c.alloc(T, product(shape));
    @memset(data, in[2].data[0]);
    for (indices.data, 0..) |given, i| {
        const index: i64 = convert.convert(i64, given, true, .up);
        const place = if (index < 0) index + depth else index;
        if (place < 0 or place >= depth) continue;
        const row, const column = .{ i / around.inner, i % around.inner };
        data[(row * around.extent + @as(usize, @intCast(place))) * around.inner + column] = in[2].data[1];
    }
    out[0].* = .{ .shape = shape, .data = data };
}

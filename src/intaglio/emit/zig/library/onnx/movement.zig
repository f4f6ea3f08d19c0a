//! Operators that move elements and compute nothing, and those that make shapes.

const std = @import("std");
const tensor = @import("tensor.zig");

const Around = tensor.Around;
const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const get = tensor.get;
const has = tensor.has;
const ints = tensor.ints;
const product = tensor.product;

/// A shape with one more axis at a place.
pub fn withExtent(c: *Context, shape: []const usize, place: usize, extent: usize) Error![]const usize {
    const result = try c.alloc(usize, shape.len + 1);
    @memcpy(result[0..place], shape[0..place]);
    result[place] = extent;
    @memcpy(result[place + 1 ..], shape[place..]);
    return result;
}

/// A shape with another extent on one axis.
pub fn changedExtent(c: *Context, shape: []const usize, axis: usize, extent: usize) Error![]const usize {
    const result = try c.allocator.dupe(usize, shape);
    result[axis] = extent;
    return result;
}

/// Tensors one behind the other along an axis.
pub fn concatenated(c: *Context, comptime T: type, parts: []const Tensor(T), axis: usize) Error!Tensor(T) {
    var extent: usize = 0;
    for (parts) |part| {
        if (part.shape.len != parts[0].shape.len) return error.Shape;
        for (part.shape, parts[0].shape, 0..) |a, b, place| if (a != b and place != axis) return error.Shape;
        extent += part.shape[axis];
    }
    const shape = try changedExtent(c, parts[0].shape, axis, extent);
    const around = Around.of(shape, axis);
    const data = try c.alloc(T, product(shape));
    var at: usize = 0;
    for (0..around.outer) |row| {
        for (parts) |part| {
            const width = part.shape[axis] * around.inner;
            @memcpy(data[at..][0..width], part.data[row * width ..][0..width]);
            at += width;
        }
    }
    return .{ .shape = shape, .data = data };
}

/// What lies at an index of an axis, without that axis.
pub fn slab(c: *Context, x: anytype, axis: usize, index: usize) Error!@TypeOf(x) {
    const part = try cut(c, x, axis, index, 1);
    return .{ .shape = try withoutAxis(c, part.shape, axis), .data = part.data };
}

fn withoutAxis(c: *Context, shape: []const usize, axis: usize) Error![]const usize {
    const result = try c.alloc(usize, shape.len - 1);
    @memcpy(result[0..axis], shape[0..axis]);
    @memcpy(result[axis..], shape[axis + 1 ..]);
    return result;
}

/// Some indices of an axis, one behind the other.
pub fn cut(c: *Context, x: anytype, axis: usize, first: usize, count: usize) Error!@TypeOf(x) {
    if (first + count > x.shape[axis]) return error.Index;
    const shape = try changedExtent(c, x.shape, axis, count);
    const around = Around.of(x.shape, axis);
    const width = count * around.inner;
    if (around.outer == 1) return .{ .shape = shape, .data = x.data[first * around.inner ..][0..width] };
    const data = try c.alloc(Of(@TypeOf(x)), product(shape));
    for (0..around.outer) |row| {
        const from = (row * around.extent + first) * around.inner;
        @memcpy(data[row * width ..][0..width], x.data[from..][0..width]);
    }
    return .{ .shape = shape, .data = data };
}

pub fn Shape(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const shape = in[0].shape;
    const rank: i64 = @intCast(shape.len);
    const start = get(attribute, "start", @as(i64, 0));
    const end = if (@hasField(@TypeOf(attribute), "end")) @as(i64, attribute.end) else rank;
    const first = std.math.clamp(if (start < 0) start + rank else start, 0, rank);
    const last = std.math.clamp(if (end < 0) end + rank else end, first, rank);
    const sizes = try c.alloc(i64, @intCast(last - first));
    for (sizes, shape[@intCast(first)..][0..sizes.len]) |*size, extent| size.* = @intCast(extent);
    out[0].* = try tensor.vector(c, i64, sizes);
}

pub fn Size(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    out[0].* = try tensor.scalar(c, @as(i64, @intCast(in[0].data.len)));
}

pub fn Reshape(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const wanted = in[1].data;
    const shape = try c.alloc(usize, wanted.len);
    var open: ?usize = null;
    var rest: usize = 1;
    for (shape, wanted, 0..) |*extent, size, axis| {
        if (size == -1) {
            open = axis;
            continue;
        }
        if (size < 0) return error.Shape;
        const copies = size == 0 and get(attribute, "allowzero", @as(i64, 0)) == 0;
        if (copies and axis >= in[0].shape.len) return error.Shape;
        extent.* = if (copies) in[0].shape[axis] else @intCast(size);
        rest *= extent.*;
    }
    if (open) |axis| shape[axis] = if (rest == 0) 0 else in[0].data.len / rest;
    if (product(shape) != in[0].data.len) return error.Shape;
    out[0].* = .{ .shape = shape, .data = in[0].data };
}

pub fn Flatten(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const axis = try tensor.axisOf(get(attribute, "axis", @as(i64, 1)), in[0].shape.len);
    const shape = try c.alloc(usize, 2);
    shape[0] = product(in[0].shape[0..axis]);
    shape[1] = product(in[0].shape[axis..]);
    out[0].* = .{ .shape = shape, .data = in[0].data };
}

pub fn Squeeze(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const gone = try c.alloc(bool, x.shape.len);
    if (has(in, 1)) {
        @memset(gone, false);
        for (in[1].data) |axis| gone[try tensor.indexOf(axis, x.shape.len)] = true;
    } else {
        for (gone, x.shape) |*is_gone, extent| is_gone.* = extent == 1;
    }
    var shape: std.ArrayList(usize) = .empty;
    for (gone, x.shape) |is_gone, extent| {
        if (is_gone and extent != 1) return error.Shape;
        if (!is_gone) try shape.append(c.allocator, extent);
    }
    out[0].* = .{ .shape = shape.items, .data = x.data };
}

pub fn Unsqueeze(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const shape = try c.alloc(usize, x.shape.len + in[1].data.len);
    @memset(shape, 0);
    const is_new = try c.alloc(bool, shape.len);
    @memset(is_new, false);
    for (in[1].data) |axis| is_new[try tensor.indexOf(axis, shape.len)] = true;
    var at: usize = 0;
    for (shape, is_new) |*extent, new| {
        extent.* = if (new) 1 else x.shape[at];
        at += @intFromBool(!new);
    }
    out[0].* = .{ .shape = shape, .data = x.data };
}

pub fn Transpose(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const rank = in[0].shape.len;
    const permutation = try c.alloc(usize, rank);
    if (ints(attribute, "perm")) |perm| {
        for (permutation, perm) |*axis, given| axis.* = @intCast(given);
    } else {
        for (permutation, 0..) |*axis, place| axis.* = rank - 1 - place;
    }
    out[0].* = try tensor.transposed(c, in[0], permutation);
}

pub fn Expand(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const shape = try tensor.broadcast(c, in[0].shape, try tensor.shapeFrom(c, in[1].data));
    out[0].* = try tensor.expandTo(c, in[0], shape);
}

pub fn Concat(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    var parts: [in.len]Tensor(T) = undefined;
    inline for (in, 0..) |x, place| parts[place] = x;
    out[0].* = try concatenated(c, T, &parts, try tensor.indexOf(attribute.axis, in[0].shape.len));
}

pub fn Split(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const axis = try tensor.indexOf(get(attribute, "axis", @as(i64, 0)), in[0].shape.len);
    const extent = in[0].shape[axis];
    const each = (extent + out.len - 1) / out.len;
    var at: usize = 0;
    inline for (out, 0..) |place, number| {
        const count: usize = if (has(in, 1)) @intCast(in[1].data[number]) else @min(each, extent - at);
        if (@TypeOf(place) != void) place.* = try cut(c, in[0], axis, at, count);
        at += count;
    }
}

pub fn Slice(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const starts = try tensor.integers(c, in[1]);
    const ends = try tensor.integers(c, in[2]);
    const shape = try c.allocator.dupe(usize, x.shape);
    const strides = try tensor.stridesOf(c, x.shape);
    var offset: isize = 0;
    for (starts, ends, 0..) |start, end, number| {
        const given: i64 = if (has(in, 3)) @intCast(in[3].data[number]) else @intCast(number);
        const axis = try tensor.indexOf(given, x.shape.len);
        const step: i64 = if (has(in, 4)) @intCast(in[4].data[number]) else 1;
        const range = try Stepped.of(start, end, step, x.shape[axis]);
        offset += range.first * strides[axis];
        shape[axis] = range.count;
        strides[axis] *= @intCast(step);
    }
    out[0].* = try tensor.gatherStrided(c, Of(@TypeOf(x)), x.data, offset, shape, strides);
}

const Stepped = struct {
    first: isize,
    count: usize,

    /// The indices from start to end, as Python counts them.
    fn of(start: i64, end: i64, step: i64, extent: usize) Error!Stepped {
        if (step == 0) return error.Value;
        const size: i64 = @intCast(extent);
        const low: i64 = if (step > 0) 0 else -1;
        const high: i64 = if (step > 0) size else size - 1;
        const first = std.math.clamp(if (start < 0) start +| size else start, low, high);
        const last = std.math.clamp(if (end < 0) end +| size else end, low, high);
        const distance = if (step > 0) last - first else first - last;
        const width: i64 = if (step > 0) step else -(step + 1) +| 1;
        const count = if (distance <= 0) 0 else @divTrunc(distance - 1, width) + 1;
        return .{ .first = @intCast(if (count == 0) 0 else first), .count = @intCast(count) };
    }
};

pub fn Tile(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    var result: Tensor(T) = x;
    for (in[1].data, 0..) |repeats, axis| {
        const count: usize = @intCast(repeats);
        const shape = try changedExtent(c, result.shape, axis, result.shape[axis] * count);
        const width = product(result.shape[axis..]);
        const data = try c.alloc(T, product(shape));
        for (0..product(shape[0..axis])) |row| {
            for (0..count) |copy| {
                @memcpy(data[(row * count + copy) * width ..][0..width], result.data[row * width ..][0..width]);
            }
        }
        result = .{ .shape = shape, .data = data };
    }
    out[0].* = result;
}

pub fn ConstantOfShape(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const shape = try tensor.shapeFrom(c, in[0].data);
    const data = try c.alloc(T, product(shape));
    if (@hasField(@TypeOf(attribute), "value")) {
        @memset(data, element(T, attribute.value));
    } else {
        @memset(data, zero(T));
    }
    out[0].* = .{ .shape = shape, .data = data };
}

/// A number of an attribute as an element; those of types that Zig lacks are given as bits.
fn element(comptime T: type, comptime value: anytype) T {
    return if (@typeInfo(T) == .@"struct") .{ .bits = value } else value;
}

pub fn zero(comptime T: type) T {
    if (T == bool) return false;
    if (T == []const u8) return "";
    if (comptime tensor.isComplex(T)) return .{ .re = 0, .im = 0 };
    return if (@typeInfo(T) == .@"struct") T.fromFloat(0, false) else 0;
}

pub fn one(comptime T: type) T {
    if (T == bool) return true;
    return if (@typeInfo(T) == .@"struct") T.fromFloat(1, false) else 1;
}

pub fn Range(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const start, const limit, const delta = .{ try tensor.item(in[0]), try tensor.item(in[1]), try tensor.item(in[2]) };
    const first, const last, const step = .{ tensor.asFloat(f64, start), tensor.asFloat(f64, limit), tensor.asFloat(f64, delta) };
    if (step == 0) return error.Value;
    const count: usize = @intFromFloat(@max(0, @ceil((last - first) / step)));
    const data = try c.alloc(T, count);
    for (data, 0..) |*to, i| {
        if (comptime tensor.isInteger(T)) {
            to.* = start +% delta *% @as(T, @truncate(@as(i64, @intCast(i))));
        } else {
            to.* = tensor.rounded(T, tensor.wide(start) + tensor.wide(delta) * tensor.asFloat(tensor.Wide(T), i));
        }
    }
    out[0].* = try tensor.vector(c, T, data);
}

pub fn EyeLike(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const shape = in[0].shape;
    const k = get(attribute, "k", @as(i64, 0));
    const data = try c.alloc(T, product(shape));
    for (data, 0..) |*to, i| {
        const row: i64 = @intCast(i / shape[1]);
        const column: i64 = @intCast(i % shape[1]);
        to.* = if (column - row == k) one(T) else zero(T);
    }
    out[0].* = .{ .shape = shape, .data = data };
}

pub fn Trilu(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const x = in[0];
    const columns = x.shape[x.shape.len - 1];
    const rows = x.shape[x.shape.len - 2];
    const k: i64 = if (has(in, 1)) try tensor.item(in[1]) else 0;
    const is_upper = get(attribute, "upper", @as(i64, 1)) != 0;
    const data = try c.alloc(T, x.data.len);
    for (data, x.data, 0..) |*to, from, i| {
        const column: i64 = @intCast(i % columns);
        const row: i64 = @intCast(i / columns % rows);
        const is_kept = if (is_upper) column - row >= k else column - row <= k;
        to.* = if (is_kept) from else zero(T);
    }
    out[0].* = .{ .shape = x.shape, .data = data };
}

const Mode = enum { constant, reflect, edge, wrap };

pub fn Pad(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const mode = comptime std.meta.stringToEnum(Mode, get(attribute, "mode", @as([]const u8, "constant"))).?;
    const x = in[0];
    const pads = try c.alloc(i64, 2 * x.shape.len);
    @memset(pads, 0);
    const given = in[1].data;
    for (0..given.len / 2) |number| {
        const axis = if (has(in, 3)) try tensor.indexOf(in[3].data[number], x.shape.len) else number;
        pads[axis] = given[number];
        pads[axis + x.shape.len] = given[number + given.len / 2];
    }
    const fill = if (has(in, 2)) try tensor.item(in[2]) else zero(T);
    out[0].* = try padded(c, x, pads, mode, fill);
}

/// A tensor with elements added before and behind each axis, after some are taken away where a number is negative.
fn padded(c: *Context, x: anytype, pads: []const i64, mode: Mode, fill: Of(@TypeOf(x))) Error!@TypeOf(x) {
    var result = x;
    for (0..x.shape.len) |axis| {
        const first = pads[axis];
        const last = pads[axis + x.shape.len];
        const left = @as(i64, @intCast(x.shape[axis])) + @min(first, 0) + @min(last, 0);
        if (left < 0) return error.Shape;
        const sources = try c.alloc(?usize, @intCast(@max(first, 0) + left + @max(last, 0)));
        for (sources, 0..) |*source, place| {
            const found = sourceOf(@as(i64, @intCast(place)) - @max(first, 0), @intCast(left), mode);
            source.* = if (found) |index| index + @as(usize, @intCast(@max(-first, 0))) else null;
        }
        result = try takenOr(c, result, axis, sources, fill);
    }
    return result;
}

/// The index that a padded place shows; null where it shows the fill.
fn sourceOf(place: i64, extent: usize, mode: Mode) ?usize {
    const size: i64 = @intCast(extent);
    if (place >= 0 and place < size) return @intCast(place);
    if (size == 0) return null;
    return switch (mode) {
        .constant => null,
        .edge => @intCast(std.math.clamp(place, 0, size - 1)),
        .wrap => @intCast(@mod(place, size)),
        .reflect => {
            if (size == 1) return 0;
            const round = @mod(place, 2 * size - 2);
            return @intCast(if (round < size) round else 2 * size - 2 - round);
        },
    };
}

/// The slabs of an axis that are named, or filled ones.
pub fn takenOr(c: *Context, x: anytype, axis: usize, sources: []const ?usize, fill: Of(@TypeOf(x))) Error!@TypeOf(x) {
    const around = Around.of(x.shape, axis);
    const shape = try changedExtent(c, x.shape, axis, sources.len);
    const data = try c.alloc(Of(@TypeOf(x)), product(shape));
    var at: usize = 0;
    for (0..around.outer) |row| {
        for (sources) |source| {
            const place = data[at..][0..around.inner];
            if (source) |index| {
                @memcpy(place, x.data[(row * around.extent + index) * around.inner ..][0..around.inner]);
            } else {
                @memset(place, fill);
            }
            at += around.inner;
        }
    }
    return .{ .shape = shape, .data = data };
}

pub fn CenterCropPad(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const pads = try c.alloc(i64, 2 * x.shape.len);
    @memset(pads, 0);
    const sizes = try tensor.integers(c, in[1]);
    const axes = ints(attribute, "axes");
    for (sizes, 0..) |size, number| {
        const axis = if (axes) |given| try tensor.indexOf(given[number], x.shape.len) else number;
        const added = size - @as(i64, @intCast(x.shape[axis]));
        const before = if (added < 0) -@divFloor(-added, 2) else @divFloor(added, 2);
        pads[axis] = before;
        pads[axis + x.shape.len] = added - before;
    }
    out[0].* = try padded(c, x, pads, .constant, zero(Of(@TypeOf(x))));
}

pub fn ReverseSequence(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const time_axis: usize = @intCast(get(attribute, "time_axis", @as(i64, 0)));
    const batch_axis: usize = @intCast(get(attribute, "batch_axis", @as(i64, 1)));
    const strides = try tensor.stridesOf(c, x.shape);
    const data = try c.alloc(T, x.data.len);
    for (data, 0..) |*to, i| {
        const time = i / @as(usize, @intCast(strides[time_axis])) % x.shape[time_axis];
        const batch = i / @as(usize, @intCast(strides[batch_axis])) % x.shape[batch_axis];
        const length: usize = @intCast(in[1].data[batch]);
        if (length > x.shape[time_axis]) return error.Value;
        const step: usize = @intCast(strides[time_axis]);
        to.* = if (time < length) x.data[i - time * step + (length - 1 - time) * step] else x.data[i];
    }
    out[0].* = .{ .shape = x.shape, .data = data };
}

pub fn DepthToSpace(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const block: usize = attribute.blocksize;
    const n, const depth, const height, const width = .{ x.shape[0], x.shape[1] / (block * block), x.shape[2], x.shape[3] };
    const is_dcr = comptime std.mem.eql(u8, get(attribute, "mode", @as([]const u8, "DCR")), "DCR");
    const split = if (is_dcr) [_]usize{ n, block, block, depth, height, width } else [_]usize{ n, depth, block, block, height, width };
    const order = if (is_dcr) [_]usize{ 0, 3, 4, 1, 5, 2 } else [_]usize{ 0, 1, 4, 2, 5, 3 };
    const moved = try tensor.transposed(c, @TypeOf(x){ .shape = try c.allocator.dupe(usize, &split), .data = x.data }, &order);
    const shape = [_]usize{ n, depth, height * block, width * block };
    out[0].* = .{ .shape = try c.allocator.dupe(usize, &shape), .data = moved.data };
}

pub fn SpaceToDepth(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const block: usize = attribute.blocksize;
    const n, const depth, const height, const width = .{ x.shape[0], x.shape[1], x.shape[2] / block, x.shape[3] / block };
    const split = [_]usize{ n, depth, height, block, width, block };
    const is_dcr = comptime std.mem.eql(u8, get(attribute, "mode", @as([]const u8, "DCR")), "DCR");
    const order = if (is_dcr) [_]usize{ 0, 3, 5, 1, 2, 4 } else [_]usize{ 0, 1, 3, 5, 2, 4 };
    const moved = try tensor.transposed(c, @TypeOf(x){ .shape = try c.allocator.dupe(usize, &split), .data = x.data }, &order);
    const shape = [_]usize{ n, depth * block * block, height, width };
    out[0].* = .{ .shape = try c.allocator.dupe(usize, &shape), .data = moved.data };
}

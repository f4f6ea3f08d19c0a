//! Operators whose results data chooses: their sizes are known only when they run.

const std = @import("std");
const movement = @import("movement.zig");
const tensor = @import("tensor.zig");

const Around = tensor.Around;
const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const get = tensor.get;
const has = tensor.has;
const product = tensor.product;
const wants = tensor.wants;

pub fn NonZero(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    var found: std.ArrayList(usize) = .empty;
    for (x.data, 0..) |value, place| {
        const is_there = if (@TypeOf(value) == bool) value else if (@TypeOf(value) == []const u8) value.len > 0 else tensor.wide(value) != 0;
        if (is_there) try found.append(c.allocator, place);
    }
    const shape = try c.allocator.dupe(usize, &.{ x.shape.len, found.items.len });
    const data = try c.alloc(i64, product(shape));
    for (found.items, 0..) |place, number| {
        var rest = place;
        var axis = x.shape.len;
        while (axis > 0) {
            axis -= 1;
            data[axis * found.items.len + number] = @intCast(rest % x.shape[axis]);
            rest /= x.shape[axis];
        }
    }
    out[0].* = .{ .shape = shape, .data = data };
}

pub fn Compress(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(in[0]));
    const has_axis = comptime @hasField(@TypeOf(attribute), "axis");
    const flat: Tensor(T) = .{ .shape = try c.allocator.dupe(usize, &.{in[0].data.len}), .data = in[0].data };
    const x = if (has_axis) in[0] else flat;
    const axis = if (has_axis) try tensor.indexOf(attribute.axis, x.shape.len) else 0;
    var sources: std.ArrayList(?usize) = .empty;
    for (in[1].data, 0..) |is_kept, place| {
        if (is_kept and place >= x.shape[axis]) return error.Index;
        if (is_kept) try sources.append(c.allocator, place);
    }
    out[0].* = try movement.takenOr(c, x, axis, sources.items, movement.zero(T));
}

pub fn TopK(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const axis = try tensor.indexOf(get(attribute, "axis", @as(i64, -1)), x.shape.len);
    const around = Around.of(x.shape, axis);
    const k: usize = @intCast(try tensor.item(in[1]));
    if (k > around.extent) return error.Value;
    const shape = try movement.changedExtent(c, x.shape, axis, k);
    const values = try c.alloc(T, product(shape));
    const indices = try c.alloc(i64, product(shape));
    const order = try c.alloc(usize, around.extent);
    for (0..around.outer) |row| for (0..around.inner) |column| {
        const first = row * around.extent * around.inner + column;
        for (order, 0..) |*place, i| place.* = i;
        const ranking: Ranking(T) = .{ .data = x.data[first..], .step = around.inner, .is_largest = get(attribute, "largest", @as(i64, 1)) != 0 };
        std.sort.pdq(usize, order, ranking, Ranking(T).isBefore);
        for (order[0..k], 0..) |place, i| {
            const to = (row * k + i) * around.inner + column;
            values[to] = x.data[first + place * around.inner];
            indices[to] = @intCast(place);
        }
    };
    if (wants(out, 0)) out[0].* = .{ .shape = shape, .data = values };
    if (wants(out, 1)) out[1].* = .{ .shape = shape, .data = indices };
}

/// An order of places: the better value first, then the smaller place.
fn Ranking(comptime T: type) type {
    return struct {
        data: []const T,
        step: usize,
        is_largest: bool,

        fn isBefore(ranking: @This(), left: usize, right: usize) bool {
            const a = tensor.wide(ranking.data[left * ranking.step]);
            const b = tensor.wide(ranking.data[right * ranking.step]);
            if (comptime tensor.isFloat(T)) {
                if (a != a or b != b) return if ((a != a) == (b != b)) left < right else (a != a) == ranking.is_largest;
            }
            if (a == b) return left < right;
            return (a > b) == ranking.is_largest;
        }
    };
}

pub fn Unique(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(in[0]));
    const has_axis = comptime @hasField(@TypeOf(attribute), "axis");
    const flat: Tensor(T) = .{ .shape = try c.allocator.dupe(usize, &.{in[0].data.len}), .data = in[0].data };
    const x = if (has_axis) in[0] else flat;
    const axis = if (has_axis) try tensor.indexOf(attribute.axis, x.shape.len) else 0;
    const slabs: Slabs(T) = .{ .data = x.data, .around = Around.of(x.shape, axis) };
    const order = try c.alloc(usize, x.shape[axis]);
    for (order, 0..) |*place, i| place.* = i;
    std.sort.block(usize, order, slabs, Slabs(T).isBefore);
    var firsts: std.ArrayList(usize) = .empty;
    const group = try c.alloc(usize, order.len);
    for (order, 0..) |place, i| {
        if (i == 0 or slabs.compare(order[i - 1], place) != .eq) try firsts.append(c.allocator, place);
        group[place] = firsts.items.len - 1;
    }
    const count = firsts.items.len;
    const numbers = try c.alloc(usize, count);
    for (numbers, 0..) |*number, i| number.* = i;
    if (get(attribute, "sorted", @as(i64, 1)) == 0) std.sort.block(usize, numbers, firsts.items, isEarlier);
    const new = try c.alloc(usize, count);
    const sources = try c.alloc(?usize, count);
    for (numbers, 0..) |old, i| {
        new[old] = i;
        sources[i] = firsts.items[old];
    }
    if (wants(out, 0)) out[0].* = try movement.takenOr(c, x, axis, sources, movement.zero(T));
    const places = try c.alloc(i64, count);
    for (places, sources) |*place, source| place.* = @intCast(source.?);
    const inverse = try c.alloc(i64, order.len);
    const counts = try c.alloc(i64, count);
    @memset(counts, 0);
    for (inverse, group) |*to, old| {
        to.* = @intCast(new[old]);
        counts[new[old]] += 1;
    }
    if (wants(out, 1)) out[1].* = try tensor.vector(c, i64, places);
    if (wants(out, 2)) out[2].* = try tensor.vector(c, i64, inverse);
    if (wants(out, 3)) out[3].* = try tensor.vector(c, i64, counts);
}

fn isEarlier(firsts: []const usize, left: usize, right: usize) bool {
    return firsts[left] < firsts[right];
}

/// What lies at the indices of an axis, to be compared.
fn Slabs(comptime T: type) type {
    return struct {
        data: []const T,
        around: Around,

        fn isBefore(slabs: @This(), left: usize, right: usize) bool {
            return slabs.compare(left, right) == .lt;
        }

        fn compare(slabs: @This(), left: usize, right: usize) std.math.Order {
            const around = slabs.around;
            for (0..around.outer) |row| for (0..around.inner) |column| {
                const a = slabs.data[(row * around.extent + left) * around.inner + column];
                const b = slabs.data[(row * around.extent + right) * around.inner + column];
                const found = orderOf(T, a, b);
                if (found != .eq) return found;
            };
            return .eq;
        }
    };
}

fn orderOf(comptime T: type, x: T, y: T) std.math.Order {
    if (T == []const u8) return std.mem.order(u8, x, y);
    if (T == bool) return std.math.order(@intFromBool(x), @intFromBool(y));
    const a, const b = .{ tensor.wide(x), tensor.wide(y) };
    return if (a < b) .lt else if (a > b) .gt else .eq;
}

pub fn NonMaxSuppression(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const boxes, const scores = .{ in[0], in[1] };
    const limit: i64 = if (has(in, 2)) try tensor.item(in[2]) else 0;
    const overlap: f32 = if (has(in, 3)) try tensor.item(in[3]) else 0;
    const least: f32 = if (has(in, 4)) try tensor.item(in[4]) else -std.math.inf(f32);
    const count = boxes.shape[1];
    var found: std.ArrayList(i64) = .empty;
    const order = try c.alloc(usize, count);
    for (0..scores.shape[0]) |batch| for (0..scores.shape[1]) |class| {
        const own = scores.data[(batch * scores.shape[1] + class) * count ..][0..count];
        for (order, 0..) |*place, i| place.* = i;
        std.sort.block(usize, order, Ranking(f32){ .data = own, .step = 1, .is_largest = true }, Ranking(f32).isBefore);
        var kept: std.ArrayList(usize) = .empty;
        for (order) |place| {
            if (kept.items.len >= limit) break;
            if (has(in, 4)) if (!(own[place] > least)) continue;
            const is_free = for (kept.items) |other| {
                const a = boxes.data[(batch * count + place) * 4 ..][0..4];
                const b = boxes.data[(batch * count + other) * 4 ..][0..4];
                if (intersection(a, b, get(attribute, "center_point_box", @as(i64, 0)) != 0) > overlap) break false;
            } else true;
            if (is_free) try kept.append(c.allocator, place);
        }
        for (kept.items) |place| {
            try found.appendSlice(c.allocator, &.{ @intCast(batch), @intCast(class), @intCast(place) });
        }
    };
    const shape = try c.allocator.dupe(usize, &.{ found.items.len / 3, 3 });
    out[0].* = .{ .shape = shape, .data = found.items };
}

/// The area that two boxes share, as a part of what they cover together.
fn intersection(a: *const [4]f32, b: *const [4]f32, is_centered: bool) f32 {
    const p, const q = .{ corners(a, is_centered), corners(b, is_centered) };
    const height = @max(0, @min(p[2], q[2]) - @max(p[0], q[0]));
    const width = @max(0, @min(p[3], q[3]) - @max(p[1], q[1]));
    const shared = height * width;
    const whole = (p[2] - p[0]) * (p[3] - p[1]) + (q[2] - q[0]) * (q[3] - q[1]) - shared;
    return if (whole > 0) shared / whole else 0;
}

fn corners(box: *const [4]f32, is_centered: bool) [4]f32 {
    if (is_centered) {
        const x, const y, const w, const h = box.*;
        return .{ y - h / 2, x - w / 2, y + h / 2, x + w / 2 };
    }
    return .{ @min(box[0], box[2]), @min(box[1], box[3]), @max(box[0], box[2]), @max(box[1], box[3]) };
}

//! Sequences and optional values.

const std = @import("std");
const movement = @import("movement.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const get = tensor.get;
const has = tensor.has;

pub fn SequenceConstruct(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const items = try c.alloc(Tensor(Of(@TypeOf(out[0]))), in.len);
    inline for (in, 0..) |x, place| items[place] = x;
    out[0].* = .{ .items = items };
}

pub fn SequenceEmpty(_: *Context, comptime _: anytype, _: anytype, out: anytype) Error!void {
    out[0].* = .{};
}

pub fn SequenceLength(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    out[0].* = try tensor.scalar(c, @as(i64, @intCast(in[0].items.len)));
}

pub fn SequenceAt(_: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    out[0].* = in[0].items[try tensor.indexOf(try tensor.item(in[1]), in[0].items.len)];
}

pub fn SequenceErase(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const items = in[0].items;
    const place = if (has(in, 1)) try tensor.indexOf(try tensor.item(in[1]), items.len) else items.len - 1;
    out[0].* = .{ .items = try std.mem.concat(c.allocator, Tensor(Of(@TypeOf(out[0]))), &.{ items[0..place], items[place + 1 ..] }) };
}

pub fn SequenceInsert(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const items = in[0].items;
    const place = if (has(in, 2)) try tensor.axisOf(try tensor.item(in[2]), items.len) else items.len;
    out[0].* = .{ .items = try std.mem.concat(c.allocator, Tensor(Of(@TypeOf(out[0]))), &.{ items[0..place], &.{in[1]}, items[place..] }) };
}

pub fn ConcatFromSequence(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const items = in[0].items;
    if (items.len == 0) return error.Value;
    const is_new = get(attribute, "new_axis", @as(i64, 0)) != 0;
    const axis = try tensor.axisOf(attribute.axis, items[0].shape.len + @intFromBool(is_new));
    const parts = try c.alloc(Tensor(T), items.len);
    for (parts, items) |*part, each| {
        const shape = if (is_new) try movement.withExtent(c, each.shape, axis, 1) else each.shape;
        part.* = .{ .shape = shape, .data = each.data };
    }
    out[0].* = try movement.concatenated(c, T, parts, axis);
}

pub fn SplitToSequence(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const axis = try tensor.indexOf(get(attribute, "axis", @as(i64, 0)), x.shape.len);
    const extent = x.shape[axis];
    const each: usize = if (has(in, 1) and in[1].shape.len == 0) @intCast(in[1].data[0]) else 1;
    if (each == 0) return error.Value;
    const is_listed = if (has(in, 1)) in[1].shape.len > 0 else false;
    const count = if (has(in, 1) and is_listed) in[1].data.len else (extent + each - 1) / each;
    const items = try c.alloc(@TypeOf(x), count);
    var at: usize = 0;
    for (items, 0..) |*item, number| {
        const width: usize = if (has(in, 1) and is_listed) @intCast(in[1].data[number]) else @min(each, extent - at);
        const part = try movement.cut(c, x, axis, at, width);
        const is_dropped = !has(in, 1) and get(attribute, "keepdims", @as(i64, 1)) == 0;
        item.* = if (is_dropped) try movement.slab(c, part, axis, 0) else part;
        at += width;
    }
    if (at != extent) return error.Shape;
    out[0].* = .{ .items = items };
}

pub fn Optional(_: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    out[0].* = if (has(in, 0)) in[0] else null;
}

pub fn OptionalHasElement(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    if (!has(in, 0)) {
        out[0].* = try tensor.scalar(c, false);
    } else {
        const is_optional = @typeInfo(@TypeOf(in[0])) == .optional;
        out[0].* = try tensor.scalar(c, if (is_optional) in[0] != null else true);
    }
}

pub fn OptionalGetElement(_: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const is_optional = @typeInfo(@TypeOf(in[0])) == .optional;
    out[0].* = if (is_optional) in[0] orelse return error.Value else in[0];
}

//! Tensors of any rank with sizes that are known when they run, and what operators share.

const std = @import("std");
const narrow = @import("narrow.zig");

pub const Error = error{
    OutOfMemory,
    /// Sizes that do not fit each other.
    Shape,
    /// An index outside of its axis.
    Index,
    /// A value that an operator does not take.
    Value,
};

/// What operators work with: where results are allocated, and where random numbers come from.
pub const Context = struct {
    allocator: std.mem.Allocator,
    /// The bytes of the file of weights.
    weights: []const u8 = &.{},
    random: std.Random.DefaultPrng = .init(0),

    pub fn alloc(c: *Context, comptime T: type, size: usize) Error![]T {
        return c.allocator.alloc(T, size);
    }
};

/// Elements in row major order. What a tensor holds is never changed once it was made.
pub fn Tensor(comptime T: type) type {
    return struct {
        pub const Element = T;

        shape: []const usize = &.{},
        data: []const T = &.{},

        pub fn rank(x: @This()) usize {
            return x.shape.len;
        }
    };
}

/// A list of tensors that may differ in shape.
pub fn Sequence(comptime T: type) type {
    return struct {
        pub const Element = T;

        items: []const Tensor(T) = &.{},
    };
}

/// The element type of a tensor, a sequence, an optional one, or a pointer to one.
pub fn Of(comptime X: type) type {
    return switch (@typeInfo(X)) {
        .pointer => |pointer| Of(pointer.child),
        .optional => |optional| Of(optional.child),
        else => X.Element,
    };
}

/// Whether an optional operand is given.
pub inline fn has(in: anytype, comptime place: usize) bool {
    const types = @typeInfo(@TypeOf(in)).@"struct".field_types;
    return comptime types.len > place and types[place] != void;
}

/// Whether an optional result is asked for.
pub inline fn wants(out: anytype, comptime place: usize) bool {
    return has(out, place);
}

pub fn product(shape: []const usize) usize {
    var size: usize = 1;
    for (shape) |extent| size *= extent;
    return size;
}

pub fn stridesOf(c: *Context, shape: []const usize) Error![]isize {
    const strides = try c.alloc(isize, shape.len);
    var stride: isize = 1;
    var axis = shape.len;
    while (axis > 0) {
        axis -= 1;
        strides[axis] = stride;
        stride *= @intCast(shape[axis]);
    }
    return strides;
}

/// An axis counted from the front; negative ones count from the back.
pub fn axisOf(axis: i64, rank: usize) Error!usize {
    const found = if (axis < 0) axis + @as(i64, @intCast(rank)) else axis;
    if (found < 0 or found > rank) return error.Index;
    return @intCast(found);
}

/// An index counted from the front; negative ones count from the back.
pub fn indexOf(index: i64, extent: usize) Error!usize {
    const found = if (index < 0) index + @as(i64, @intCast(extent)) else index;
    if (found < 0 or found >= extent) return error.Index;
    return @intCast(found);
}

pub fn sameShape(left: []const usize, right: []const usize) bool {
    return std.mem.eql(usize, left, right);
}

/// What broadcasting makes of two shapes.
pub fn broadcast(c: *Context, left: []const usize, right: []const usize) Error![]const usize {
    if (sameShape(left, right)) return left;
    const rank = @max(left.len, right.len);
    const shape = try c.alloc(usize, rank);
    for (shape, 0..) |*extent, axis| {
        const a = if (axis + left.len < rank) 1 else left[axis + left.len - rank];
        const b = if (axis + right.len < rank) 1 else right[axis + right.len - rank];
        if (a != b and a != 1 and b != 1) return error.Shape;
        extent.* = if (a == 1) b else a;
    }
    return shape;
}

/// A copy of elements that lie `strides` apart, from `offset` on.
pub fn gatherStrided(
    c: *Context,
    comptime T: type,
    data: []const T,
    offset: isize,
    shape: []const usize,
    strides: []const isize,
) Error!Tensor(T) {
    const size = product(shape);
    const result = try c.alloc(T, size);
    if (size == 0) return .{ .shape = shape, .data = result };
    if (shape.len == 0) {
        result[0] = data[@intCast(offset)];
        return .{ .shape = shape, .data = result };
    }
    const counters = try c.alloc(usize, shape.len);
    @memset(counters, 0);
    const last = shape.len - 1;
    var place = offset;
    var at: usize = 0;
    while (true) {
        var source = place;
        for (result[at..][0..shape[last]]) |*element| {
            element.* = data[@intCast(source)];
            source += strides[last];
        }
        at += shape[last];
        if (at == size) return .{ .shape = shape, .data = result };
        var axis = last;
        while (axis > 0) {
            axis -= 1;
            counters[axis] += 1;
            place += strides[axis];
            if (counters[axis] < shape[axis]) break;
            place -= strides[axis] * @as(isize, @intCast(shape[axis]));
            counters[axis] = 0;
        }
    }
}

/// A tensor repeated along axes of extent 1 and new ones in front, up to a shape.
pub fn expandTo(c: *Context, x: anytype, shape: []const usize) Error!@TypeOf(x) {
    if (sameShape(x.shape, shape)) return x;
    if (shape.len < x.shape.len) return error.Shape;
    const own = try stridesOf(c, x.shape);
    const strides = try c.alloc(isize, shape.len);
    const added = shape.len - x.shape.len;
    for (strides, 0..) |*stride, axis| {
        if (axis < added) {
            stride.* = 0;
            continue;
        }
        const extent = x.shape[axis - added];
        if (extent != shape[axis] and extent != 1) return error.Shape;
        stride.* = if (extent == 1) 0 else own[axis - added];
    }
    return gatherStrided(c, Of(@TypeOf(x)), x.data, 0, shape, strides);
}

/// A tensor with its axes in another order.
pub fn transposed(c: *Context, x: anytype, permutation: []const usize) Error!@TypeOf(x) {
    const own = try stridesOf(c, x.shape);
    const shape = try c.alloc(usize, x.shape.len);
    const strides = try c.alloc(isize, x.shape.len);
    for (permutation, 0..) |axis, place| {
        shape[place] = x.shape[axis];
        strides[place] = own[axis];
    }
    return gatherStrided(c, Of(@TypeOf(x)), x.data, 0, shape, strides);
}

/// A tensor around an axis: how many elements lie before it, on it and behind it.
pub const Around = struct {
    outer: usize,
    extent: usize,
    inner: usize,

    pub fn of(shape: []const usize, axis: usize) Around {
        return .{ .outer = product(shape[0..axis]), .extent = shape[axis], .inner = product(shape[axis + 1 ..]) };
    }
};

pub fn scalar(c: *Context, value: anytype) Error!Tensor(@TypeOf(value)) {
    const data = try c.alloc(@TypeOf(value), 1);
    data[0] = value;
    return .{ .shape = &.{}, .data = data };
}

pub fn vector(c: *Context, comptime T: type, values: []const T) Error!Tensor(T) {
    const shape = try c.alloc(usize, 1);
    shape[0] = values.len;
    return .{ .shape = shape, .data = values };
}

/// A copy of a value that lives as long as what the context allocates.
pub fn kept(c: *Context, value: anytype) Error!@TypeOf(value) {
    const Value = @TypeOf(value);
    if (@typeInfo(Value) == .optional) return if (value) |inner| try kept(c, inner) else null;
    if (@hasField(Value, "items")) {
        const items = try c.alloc(Tensor(Of(Value)), value.items.len);
        for (items, value.items) |*to, from| to.* = try kept(c, from);
        return .{ .items = items };
    }
    const data = try c.allocator.dupe(Of(Value), value.data);
    if (Of(Value) == []const u8) for (data) |*text| {
        text.* = try c.allocator.dupe(u8, text.*);
    };
    return .{ .shape = try c.allocator.dupe(usize, value.shape), .data = data };
}

/// The one element of a tensor.
pub fn item(x: anytype) Error!Of(@TypeOf(x)) {
    return if (x.data.len == 1) x.data[0] else error.Shape;
}

/// Integers of any width as sizes or indices.
pub fn integers(c: *Context, x: anytype) Error![]const i64 {
    if (Of(@TypeOf(x)) == i64) return x.data;
    const result = try c.alloc(i64, x.data.len);
    for (result, x.data) |*to, from| to.* = @intCast(from);
    return result;
}

pub fn shapeFrom(c: *Context, sizes: []const i64) Error![]const usize {
    const shape = try c.alloc(usize, sizes.len);
    for (shape, sizes) |*extent, size| {
        if (size < 0) return error.Shape;
        extent.* = @intCast(size);
    }
    return shape;
}

/// An attribute, or what it is where a node does not have it.
pub fn get(comptime attribute: anytype, comptime name: []const u8, comptime default: anytype) @TypeOf(default) {
    if (!@hasField(@TypeOf(attribute), name)) return default;
    const given = @field(attribute, name);
    return given;
}

/// An attribute that is a list of integers.
pub fn ints(comptime attribute: anytype, comptime name: []const u8) ?[]const i64 {
    return list(i64, attribute, name);
}

/// An attribute that is a list.
pub fn list(comptime T: type, comptime attribute: anytype, comptime name: []const u8) ?[]const T {
    if (!@hasField(@TypeOf(attribute), name)) return null;
    const given = @field(attribute, name);
    const array: [given.len]T = given;
    const held = struct {
        const items = array;
    };
    return &held.items;
}

pub fn isFloat(comptime T: type) bool {
    return @typeInfo(T) == .float or narrow.isNarrow(T);
}

pub fn isInteger(comptime T: type) bool {
    return @typeInfo(T) == .int;
}

pub fn isSigned(comptime T: type) bool {
    return isInteger(T) and @typeInfo(T).int.signedness == .signed;
}

pub fn isComplex(comptime T: type) bool {
    return T == std.math.Complex(f32) or T == std.math.Complex(f64);
}

/// The type that elements are computed in.
pub fn Wide(comptime T: type) type {
    return if (T == f16 or narrow.isNarrow(T)) f32 else T;
}

pub fn wide(x: anytype) Wide(@TypeOf(x)) {
    const T = @TypeOf(x);
    return if (comptime narrow.isNarrow(T)) x.toFloat() else x;
}

/// What was computed in a wide type, rounded to the nearest element.
pub fn rounded(comptime T: type, x: Wide(T)) T {
    if (comptime narrow.isNarrow(T)) return T.fromFloat(x, false);
    return if (T == f16) @floatCast(x) else x;
}

/// A number of any type as a float.
pub fn asFloat(comptime F: type, x: anytype) F {
    return switch (@typeInfo(@TypeOf(x))) {
        .float, .comptime_float => @floatCast(x),
        .int, .comptime_int => @floatFromInt(x),
        .bool => if (x) 1 else 0,
        else => @floatCast(x.toFloat()),
    };
}

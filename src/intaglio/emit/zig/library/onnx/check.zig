//! Compares outputs with stored answers.

const std = @import("std");
const tensor = @import("tensor.zig");

const Of = tensor.Of;

/// Whether two values are equal, floats up to rounding.
pub fn isClose(found: anytype, expected: @TypeOf(found)) bool {
    const Value = @TypeOf(found);
    if (@typeInfo(Value) == .optional) {
        if ((found == null) != (expected == null)) return false;
        return if (found) |inner| isClose(inner, expected.?) else true;
    }
    if (@hasField(Value, "items")) {
        if (found.items.len != expected.items.len) return false;
        for (found.items, expected.items) |left, right| if (!isClose(left, right)) return false;
        return true;
    }
    if (!tensor.sameShape(found.shape, expected.shape)) return false;
    for (found.data, expected.data) |left, right| if (!isCloseElement(Of(Value), left, right)) return false;
    return true;
}

fn isCloseElement(comptime T: type, left: T, right: T) bool {
    if (T == []const u8) return std.mem.eql(u8, left, right);
    if (comptime tensor.isComplex(T)) return isCloseElement(@TypeOf(left.re), left.re, right.re) and isCloseElement(@TypeOf(left.im), left.im, right.im);
    if (comptime !tensor.isFloat(T)) return left == right;
    const a, const b = .{ tensor.asFloat(f64, left), tensor.asFloat(f64, right) };
    if (std.math.isNan(a) or std.math.isNan(b)) return std.math.isNan(a) and std.math.isNan(b);
    const step: f64 = if (@bitSizeOf(T) <= 8) 0.2 else if (@bitSizeOf(T) <= 16) 0.02 else 1e-3;
    return a == b or @abs(a - b) <= 1e-5 + step * @abs(b);
}

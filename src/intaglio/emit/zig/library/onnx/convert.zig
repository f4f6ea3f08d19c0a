//! Conversion between element types.

const std = @import("std");
const narrow = @import("narrow.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const get = tensor.get;

/// A float rounded towards zero as an integer: out of range the nearest of 32 and 64 bits, NaN is 0, and narrower
/// types are reached by way of 32 bits.
pub fn integerFrom(comptime T: type, x: anytype) T {
    const info = @typeInfo(T).int;
    if (info.bits < 32) return wrapped(T, integerFrom(i32, x));
    if (std.math.isNan(x)) return 0;
    const low = std.math.minInt(T);
    const high = std.math.maxInt(T);
    const y: f64 = @trunc(@as(f64, x));
    if (y <= @as(f64, @floatFromInt(low))) return low;
    if (y >= @as(f64, @floatFromInt(high))) return high;
    return @intFromFloat(y);
}

/// The low bits of an integer.
pub fn wrapped(comptime T: type, x: anytype) T {
    const bits = @typeInfo(T).int.bits;
    const own = @typeInfo(@TypeOf(x)).int;
    const unsigned: @Int(.unsigned, own.bits) = @bitCast(x);
    if (bits <= own.bits) return @bitCast(@as(@Int(.unsigned, bits), @truncate(unsigned)));
    const extended: @Int(own.signedness, bits) = x;
    return @bitCast(extended);
}

/// A number in another type.
pub fn convert(comptime T: type, x: anytype, saturate: bool, direction: narrow.Direction) T {
    const S = @TypeOf(x);
    if (S == T) return x;
    if (S == bool) return convert(T, @as(u8, @intFromBool(x)), saturate, direction);
    if (T == bool) return if (comptime tensor.isFloat(S)) tensor.wide(x) != 0 else x != 0;
    if (comptime tensor.isInteger(T)) {
        return if (comptime tensor.isInteger(S)) wrapped(T, x) else integerFrom(T, tensor.wide(x));
    }
    return floatFrom(T, x, saturate, direction);
}

fn floatFrom(comptime T: type, x: anytype, saturate: bool, direction: narrow.Direction) T {
    if (comptime !narrow.isNarrow(T)) return tensor.asFloat(T, x);
    const single = if (comptime tensor.isFloat(@TypeOf(x)) and @TypeOf(x) != f64) tensor.asFloat(f32, x) else toOdd(tensor.asFloat(f64, x));
    if (T == narrow.Float8E8M0) return T.fromFloatTowards(single, saturate, direction);
    return T.fromFloat(single, saturate);
}

/// A double in single precision, towards zero, with the last bit set where that is not exact: rounding the result
/// again, to fewer bits, gives what rounding the double would.
fn toOdd(x: f64) f32 {
    const near: f32 = @floatCast(x);
    const back: f64 = near;
    if (back == x or std.math.isNan(x)) return near;
    var bits: u32 = @bitCast(near);
    if (@abs(back) > @abs(x)) bits -= 1;
    return @bitCast(bits | 1);
}

pub fn Cast(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const S = Of(@TypeOf(in[0]));
    const saturate = get(attribute, "saturate", @as(i64, 1)) != 0;
    const direction = comptime std.meta.stringToEnum(narrow.Direction, get(attribute, "round_mode", @as([]const u8, "up"))).?;
    const data = try c.alloc(T, in[0].data.len);
    for (data, in[0].data) |*to, from| {
        to.* = if (S == T) from else if (T == []const u8) try textOf(c, from) else if (S == []const u8) try numberOf(T, from) else convert(T, from, saturate, direction);
    }
    out[0].* = .{ .shape = in[0].shape, .data = data };
}

pub fn CastLike(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    return Cast(c, attribute, in, out);
}

/// The shortest text that is read back as the same number.
fn textOf(c: *Context, x: anytype) Error![]const u8 {
    const T = @TypeOf(x);
    if (T == bool) return if (x) "1" else "0";
    if (comptime tensor.isInteger(T)) return std.fmt.allocPrint(c.allocator, "{d}", .{x});
    const y = if (comptime narrow.isNarrow(T)) x.toFloat() else x;
    if (std.math.isNan(y)) return "NaN";
    if (std.math.isInf(y)) return if (y > 0) "INF" else "-INF";
    const size = @abs(y);
    if (size == 0 or (size >= 1e-4 and size < 1e16)) return std.fmt.allocPrint(c.allocator, "{d}", .{y});
    return scientific(c, try std.fmt.allocPrint(c.allocator, "{e}", .{y}));
}

/// An exponent with its sign and at least two digits.
fn scientific(c: *Context, text: []const u8) Error![]const u8 {
    const at = std.mem.findScalar(u8, text, 'e') orelse return text;
    const digits = if (text[at + 1] == '-') text[at + 2 ..] else text[at + 1 ..];
    const sign: u8 = if (text[at + 1] == '-') '-' else '+';
    const gap = if (digits.len < 2) "0" else "";
    return std.fmt.allocPrint(c.allocator, "{s}e{c}{s}{s}", .{ text[0..at], sign, gap, digits });
}

fn numberOf(comptime T: type, text: []const u8) Error!T {
    const plain = std.mem.trim(u8, text, " \t\r\n");
    if (T == bool) {
        if (std.ascii.eqlIgnoreCase(plain, "true")) return true;
        if (std.ascii.eqlIgnoreCase(plain, "false")) return false;
    }
    if (comptime tensor.isInteger(T)) {
        if (std.fmt.parseInt(T, plain, 10)) |number| return number else |_| {}
    }
    const number = std.fmt.parseFloat(f64, plain) catch return error.Value;
    return convert(T, number, true, .up);
}

pub fn BitCast(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const data = try c.alloc(T, in[0].data.len);
    for (data, in[0].data) |*to, from| to.* = fromBits(T, bitsOf(from));
    out[0].* = .{ .shape = in[0].shape, .data = data };
}

fn bitsOf(x: anytype) @Int(.unsigned, @bitSizeOf(Bits(@TypeOf(x)))) {
    return if (@typeInfo(@TypeOf(x)) == .@"struct") x.bits else if (@TypeOf(x) == bool) @intFromBool(x) else @bitCast(x);
}

fn fromBits(comptime T: type, bits: anytype) T {
    if (T == bool) return bits != 0;
    return if (@typeInfo(T) == .@"struct") .{ .bits = @intCast(bits) } else @bitCast(bits);
}

fn Bits(comptime T: type) type {
    if (T == bool) return u8;
    return if (@typeInfo(T) == .@"struct") @FieldType(T, "bits") else T;
}

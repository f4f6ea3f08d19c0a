//! Floating-point types of 16 bits and fewer that Zig lacks.

const std = @import("std");

pub const BFloat16 = struct {
    bits: u16,

    pub const greatest: f32 = 0x1.FEp127;

    pub fn toFloat(x: BFloat16) f32 {
        return @bitCast(@as(u32, x.bits) << 16);
    }

    /// The nearest number, halves to the even one.
    pub fn fromFloat(x: f32, saturate: bool) BFloat16 {
        _ = saturate;
        if (std.math.isNan(x)) return .{ .bits = 0x7FC0 };
        const bits: u32 = @bitCast(x);
        return .{ .bits = @truncate((bits +% 0x7FFF +% ((bits >> 16) & 1)) >> 16) };
    }
};

const Infinity = enum { ieee, none, none_and_no_nan, unsigned_zero };

/// A float of a sign bit, some bits of exponent and some of mantissa.
fn SmallFloat(comptime exponent_bits: comptime_int, comptime mantissa_bits: comptime_int, comptime bias: i32, comptime kind: Infinity) type {
    return struct {
        const Self = @This();
        const width = 1 + exponent_bits + mantissa_bits;
        const sign_bit: u8 = 1 << (width - 1);
        const nan_bits: u8 = switch (kind) {
            .ieee => sign_bit - 1,
            .none => sign_bit - 1,
            .none_and_no_nan => sign_bit,
            .unsigned_zero => sign_bit,
        };
        const infinity_bits: u8 = ((1 << exponent_bits) - 1) << mantissa_bits;
        const greatest_bits: u8 = switch (kind) {
            .ieee => infinity_bits - 1,
            .none => sign_bit - 2,
            else => sign_bit - 1,
        };

        bits: u8,

        pub const greatest: f32 = decode(greatest_bits);

        fn decode(code: u8) f32 {
            const exponent: i32 = code >> mantissa_bits;
            const mantissa: f32 = @floatFromInt(code & ((1 << mantissa_bits) - 1));
            const unit: f32 = std.math.scalbn(@as(f32, 1), -mantissa_bits);
            if (exponent == 0) return std.math.scalbn(mantissa * unit, 1 - bias);
            return std.math.scalbn(1 + mantissa * unit, exponent - bias);
        }

        pub fn toFloat(x: Self) f32 {
            if (kind != .none_and_no_nan and x.bits == nan_bits) return std.math.nan(f32);
            const code = x.bits & (sign_bit - 1);
            if (kind == .none and code == nan_bits) return std.math.nan(f32);
            if (kind == .ieee and code >= infinity_bits) {
                if (code != infinity_bits) return std.math.nan(f32);
                return if (x.bits & sign_bit != 0) -std.math.inf(f32) else std.math.inf(f32);
            }
            return if (x.bits & sign_bit != 0) -decode(code) else decode(code);
        }

        /// The nearest number, halves to the even one; what is too large becomes the largest, infinity or NaN.
        pub fn fromFloat(x: f32, saturate: bool) Self {
            if (std.math.isNan(x)) return .{ .bits = nan_bits };
            const size = @abs(x);
            const sign: u8 = if (std.math.signbit(x)) sign_bit else 0;
            const code = if (std.math.isInf(size)) greatest_bits + 1 else encode(size);
            if (code > greatest_bits) {
                if (saturate or kind == .none_and_no_nan) return .{ .bits = sign | greatest_bits };
                if (kind == .ieee) return .{ .bits = sign | infinity_bits };
                return .{ .bits = if (kind == .unsigned_zero) nan_bits else sign | nan_bits };
            }
            if (kind == .unsigned_zero and code == 0) return .{ .bits = 0 };
            return .{ .bits = sign | code };
        }

        /// The code of a size, or the one behind the greatest.
        fn encode(size: f32) u8 {
            if (size >= 2 * greatest) return greatest_bits + 1;
            if (size == 0) return 0;
            const lowest: i32 = 1 - bias;
            const exponent: i32 = @max(std.math.frexp(size).exponent - 1, lowest);
            const steps = nearestEven(std.math.scalbn(size, mantissa_bits - exponent));
            const base: i32 = (exponent - lowest) << mantissa_bits;
            return @intCast(@min(base + steps, @as(i32, greatest_bits) + 1));
        }
    };
}

fn nearestEven(x: f32) i32 {
    const down = @floor(x);
    const steps: i32 = @intFromFloat(down);
    if (x - down > 0.5 or (x - down == 0.5 and @mod(steps, 2) == 1)) return steps + 1;
    return steps;
}

pub const Float8E4M3FN = SmallFloat(4, 3, 7, .none);
pub const Float8E4M3FNUZ = SmallFloat(4, 3, 8, .unsigned_zero);
pub const Float8E5M2 = SmallFloat(5, 2, 15, .ieee);
pub const Float8E5M2FNUZ = SmallFloat(5, 2, 16, .unsigned_zero);
pub const Float6E2M3 = SmallFloat(2, 3, 1, .none_and_no_nan);
pub const Float6E3M2 = SmallFloat(3, 2, 3, .none_and_no_nan);
pub const Float4E2M1 = SmallFloat(2, 1, 1, .none_and_no_nan);

pub const Direction = enum { up, down, nearest };

/// A power of two.
pub const Float8E8M0 = struct {
    bits: u8,

    pub const greatest: f32 = 0x1p127;

    pub fn toFloat(x: Float8E8M0) f32 {
        if (x.bits == 255) return std.math.nan(f32);
        return std.math.scalbn(@as(f32, 1), @as(i32, x.bits) - 127);
    }

    pub fn fromFloat(x: f32, saturate: bool) Float8E8M0 {
        return fromFloatTowards(x, saturate, .up);
    }

    pub fn fromFloatTowards(x: f32, saturate: bool, direction: Direction) Float8E8M0 {
        if (std.math.isNan(x)) return .{ .bits = 255 };
        if (std.math.isInf(x) and x > 0) return .{ .bits = if (saturate) 254 else 255 };
        if (x <= 0) return .{ .bits = if (saturate) 0 else 255 };
        const parts = std.math.frexp(x);
        const is_up = switch (direction) {
            .up => parts.significand > 0.5,
            .nearest => parts.significand >= 0.75,
            .down => false,
        };
        const power = parts.exponent - 1 + @intFromBool(is_up);
        if (power < -127) return .{ .bits = if (saturate) 0 else 255 };
        if (power > 127) return .{ .bits = if (saturate) 254 else 255 };
        return .{ .bits = @intCast(power + 127) };
    }
};

pub fn isNarrow(comptime T: type) bool {
    return switch (@typeInfo(T)) {
        .@"struct" => @hasDecl(T, "fromFloat"),
        else => false,
    };
}

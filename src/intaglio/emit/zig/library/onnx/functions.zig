//! The functions behind elementwise operators, on elements in their wide type.

const std = @import("std");
const convert = @import("convert.zig");
const tensor = @import("tensor.zig");

const get = tensor.get;
const isFloat = tensor.isFloat;
const isInteger = tensor.isInteger;
const isSigned = tensor.isSigned;
const isComplex = tensor.isComplex;
const math = std.math;

pub fn abs(x: anytype) @TypeOf(x) {
    const T = @TypeOf(x);
    if (comptime isSigned(T)) return if (x < 0) 0 -% x else x;
    return if (comptime isFloat(T)) @abs(x) else x;
}

pub fn neg(x: anytype) @TypeOf(x) {
    return if (comptime isInteger(@TypeOf(x))) 0 -% x else -x;
}

pub fn sign(x: anytype) @TypeOf(x) {
    if (x > 0) return 1;
    if (comptime isInteger(@TypeOf(x)) and !isSigned(@TypeOf(x))) return 0;
    return if (x < 0) -1 else x;
}

pub fn acos(x: anytype) @TypeOf(x) {
    return math.acos(x);
}

pub fn acosh(x: anytype) @TypeOf(x) {
    return math.acosh(x);
}

pub fn asin(x: anytype) @TypeOf(x) {
    return math.asin(x);
}

pub fn asinh(x: anytype) @TypeOf(x) {
    return math.asinh(x);
}

pub fn atan(x: anytype) @TypeOf(x) {
    return math.atan(x);
}

pub fn atanh(x: anytype) @TypeOf(x) {
    return math.atanh(x);
}

pub fn bitwiseNot(x: anytype) @TypeOf(x) {
    return ~x;
}

pub fn ceil(x: anytype) @TypeOf(x) {
    return @ceil(x);
}

pub fn cos(x: anytype) @TypeOf(x) {
    return @cos(x);
}

pub fn cosh(x: anytype) @TypeOf(x) {
    return math.cosh(x);
}

pub fn exp(x: anytype) @TypeOf(x) {
    return @exp(x);
}

pub fn floor(x: anytype) @TypeOf(x) {
    return @floor(x);
}

pub fn log(x: anytype) @TypeOf(x) {
    return @log(x);
}

pub fn not(x: bool) bool {
    return !x;
}

pub fn reciprocal(x: anytype) @TypeOf(x) {
    return 1 / x;
}

pub fn sin(x: anytype) @TypeOf(x) {
    return @sin(x);
}

pub fn sinh(x: anytype) @TypeOf(x) {
    return math.sinh(x);
}

pub fn sqrt(x: anytype) @TypeOf(x) {
    return @sqrt(x);
}

pub fn tan(x: anytype) @TypeOf(x) {
    return @tan(x);
}

pub fn tanh(x: anytype) @TypeOf(x) {
    return math.tanh(x);
}

/// The nearest integer, halves to the even one.
pub fn round(x: anytype) @TypeOf(x) {
    const near = @round(x);
    if (@abs(x - @trunc(x)) != 0.5) return near;
    return 2 * @round(x / 2);
}

/// A series around zero, a continued fraction far from it.
pub fn erf(x: anytype) @TypeOf(x) {
    const z: f64 = @abs(@as(f64, x));
    if (math.isNan(z)) return x;
    const y = if (z < 3) erfSeries(z) else 1 - erfcFraction(z);
    return @floatCast(if (x < 0) -y else y);
}

fn erfSeries(z: f64) f64 {
    var term = z;
    var sum = z;
    var n: f64 = 1;
    while (@abs(term) > 1e-18) : (n += 1) {
        term *= -z * z / n;
        sum += term / (2 * n + 1);
    }
    return sum * 2 / @sqrt(math.pi);
}

fn erfcFraction(z: f64) f64 {
    if (z > 27) return 0;
    var fraction: f64 = z;
    var n: f64 = 60;
    while (n >= 1) : (n -= 1) fraction = z + n / 2 / fraction;
    return @exp(-z * z) / (fraction * @sqrt(math.pi));
}

pub fn relu(x: anytype) @TypeOf(x) {
    return if (x < 0) 0 else x;
}

pub fn sigmoid(x: anytype) @TypeOf(x) {
    if (x >= 0) return 1 / (1 + @exp(-x));
    const small = @exp(x);
    return small / (1 + small);
}

pub fn softplus(x: anytype) @TypeOf(x) {
    return @max(x, 0) + math.log1p(@exp(-@abs(x)));
}

/// x between two bounds; NaN where it is NaN, which `std.math.clamp` makes the upper bound.
pub fn bounded(x: anytype, low: @TypeOf(x), high: @TypeOf(x)) @TypeOf(x) {
    return if (x < low) low else if (x > high) high else x;
}

pub fn softsign(x: anytype) @TypeOf(x) {
    return x / (1 + @abs(x));
}

pub fn mish(x: anytype) @TypeOf(x) {
    return x * math.tanh(softplus(x));
}

pub fn hardSwish(x: anytype) @TypeOf(x) {
    return x * bounded(x / 6 + 0.5, 0, 1);
}

pub fn celu(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    const alpha = get(attribute, "alpha", @as(f32, 1));
    return if (x < 0) alpha * math.expm1(x / alpha) else x;
}

pub fn elu(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    const alpha = get(attribute, "alpha", @as(f32, 1));
    return if (x < 0) alpha * math.expm1(x) else x;
}

pub fn selu(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    const alpha = get(attribute, "alpha", @as(f32, 1.67326319217681884765625));
    const gamma = get(attribute, "gamma", @as(f32, 1.05070102214813232421875));
    return if (x > 0) gamma * x else gamma * (alpha * math.expm1(x));
}

pub fn gelu(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    if (comptime std.mem.eql(u8, get(attribute, "approximate", @as([]const u8, "none")), "tanh")) {
        return 0.5 * x * (1 + math.tanh(@sqrt(2 / @as(@TypeOf(x), math.pi)) * (x + 0.044715 * x * x * x)));
    }
    return 0.5 * x * (1 + erf(x / @sqrt(@as(@TypeOf(x), 2))));
}

pub fn hardSigmoid(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    const alpha = get(attribute, "alpha", @as(f32, 0.2));
    const beta = get(attribute, "beta", @as(f32, 0.5));
    return bounded(alpha * x + beta, 0, 1);
}

pub fn leakyRelu(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    return if (x < 0) get(attribute, "alpha", @as(f32, 0.01)) * x else x;
}

pub fn thresholdedRelu(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    return if (x > get(attribute, "alpha", @as(f32, 1))) x else 0;
}

pub fn swish(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    return x * sigmoid(get(attribute, "alpha", @as(f32, 1)) * x);
}

pub fn shrink(comptime attribute: anytype, x: anytype) @TypeOf(x) {
    const T = @TypeOf(x);
    const F = if (T == f64) f64 else f32;
    const y = tensor.asFloat(F, x);
    const bias = get(attribute, "bias", @as(f32, 0));
    const lambd = get(attribute, "lambd", @as(f32, 0.5));
    const z = if (y < -lambd) y + bias else if (y > lambd) y - bias else 0;
    return if (comptime isInteger(T)) @intFromFloat(z) else z;
}

pub fn isInf(comptime attribute: anytype, x: anytype) bool {
    if (x > 0) return get(attribute, "detect_positive", @as(i64, 1)) != 0 and math.isInf(x);
    return get(attribute, "detect_negative", @as(i64, 1)) != 0 and math.isInf(x);
}

pub fn isNan(comptime _: anytype, x: anytype) bool {
    return math.isNan(x);
}

pub fn add(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    return if (comptime isInteger(@TypeOf(x))) x +% y else if (comptime isComplex(@TypeOf(x))) x.add(y) else x + y;
}

pub fn sub(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    return if (comptime isInteger(@TypeOf(x))) x -% y else x - y;
}

pub fn mul(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    return if (comptime isInteger(@TypeOf(x))) x *% y else x * y;
}

/// The quotient; of integers rounded towards zero, and 0 where the divisor is.
pub fn div(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    const T = @TypeOf(x);
    if (comptime isFloat(T)) return x / y;
    if (y == 0) return 0;
    if (comptime isSigned(T)) if (y == -1) return 0 -% x;
    return @divTrunc(x, y);
}

/// The remainder with the sign of the divisor, or with that of the dividend.
pub fn mod(comptime attribute: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    const T = @TypeOf(x);
    const is_fmod = get(attribute, "fmod", @as(i64, 0)) != 0;
    if (comptime isInteger(T)) {
        if (y == 0) return 0;
        if (comptime isSigned(T)) if (y == -1) return 0;
        const rest = @rem(x, y);
        if (is_fmod or rest == 0 or (rest < 0) == (y < 0)) return rest;
        return rest +% y;
    }
    if (y == 0 or math.isInf(x) or math.isNan(x) or math.isNan(y)) return math.nan(T);
    if (math.isInf(y)) return if (is_fmod or x == 0 or (x < 0) == (y < 0)) x else y;
    const rest = @rem(x, @abs(y));
    if (is_fmod) return rest;
    if (rest == 0) return math.copysign(rest, y);
    return if ((rest < 0) == (y < 0)) rest else rest + y;
}

pub fn pow(comptime _: anytype, x: anytype, y: anytype) @TypeOf(x) {
    const T = @TypeOf(x);
    if (comptime isFloat(T)) {
        const F = if (T == f64 or @TypeOf(y) == f64) f64 else f32;
        return @floatCast(math.pow(F, x, tensor.asFloat(F, y)));
    }
    if (comptime isInteger(@TypeOf(y))) return integerPower(x, y);
    return convert.integerFrom(T, math.pow(f64, tensor.asFloat(f64, x), tensor.asFloat(f64, y)));
}

fn integerPower(x: anytype, y: anytype) @TypeOf(x) {
    if (comptime isSigned(@TypeOf(y))) {
        if (y < 0) return if (x == 1) 1 else if (isSigned(@TypeOf(x)) and x == -1) (if (@rem(y, 2) == 0) 1 else x) else 0;
    }
    var result: @TypeOf(x) = 1;
    var base = x;
    var left = y;
    while (left > 0) : (left = @divTrunc(left, 2)) {
        if (@rem(left, 2) == 1) result *%= base;
        base *%= base;
    }
    return result;
}

/// The larger one; NaN where one of them is.
pub fn max(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    if (comptime isFloat(@TypeOf(x))) if (math.isNan(x)) return x;
    return if (x > y) x else y;
}

/// The smaller one; NaN where one of them is.
pub fn min(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    if (comptime isFloat(@TypeOf(x))) if (math.isNan(x)) return x;
    return if (x < y) x else y;
}

pub fn prelu(comptime _: anytype, x: anytype, slope: @TypeOf(x)) @TypeOf(x) {
    if (x >= 0) return x;
    return if (comptime isInteger(@TypeOf(x))) x *% slope else x * slope;
}

pub fn both(comptime _: anytype, x: bool, y: bool) bool {
    return x and y;
}

pub fn either(comptime _: anytype, x: bool, y: bool) bool {
    return x or y;
}

pub fn oneOf(comptime _: anytype, x: bool, y: bool) bool {
    return x != y;
}

pub fn equal(comptime _: anytype, x: anytype, y: @TypeOf(x)) bool {
    if (@TypeOf(x) == []const u8) return std.mem.eql(u8, x, y);
    return x == y;
}

pub fn greater(comptime _: anytype, x: anytype, y: @TypeOf(x)) bool {
    return x > y;
}

pub fn greaterOrEqual(comptime _: anytype, x: anytype, y: @TypeOf(x)) bool {
    return x >= y;
}

pub fn less(comptime _: anytype, x: anytype, y: @TypeOf(x)) bool {
    return x < y;
}

pub fn lessOrEqual(comptime _: anytype, x: anytype, y: @TypeOf(x)) bool {
    return x <= y;
}

pub fn bitwiseAnd(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    return x & y;
}

pub fn bitwiseOr(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    return x | y;
}

pub fn bitwiseXor(comptime _: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    return x ^ y;
}

/// Shifted bits; a negative number of places, or one of at least the width, shifts every bit out.
pub fn bitShift(comptime attribute: anytype, x: anytype, y: @TypeOf(x)) @TypeOf(x) {
    const is_left = comptime std.mem.eql(u8, attribute.direction, "LEFT");
    if (y < 0 or y >= @typeInfo(@TypeOf(x)).int.bits) return if (!is_left and x < 0) ~@as(@TypeOf(x), 0) else 0;
    return if (is_left) x << @intCast(y) else x >> @intCast(y);
}

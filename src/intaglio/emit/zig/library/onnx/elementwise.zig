//! Operators that compute each element from one element of each operand.

const std = @import("std");
const functions = @import("functions.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const has = tensor.has;

/// An operator of one operand: `f` takes and gives an element in its wide type.
fn Unary(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            _ = attribute;
            out[0].* = try mapped(c, in[0], {}, f);
        }
    };
}

/// An operator of one operand whose function also takes the attributes.
fn Shaped(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            out[0].* = try mapped(c, in[0], attribute, f);
        }
    };
}

fn mapped(c: *Context, x: anytype, comptime attribute: anytype, comptime f: anytype) Error!@TypeOf(x) {
    const T = Of(@TypeOf(x));
    const data = try c.alloc(T, x.data.len);
    for (data, x.data) |*to, from| {
        const y = if (@TypeOf(attribute) == void) f(tensor.wide(from)) else f(attribute, tensor.wide(from));
        to.* = tensor.rounded(T, y);
    }
    return .{ .shape = x.shape, .data = data };
}

/// An operator of one operand that gives truth values.
fn Test(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const data = try c.alloc(bool, in[0].data.len);
            for (data, in[0].data) |*to, from| to.* = f(attribute, tensor.wide(from));
            out[0].* = .{ .shape = in[0].shape, .data = data };
        }
    };
}

/// An operator of two operands that gives an element of their type or a truth value.
fn Binary(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            out[0].* = try combined(c, Of(@TypeOf(out[0])), attribute, in[0], in[1], f);
        }
    };
}

/// The same of any number of operands, from the first to the last.
fn Variadic(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            var result = in[0];
            inline for (1..in.len) |place| {
                result = try combined(c, Of(@TypeOf(out[0])), attribute, result, in[place], f);
            }
            out[0].* = result;
        }
    };
}

pub fn combined(c: *Context, comptime R: type, comptime attribute: anytype, left: anytype, right: anytype, comptime f: anytype) Error!Tensor(R) {
    const shape = try tensor.broadcast(c, left.shape, right.shape);
    const a = if (left.data.len == 1) left else try tensor.expandTo(c, left, shape);
    const b = if (right.data.len == 1) right else try tensor.expandTo(c, right, shape);
    const step_a: usize = if (a.data.len == 1) 0 else 1;
    const step_b: usize = if (b.data.len == 1) 0 else 1;
    const data = try c.alloc(R, tensor.product(shape));
    for (data, 0..) |*to, i| {
        const y = f(attribute, tensor.wide(a.data[i * step_a]), tensor.wide(b.data[i * step_b]));
        to.* = if (R == bool) y else tensor.rounded(R, y);
    }
    return .{ .shape = shape, .data = data };
}

pub fn Identity(_: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    out[0].* = in[0];
}

pub const Abs = Unary(functions.abs).run;
pub const Acos = Unary(functions.acos).run;
pub const Acosh = Unary(functions.acosh).run;
pub const Asin = Unary(functions.asin).run;
pub const Asinh = Unary(functions.asinh).run;
pub const Atan = Unary(functions.atan).run;
pub const Atanh = Unary(functions.atanh).run;
pub const BitwiseNot = Unary(functions.bitwiseNot).run;
pub const Ceil = Unary(functions.ceil).run;
pub const Cos = Unary(functions.cos).run;
pub const Cosh = Unary(functions.cosh).run;
pub const Erf = Unary(functions.erf).run;
pub const Exp = Unary(functions.exp).run;
pub const Floor = Unary(functions.floor).run;
pub const HardSwish = Unary(functions.hardSwish).run;
pub const Log = Unary(functions.log).run;
pub const Mish = Unary(functions.mish).run;
pub const Neg = Unary(functions.neg).run;
pub const Not = Unary(functions.not).run;
pub const Reciprocal = Unary(functions.reciprocal).run;
pub const Relu = Unary(functions.relu).run;
pub const Round = Unary(functions.round).run;
pub const Sigmoid = Unary(functions.sigmoid).run;
pub const Sign = Unary(functions.sign).run;
pub const Sin = Unary(functions.sin).run;
pub const Sinh = Unary(functions.sinh).run;
pub const Softplus = Unary(functions.softplus).run;
pub const Softsign = Unary(functions.softsign).run;
pub const Sqrt = Unary(functions.sqrt).run;
pub const Tan = Unary(functions.tan).run;
pub const Tanh = Unary(functions.tanh).run;

pub const Celu = Shaped(functions.celu).run;
pub const Elu = Shaped(functions.elu).run;
pub const Gelu = Shaped(functions.gelu).run;
pub const HardSigmoid = Shaped(functions.hardSigmoid).run;
pub const LeakyRelu = Shaped(functions.leakyRelu).run;
pub const Selu = Shaped(functions.selu).run;
pub const Shrink = Shaped(functions.shrink).run;
pub const Swish = Shaped(functions.swish).run;
pub const ThresholdedRelu = Shaped(functions.thresholdedRelu).run;

pub const IsInf = Test(functions.isInf).run;
pub const IsNaN = Test(functions.isNan).run;

pub const Add = Binary(functions.add).run;
pub const And = Binary(functions.both).run;
pub const BitShift = Binary(functions.bitShift).run;
pub const BitwiseAnd = Binary(functions.bitwiseAnd).run;
pub const BitwiseOr = Binary(functions.bitwiseOr).run;
pub const BitwiseXor = Binary(functions.bitwiseXor).run;
pub const Div = Binary(functions.div).run;
pub const Equal = Binary(functions.equal).run;
pub const Greater = Binary(functions.greater).run;
pub const GreaterOrEqual = Binary(functions.greaterOrEqual).run;
pub const Less = Binary(functions.less).run;
pub const LessOrEqual = Binary(functions.lessOrEqual).run;
pub const Mod = Binary(functions.mod).run;
pub const Mul = Binary(functions.mul).run;
pub const Or = Binary(functions.either).run;
pub const PRelu = Binary(functions.prelu).run;
pub const Pow = Binary(functions.pow).run;
pub const Sub = Binary(functions.sub).run;
pub const Xor = Binary(functions.oneOf).run;

pub const Max = Variadic(functions.max).run;
pub const Min = Variadic(functions.min).run;
pub const Sum = Variadic(functions.add).run;

pub fn Mean(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    try Sum(c, attribute, in, out);
    const T = Of(@TypeOf(out[0]));
    const count: T = tensor.rounded(T, in.len);
    const divisor = try tensor.scalar(c, count);
    out[0].* = try combined(c, T, .{}, out[0].*, divisor, functions.div);
}

pub fn Clip(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    _ = attribute;
    var result = in[0];
    const T = Of(@TypeOf(in[0]));
    if (has(in, 1)) result = try combined(c, T, .{}, result, in[1], functions.max);
    if (has(in, 2)) result = try combined(c, T, .{}, result, in[2], functions.min);
    out[0].* = result;
}

pub fn Where(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    _ = attribute;
    const shape = try tensor.broadcast(c, try tensor.broadcast(c, in[0].shape, in[1].shape), in[2].shape);
    const condition = try tensor.expandTo(c, in[0], shape);
    const left = try tensor.expandTo(c, in[1], shape);
    const right = try tensor.expandTo(c, in[2], shape);
    const data = try c.alloc(Of(@TypeOf(out[0])), condition.data.len);
    for (data, condition.data, left.data, right.data) |*to, is_left, a, b| to.* = if (is_left) a else b;
    out[0].* = .{ .shape = shape, .data = data };
}

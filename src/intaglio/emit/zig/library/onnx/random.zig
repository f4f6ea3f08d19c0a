//! Random numbers. A node with a seed gives the same numbers in each run; the others go by the seed of the run.

const std = @import("std");
const convert = @import("convert.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const asFloat = tensor.asFloat;
const get = tensor.get;
const has = tensor.has;
const product = tensor.product;
const wants = tensor.wants;

/// The source of the numbers of a node: its own where it has a seed, else that of the run.
fn source(c: *Context, comptime attribute: anytype) std.Random.DefaultPrng {
    if (@hasField(@TypeOf(attribute), "seed")) {
        const seed: f64 = attribute.seed;
        return .init(@bitCast(seed));
    }
    return .init(c.random.next());
}

fn Draw(comptime is_normal: bool) type {
    return struct {
        fn numbers(c: *Context, comptime T: type, comptime attribute: anytype, shape: []const usize) Error!Tensor(T) {
            var generator = source(c, attribute);
            const random = generator.random();
            const data = try c.alloc(T, product(shape));
            for (data) |*to| {
                const x = if (is_normal)
                    get(attribute, "mean", @as(f32, 0)) + get(attribute, "scale", @as(f32, 1)) * random.floatNorm(f64)
                else
                    get(attribute, "low", @as(f32, 0)) + (get(attribute, "high", @as(f32, 1)) - get(attribute, "low", @as(f32, 0))) * random.float(f64);
                to.* = convert.convert(T, x, true, .up);
            }
            return .{ .shape = shape, .data = data };
        }

        pub fn ofShape(c: *Context, comptime attribute: anytype, _: anytype, out: anytype) Error!void {
            const shape = try tensor.shapeFrom(c, tensor.ints(attribute, "shape").?);
            out[0].* = try numbers(c, Of(@TypeOf(out[0])), attribute, shape);
        }

        pub fn like(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            out[0].* = try numbers(c, Of(@TypeOf(out[0])), attribute, in[0].shape);
        }
    };
}

pub fn RandomNormal(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    return Draw(true).ofShape(c, attribute, in, out);
}

pub fn RandomNormalLike(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    return Draw(true).like(c, attribute, in, out);
}

pub fn RandomUniform(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    return Draw(false).ofShape(c, attribute, in, out);
}

pub fn RandomUniformLike(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    return Draw(false).like(c, attribute, in, out);
}

pub fn Bernoulli(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    var generator = source(c, attribute);
    const random = generator.random();
    const data = try c.alloc(T, in[0].data.len);
    for (data, in[0].data) |*to, chance| to.* = convert.convert(T, random.float(f64) < asFloat(f64, chance), true, .up);
    out[0].* = .{ .shape = in[0].shape, .data = data };
}

pub fn Multinomial(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const x = in[0];
    const count: usize = @intCast(get(attribute, "sample_size", @as(i64, 1)));
    const classes = x.shape[1];
    if (count == 0 or classes == 0) return error.Value;
    var generator = source(c, attribute);
    const random = generator.random();
    const data = try c.alloc(T, x.shape[0] * count);
    for (data, 0..) |*to, i| {
        const row = x.data[i / count * classes ..][0..classes];
        var top = -std.math.inf(f64);
        for (row) |chance| top = @max(top, asFloat(f64, chance));
        var sum: f64 = 0;
        for (row) |chance| sum += @exp(asFloat(f64, chance) - top);
        var left = random.float(f64) * sum;
        to.* = @intCast(classes - 1);
        for (row, 0..) |chance, class| {
            left -= @exp(asFloat(f64, chance) - top);
            if (left < 0) {
                to.* = @intCast(class);
                break;
            }
        }
    }
    out[0].* = .{ .shape = try c.allocator.dupe(usize, &.{ x.shape[0], count }), .data = data };
}

pub fn Dropout(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const is_training = if (has(in, 2)) try tensor.item(in[2]) else false;
    const ratio: f64 = if (!is_training) 0 else if (has(in, 1)) asFloat(f64, try tensor.item(in[1])) else 0.5;
    if (!(ratio >= 0 and ratio < 1)) return error.Value;
    var twister: Twister = .init(if (@hasField(@TypeOf(attribute), "seed")) @intCast(attribute.seed) else @truncate(c.random.next()));
    const mask = try c.alloc(bool, x.data.len);
    const data = try c.alloc(T, x.data.len);
    for (mask, data, x.data) |*is_kept, *to, from| {
        is_kept.* = ratio == 0 or twister.fraction() >= ratio;
        to.* = convert.convert(T, if (is_kept.*) asFloat(f64, from) / (1 - ratio) else 0, false, .up);
    }
    if (wants(out, 0)) out[0].* = .{ .shape = x.shape, .data = data };
    if (wants(out, 1)) out[1].* = .{ .shape = x.shape, .data = mask };
}

/// The Mersenne Twister with 32-bit words, whose numbers ONNX's own tests of Dropout expect.
const Twister = struct {
    state: [624]u32,
    at: usize = 624,

    fn init(seed: u32) Twister {
        var twister: Twister = .{ .state = undefined };
        twister.state[0] = seed;
        for (1..624) |i| {
            const before = twister.state[i - 1];
            twister.state[i] = 1812433253 *% (before ^ (before >> 30)) +% @as(u32, @intCast(i));
        }
        return twister;
    }

    fn next(twister: *Twister) u32 {
        if (twister.at == 624) twister.refill();
        var y = twister.state[twister.at];
        twister.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9D2C5680;
        y ^= (y << 15) & 0xEFC60000;
        return y ^ (y >> 18);
    }

    fn refill(twister: *Twister) void {
        for (0..624) |i| {
            const y = (twister.state[i] & 0x80000000) | (twister.state[(i + 1) % 624] & 0x7FFFFFFF);
            const odd: u32 = if (y & 1 != 0) 0x9908B0DF else 0;
            twister.state[i] = twister.state[(i + 397) % 624] ^ (y >> 1) ^ odd;
        }
        twister.at = 0;
    }

    /// A number from 0 to below 1 of 53 random bits.
    fn fraction(twister: *Twister) f64 {
        const high = twister.next() >> 5;
        const low = twister.next() >> 6;
        return (asFloat(f64, high) * 67108864 + asFloat(f64, low)) / 9007199254740992;
    }
};

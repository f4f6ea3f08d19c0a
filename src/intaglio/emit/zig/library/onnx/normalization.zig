//! Normalisations by mean and variance.

const std = @import("std");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const asFloat = tensor.asFloat;
const get = tensor.get;
const has = tensor.has;
const product = tensor.product;
const wants = tensor.wants;

pub fn BatchNormalization(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const epsilon = get(attribute, "epsilon", @as(f32, 1e-5));
    const inner = if (x.shape.len > 2) product(x.shape[2..]) else 1;
    const channels = if (x.shape.len > 1) x.shape[1] else 1;
    const data = try c.alloc(T, x.data.len);
    for (data, x.data, 0..) |*to, from, i| {
        const channel = i / inner % channels;
        const scale, const bias = .{ asFloat(f64, in[1].data[channel]), asFloat(f64, in[2].data[channel]) };
        const mean, const variance = .{ asFloat(f64, in[3].data[channel]), asFloat(f64, in[4].data[channel]) };
        to.* = tensor.rounded(T, @floatCast((asFloat(f64, from) - mean) / @sqrt(variance + epsilon) * scale + bias));
    }
    out[0].* = .{ .shape = x.shape, .data = data };
}

const Moments = struct {
    mean: f64,
    variance: f64,

    fn of(row: anytype) Moments {
        var sum: f64 = 0;
        for (row) |x| sum += asFloat(f64, x);
        const count = asFloat(f64, row.len);
        const mean = sum / count;
        var squares: f64 = 0;
        for (row) |x| squares += (asFloat(f64, x) - mean) * (asFloat(f64, x) - mean);
        return .{ .mean = mean, .variance = squares / count };
    }
};

pub fn LayerNormalization(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const axis = try tensor.indexOf(get(attribute, "axis", @as(i64, -1)), x.shape.len);
    const epsilon = get(attribute, "epsilon", @as(f32, 1e-5));
    const width = product(x.shape[axis..]);
    const rows = product(x.shape[0..axis]);
    const scale = try tensor.expandTo(c, in[1], x.shape[axis..]);
    const bias = if (has(in, 2)) try tensor.expandTo(c, in[2], x.shape[axis..]) else {};
    const data = try c.alloc(T, x.data.len);
    const means = try c.alloc(f64, rows);
    const factors = try c.alloc(f64, rows);
    for (means, factors, 0..) |*mean, *factor, row| {
        const from = x.data[row * width ..][0..width];
        const moments = Moments.of(from);
        mean.* = moments.mean;
        factor.* = 1 / @sqrt(moments.variance + epsilon);
        for (data[row * width ..][0..width], from, 0..) |*to, given, i| {
            const normal = (asFloat(f64, given) - mean.*) * factor.* * asFloat(f64, scale.data[i]);
            to.* = tensor.rounded(T, @floatCast(if (has(in, 2)) normal + asFloat(f64, bias.data[i]) else normal));
        }
    }
    if (wants(out, 0)) out[0].* = .{ .shape = x.shape, .data = data };
    const shape = try c.allocator.dupe(usize, x.shape);
    @memset(shape[axis..], 1);
    if (wants(out, 1)) out[1].* = .{ .shape = shape, .data = try narrowed(c, Of(@TypeOf(out[1])), means) };
    if (wants(out, 2)) out[2].* = .{ .shape = shape, .data = try narrowed(c, Of(@TypeOf(out[2])), factors) };
}

fn narrowed(c: *Context, comptime T: type, values: []const f64) Error![]const T {
    const data = try c.alloc(T, values.len);
    for (data, values) |*to, from| to.* = tensor.rounded(T, @floatCast(from));
    return data;
}

pub fn InstanceNormalization(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const epsilon = get(attribute, "epsilon", @as(f32, 1e-5));
    const width = product(x.shape[2..]);
    const data = try c.alloc(T, x.data.len);
    for (0..x.shape[0] * x.shape[1]) |plane| {
        const channel = plane % x.shape[1];
        const from = x.data[plane * width ..][0..width];
        const moments = Moments.of(from);
        const factor = asFloat(f64, in[1].data[channel]) / @sqrt(moments.variance + epsilon);
        for (data[plane * width ..][0..width], from) |*to, given| {
            to.* = tensor.rounded(T, @floatCast((asFloat(f64, given) - moments.mean) * factor + asFloat(f64, in[2].data[channel])));
        }
    }
    out[0].* = .{ .shape = x.shape, .data = data };
}

pub fn LRN(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const size: usize = attribute.size;
    const alpha: f64 = get(attribute, "alpha", @as(f32, 0.0001));
    const beta: f64 = get(attribute, "beta", @as(f32, 0.75));
    const bias: f64 = get(attribute, "bias", @as(f32, 1));
    const channels, const inner = .{ x.shape[1], product(x.shape[2..]) };
    const data = try c.alloc(T, x.data.len);
    for (data, x.data, 0..) |*to, from, i| {
        const channel = i / inner % channels;
        const first = channel -| (size - 1) / 2;
        const last = @min(channels - 1, channel + size / 2);
        var sum: f64 = 0;
        for (first..last + 1) |other| {
            const y = asFloat(f64, x.data[i - channel * inner + other * inner]);
            sum += y * y;
        }
        const divisor = std.math.pow(f64, bias + alpha / asFloat(f64, size) * sum, beta);
        to.* = tensor.rounded(T, @floatCast(asFloat(f64, from) / divisor));
    }
    out[0].* = .{ .shape = x.shape, .data = data };
}

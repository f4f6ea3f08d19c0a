//! Fourier transforms, windows and filters.

const std = @import("std");
const convert = @import("convert.zig");
const tensor = @import("tensor.zig");

const Around = tensor.Around;
const Complex = std.math.Complex(f64);
const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const asFloat = tensor.asFloat;
const get = tensor.get;
const has = tensor.has;
const math = std.math;
const product = tensor.product;

/// The Fourier transform of any length: by halves as long as it is even, then term by term.
fn transform(c: *Context, x: []const Complex, inverse: bool) Error![]Complex {
    const result = try c.alloc(Complex, x.len);
    const scratch = try c.alloc(Complex, x.len);
    @memcpy(scratch, x);
    part(scratch, result, x.len, 1, 0, inverse);
    return result;
}

fn part(x: []const Complex, result: []Complex, count: usize, step: usize, first: usize, inverse: bool) void {
    if (count % 2 != 0 or count == 0) return direct(x, result, count, step, first, inverse);
    const half = count / 2;
    part(x, result[0..half], half, 2 * step, first, inverse);
    part(x, result[half..], half, 2 * step, first + step, inverse);
    for (0..half) |k| {
        const turned = result[half + k].mul(turn(k, count, inverse));
        const even = result[k];
        result[k] = even.add(turned);
        result[half + k] = even.sub(turned);
    }
}

fn direct(x: []const Complex, result: []Complex, count: usize, step: usize, first: usize, inverse: bool) void {
    for (result[0..count], 0..) |*to, k| {
        to.* = .init(0, 0);
        for (0..count) |n| to.* = to.add(x[first + n * step].mul(turn(k * n % count, count, inverse)));
    }
}

fn turn(k: usize, count: usize, inverse: bool) Complex {
    const angle = 2 * math.pi * asFloat(f64, k) / asFloat(f64, count);
    return .init(@cos(angle), if (inverse) @sin(angle) else -@sin(angle));
}

pub fn DFT(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const inverse = get(attribute, "inverse", @as(i64, 0)) != 0;
    const onesided = get(attribute, "onesided", @as(i64, 0)) != 0;
    const given: i64 = if (has(in, 2)) @intCast(try tensor.item(in[2])) else -2;
    const axis = try tensor.indexOf(given, x.shape.len);
    const parts = x.shape[x.shape.len - 1];
    const around = Around.of(x.shape[0 .. x.shape.len - 1], axis);
    const full = if (onesided and inverse) 2 * (around.extent -| 1) else around.extent;
    const length: usize = if (has(in, 1)) @intCast(try tensor.item(in[1])) else full;
    const kept = if (onesided and !inverse) length / 2 + 1 else length;
    const shape = try c.allocator.dupe(usize, x.shape);
    shape[axis] = kept;
    shape[shape.len - 1] = if (onesided and inverse) 1 else 2;
    const data = try c.alloc(T, product(shape));
    const row = try c.alloc(Complex, length);
    for (0..around.outer) |line| for (0..around.inner) |column| {
        const first = line * around.extent * around.inner + column;
        for (row, 0..) |*to, i| {
            const is_mirrored = onesided and inverse and i > length / 2;
            const at = if (is_mirrored) length - i else i;
            to.* = if (at < around.extent) element(x, parts, first + at * around.inner) else .init(0, 0);
            if (is_mirrored) to.im = -to.im;
            if (onesided and inverse and (i == 0 or 2 * i == length)) to.im = 0;
        }
        const found = try transform(c, row, inverse);
        for (found[0..kept], 0..) |z, i| {
            const at = ((line * kept + i) * around.inner + column) * shape[shape.len - 1];
            const scale = if (inverse) 1 / asFloat(f64, length) else 1;
            data[at] = convert.convert(T, z.re * scale, true, .up);
            if (!(onesided and inverse)) data[at + 1] = convert.convert(T, z.im * scale, true, .up);
        }
    };
    out[0].* = .{ .shape = shape, .data = data };
}

fn element(x: anytype, parts: usize, place: usize) Complex {
    return .init(asFloat(f64, x.data[place * parts]), if (parts == 2) asFloat(f64, x.data[place * parts + 1]) else 0);
}

pub fn STFT(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const onesided = get(attribute, "onesided", @as(i64, 1)) != 0;
    const step: usize = @intCast(try tensor.item(in[1]));
    const count = x.shape[1];
    const parts = if (x.shape.len > 2) x.shape[2] else 1;
    const own = if (has(in, 2)) in[2].data.len else count;
    const length: usize = if (has(in, 3)) @intCast(try tensor.item(in[3])) else own;
    if (step == 0 or length > count) return error.Value;
    const frames = (count - length) / step + 1;
    const kept = if (onesided) length / 2 + 1 else length;
    const shape = try c.allocator.dupe(usize, &.{ x.shape[0], frames, kept, 2 });
    const data = try c.alloc(T, product(shape));
    const row = try c.alloc(Complex, length);
    for (0..x.shape[0]) |n| for (0..frames) |frame| {
        for (row, 0..) |*to, i| {
            const z = element(x, parts, n * count + frame * step + i);
            const share = if (has(in, 2)) (if (i < own) asFloat(f64, in[2].data[i]) else 0) else 1;
            to.* = .init(z.re * share, z.im * share);
        }
        const found = try transform(c, row, false);
        for (found[0..kept], 0..) |z, i| {
            const at = ((n * frames + frame) * kept + i) * 2;
            data[at] = convert.convert(T, z.re, true, .up);
            data[at + 1] = convert.convert(T, z.im, true, .up);
        }
    };
    out[0].* = .{ .shape = shape, .data = data };
}

/// A window that is a sum of cosines.
fn Cosines(comptime first: f64, comptime second: f64, comptime third: f64) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const T = Of(@TypeOf(out[0]));
            const size: usize = @intCast(try tensor.item(in[0]));
            const is_periodic = get(attribute, "periodic", @as(i64, 1)) != 0;
            const period = asFloat(f64, if (is_periodic) size else size - 1);
            const data = try c.alloc(T, size);
            for (data, 0..) |*to, i| {
                const angle = 2 * math.pi * asFloat(f64, i) / period;
                to.* = convert.convert(T, first - second * @cos(angle) + third * @cos(2 * angle), true, .up);
            }
            out[0].* = try tensor.vector(c, T, data);
        }
    };
}

pub const BlackmanWindow = Cosines(0.42, 0.5, 0.08).run;
pub const HammingWindow = Cosines(25.0 / 46.0, 21.0 / 46.0, 0).run;
pub const HannWindow = Cosines(0.5, 0.5, 0).run;

/// Triangular filters over a spectrum, one a column, as wide as pitch is heard.
pub fn MelWeightMatrix(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const bins: usize = @intCast(try tensor.item(in[0]));
    const length: usize = @intCast(try tensor.item(in[1]));
    const rate = asFloat(f64, try tensor.item(in[2]));
    const low, const high = .{ pitch(asFloat(f64, try tensor.item(in[3]))), pitch(asFloat(f64, try tensor.item(in[4]))) };
    const edges = try c.alloc(i64, bins + 2);
    for (edges, 0..) |*edge, i| {
        const mel = low + asFloat(f64, i) * (high - low) / asFloat(f64, bins + 2);
        const hertz = 700 * (math.pow(f64, 10, mel / 2595) - 1);
        edge.* = @intFromFloat(@floor(asFloat(f64, length + 1) * hertz / rate));
    }
    const shape = try c.allocator.dupe(usize, &.{ length / 2 + 1, bins });
    const data = try c.alloc(T, product(shape));
    for (data, 0..) |*to, i| {
        const place: i64 = @intCast(i / bins);
        const left, const peak, const right = .{ edges[i % bins], edges[i % bins + 1], edges[i % bins + 2] };
        to.* = convert.convert(T, triangle(place, left, peak, right), true, .up);
    }
    out[0].* = .{ .shape = shape, .data = data };
}

fn pitch(hertz: f64) f64 {
    return 2595 * math.log10(1 + hertz / 700);
}

fn triangle(place: i64, left: i64, peak: i64, right: i64) f64 {
    if (place == peak) return 1;
    if (place >= left and place < peak) return asFloat(f64, place - left) / asFloat(f64, @max(peak - left, 1));
    if (place > peak and place < right) return asFloat(f64, right - place) / asFloat(f64, @max(right - peak, 1));
    return 0;
}

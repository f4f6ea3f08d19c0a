//! Regions of interest, and convolutions whose taps are moved.

const std = @import("std");
const convert = @import("convert.zig");
const functions = @import("functions.zig");
const tensor = @import("tensor.zig");
const window = @import("window.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const asFloat = tensor.asFloat;
const get = tensor.get;
const has = tensor.has;
const ints = tensor.ints;
const product = tensor.product;

/// The two neighbours of a place along an axis and their weights; none beyond one pixel outside.
const Line = struct {
    low: usize,
    high: usize,
    low_share: f64,
    high_share: f64,

    fn of(place: f64, size: usize) Line {
        const last = asFloat(f64, size) - 1;
        if (!(place >= -1 and place <= last + 1)) return .{ .low = 0, .high = 0, .low_share = 0, .high_share = 0 };
        const within = std.math.clamp(place, 0, last);
        const low: usize = @intFromFloat(@floor(within));
        const t = within - @floor(within);
        return .{ .low = low, .high = @min(low + 1, size - 1), .low_share = 1 - t, .high_share = t };
    }
};

pub fn RoiAlign(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const rois, const batch = .{ in[0], in[1], in[2] };
    const T = Of(@TypeOf(x));
    const is_half = comptime std.mem.eql(u8, get(attribute, "coordinate_transformation_mode", @as([]const u8, "half_pixel")), "half_pixel");
    const is_average = comptime std.mem.eql(u8, get(attribute, "mode", @as([]const u8, "avg")), "avg");
    const scale: f64 = get(attribute, "spatial_scale", @as(f32, 1));
    const ratio = get(attribute, "sampling_ratio", @as(i64, 0));
    const bins = [2]usize{ @intCast(get(attribute, "output_height", @as(i64, 1))), @intCast(get(attribute, "output_width", @as(i64, 1))) };
    const channels, const height, const width = .{ x.shape[1], x.shape[2], x.shape[3] };
    const shape = try c.allocator.dupe(usize, &.{ rois.shape[0], channels, bins[0], bins[1] });
    const data = try c.alloc(T, product(shape));
    for (data, 0..) |*to, i| {
        const region = i / (bins[0] * bins[1]) / channels;
        const channel = i / (bins[0] * bins[1]) % channels;
        const image = x.data[(try tensor.indexOf(batch.data[region], x.shape[0]) * channels + channel) * height * width ..][0 .. height * width];
        var starts: [2]f64 = undefined;
        var lengths: [2]f64 = undefined;
        var counts: [2]usize = undefined;
        for (0..2) |axis| {
            const shift: f64 = if (is_half) 0.5 else 0;
            const first = asFloat(f64, rois.data[region * 4 + 1 - axis]) * scale - shift;
            const last = asFloat(f64, rois.data[region * 4 + 3 - axis]) * scale - shift;
            const size = if (is_half) last - first else @max(last - first, 1);
            lengths[axis] = size / asFloat(f64, bins[axis]);
            counts[axis] = @intCast(if (ratio > 0) ratio else @max(0, @as(i64, @intFromFloat(@ceil(lengths[axis])))));
            const bin = if (axis == 0) i / bins[1] % bins[0] else i % bins[1];
            starts[axis] = first + asFloat(f64, bin) * lengths[axis];
        }
        to.* = convert.convert(T, pooled(T, image, height, width, starts, lengths, counts, is_average), true, .up);
    }
    out[0].* = .{ .shape = shape, .data = data };
}

fn pooled(comptime T: type, image: []const T, height: usize, width: usize, starts: [2]f64, lengths: [2]f64, counts: [2]usize, is_average: bool) f64 {
    var sum: f64 = 0;
    var top = -std.math.inf(f64);
    for (0..counts[0]) |i| for (0..counts[1]) |j| {
        const y = Line.of(starts[0] + (asFloat(f64, i) + 0.5) * lengths[0] / asFloat(f64, counts[0]), height);
        const x = Line.of(starts[1] + (asFloat(f64, j) + 0.5) * lengths[1] / asFloat(f64, counts[1]), width);
        const parts = [4]f64{
            asFloat(f64, image[y.low * width + x.low]) * y.low_share * x.low_share,
            asFloat(f64, image[y.low * width + x.high]) * y.low_share * x.high_share,
            asFloat(f64, image[y.high * width + x.low]) * y.high_share * x.low_share,
            asFloat(f64, image[y.high * width + x.high]) * y.high_share * x.high_share,
        };
        for (parts) |part| {
            sum += part;
            top = functions.max(.{}, top, part);
        }
    };
    const count = counts[0] * counts[1];
    if (count == 0) return 0;
    return if (is_average) sum / asFloat(f64, count) else top;
}

pub fn MaxRoiPool(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const rois = .{ in[0], in[1] };
    const T = Of(@TypeOf(x));
    const bins = try tensor.shapeFrom(c, ints(attribute, "pooled_shape").?);
    const scale = get(attribute, "spatial_scale", @as(f32, 1));
    const channels, const height, const width = .{ x.shape[1], x.shape[2], x.shape[3] };
    const shape = try c.allocator.dupe(usize, &.{ rois.shape[0], channels, bins[0], bins[1] });
    const data = try c.alloc(T, product(shape));
    for (data, 0..) |*to, i| {
        const region = i / (bins[0] * bins[1]) / channels;
        const channel = i / (bins[0] * bins[1]) % channels;
        const corners = rois.data[region * 5 ..][0..5];
        const n = try tensor.indexOf(convert.convert(i64, corners[0], true, .up), x.shape[0]);
        const image = x.data[(n * channels + channel) * height * width ..][0 .. height * width];
        const rows = span(asFloat(f64, corners[2]) * scale, asFloat(f64, corners[4]) * scale, i / bins[1] % bins[0], bins[0], height);
        const columns = span(asFloat(f64, corners[1]) * scale, asFloat(f64, corners[3]) * scale, i % bins[1], bins[1], width);
        var top: ?T = null;
        for (rows[0]..rows[1]) |row| for (columns[0]..columns[1]) |column| {
            const value = image[row * width + column];
            if (top == null or tensor.wide(value) > tensor.wide(top.?)) top = value;
        };
        to.* = top orelse tensor.rounded(T, 0);
    }
    out[0].* = .{ .shape = shape, .data = data };
}

/// The first place of a bin and the one behind its last.
fn span(first: f64, last: f64, bin: usize, bins: usize, size: usize) [2]usize {
    const start = @floor(first + 0.5);
    const length = @max(1, @floor(last + 0.5) - start + 1) / asFloat(f64, bins);
    const limit = asFloat(f64, size);
    const low = std.math.clamp(@floor(asFloat(f64, bin) * length) + start, 0, limit);
    const high = std.math.clamp(@ceil(asFloat(f64, bin + 1) * length) + start, low, limit);
    return .{ @intFromFloat(low), @intFromFloat(high) };
}

pub fn DeformConv(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const weight, const offset = .{ in[0], in[1], in[2] };
    const T = Of(@TypeOf(x));
    const w = try window.Window.of(c, attribute, x.shape[2..], weight.shape[2..]);
    const groups: usize = @intCast(get(attribute, "group", @as(i64, 1)));
    const offset_groups: usize = @intCast(get(attribute, "offset_group", @as(i64, 1)));
    const filters, const channels = .{ weight.shape[0], weight.shape[1] };
    const taps, const outputs, const plane = .{ product(w.kernel), product(w.outputs), product(w.inputs) };
    const shape = try c.allocator.dupe(usize, &.{ x.shape[0], filters, w.outputs[0], w.outputs[1] });
    const data = try c.alloc(T, product(shape));
    for (data, 0..) |*to, i| {
        const n, const filter, const output = .{ i / outputs / filters, i / outputs % filters, i % outputs };
        var sum: f64 = if (has(in, 3)) asFloat(f64, in[3].data[filter]) else 0;
        for (0..channels) |channel| {
            const from = filter / (filters / groups) * channels + channel;
            const image = x.data[(n * x.shape[1] + from) * plane ..][0..plane];
            const group = from / (x.shape[1] / offset_groups);
            for (0..taps) |tap| {
                const moved = ((n * offset_groups + group) * taps + tap) * 2 * outputs + output;
                const place = [2]f64{
                    basePlace(w, 0, output / w.outputs[1], tap / w.kernel[1]) + asFloat(f64, offset.data[moved]),
                    basePlace(w, 1, output % w.outputs[1], tap % w.kernel[1]) + asFloat(f64, offset.data[moved + outputs]),
                };
                const share = if (has(in, 4)) asFloat(f64, in[4].data[((n * offset_groups + group) * taps + tap) * outputs + output]) else 1;
                const factor = asFloat(f64, weight.data[(filter * channels + channel) * taps + tap]);
                sum += bilinear(T, image, w.inputs, place) * share * factor;
            }
        }
        to.* = convert.convert(T, sum, true, .up);
    }
    out[0].* = .{ .shape = shape, .data = data };
}

fn basePlace(w: window.Window, axis: usize, output: usize, tap: usize) f64 {
    return asFloat(f64, @as(i64, @intCast(output)) * w.strides[axis] - w.begins[axis] + @as(i64, @intCast(tap)) * w.dilations[axis]);
}

/// An image read between its pixels; outside of it are zeros.
fn bilinear(comptime T: type, image: []const T, sizes: []const usize, place: [2]f64) f64 {
    var sum: f64 = 0;
    for (0..2) |dy| for (0..2) |dx| {
        const row, const column = .{ @floor(place[0]) + asFloat(f64, dy), @floor(place[1]) + asFloat(f64, dx) };
        if (!(row >= 0 and row < asFloat(f64, sizes[0]) and column >= 0 and column < asFloat(f64, sizes[1]))) continue;
        const share = (1 - @abs(place[0] - row)) * (1 - @abs(place[1] - column));
        const at = @as(usize, @intFromFloat(row)) * sizes[1] + @as(usize, @intFromFloat(column));
        sum += share * asFloat(f64, image[at]);
    };
    return sum;
}

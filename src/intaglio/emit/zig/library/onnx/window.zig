//! Convolutions and pools of any number of spatial axes.
//!
//! All of them go through a table that tells for each output place and each tap of the kernel which input place it
//! reads, so the number of axes matters nowhere else.

const std = @import("std");
const functions = @import("functions.zig");
const reduce = @import("reduce.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Wide = tensor.Wide;
const get = tensor.get;
const has = tensor.has;
const ints = tensor.ints;
const product = tensor.product;
const wants = tensor.wants;

/// A tap that reads the margin, and one that reads beyond it.
const margin: isize = -1;
const beyond: isize = -2;

/// The sizes of a window along all spatial axes.
pub const Window = struct {
    inputs: []const usize,
    kernel: []const usize,
    strides: []const i64,
    dilations: []const i64,
    begins: []i64,
    ends: []i64,
    outputs: []usize,

    pub fn of(c: *Context, comptime attribute: anytype, inputs: []const usize, kernel: []const usize) Error!Window {
        const count = inputs.len;
        const w: Window = .{
            .inputs = inputs,
            .kernel = kernel,
            .strides = ints(attribute, "strides") orelse try filled(c, count, 1),
            .dilations = ints(attribute, "dilations") orelse try filled(c, count, 1),
            .begins = try filled(c, count, 0),
            .ends = try filled(c, count, 0),
            .outputs = try c.alloc(usize, count),
        };
        const auto = comptime get(attribute, "auto_pad", @as([]const u8, "NOTSET"));
        const is_same = comptime std.mem.startsWith(u8, auto, "SAME");
        if (comptime std.mem.eql(u8, auto, "NOTSET")) if (ints(attribute, "pads")) |pads| {
            @memcpy(w.begins, pads[0..count]);
            @memcpy(w.ends, pads[count..]);
        };
        for (0..count) |axis| {
            const size: i64 = @intCast(inputs[axis]);
            const reach = (@as(i64, @intCast(kernel[axis])) - 1) * w.dilations[axis] + 1;
            if (is_same) {
                const wanted = @divFloor(size + w.strides[axis] - 1, w.strides[axis]);
                const pad = @max(0, (wanted - 1) * w.strides[axis] + reach - size);
                const small = @divFloor(pad, 2);
                w.begins[axis] = if (comptime std.mem.eql(u8, auto, "SAME_UPPER")) small else pad - small;
                w.ends[axis] = pad - w.begins[axis];
            }
            const room = size + w.begins[axis] + w.ends[axis] - reach;
            const is_ceil = get(attribute, "ceil_mode", @as(i64, 0)) != 0;
            const extra = if (is_ceil) w.strides[axis] - 1 else 0;
            var output = @divFloor(room + extra, w.strides[axis]) + 1;
            if (is_ceil and (output - 1) * w.strides[axis] >= size + w.begins[axis]) output -= 1;
            w.outputs[axis] = @intCast(@max(0, output));
        }
        return w;
    }

    /// Which input place each tap of each output place reads.
    fn taps(w: Window, c: *Context) Error![]const isize {
        const count = product(w.kernel);
        const table = try c.alloc(isize, product(w.outputs) * count);
        for (table, 0..) |*entry, i| entry.* = w.source(i / count, i % count);
        return table;
    }

    fn source(w: Window, output: usize, tap: usize) isize {
        var place: isize = 0;
        var step: isize = 1;
        var state: isize = 0;
        var o, var k = .{ output, tap };
        var axis = w.inputs.len;
        while (axis > 0) {
            axis -= 1;
            const size: i64 = @intCast(w.inputs[axis]);
            const at = @as(i64, @intCast(o % w.outputs[axis])) * w.strides[axis] - w.begins[axis] +
                @as(i64, @intCast(k % w.kernel[axis])) * w.dilations[axis];
            if (at < 0 or at >= size) state = @min(state, if (at < size + w.ends[axis]) margin else beyond);
            place += at * step;
            step *= size;
            o /= w.outputs[axis];
            k /= w.kernel[axis];
        }
        return if (state < 0) state else place;
    }

    fn shape(w: Window, c: *Context, batch: usize, channels: usize) Error![]const usize {
        const result = try c.alloc(usize, w.outputs.len + 2);
        result[0] = batch;
        result[1] = channels;
        @memcpy(result[2..], w.outputs);
        return result;
    }
};

fn filled(c: *Context, count: usize, value: i64) Error![]i64 {
    const result = try c.alloc(i64, count);
    @memset(result, value);
    return result;
}

pub fn Conv(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const weight = .{ in[0], in[1] };
    const w = try Window.of(c, attribute, x.shape[2..], weight.shape[2..]);
    const groups: usize = @intCast(get(attribute, "group", @as(i64, 1)));
    const bias = if (has(in, 2)) in[2].data else null;
    const filters: Filters = .{ .table = try w.taps(c), .taps = product(w.kernel), .groups = groups, .is_transposed = false };
    out[0].* = try filters.apply(c, x, weight, bias, try w.shape(c, x.shape[0], weight.shape[0]));
}

/// Kernels that are moved over an input, as a table of what each tap reads.
const Filters = struct {
    table: []const isize,
    taps: usize,
    groups: usize,
    is_transposed: bool,

    /// One input channel after the other: what all taps read of it is laid out in rows, of which each filter adds a
    /// multiple to its output.
    fn apply(f: Filters, c: *Context, x: anytype, weight: @TypeOf(x), bias: anytype, shape: []const usize) Error!@TypeOf(x) {
        const T = Of(@TypeOf(x));
        const channels, const filters = .{ x.shape[1] / f.groups, shape[1] / f.groups };
        const inputs, const outputs = .{ product(x.shape[2..]), product(shape[2..]) };
        const data = try c.alloc(T, product(shape));
        const sums = try c.alloc(Wide(T), filters * outputs);
        const columns = try c.alloc(Wide(T), f.taps * outputs);
        for (0..shape[0] * f.groups) |number| {
            const group = number % f.groups;
            for (0..filters) |filter| {
                const start = if (@TypeOf(bias) == @TypeOf(null)) 0 else tensor.wide(bias[group * filters + filter]);
                @memset(sums[filter * outputs ..][0..outputs], start);
            }
            for (0..channels) |channel| {
                f.layOut(T, columns, x.data[(number * channels + channel) * inputs ..][0..inputs]);
                for (0..filters) |filter| {
                    const own = group * channels + channel;
                    const kernel = if (f.is_transposed) own * filters + filter else (group * filters + filter) * channels + channel;
                    for (weight.data[kernel * f.taps ..][0..f.taps], 0..) |factor, tap| {
                        addMultiple(Wide(T), sums[filter * outputs ..][0..outputs], columns[tap * outputs ..][0..outputs], tensor.wide(factor));
                    }
                }
            }
            for (data[number * filters * outputs ..][0..sums.len], sums) |*to, sum| to.* = tensor.rounded(T, sum);
        }
        return .{ .shape = shape, .data = data };
    }

    /// What each tap reads for each output; zero in the margin.
    fn layOut(f: Filters, comptime T: type, columns: []Wide(T), from: []const T) void {
        const outputs = columns.len / f.taps;
        for (0..f.taps) |tap| for (columns[tap * outputs ..][0..outputs], 0..) |*to, place| {
            const source = f.table[place * f.taps + tap];
            to.* = if (source < 0) 0 else tensor.wide(from[@intCast(source)]);
        };
    }
};

pub fn addMultiple(comptime T: type, sums: []T, row: []const T, factor: T) void {
    for (sums, row) |*sum, x| sum.* = functions.add(.{}, sum.*, functions.mul(.{}, x, factor));
}

pub fn ConvTranspose(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const weight = .{ in[0], in[1] };
    const count = x.shape.len - 2;
    const groups: usize = @intCast(get(attribute, "group", @as(i64, 1)));
    const strides = ints(attribute, "strides") orelse try filled(c, count, 1);
    const dilations = ints(attribute, "dilations") orelse try filled(c, count, 1);
    const added = ints(attribute, "output_padding") orelse try filled(c, count, 0);
    const begins = try filled(c, count, 0);
    const shape = try c.alloc(usize, x.shape.len);
    shape[0] = x.shape[0];
    shape[1] = weight.shape[1] * groups;
    const auto = comptime get(attribute, "auto_pad", @as([]const u8, "NOTSET"));
    const is_same = comptime std.mem.startsWith(u8, auto, "SAME");
    for (0..count) |axis| {
        const size: i64 = @intCast(x.shape[axis + 2]);
        const reach = (@as(i64, @intCast(weight.shape[axis + 2])) - 1) * dilations[axis] + 1;
        const full = strides[axis] * (size - 1) + added[axis] + reach;
        if (ints(attribute, "output_shape") != null or is_same) {
            const given = ints(attribute, "output_shape");
            const output = if (given) |sizes| sizes[sizes.len - count + axis] else size * strides[axis];
            const pad = @max(0, full - output);
            begins[axis] = if (comptime std.mem.eql(u8, auto, "SAME_UPPER")) @divFloor(pad, 2) else pad - @divFloor(pad, 2);
            shape[axis + 2] = @intCast(output);
        } else {
            const pads = if (comptime std.mem.eql(u8, auto, "VALID")) null else ints(attribute, "pads");
            begins[axis] = if (pads) |given| given[axis] else 0;
            const end = if (pads) |given| given[axis + count] else 0;
            shape[axis + 2] = @intCast(@max(0, full - begins[axis] - end));
        }
    }
    const taps = product(weight.shape[2..]);
    const table = try c.alloc(isize, product(shape[2..]) * taps);
    const back: Back = .{ .inputs = x.shape[2..], .outputs = shape[2..], .kernel = weight.shape[2..], .strides = strides, .dilations = dilations, .begins = begins };
    for (table, 0..) |*entry, i| entry.* = back.source(i / taps, i % taps);
    const bias = if (has(in, 2)) in[2].data else null;
    const filters: Filters = .{ .table = table, .taps = taps, .groups = groups, .is_transposed = true };
    out[0].* = try filters.apply(c, x, weight, bias, shape);
}

/// The way back from an output of a transposed convolution to the input that a tap spread there.
const Back = struct {
    inputs: []const usize,
    outputs: []const usize,
    kernel: []const usize,
    strides: []const i64,
    dilations: []const i64,
    begins: []const i64,

    fn source(b: Back, output: usize, tap: usize) isize {
        var place: isize = 0;
        var step: isize = 1;
        var o, var k = .{ output, tap };
        var axis = b.inputs.len;
        while (axis > 0) {
            axis -= 1;
            const from = @as(i64, @intCast(o % b.outputs[axis])) + b.begins[axis] -
                @as(i64, @intCast(k % b.kernel[axis])) * b.dilations[axis];
            const at = @divFloor(from, b.strides[axis]);
            if (at * b.strides[axis] != from or at < 0 or at >= b.inputs[axis]) return margin;
            place += at * step;
            step *= @intCast(b.inputs[axis]);
            o /= b.outputs[axis];
            k /= b.kernel[axis];
        }
        return place;
    }
};

/// The window of a pool, whose kernel is an attribute.
fn poolWindow(c: *Context, comptime attribute: anytype, shape: []const usize) Error!Window {
    return Window.of(c, attribute, shape[2..], try tensor.shapeFrom(c, ints(attribute, "kernel_shape").?));
}

/// A pool: `f` makes an element of the elements that a window shows.
fn Pool(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const x = in[0];
            const T = Of(@TypeOf(x));
            const w = try poolWindow(c, attribute, x.shape);
            const table = try w.taps(c);
            const taps, const inputs, const outputs = .{ product(w.kernel), product(w.inputs), product(w.outputs) };
            const planes = x.shape[0] * x.shape[1];
            const data = try c.alloc(T, planes * outputs);
            for (data, 0..) |*to, i| {
                const plane = x.data[i / outputs * inputs ..][0..inputs];
                to.* = tensor.rounded(T, f(attribute, T, plane, table[i % outputs * taps ..][0..taps]));
            }
            out[0].* = .{ .shape = try w.shape(c, x.shape[0], x.shape[1]), .data = data };
        }
    };
}

fn average(comptime attribute: anytype, comptime T: type, plane: []const T, sources: []const isize) Wide(T) {
    const counts_margin = get(attribute, "count_include_pad", @as(i64, 0)) != 0;
    var sum: f64 = 0;
    var count: f64 = 0;
    for (sources) |source| {
        if (source >= 0) sum += tensor.asFloat(f64, plane[@intCast(source)]);
        if (source >= 0 or (counts_margin and source == margin)) count += 1;
    }
    return @floatCast(sum / count);
}

fn lpNorm(comptime attribute: anytype, comptime T: type, plane: []const T, sources: []const isize) Wide(T) {
    const p: f64 = @floatFromInt(get(attribute, "p", @as(i64, 2)));
    var sum: f64 = 0;
    for (sources) |source| {
        if (source >= 0) sum += std.math.pow(f64, @abs(tensor.asFloat(f64, plane[@intCast(source)])), p);
    }
    return @floatCast(std.math.pow(f64, sum, 1 / p));
}

pub const AveragePool = Pool(average).run;
pub const LpPool = Pool(lpNorm).run;

pub fn MaxPool(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const w = try poolWindow(c, attribute, x.shape);
    const table = try w.taps(c);
    const taps, const inputs, const outputs = .{ product(w.kernel), product(w.inputs), product(w.outputs) };
    const data = try c.alloc(T, x.shape[0] * x.shape[1] * outputs);
    const places = try c.alloc(i64, if (wants(out, 1)) data.len else 0);
    const is_column_major = get(attribute, "storage_order", @as(i64, 0)) != 0;
    for (data, 0..) |*to, i| {
        const plane = x.data[i / outputs * inputs ..][0..inputs];
        var best: ?usize = null;
        for (table[i % outputs * taps ..][0..taps]) |source| {
            if (source < 0) continue;
            const place: usize = @intCast(source);
            if (best == null or isAbove(plane[place], plane[best.?])) best = place;
        }
        to.* = if (best) |place| plane[place] else tensor.rounded(T, reduce.least(T));
        if (wants(out, 1)) {
            const place = if (is_column_major) columnMajor(w.inputs, best orelse 0) else best orelse 0;
            places[i] = @intCast(i / outputs * inputs + place);
        }
    }
    const shape = try w.shape(c, x.shape[0], x.shape[1]);
    out[0].* = .{ .shape = shape, .data = data };
    if (wants(out, 1)) out[1].* = .{ .shape = shape, .data = places };
}

fn isAbove(x: anytype, y: @TypeOf(x)) bool {
    const a, const b = .{ tensor.wide(x), tensor.wide(y) };
    return a > b or ((comptime tensor.isFloat(@TypeOf(x))) and a != a and b == b);
}

/// A place counted with the first axis fastest.
fn columnMajor(shape: []const usize, place: usize) usize {
    var result: usize = 0;
    var rest = place;
    var axis = shape.len;
    while (axis > 0) {
        axis -= 1;
        result += rest % shape[axis] * product(shape[0..axis]);
        rest /= shape[axis];
    }
    return result;
}

/// A pool over all spatial axes.
fn GlobalPool(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const x = in[0];
            const T = Of(@TypeOf(x));
            const shape = try c.alloc(usize, x.shape.len);
            @memset(shape, 1);
            @memcpy(shape[0..2], x.shape[0..2]);
            const inputs = product(x.shape[2..]);
            const sources = try c.alloc(isize, inputs);
            for (sources, 0..) |*source, i| source.* = @intCast(i);
            const data = try c.alloc(T, shape[0] * shape[1]);
            for (data, 0..) |*to, i| to.* = tensor.rounded(T, f(attribute, T, x.data[i * inputs ..][0..inputs], sources));
            out[0].* = .{ .shape = shape, .data = data };
        }
    };
}

fn largest(comptime _: anytype, comptime T: type, plane: []const T, sources: []const isize) Wide(T) {
    var result = reduce.least(T);
    for (sources) |source| result = functions.max(.{}, tensor.wide(plane[@intCast(source)]), result);
    return result;
}

pub const GlobalAveragePool = GlobalPool(average).run;
pub const GlobalLpPool = GlobalPool(lpNorm).run;
pub const GlobalMaxPool = GlobalPool(largest).run;

pub fn MaxUnpool(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const kernel = ints(attribute, "kernel_shape").?;
    const count = kernel.len;
    const strides = ints(attribute, "strides") orelse try filled(c, count, 1);
    const pads = ints(attribute, "pads") orelse try filled(c, 2 * count, 0);
    const own = try c.allocator.dupe(usize, x.shape);
    for (0..count) |axis| {
        const size: i64 = @intCast(x.shape[axis + 2]);
        own[axis + 2] = @intCast((size - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + count]);
    }
    const shape = if (has(in, 2)) try tensor.shapeFrom(c, in[2].data) else own;
    const data = try c.alloc(T, product(shape));
    @memset(data, tensor.rounded(T, 0));
    const plane_own, const plane = .{ product(own[2..]), product(shape[2..]) };
    for (x.data, in[1].data) |value, index| {
        const place = try tensor.indexOf(index, product(own));
        var rest = place % plane_own;
        var target: usize = 0;
        var step: usize = 1;
        var axis = own.len;
        while (axis > 2) {
            axis -= 1;
            if (rest % own[axis] >= shape[axis]) return error.Index;
            target += rest % own[axis] * step;
            step *= shape[axis];
            rest /= own[axis];
        }
        data[place / plane_own * plane + target] = value;
    }
    out[0].* = .{ .shape = shape, .data = data };
}

pub fn Col2Im(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const image = try tensor.shapeFrom(c, in[1].data);
    const w = try Window.of(c, attribute, image, try tensor.shapeFrom(c, in[2].data));
    const table = try w.taps(c);
    const taps, const inputs, const outputs = .{ product(w.kernel), product(image), product(w.outputs) };
    const channels = x.shape[1] / taps;
    const wide = try c.alloc(Wide(T), x.shape[0] * channels * inputs);
    @memset(wide, 0);
    for (0..x.shape[0] * channels) |plane| for (0..taps) |tap| for (0..outputs) |output| {
        const source = table[output * taps + tap];
        if (source < 0) continue;
        const value = tensor.wide(x.data[(plane * taps + tap) * outputs + output]);
        const to = &wide[plane * inputs + @as(usize, @intCast(source))];
        to.* = functions.add(.{}, to.*, value);
    };
    const data = try c.alloc(T, wide.len);
    for (data, wide) |*to, from| to.* = tensor.rounded(T, from);
    const shape = try c.alloc(usize, image.len + 2);
    shape[0] = x.shape[0];
    shape[1] = channels;
    @memcpy(shape[2..], image);
    out[0].* = .{ .shape = shape, .data = data };
}

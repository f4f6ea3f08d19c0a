//! Resampling along axes.

const std = @import("std");
const convert = @import("convert.zig");
const functions = @import("functions.zig");
const movement = @import("movement.zig");
const tensor = @import("tensor.zig");

const Around = tensor.Around;
const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const asFloat = tensor.asFloat;
const get = tensor.get;
const has = tensor.has;
const ints = tensor.ints;
const math = std.math;
const product = tensor.product;

const Coordinates = enum { half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, tf_crop_and_resize };
const Kind = enum { nearest, linear, cubic };
const Rounding = enum { round_prefer_floor, round_prefer_ceil, floor, ceil };
const Policy = enum { stretch, not_larger, not_smaller };

const Options = struct {
    coordinates: Coordinates,
    kind: Kind,
    rounding: Rounding,
    policy: Policy,
    cubic: f64,
    antialias: bool,
    exclude_outside: bool,
    extrapolation_value: f32,

    fn of(comptime attribute: anytype) Options {
        return .{
            .coordinates = comptime std.meta.stringToEnum(Coordinates, get(attribute, "coordinate_transformation_mode", @as([]const u8, "half_pixel"))).?,
            .kind = comptime std.meta.stringToEnum(Kind, get(attribute, "mode", @as([]const u8, "nearest"))).?,
            .rounding = comptime std.meta.stringToEnum(Rounding, get(attribute, "nearest_mode", @as([]const u8, "round_prefer_floor"))).?,
            .policy = comptime std.meta.stringToEnum(Policy, get(attribute, "keep_aspect_ratio_policy", @as([]const u8, "stretch"))).?,
            .cubic = get(attribute, "cubic_coeff_a", @as(f32, -0.75)),
            .antialias = get(attribute, "antialias", @as(i64, 0)) != 0,
            .exclude_outside = get(attribute, "exclude_outside", @as(i64, 0)) != 0,
            .extrapolation_value = get(attribute, "extrapolation_value", @as(f32, 0)),
        };
    }
};

/// How one axis is resized: `length` is the resized size before it is rounded down, `is_exact` tells that the scale
/// is the ratio of the sizes.
const Axis = struct {
    size: usize,
    resized: usize = 0,
    scale: f64 = 1,
    length: f64 = 0,
    is_exact: bool = false,
    start: f64 = 0,
    end: f64 = 1,

    /// Where a resized element lies in the original axis.
    fn place(axis: Axis, options: Options, index: usize) f64 {
        if (options.kind != .nearest) return axis.placeIn(f32, options.coordinates, index);
        const found = axis.placeIn(f64, options.coordinates, index);
        return if (axis.is_exact and options.coordinates != .tf_crop_and_resize) found else @as(f32, @floatCast(found));
    }

    /// Interpolated places are of single precision, nearest ones of double: halves must come out exactly there.
    fn placeIn(axis: Axis, comptime F: type, coordinates: Coordinates, index: usize) F {
        const x = asFloat(F, index);
        const size, const resized, const scale = .{ asFloat(F, axis.size), asFloat(F, axis.resized), asFloat(F, asFloat(f32, axis.scale)) };
        const start, const end = .{ asFloat(F, axis.start), asFloat(F, axis.end) };
        const is_exact = F == f64 and axis.is_exact;
        const centred = (if (is_exact) (x + 0.5) * size / resized else (x + 0.5) / scale) - 0.5;
        return switch (coordinates) {
            .asymmetric => if (is_exact) x * size / resized else x / scale,
            .align_corners => if (axis.resized > 1) x * (size - 1) / (asFloat(F, axis.length) - 1) else 0,
            .tf_crop_and_resize => if (axis.resized > 1)
                start * (size - 1) + x * (end - start) * (size - 1) / (resized - 1)
            else
                0.5 * (start + end) * (size - 1),
            .pytorch_half_pixel => if (axis.resized > 1) centred else 0,
            .half_pixel_symmetric => if (is_exact) centred else size / 2 * (1 - resized / (scale * size)) + centred,
            .half_pixel => centred,
        };
    }
};

pub fn Resize(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const options = Options.of(attribute);
    const rank = x.shape.len;
    const given = ints(attribute, "axes");
    const axes = try c.alloc(usize, if (given) |list| list.len else rank);
    for (axes, 0..) |*axis, i| axis.* = if (given) |list| try tensor.indexOf(list[i], rank) else i;
    const steps = try c.alloc(Axis, axes.len);
    for (steps, axes) |*step, axis| step.* = .{ .size = x.shape[axis] };
    const has_scales = if (has(in, 2)) in[2].data.len > 0 else false;
    if (has_scales) {
        if (has(in, 2)) try byScales(steps, in[2].data);
    } else if (has(in, 3)) {
        try bySizes(steps, in[3].data, options.policy);
    } else return error.Value;
    if (has(in, 1)) if (options.coordinates == .tf_crop_and_resize and in[1].data.len == 2 * steps.len) {
        for (steps, 0..) |*step, i| {
            step.start = asFloat(f64, in[1].data[i]);
            step.end = asFloat(f64, in[1].data[i + steps.len]);
        }
    };
    if (comptime @typeInfo(T) == .bool or T == []const u8) {
        out[0].* = try nearest(c, x, axes, steps, options);
    } else {
        const result = if (options.kind == .nearest) try nearest(c, x, axes, steps, options) else try interpolated(c, x, axes, steps, options);
        out[0].* = try cropped(c, result, axes, steps, options);
    }
}

fn byScales(steps: []Axis, scales: []const f32) Error!void {
    if (scales.len != steps.len) return error.Shape;
    for (steps, scales) |*step, scale| {
        step.scale = scale;
        step.length = @as(f32, @floatFromInt(step.size)) * scale;
        step.resized = @intFromFloat(@floor(step.length));
    }
}

fn bySizes(steps: []Axis, sizes: []const i64, policy: Policy) Error!void {
    if (sizes.len != steps.len) return error.Shape;
    var ratio: f64 = if (policy == .not_larger) math.inf(f64) else 0;
    for (steps, sizes) |*step, size| {
        step.resized = @intCast(size);
        step.scale = asFloat(f64, size) / asFloat(f64, step.size);
        ratio = if (policy == .not_larger) @min(ratio, step.scale) else @max(ratio, step.scale);
    }
    for (steps) |*step| {
        step.is_exact = policy == .stretch;
        if (policy != .stretch) {
            step.scale = ratio;
            step.resized = @intFromFloat(@floor(ratio * asFloat(f64, step.size) + 0.5));
        }
        step.length = asFloat(f64, step.resized);
    }
}

fn nearest(c: *Context, x: anytype, axes: []const usize, steps: []const Axis, options: Options) Error!@TypeOf(x) {
    var result = x;
    for (axes, steps) |axis, step| {
        const sources = try c.alloc(?usize, step.resized);
        for (sources, 0..) |*source, i| {
            const place = step.place(options, i);
            const whole = switch (options.rounding) {
                .round_prefer_floor => @ceil(place - 0.5),
                .round_prefer_ceil => @floor(place + 0.5),
                .floor => @floor(place),
                .ceil => @ceil(place),
            };
            source.* = @intFromFloat(math.clamp(whole, 0, asFloat(f64, step.size) - 1));
        }
        result = try movement.takenOr(c, result, axis, sources, movement.zero(Of(@TypeOf(x))));
    }
    return result;
}

fn interpolated(c: *Context, x: anytype, axes: []const usize, steps: []const Axis, options: Options) Error!@TypeOf(x) {
    const T = Of(@TypeOf(x));
    const wide = try c.alloc(f64, x.data.len);
    for (wide, x.data) |*to, from| to.* = asFloat(f64, from);
    var result: Tensor(f64) = .{ .shape = x.shape, .data = wide };
    for (axes, steps) |axis, step| result = try resampled(c, result, axis, step, options);
    const data = try c.alloc(T, result.data.len);
    for (data, result.data) |*to, from| {
        if (comptime tensor.isInteger(T)) {
            const whole = if (options.antialias) functions.round(from) else @trunc(from);
            const low, const high = .{ asFloat(f64, @as(T, math.minInt(T))), asFloat(f64, @as(T, math.maxInt(T))) };
            to.* = convert.integerFrom(T, math.clamp(whole, low, high));
        } else {
            to.* = convert.convert(T, from, true, .up);
        }
    }
    return .{ .shape = result.shape, .data = data };
}

fn resampled(c: *Context, x: Tensor(f64), axis: usize, step: Axis, options: Options) Error!Tensor(f64) {
    const around = Around.of(x.shape, axis);
    const shape = try movement.changedExtent(c, x.shape, axis, step.resized);
    const data = try c.alloc(f64, product(shape));
    @memset(data, 0);
    const stretch = if (options.antialias) @max(1, 1 / step.scale) else 1;
    const reach: i64 = @intFromFloat(@ceil((if (options.kind == .cubic) @as(f64, 2) else 1) * stretch));
    for (0..step.resized) |i| {
        const place = step.place(options, i);
        const base: i64 = @intFromFloat(@floor(place));
        var total: f64 = 0;
        var near = base - reach;
        while (near <= base + reach + 1) : (near += 1) total += weight(step, options, place, near, stretch);
        near = base - reach;
        while (near <= base + reach + 1) : (near += 1) {
            const share = weight(step, options, place, near, stretch) / (if (total == 0) 1 else total);
            if (share == 0) continue;
            const source: usize = @intCast(math.clamp(near, 0, @as(i64, @intCast(step.size)) - 1));
            for (0..around.outer) |row| {
                const from = x.data[(row * around.extent + source) * around.inner ..][0..around.inner];
                for (data[(row * step.resized + i) * around.inner ..][0..around.inner], from) |*to, value| to.* += share * value;
            }
        }
    }
    return .{ .shape = shape, .data = data };
}

fn weight(step: Axis, options: Options, place: f64, near: i64, stretch: f64) f64 {
    if (options.exclude_outside and (near < 0 or near >= step.size)) return 0;
    const t = @abs(asFloat(f64, near) - place) / stretch;
    return if (options.kind == .cubic) cubicWeight(t, options.cubic) else @max(0, 1 - t);
}

pub fn cubicWeight(t: f64, a: f64) f64 {
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return if (t >= 2) 0 else ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
}

/// What lies outside of the original is filled where a region of interest is asked for.
fn cropped(c: *Context, x: anytype, axes: []const usize, steps: []const Axis, options: Options) Error!@TypeOf(x) {
    if (options.coordinates != .tf_crop_and_resize) return x;
    const T = Of(@TypeOf(x));
    const fill = convert.convert(T, options.extrapolation_value, true, .up);
    var result = x;
    for (axes, steps) |axis, step| {
        const sources = try c.alloc(?usize, step.resized);
        for (sources, 0..) |*source, i| {
            const place = step.place(options, i);
            source.* = if (place < 0 or place > asFloat(f64, step.size) - 1) null else i;
        }
        result = try movement.takenOr(c, result, axis, sources, fill);
    }
    return result;
}

const Padding = enum { zeros, border, reflection };

pub fn GridSample(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x, const grid = .{ in[0], in[1] };
    const T = Of(@TypeOf(x));
    const F = if (Of(@TypeOf(grid)) == f64) f64 else f32;
    const sampler: Sampler = .{
        .kind = comptime std.meta.stringToEnum(Kind, get(attribute, "mode", @as([]const u8, "linear"))).?,
        .padding = comptime std.meta.stringToEnum(Padding, get(attribute, "padding_mode", @as([]const u8, "zeros"))).?,
        .is_aligned = get(attribute, "align_corners", @as(i64, 0)) != 0,
        .sizes = x.shape[2..],
    };
    const count = x.shape.len - 2;
    const points = product(grid.shape[1 .. grid.shape.len - 1]);
    const shape = try std.mem.concat(c.allocator, usize, &.{ x.shape[0..2], grid.shape[1 .. grid.shape.len - 1] });
    const data = try c.alloc(T, product(shape));
    const plane = product(x.shape[2..]);
    const places = try c.alloc(f64, count);
    for (0..x.shape[0]) |n| for (0..points) |point| {
        for (places, 0..) |*place, axis| {
            place.* = sampler.placeOf(asFloat(F, grid.data[(n * points + point) * count + count - 1 - axis]), axis);
        }
        for (0..x.shape[1]) |channel| {
            const image = x.data[(n * x.shape[1] + channel) * plane ..][0..plane];
            const value = sampler.read(T, image, places, 0, 0, 1);
            data[(n * x.shape[1] + channel) * points + point] = convert.convert(T, value, true, .up);
        }
    };
    out[0].* = .{ .shape = shape, .data = data };
}

const Sampler = struct {
    kind: Kind,
    padding: Padding,
    is_aligned: bool,
    sizes: []const usize,

    fn placeOf(s: Sampler, position: anytype, axis: usize) @TypeOf(position) {
        const size = asFloat(@TypeOf(position), s.sizes[axis]);
        const place = if (s.is_aligned) (position + 1) / 2 * (size - 1) else ((position + 1) * size - 1) / 2;
        return if (s.kind == .cubic) place else s.fold(place, axis);
    }

    fn fold(s: Sampler, place: anytype, axis: usize) @TypeOf(place) {
        const size = asFloat(@TypeOf(place), s.sizes[axis]);
        return switch (s.padding) {
            .zeros => place,
            .border => functions.bounded(place, 0, size - 1),
            .reflection => if (s.is_aligned) reflect(place, 0, size - 1) else reflect(place, -0.5, size - 0.5),
        };
    }

    /// The sum over the neighbours along the axes from `axis` on, each times its weight.
    fn read(s: Sampler, comptime T: type, image: []const T, places: []const f64, axis: usize, offset: usize, share: f64) f64 {
        if (share == 0) return 0;
        if (axis == places.len) return share * asFloat(f64, image[offset]);
        const place = places[axis];
        if (s.kind != .nearest and math.isNan(place)) return math.nan(f64);
        const base = @floor(place);
        const t = place - base;
        const first: i32 = if (s.kind == .cubic) -1 else 0;
        const last: i32 = if (s.kind == .cubic) 2 else if (s.kind == .linear) 1 else 0;
        var sum: f64 = 0;
        var step = first;
        while (step <= last) : (step += 1) {
            const index = if (s.kind == .nearest) functions.round(place) else base + asFloat(f64, step);
            const own = switch (s.kind) {
                .nearest => 1,
                .linear => if (step == 0) 1 - t else t,
                .cubic => cubicWeight(@abs(t - asFloat(f64, step)), -0.75),
            };
            const folded = s.fold(index, axis);
            const size = asFloat(f64, s.sizes[axis]);
            if (s.padding == .zeros and !(folded > -1 and folded < size)) continue;
            const at: usize = @intFromFloat(math.clamp(if (math.isNan(folded)) 0 else folded, 0, size - 1));
            sum += s.read(T, image, places, axis + 1, offset * s.sizes[axis] + at, share * own);
        }
        return sum;
    }
};

/// A place folded back into a range as often as needed.
fn reflect(place: anytype, low: @TypeOf(place), high: @TypeOf(place)) @TypeOf(place) {
    const span = high - low;
    if (span <= 0) return low;
    const rest = @mod(place - low, 2 * span);
    return low + if (rest > span) 2 * span - rest else rest;
}

pub fn AffineGrid(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const theta = in[0];
    const T = Of(@TypeOf(theta));
    const sizes = (try tensor.shapeFrom(c, in[1].data))[2..];
    const count = sizes.len;
    const is_aligned = get(attribute, "align_corners", @as(i64, 0)) != 0;
    const points = product(sizes);
    const shape = try c.alloc(usize, count + 2);
    shape[0] = theta.shape[0];
    @memcpy(shape[1..][0..count], sizes);
    shape[count + 1] = count;
    const data = try c.alloc(T, product(shape));
    const base = try c.alloc(f64, count + 1);
    for (0..theta.shape[0]) |n| for (0..points) |point| {
        var rest = point;
        base[count] = 1;
        for (0..count) |number| {
            const axis = count - 1 - number;
            const size = asFloat(f64, sizes[axis]);
            const i = asFloat(f64, rest % sizes[axis]);
            base[number] = if (!is_aligned) (2 * i + 1) / size - 1 else if (sizes[axis] > 1) 2 * i / (size - 1) - 1 else -1;
            rest /= sizes[axis];
        }
        for (0..count) |row| {
            var sum: f64 = 0;
            for (base, theta.data[(n * count + row) * (count + 1) ..][0 .. count + 1]) |x, factor| sum += x * asFloat(f64, factor);
            data[(n * points + point) * count + row] = convert.convert(T, sum, true, .up);
        }
    };
    out[0].* = .{ .shape = shape, .data = data };
}

//! Reductions, running totals and softmax.

const std = @import("std");
const convert = @import("convert.zig");
const functions = @import("functions.zig");
const tensor = @import("tensor.zig");

const Around = tensor.Around;
const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const Wide = tensor.Wide;
const asFloat = tensor.asFloat;
const get = tensor.get;
const has = tensor.has;
const isFloat = tensor.isFloat;
const product = tensor.product;

/// What sums are computed in.
fn Total(comptime T: type) type {
    return if (isFloat(T)) f64 else T;
}

fn fromTotal(comptime T: type, x: Total(T)) T {
    return if (comptime isFloat(T)) tensor.rounded(T, @floatCast(x)) else x;
}

fn total(comptime T: type, x: T) Total(T) {
    return if (comptime isFloat(T)) asFloat(f64, x) else x;
}

/// An operator that makes one element of each row of elements.
fn Reduction(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const is_noop = get(attribute, "noop_with_empty_axes", @as(i64, 0)) != 0;
            const axes: []const i64 = if (has(in, 1)) in[1].data else &.{};
            const keepdims = get(attribute, "keepdims", @as(i64, 1)) != 0;
            out[0].* = try reduced(c, in[0], axes, is_noop, keepdims, f);
        }
    };
}

fn reduced(c: *Context, x: anytype, axes: []const i64, is_noop: bool, keepdims: bool, comptime f: anytype) Error!@TypeOf(x) {
    const T = Of(@TypeOf(x));
    const rows = try Rows(T).of(c, x, axes, is_noop, keepdims);
    const data = try c.alloc(T, product(rows.shape));
    for (data, 0..) |*to, i| to.* = f(T, rows.data[i * rows.width ..][0..rows.width]);
    return .{ .shape = rows.shape, .data = data };
}

/// A tensor as rows along the axes that are reduced, and the shape of what is left.
fn Rows(comptime T: type) type {
    return struct {
        data: []const T,
        width: usize,
        shape: []const usize,

        fn of(c: *Context, x: Tensor(T), axes: []const i64, is_noop: bool, keepdims: bool) Error!@This() {
            const rank = x.shape.len;
            const gone = try c.alloc(bool, rank);
            @memset(gone, axes.len == 0 and !is_noop);
            for (axes) |axis| gone[try tensor.indexOf(axis, rank)] = true;
            const order = try c.alloc(usize, rank);
            var shape: std.ArrayList(usize) = .empty;
            var kept: usize = 0;
            var width: usize = 1;
            for (gone, 0..) |is_gone, axis| {
                if (!is_gone) {
                    order[kept] = axis;
                    kept += 1;
                } else width *= x.shape[axis];
                if (!is_gone or keepdims) try shape.append(c.allocator, if (is_gone) 1 else x.shape[axis]);
            }
            for (gone, 0..) |is_gone, axis| if (is_gone) {
                order[kept] = axis;
                kept += 1;
            };
            const moved = if (std.sort.isSorted(usize, order, {}, std.sort.asc(usize))) x else try tensor.transposed(c, x, order);
            return .{ .data = moved.data, .width = width, .shape = shape.items };
        }
    };
}

fn sum(comptime T: type, row: []const T) T {
    var result: Total(T) = 0;
    for (row) |x| result = functions.add(.{}, result, total(T, x));
    return fromTotal(T, result);
}

fn mean(comptime T: type, row: []const T) T {
    if (comptime isFloat(T)) {
        var result: f64 = 0;
        for (row) |x| result += asFloat(f64, x);
        return fromTotal(T, result / asFloat(f64, row.len));
    }
    return functions.div(.{}, sum(T, row), @as(T, @intCast(row.len)));
}

fn prod(comptime T: type, row: []const T) T {
    var result: Total(T) = 1;
    for (row) |x| result = functions.mul(.{}, result, total(T, x));
    return fromTotal(T, result);
}

/// The least value of a type.
pub fn least(comptime T: type) Wide(T) {
    if (T == bool) return false;
    return if (comptime isFloat(T)) -std.math.inf(Wide(T)) else std.math.minInt(T);
}

fn greatest(comptime T: type) Wide(T) {
    if (T == bool) return true;
    return if (comptime isFloat(T)) std.math.inf(Wide(T)) else std.math.maxInt(T);
}

fn maximum(comptime T: type, row: []const T) T {
    var result = least(T);
    for (row) |x| result = if (T == bool) result or x else functions.max(.{}, tensor.wide(x), result);
    return tensor.rounded(T, result);
}

fn minimum(comptime T: type, row: []const T) T {
    var result = greatest(T);
    for (row) |x| result = if (T == bool) result and x else functions.min(.{}, tensor.wide(x), result);
    return tensor.rounded(T, result);
}

fn sumOfSizes(comptime T: type, row: []const T) T {
    var result: Total(T) = 0;
    for (row) |x| result = functions.add(.{}, result, functions.abs(total(T, x)));
    return fromTotal(T, result);
}

fn sumOfSquares(comptime T: type, row: []const T) T {
    var result: Total(T) = 0;
    for (row) |x| result = functions.add(.{}, result, functions.mul(.{}, total(T, x), total(T, x)));
    return fromTotal(T, result);
}

fn norm(comptime T: type, row: []const T) T {
    var result: f64 = 0;
    for (row) |x| result += asFloat(f64, x) * asFloat(f64, x);
    return fromFloat(T, @sqrt(result));
}

fn logOfSum(comptime T: type, row: []const T) T {
    var result: f64 = 0;
    for (row) |x| result += asFloat(f64, x);
    return fromFloat(T, @log(result));
}

fn logOfSumOfExp(comptime T: type, row: []const T) T {
    var top = -std.math.inf(f64);
    for (row) |x| top = functions.max(.{}, asFloat(f64, x), top);
    if (std.math.isInf(top)) return fromFloat(T, top);
    var result: f64 = 0;
    for (row) |x| result += @exp(asFloat(f64, x) - top);
    return fromFloat(T, top + @log(result));
}

fn fromFloat(comptime T: type, x: f64) T {
    return if (comptime isFloat(T)) fromTotal(T, x) else convert.integerFrom(T, x);
}

pub const ReduceL1 = Reduction(sumOfSizes).run;
pub const ReduceL2 = Reduction(norm).run;
pub const ReduceLogSum = Reduction(logOfSum).run;
pub const ReduceLogSumExp = Reduction(logOfSumOfExp).run;
pub const ReduceMax = Reduction(maximum).run;
pub const ReduceMean = Reduction(mean).run;
pub const ReduceMin = Reduction(minimum).run;
pub const ReduceProd = Reduction(prod).run;
pub const ReduceSum = Reduction(sum).run;
pub const ReduceSumSquare = Reduction(sumOfSquares).run;

/// The index of the largest or smallest element along an axis.
fn Extreme(comptime is_better: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const x = in[0];
            const axis = get(attribute, "axis", @as(i64, 0));
            const keepdims = get(attribute, "keepdims", @as(i64, 1)) != 0;
            const takes_last = get(attribute, "select_last_index", @as(i64, 0)) != 0;
            const rows = try Rows(Of(@TypeOf(x))).of(c, x, &.{axis}, true, keepdims);
            const data = try c.alloc(i64, product(rows.shape));
            for (data, 0..) |*to, i| {
                const row = rows.data[i * rows.width ..][0..rows.width];
                to.* = @intCast(best(row, takes_last));
            }
            out[0].* = .{ .shape = rows.shape, .data = data };
        }

        fn best(row: anytype, takes_last: bool) usize {
            var found: usize = 0;
            for (row, 0..) |x, place| {
                const a, const b = .{ tensor.wide(x), tensor.wide(row[found]) };
                if (is_better(a, b) or (takes_last and a == b)) found = place;
            }
            return found;
        }
    };
}

fn isLarger(x: anytype, y: @TypeOf(x)) bool {
    return x > y or ((comptime isFloat(@TypeOf(x))) and x != x and y == y);
}

fn isSmaller(x: anytype, y: @TypeOf(x)) bool {
    return x < y or ((comptime isFloat(@TypeOf(x))) and x != x and y == y);
}

pub const ArgMax = Extreme(isLarger).run;
pub const ArgMin = Extreme(isSmaller).run;

/// The totals of all elements up to each one along an axis.
fn Running(comptime f: anytype, comptime start: comptime_int) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const x = in[0];
            const T = Of(@TypeOf(x));
            const axis = try tensor.indexOf(try tensor.item(in[1]), x.shape.len);
            const is_exclusive = get(attribute, "exclusive", @as(i64, 0)) != 0;
            const is_reverse = get(attribute, "reverse", @as(i64, 0)) != 0;
            const around = Around.of(x.shape, axis);
            const data = try c.alloc(T, x.data.len);
            for (0..around.outer) |row| for (0..around.inner) |column| {
                var result: Total(T) = start;
                for (0..around.extent) |step| {
                    const index = if (is_reverse) around.extent - 1 - step else step;
                    const place = (row * around.extent + index) * around.inner + column;
                    if (is_exclusive) data[place] = fromTotal(T, result);
                    result = f(.{}, result, total(T, x.data[place]));
                    if (!is_exclusive) data[place] = fromTotal(T, result);
                }
            };
            out[0].* = .{ .shape = x.shape, .data = data };
        }
    };
}

pub const CumSum = Running(functions.add, 0).run;
pub const CumProd = Running(functions.mul, 1).run;

/// An operator that makes a row of each row along an axis.
fn AlongAxis(comptime f: anytype) type {
    return struct {
        pub fn run(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
            const x = in[0];
            const T = Of(@TypeOf(x));
            const axis = try tensor.indexOf(get(attribute, "axis", @as(i64, -1)), x.shape.len);
            const around = Around.of(x.shape, axis);
            const data = try c.alloc(T, x.data.len);
            const row = try c.alloc(f64, around.extent);
            for (0..around.outer) |line| for (0..around.inner) |column| {
                const first = line * around.extent * around.inner + column;
                for (row, 0..) |*to, i| to.* = asFloat(f64, x.data[first + i * around.inner]);
                f(attribute, row);
                for (row, 0..) |from, i| data[first + i * around.inner] = fromTotal(T, from);
            };
            out[0].* = .{ .shape = x.shape, .data = data };
        }
    };
}

fn softmax(comptime _: anytype, row: []f64) void {
    const top = maximum(f64, row);
    var sum_of_row: f64 = 0;
    for (row) |*x| {
        x.* = @exp(x.* - top);
        sum_of_row += x.*;
    }
    for (row) |*x| x.* /= sum_of_row;
}

fn logSoftmax(comptime _: anytype, row: []f64) void {
    const top = maximum(f64, row);
    var sum_of_row: f64 = 0;
    for (row) |x| sum_of_row += @exp(x - top);
    for (row) |*x| x.* = x.* - top - @log(sum_of_row);
}

fn hardmax(comptime _: anytype, row: []f64) void {
    var best: usize = 0;
    for (row, 0..) |x, place| if (x > row[best]) {
        best = place;
    };
    for (row, 0..) |*x, place| x.* = if (place == best) 1 else 0;
}

fn lpNormalization(comptime attribute: anytype, row: []f64) void {
    const size = if (get(attribute, "p", @as(i64, 2)) == 1) sumOfSizes(f64, row) else norm(f64, row);
    for (row) |*x| x.* = if (size == 0) 0 else x.* / size;
}

pub const Softmax = AlongAxis(softmax).run;
pub const LogSoftmax = AlongAxis(logSoftmax).run;
pub const Hardmax = AlongAxis(hardmax).run;
pub const LpNormalization = AlongAxis(lpNormalization).run;

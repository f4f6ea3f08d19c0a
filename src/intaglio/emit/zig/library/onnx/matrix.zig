//! Products of matrices.

const std = @import("std");
const convert = @import("convert.zig");
const functions = @import("functions.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const Tensor = tensor.Tensor;
const Wide = tensor.Wide;
const get = tensor.get;
const has = tensor.has;
const product = tensor.product;

/// Adds to rows of `result` the products of rows of `a` with the matrix `b`.
fn multiply(comptime T: type, result: []Wide(T), a: []const T, b: []const T, rows: usize, inner: usize, columns: usize) void {
    for (0..rows) |row| {
        const to = result[row * columns ..][0..columns];
        for (0..inner) |k| {
            const x = tensor.wide(a[row * inner + k]);
            for (to, b[k * columns ..][0..columns]) |*sum, y| {
                sum.* = functions.add(.{}, sum.*, functions.mul(.{}, x, tensor.wide(y)));
            }
        }
    }
}

pub fn MatMul(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const a, const b = .{ in[0], in[1] };
    if (a.shape.len == 0 or b.shape.len == 0) return error.Shape;
    const left = if (a.shape.len == 1) &[_]usize{ 1, a.shape[0] } else a.shape;
    const right = if (b.shape.len == 1) &[_]usize{ b.shape[0], 1 } else b.shape;
    const rows, const inner = .{ left[left.len - 2], left[left.len - 1] };
    const columns = right[right.len - 1];
    if (right[right.len - 2] != inner) return error.Shape;
    const batch = try tensor.broadcast(c, left[0 .. left.len - 2], right[0 .. right.len - 2]);
    const places_a = try matrixPlaces(c, left[0 .. left.len - 2], batch);
    const places_b = try matrixPlaces(c, right[0 .. right.len - 2], batch);
    const size = rows * columns;
    const wide = try c.alloc(Wide(T), places_a.len * size);
    @memset(wide, 0);
    for (places_a, places_b, 0..) |from_a, from_b, number| {
        const part_a = a.data[from_a * rows * inner ..][0 .. rows * inner];
        const part_b = b.data[from_b * inner * columns ..][0 .. inner * columns];
        multiply(T, wide[number * size ..][0..size], part_a, part_b, rows, inner, columns);
    }
    var shape: std.ArrayList(usize) = .empty;
    try shape.appendSlice(c.allocator, batch);
    if (a.shape.len > 1) try shape.append(c.allocator, rows);
    if (b.shape.len > 1) try shape.append(c.allocator, columns);
    out[0].* = .{ .shape = shape.items, .data = try narrowed(c, T, wide) };
}

/// For each matrix of a batch, which of an operand's matrices it reads.
fn matrixPlaces(c: *Context, own: []const usize, batch: []const usize) Error![]const usize {
    const numbers = try c.alloc(usize, product(own));
    for (numbers, 0..) |*number, i| number.* = i;
    return (try tensor.expandTo(c, Tensor(usize){ .shape = own, .data = numbers }, batch)).data;
}

fn narrowed(c: *Context, comptime T: type, wide: []const Wide(T)) Error![]const T {
    if (T == Wide(T)) return wide;
    const data = try c.alloc(T, wide.len);
    for (data, wide) |*to, from| to.* = tensor.rounded(T, from);
    return data;
}

pub fn Gemm(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const T = Of(@TypeOf(out[0]));
    const flip = [_]usize{ 1, 0 };
    const a = if (get(attribute, "transA", @as(i64, 0)) != 0) try tensor.transposed(c, in[0], &flip) else in[0];
    const b = if (get(attribute, "transB", @as(i64, 0)) != 0) try tensor.transposed(c, in[1], &flip) else in[1];
    const rows, const inner, const columns = .{ a.shape[0], a.shape[1], b.shape[1] };
    if (b.shape[0] != inner) return error.Shape;
    const wide = try c.alloc(Wide(T), rows * columns);
    @memset(wide, 0);
    multiply(T, wide, a.data, b.data, rows, inner, columns);
    const alpha = get(attribute, "alpha", @as(f32, 1));
    if (alpha != 1) for (wide) |*x| {
        x.* = scaled(Wide(T), x.*, alpha);
    };
    const shape = try c.allocator.dupe(usize, &.{ rows, columns });
    if (has(in, 2)) {
        const bias = try tensor.expandTo(c, in[2], shape);
        const beta = get(attribute, "beta", @as(f32, 1));
        for (wide, bias.data) |*x, y| x.* = functions.add(.{}, x.*, if (beta == 1) tensor.wide(y) else scaled(Wide(T), tensor.wide(y), beta));
    }
    out[0].* = .{ .shape = shape, .data = try narrowed(c, T, wide) };
}

fn scaled(comptime T: type, x: T, factor: f32) T {
    if (comptime tensor.isFloat(T)) return x * factor;
    return convert.integerFrom(T, @as(f64, @floatFromInt(x)) * factor);
}

pub fn Det(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const n = x.shape[x.shape.len - 1];
    if (x.shape[x.shape.len - 2] != n) return error.Shape;
    const shape = x.shape[0 .. x.shape.len - 2];
    const data = try c.alloc(T, product(shape));
    const work = try c.alloc(f64, n * n);
    for (data, 0..) |*to, number| {
        for (work, x.data[number * n * n ..][0 .. n * n]) |*element, given| element.* = tensor.asFloat(f64, given);
        to.* = tensor.rounded(T, @floatCast(determinant(work, n)));
    }
    out[0].* = .{ .shape = shape, .data = data };
}

/// By elimination, which the matrix does not survive.
fn determinant(work: []f64, n: usize) f64 {
    var result: f64 = 1;
    for (0..n) |column| {
        var pivot = column;
        for (column..n) |row| if (@abs(work[row * n + column]) > @abs(work[pivot * n + column])) {
            pivot = row;
        };
        const head = work[pivot * n + column];
        if (head == 0) return 0;
        if (pivot != column) {
            for (0..n) |k| std.mem.swap(f64, &work[pivot * n + k], &work[column * n + k]);
            result = -result;
        }
        result *= head;
        for (column + 1..n) |row| {
            const factor = work[row * n + column] / head;
            for (column..n) |k| work[row * n + k] -= factor * work[column * n + k];
        }
    }
    return result;
}

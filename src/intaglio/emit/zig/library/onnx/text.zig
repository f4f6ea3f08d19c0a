//! Strings.

const std = @import("std");
const regex = @import("regex.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Of = tensor.Of;
const get = tensor.get;
const list = tensor.list;
const product = tensor.product;
const wants = tensor.wants;

const Text = []const u8;

pub fn StringConcat(c: *Context, comptime _: anytype, in: anytype, out: anytype) Error!void {
    const shape = try tensor.broadcast(c, in[0].shape, in[1].shape);
    const left, const right = .{ try tensor.expandTo(c, in[0], shape), try tensor.expandTo(c, in[1], shape) };
    const data = try c.alloc(Text, left.data.len);
    for (data, left.data, right.data) |*to, a, b| to.* = try std.mem.concat(c.allocator, u8, &.{ a, b });
    out[0].* = .{ .shape = shape, .data = data };
}

pub fn StringSplit(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const delimiter = get(attribute, "delimiter", @as(Text, ""));
    const most = get(attribute, "maxsplit", @as(i64, std.math.maxInt(i64)));
    const rows = try c.alloc([]const Text, x.data.len);
    const counts = try c.alloc(i64, x.data.len);
    var width: usize = 0;
    for (rows, counts, x.data) |*row, *count, text| {
        row.* = if (delimiter.len == 0) try words(c, text, most) else try pieces(c, text, delimiter, most);
        count.* = @intCast(row.len);
        width = @max(width, row.len);
    }
    const shape = try std.mem.concat(c.allocator, usize, &.{ x.shape, &.{width} });
    const data = try c.alloc(Text, product(shape));
    @memset(data, "");
    for (rows, 0..) |row, i| @memcpy(data[i * width ..][0..row.len], row);
    if (wants(out, 0)) out[0].* = .{ .shape = shape, .data = data };
    if (wants(out, 1)) out[1].* = .{ .shape = x.shape, .data = counts };
}

/// The parts of a text between white space; the last has all that is left.
fn words(c: *Context, text: Text, most: i64) Error![]const Text {
    var found: std.ArrayList(Text) = .empty;
    var rest = std.mem.trimStart(u8, text, &std.ascii.whitespace);
    while (rest.len > 0) {
        const end = std.mem.findAny(u8, rest, &std.ascii.whitespace) orelse rest.len;
        const is_last = found.items.len >= most;
        const word = if (is_last) std.mem.trimEnd(u8, rest, &std.ascii.whitespace) else rest[0..end];
        try found.append(c.allocator, word);
        if (is_last) break;
        rest = std.mem.trimStart(u8, rest[end..], &std.ascii.whitespace);
    }
    return found.items;
}

fn pieces(c: *Context, text: Text, delimiter: Text, most: i64) Error![]const Text {
    var found: std.ArrayList(Text) = .empty;
    var rest = text;
    while (found.items.len < most) {
        const end = std.mem.find(u8, rest, delimiter) orelse break;
        try found.append(c.allocator, rest[0..end]);
        rest = rest[end + delimiter.len ..];
    }
    try found.append(c.allocator, rest);
    return found.items;
}

pub fn StringNormalizer(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const action = get(attribute, "case_change_action", @as(Text, "NONE"));
    const is_exact = get(attribute, "is_case_sensitive", @as(i64, 0)) != 0;
    const stopwords = list(Text, attribute, "stopwords") orelse &.{};
    var kept: std.ArrayList(Text) = .empty;
    for (x.data) |word| {
        const is_banned = for (stopwords) |banned| {
            if (if (is_exact) std.mem.eql(u8, word, banned) else std.ascii.eqlIgnoreCase(word, banned)) break true;
        } else false;
        if (!is_banned) try kept.append(c.allocator, try changed(c, word, action));
    }
    if (kept.items.len == 0) try kept.append(c.allocator, "");
    const shape = try c.allocator.dupe(usize, x.shape);
    shape[shape.len - 1] = kept.items.len;
    out[0].* = .{ .shape = shape, .data = kept.items };
}

/// A word in another case; letters beyond ASCII stay as they are.
fn changed(c: *Context, word: Text, action: Text) Error!Text {
    if (std.mem.eql(u8, action, "LOWER")) return std.ascii.allocLowerString(c.allocator, word);
    if (std.mem.eql(u8, action, "UPPER")) return std.ascii.allocUpperString(c.allocator, word);
    return word;
}

pub fn RegexFullMatch(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const pattern = try regex.Pattern.compile(c, get(attribute, "pattern", @as(Text, "")));
    const data = try c.alloc(bool, in[0].data.len);
    for (data, in[0].data) |*to, text| to.* = try pattern.matchesAll(c, text);
    out[0].* = .{ .shape = in[0].shape, .data = data };
}

pub fn TfIdfVectorizer(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const x = in[0];
    const T = Of(@TypeOf(x));
    const is_text = T == Text;
    const Word = if (is_text) Text else i64;
    const pool = list(Word, attribute, if (is_text) "pool_strings" else "pool_int64s").?;
    const starts = list(i64, attribute, "ngram_counts").?;
    const indexes = list(i64, attribute, "ngram_indexes").?;
    const mode: Text = attribute.mode;
    const shortest: usize, const longest: usize = .{ attribute.min_gram_length, attribute.max_gram_length };
    const skip: usize = attribute.max_skip_count;
    var columns: usize = 0;
    for (indexes) |index| columns = @max(columns, @as(usize, @intCast(index)) + 1);
    const rows = if (x.shape.len == 1) 1 else x.shape[0];
    const width = if (x.shape.len == 0) 1 else x.shape[x.shape.len - 1];
    const data = try c.alloc(f32, rows * columns);
    @memset(data, 0);
    for (0..rows) |r| for (shortest..longest + 1) |size| for (1..(if (size > 1) skip else 0) + 2) |gap| {
        const reach = (size - 1) * gap;
        for (0..width -| reach) |start| {
            const row = x.data[r * width ..][0..width];
            const number = find(Word, pool, starts, size, row, start, gap) orelse continue;
            data[r * columns + @as(usize, @intCast(indexes[number]))] += 1;
        }
    };
    const weights = list(f32, attribute, "weights");
    for (data, 0..) |*count, i| {
        const place = std.mem.findScalar(i64, indexes, @intCast(i % columns));
        const weight: f32 = if (place == null) 0 else if (weights) |given| given[place.?] else 1;
        if (comptime std.mem.eql(u8, mode, "IDF")) count.* = if (count.* > 0) weight else 0;
        if (comptime std.mem.eql(u8, mode, "TFIDF")) count.* *= weight;
    }
    const shape = if (x.shape.len == 1) &[_]usize{columns} else &[_]usize{ rows, columns };
    out[0].* = .{ .shape = try c.allocator.dupe(usize, shape), .data = data };
}

/// The number of the sequence of words that begins at a place of a row.
fn find(comptime Word: type, pool: []const Word, starts: []const i64, size: usize, row: anytype, start: usize, gap: usize) ?usize {
    var number: usize = 0;
    for (starts, 0..) |first, i| {
        const end: usize = if (i + 1 < starts.len) @intCast(starts[i + 1]) else pool.len;
        const length = i + 1;
        var at: usize = @intCast(first);
        while (at + length <= end) : (at += length) {
            if (length == size) {
                const is_equal = for (pool[at..][0..size], 0..) |word, k| {
                    const own = row[start + k * gap];
                    if (!(if (Word == Text) std.mem.eql(u8, word, own) else word == own)) break false;
                } else true;
                if (is_equal) return number;
            }
            number += 1;
        }
    }
    return null;
}

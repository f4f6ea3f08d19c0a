//! Images in bytes: BMP, PNM and PNG. Other formats give `error.Value`.

const std = @import("std");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const get = tensor.get;

/// The most pixels that are decoded.
const limit = 1 << 28;

const Picture = struct {
    height: usize,
    width: usize,
    /// Red, green and blue of each pixel, from the top.
    pixels: []u8,

    fn init(c: *Context, height: usize, width: usize) Error!Picture {
        if (height == 0 or width == 0 or width > limit / height) return error.Value;
        return .{ .height = height, .width = width, .pixels = try c.alloc(u8, height * width * 3) };
    }
};

pub fn ImageDecoder(c: *Context, comptime attribute: anytype, in: anytype, out: anytype) Error!void {
    const bytes = in[0].data;
    const picture = if (std.mem.startsWith(u8, bytes, "BM"))
        try bitmap(c, bytes)
    else if (std.mem.startsWith(u8, bytes, "\x89PNG\r\n\x1a\n"))
        try png(c, bytes)
    else if (bytes.len > 2 and bytes[0] == 'P' and bytes[1] >= '5' and bytes[1] <= '6')
        try pnm(c, bytes)
    else
        return error.Value;
    const format = comptime get(attribute, "pixel_format", @as([]const u8, "RGB"));
    const channels: usize = if (comptime std.mem.eql(u8, format, "Grayscale")) 1 else 3;
    const data = try c.alloc(u8, picture.height * picture.width * channels);
    for (0..picture.height * picture.width) |i| {
        const r, const g, const b = picture.pixels[i * 3 ..][0..3].*;
        if (comptime std.mem.eql(u8, format, "Grayscale")) {
            data[i] = @intCast((@as(u32, r) * 19595 + @as(u32, g) * 38470 + @as(u32, b) * 7471 + 0x8000) >> 16);
        } else {
            data[i * 3 ..][0..3].* = if (comptime std.mem.eql(u8, format, "BGR")) .{ b, g, r } else .{ r, g, b };
        }
    }
    out[0].* = .{ .shape = try c.allocator.dupe(usize, &.{ picture.height, picture.width, channels }), .data = data };
}

fn little(comptime T: type, bytes: []const u8, at: usize) Error!T {
    if (at + @sizeOf(T) > bytes.len) return error.Value;
    return std.mem.readInt(T, bytes[at..][0..@sizeOf(T)], .little);
}

fn big(bytes: []const u8, at: usize) Error!u32 {
    if (at + 4 > bytes.len) return error.Value;
    return std.mem.readInt(u32, bytes[at..][0..4], .big);
}

/// A bitmap of 24 or 32 bits, or of 8 with a palette, that is not compressed.
fn bitmap(c: *Context, bytes: []const u8) Error!Picture {
    const start: usize = try little(u32, bytes, 10);
    const header: usize = try little(u32, bytes, 14);
    const width, const height = .{ try little(i32, bytes, 18), try little(i32, bytes, 22) };
    const bits: usize = try little(u16, bytes, 28);
    if (width <= 0 or height == 0 or height == std.math.minInt(i32)) return error.Value;
    const compression = try little(u32, bytes, 30);
    if (compression != 0 and !(compression == 3 and bits == 32)) return error.Value;
    if (bits != 8 and bits != 24 and bits != 32) return error.Value;
    const picture = try Picture.init(c, @abs(height), @intCast(width));
    const stride = (picture.width * bits + 31) / 32 * 4;
    for (0..picture.height) |row| for (0..picture.width) |column| {
        const line = if (height > 0) picture.height - 1 - row else row;
        const at = start + line * stride + column * bits / 8;
        if (at + bits / 8 > bytes.len) return error.Value;
        const from = if (bits == 8) 14 + header + 4 * @as(usize, bytes[at]) else at;
        if (from + 3 > bytes.len) return error.Value;
        picture.pixels[(row * picture.width + column) * 3 ..][0..3].* = .{ bytes[from + 2], bytes[from + 1], bytes[from] };
    };
    return picture;
}

/// A portable image of bytes: `P5` is grey, `P6` in colours.
fn pnm(c: *Context, bytes: []const u8) Error!Picture {
    var at: usize = 2;
    var numbers: [3]usize = undefined;
    for (&numbers) |*number| {
        while (at < bytes.len and (std.ascii.isWhitespace(bytes[at]) or bytes[at] == '#')) : (at += 1) {
            if (bytes[at] == '#') while (at < bytes.len and bytes[at] != '\n') {
                at += 1;
            };
        }
        const first = at;
        while (at < bytes.len and std.ascii.isDigit(bytes[at])) at += 1;
        number.* = std.fmt.parseInt(usize, bytes[first..at], 10) catch return error.Value;
    }
    if (numbers[2] != 255) return error.Value;
    const channels: usize = if (bytes[1] == '6') 3 else 1;
    const picture = try Picture.init(c, numbers[1], numbers[0]);
    at += 1;
    if (at + picture.height * picture.width * channels > bytes.len) return error.Value;
    for (0..picture.height * picture.width) |i| for (0..3) |channel| {
        picture.pixels[i * 3 + channel] = bytes[at + i * channels + @min(channel, channels - 1)];
    };
    return picture;
}

/// A portable network graphic of 8 bits a channel that is not interlaced.
fn png(c: *Context, bytes: []const u8) Error!Picture {
    var packed_bytes: std.ArrayList(u8) = .empty;
    var palette: []const u8 = &.{};
    const picture = try Picture.init(c, try big(bytes, 20), try big(bytes, 16));
    if (bytes.len < 29 or bytes[24] != 8 or bytes[28] != 0) return error.Value;
    const channels: usize = switch (bytes[25]) {
        0, 3 => 1,
        2 => 3,
        4 => 2,
        6 => 4,
        else => return error.Value,
    };
    var at: usize = 8;
    while (at + 12 <= bytes.len) {
        const length: usize = try big(bytes, at);
        if (at + 12 + length > bytes.len) return error.Value;
        const body = bytes[at + 8 ..][0..length];
        if (std.mem.eql(u8, bytes[at + 4 ..][0..4], "IDAT")) try packed_bytes.appendSlice(c.allocator, body);
        if (std.mem.eql(u8, bytes[at + 4 ..][0..4], "PLTE")) palette = body;
        at += 12 + length;
    }
    const stride = picture.width * channels;
    const lines = try c.alloc(u8, (stride + 1) * picture.height);
    var input: std.Io.Reader = .fixed(packed_bytes.items);
    const window = try c.alloc(u8, std.compress.flate.max_window_len);
    var inflate: std.compress.flate.Decompress = .init(&input, .zlib, window);
    inflate.reader.readSliceAll(lines) catch return error.Value;
    for (0..picture.height) |row| {
        const line = lines[row * (stride + 1) ..][0 .. stride + 1];
        const above: ?[]const u8 = if (row == 0) null else lines[(row - 1) * (stride + 1) + 1 ..][0..stride];
        try unfilter(line[0], line[1..], above, channels);
        for (0..picture.width) |column| for (0..3) |channel| {
            const own = line[1 + column * channels ..][0..channels];
            const place = if (bytes[25] == 3) @as(usize, own[0]) * 3 + channel else 0;
            if (bytes[25] == 3 and place >= palette.len) return error.Value;
            const value = if (bytes[25] == 3) palette[place] else own[if (channels < 3) 0 else channel];
            picture.pixels[(row * picture.width + column) * 3 + channel] = value;
        };
    }
    return picture;
}

/// Bytes that were stored as differences from those beside and above them.
fn unfilter(kind: u8, line: []u8, above: ?[]const u8, channels: usize) Error!void {
    for (line, 0..) |*byte, i| {
        const left: i32 = if (i >= channels) line[i - channels] else 0;
        const up: i32 = if (above) |other| other[i] else 0;
        const corner: i32 = if (above != null and i >= channels) above.?[i - channels] else 0;
        byte.* +%= switch (kind) {
            0 => 0,
            1 => @intCast(left),
            2 => @intCast(up),
            3 => @intCast(@divFloor(left + up, 2)),
            4 => @intCast(paeth(left, up, corner)),
            else => return error.Value,
        };
    }
}

fn paeth(left: i32, up: i32, corner: i32) i32 {
    const p = left + up - corner;
    const a, const b, const d = .{ @abs(p - left), @abs(p - up), @abs(p - corner) };
    if (a <= b and a <= d) return left;
    return if (b <= d) up else corner;
}

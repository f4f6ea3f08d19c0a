//! Values in files: sizes as 64-bit numbers, then the elements, all with the low byte first.

const std = @import("std");
const tensor = @import("tensor.zig");
const walk = @import("walk.zig");

const Context = tensor.Context;
const Of = tensor.Of;

/// Reads values one after the other from bytes that are aligned to 8.
pub const Reader = struct {
    bytes: []align(8) const u8,
    at: usize = 0,

    pub const Error = tensor.Error || error{EndOfFile};

    fn take(reader: *Reader, size: usize) Error![]const u8 {
        if (size > reader.bytes.len - reader.at) return error.EndOfFile;
        defer reader.at = std.mem.alignForward(usize, reader.at + size, 8);
        return reader.bytes[reader.at..][0..size];
    }

    fn number(reader: *Reader) Error!usize {
        return @intCast(std.mem.readInt(u64, (try reader.take(8))[0..8], .little));
    }

    pub fn value(reader: *Reader, c: *Context, comptime Value: type) Error!Value {
        if (@typeInfo(Value) == .optional) {
            return if (try reader.number() == 0) null else try reader.value(c, @typeInfo(Value).optional.child);
        }
        if (@hasField(Value, "items")) {
            const items = try c.alloc(tensor.Tensor(Of(Value)), try reader.number());
            for (items) |*item| item.* = try reader.value(c, tensor.Tensor(Of(Value)));
            return .{ .items = items };
        }
        const shape = try c.alloc(usize, try reader.number());
        for (shape) |*extent| extent.* = try reader.number();
        return .{ .shape = shape, .data = try reader.elements(c, Of(Value), tensor.product(shape)) };
    }

    fn elements(reader: *Reader, c: *Context, comptime T: type, count: usize) Error![]const T {
        if (T != []const u8) return walk.elements(c, T, try reader.take(count * @sizeOf(T)), count);
        const texts = try c.alloc(T, count);
        for (texts) |*text| text.* = try reader.take(try reader.number());
        return texts;
    }
};

/// Appends values to a list of bytes in the same form.
pub const Writer = struct {
    allocator: std.mem.Allocator,
    bytes: std.ArrayList(u8) = .empty,

    fn put(writer: *Writer, bytes: []const u8) tensor.Error!void {
        try writer.bytes.appendSlice(writer.allocator, bytes);
        while (writer.bytes.items.len % 8 != 0) try writer.bytes.append(writer.allocator, 0);
    }

    fn number(writer: *Writer, value_: usize) tensor.Error!void {
        var bytes: [8]u8 = undefined;
        std.mem.writeInt(u64, &bytes, value_, .little);
        try writer.put(&bytes);
    }

    pub fn value(writer: *Writer, given: anytype) tensor.Error!void {
        const Value = @TypeOf(given);
        if (@typeInfo(Value) == .optional) {
            try writer.number(@intFromBool(given != null));
            if (given) |inner| try writer.value(inner);
        } else if (@hasField(Value, "items")) {
            try writer.number(given.items.len);
            for (given.items) |item| try writer.value(item);
        } else {
            try writer.number(given.shape.len);
            for (given.shape) |extent| try writer.number(extent);
            try writer.elements(Of(Value), given.data);
        }
    }

    fn elements(writer: *Writer, comptime T: type, data: []const T) tensor.Error!void {
        if (T == []const u8) {
            for (data) |text| {
                try writer.number(text.len);
                try writer.put(text);
            }
        } else if (@typeInfo(T) == .int and @typeInfo(T).int.bits < 8) {
            for (data) |element| {
                const bits: @Int(.unsigned, @typeInfo(T).int.bits) = @bitCast(element);
                try writer.bytes.append(writer.allocator, bits);
            }
            try writer.put("");
        } else {
            try writer.put(std.mem.sliceAsBytes(data));
        }
    }
};

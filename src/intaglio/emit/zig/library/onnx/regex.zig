//! Regular expressions that match a whole text: literals, classes, groups, choices and repetitions.
//!
//! A pattern becomes a list of instructions, and all ways through it are followed at once, so the time is linear in the
//! length of the text.

const std = @import("std");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;

const Class = struct {
    ranges: []const [2]u21,
    is_negated: bool = false,

    fn has(class: Class, char: u21) bool {
        for (class.ranges) |range| if (char >= range[0] and char <= range[1]) return !class.is_negated;
        return class.is_negated;
    }
};

const Instruction = union(enum) {
    class: Class,
    jump: usize,
    split: [2]usize,
    begin,
    end,
    /// Between a letter, digit or underscore and what is none; or where that is not so.
    boundary: bool,
};

pub const Pattern = struct {
    code: []const Instruction,

    pub fn compile(c: *Context, text: []const u8) Error!Pattern {
        var parser: Parser = .{ .c = c, .text = text };
        try parser.choice();
        if (parser.at < text.len) return error.Value;
        return .{ .code = parser.code.items };
    }

    /// Whether the pattern matches a text from its first to its last character.
    pub fn matchesAll(pattern: Pattern, c: *Context, text: []const u8) Error!bool {
        const count = pattern.code.len + 1;
        var now = try c.alloc(bool, count);
        var next = try c.alloc(bool, count);
        @memset(now, false);
        var view = std.unicode.Utf8View.init(text) catch return error.Value;
        var chars = view.iterator();
        var before: ?u21 = null;
        var char = chars.nextCodepoint();
        pattern.follow(now, 0, before, char);
        while (char) |own| {
            before = own;
            char = chars.nextCodepoint();
            @memset(next, false);
            for (pattern.code, 0..) |instruction, place| {
                if (now[place]) switch (instruction) {
                    .class => |class| if (class.has(own)) pattern.follow(next, place + 1, before, char),
                    else => {},
                };
            }
            std.mem.swap([]bool, &now, &next);
        }
        return now[count - 1];
    }

    /// Mark all instructions that are reached from a place between two characters.
    fn follow(pattern: Pattern, states: []bool, place: usize, before: ?u21, behind: ?u21) void {
        if (states[place]) return;
        states[place] = true;
        if (place == pattern.code.len) return;
        switch (pattern.code[place]) {
            .jump => |target| pattern.follow(states, target, before, behind),
            .split => |targets| for (targets) |target| pattern.follow(states, target, before, behind),
            .begin => if (before == null) pattern.follow(states, place + 1, before, behind),
            .end => if (behind == null) pattern.follow(states, place + 1, before, behind),
            .boundary => |wanted| if ((isWord(before) != isWord(behind)) == wanted) pattern.follow(states, place + 1, before, behind),
            .class => {},
        }
    }
};

fn isWord(char: ?u21) bool {
    const class: Class = .{ .ranges = &word };
    return class.has(char orelse return false);
}

/// The most instructions that a pattern may become.
const limit = 100_000;

const Parser = struct {
    c: *Context,
    text: []const u8,
    at: usize = 0,
    code: std.ArrayList(Instruction) = .empty,

    fn peek(p: *Parser) ?u8 {
        return if (p.at < p.text.len) p.text[p.at] else null;
    }

    fn take(p: *Parser, char: u8) bool {
        if (p.peek() != char) return false;
        p.at += 1;
        return true;
    }

    fn add(p: *Parser, instruction: Instruction) Error!void {
        if (p.code.items.len >= limit) return error.Value;
        try p.code.append(p.c.allocator, instruction);
    }

    fn choice(p: *Parser) Error!void {
        const first = p.code.items.len;
        try p.sequence();
        while (p.take('|')) {
            const left = try p.cutFrom(first);
            try p.add(.{ .split = .{ first + 1, first + 1 + left.len + 1 } });
            try p.paste(left, first, 1);
            const jump = p.code.items.len;
            try p.add(.{ .jump = 0 });
            try p.sequence();
            p.code.items[jump] = .{ .jump = p.code.items.len };
        }
    }

    fn sequence(p: *Parser) Error!void {
        while (p.peek()) |char| {
            if (char == '|' or char == ')') return;
            const first = p.code.items.len;
            try p.atom();
            try p.repetition(first);
        }
    }

    fn atom(p: *Parser) Error!void {
        if (p.take('(')) {
            if (p.take('?')) if (!p.take(':')) return error.Value;
            try p.choice();
            if (!p.take(')')) return error.Value;
        } else if (p.take('^')) {
            try p.add(.begin);
        } else if (p.take('$')) {
            try p.add(.end);
        } else if (p.take('.')) {
            try p.add(.{ .class = .{ .ranges = &.{.{ '\n', '\n' }}, .is_negated = true } });
        } else if (p.take('[')) {
            try p.bracket();
        } else if (p.take('\\')) {
            if (p.peek() == 'b' or p.peek() == 'B') {
                try p.add(.{ .boundary = p.text[p.at] == 'b' });
                p.at += 1;
            } else try p.add(.{ .class = try p.escape() });
        } else {
            const char = try p.character();
            try p.add(.{ .class = .{ .ranges = try p.one(char) } });
        }
    }

    fn one(p: *Parser, char: u21) Error![]const [2]u21 {
        return p.c.allocator.dupe([2]u21, &.{.{ char, char }});
    }

    fn character(p: *Parser) Error!u21 {
        if (p.at >= p.text.len) return error.Value;
        const length = std.unicode.utf8ByteSequenceLength(p.text[p.at]) catch return error.Value;
        if (p.at + length > p.text.len) return error.Value;
        defer p.at += length;
        return std.unicode.utf8Decode(p.text[p.at..][0..length]) catch error.Value;
    }

    fn escape(p: *Parser) Error!Class {
        const char = try p.character();
        return switch (char) {
            'd' => .{ .ranges = &digits },
            'D' => .{ .ranges = &digits, .is_negated = true },
            'w' => .{ .ranges = &word },
            'W' => .{ .ranges = &word, .is_negated = true },
            's' => .{ .ranges = &space },
            'S' => .{ .ranges = &space, .is_negated = true },
            'n' => .{ .ranges = try p.one('\n') },
            't' => .{ .ranges = try p.one('\t') },
            'r' => .{ .ranges = try p.one('\r') },
            'a'...'c', 'e'...'m', 'o'...'q', 'u'...'v', 'x'...'z', 'A'...'C', 'E'...'R', 'T'...'V', 'X'...'Z', '0'...'9' => error.Value,
            else => .{ .ranges = try p.one(char) },
        };
    }

    fn bracket(p: *Parser) Error!void {
        const is_negated = p.take('^');
        var ranges: std.ArrayList([2]u21) = .empty;
        while (ranges.items.len == 0 or p.peek() != ']') {
            if (p.take('\\')) {
                const class = try p.escape();
                if (class.is_negated) return error.Value;
                try ranges.appendSlice(p.c.allocator, class.ranges);
                continue;
            }
            const first = try p.character();
            var last = first;
            if (p.peek() == '-' and p.at + 1 < p.text.len and p.text[p.at + 1] != ']') {
                p.at += 1;
                last = if (p.take('\\')) (try p.escape()).ranges[0][0] else try p.character();
            }
            if (last < first) return error.Value;
            try ranges.append(p.c.allocator, .{ first, last });
        }
        p.at += 1;
        try p.add(.{ .class = .{ .ranges = ranges.items, .is_negated = is_negated } });
    }

    /// Take back the code from a place on, with its targets counted from there.
    fn cutFrom(p: *Parser, first: usize) Error![]Instruction {
        const part = try p.c.allocator.dupe(Instruction, p.code.items[first..]);
        p.code.shrinkRetainingCapacity(first);
        return part;
    }

    /// Add code whose targets were counted for another place.
    fn paste(p: *Parser, part: []const Instruction, was: usize, shift: usize) Error!void {
        const here = was + shift;
        for (part) |instruction| try p.add(switch (instruction) {
            .jump => |target| .{ .jump = target - was + here },
            .split => |targets| .{ .split = .{ targets[0] - was + here, targets[1] - was + here } },
            else => instruction,
        });
    }

    fn repetition(p: *Parser, first: usize) Error!void {
        var least: usize = 1;
        var most: ?usize = 1;
        if (p.take('*')) {
            least, most = .{ 0, null };
        } else if (p.take('+')) {
            most = null;
        } else if (p.take('?')) {
            least = 0;
        } else if (p.peek() == '{') {
            const bounds = try p.braces() orelse return;
            least, most = bounds;
        } else return;
        _ = p.take('?');
        const part = try p.cutFrom(first);
        for (0..least) |_| try p.paste(part, first, p.code.items.len - first);
        if (most) |count| {
            if (count < least) return error.Value;
            const end = p.code.items.len + (count - least) * (part.len + 1);
            for (least..count) |_| {
                try p.add(.{ .split = .{ p.code.items.len + 1, end } });
                try p.paste(part, first, p.code.items.len - first);
            }
        } else {
            const loop = p.code.items.len;
            try p.add(.{ .split = .{ loop + 1, loop + 1 + part.len + 1 } });
            try p.paste(part, first, p.code.items.len - first);
            try p.add(.{ .jump = loop });
        }
    }

    /// `{2}`, `{2,}` or `{2,3}`; null where the brace stands for itself.
    fn braces(p: *Parser) Error!?struct { usize, ?usize } {
        const close = std.mem.findScalarPos(u8, p.text, p.at, '}') orelse return null;
        const inside = p.text[p.at + 1 .. close];
        const comma = std.mem.findScalar(u8, inside, ',');
        const low = std.fmt.parseInt(usize, inside[0 .. comma orelse inside.len], 10) catch return null;
        var high: ?usize = low;
        if (comma) |place| {
            const rest = inside[place + 1 ..];
            high = if (rest.len == 0) null else std.fmt.parseInt(usize, rest, 10) catch return null;
        }
        p.at = close + 1;
        return .{ low, high };
    }
};

const digits = [_][2]u21{.{ '0', '9' }};
const word = [_][2]u21{ .{ '0', '9' }, .{ 'A', 'Z' }, .{ '_', '_' }, .{ 'a', 'z' } };
const space = [_][2]u21{ .{ '\t', '\r' }, .{ ' ', ' ' } };

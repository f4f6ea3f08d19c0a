//! Walks a graph while it is compiled: each node becomes a call of its operator on typed tensors.
//!
//! A graph is an anonymous struct with ONNX's own names: `node`, `initializer`, `input`, `output`, `value_info`.

const std = @import("std");
const operators = @import("../operators.zig");
const control = @import("control.zig");
const narrow = @import("narrow.zig");
const tensor = @import("tensor.zig");

const Context = tensor.Context;
const Error = tensor.Error;
const Sequence = tensor.Sequence;
const Tensor = tensor.Tensor;

/// Comptime work that a graph may take: it grows with the number of its nodes.
pub const quota = 1_000_000_000;

/// The Zig type of an element type as ONNX calls it.
pub fn ElementType(comptime elem_type: anytype) type {
    return switch (@as(DataType, elem_type)) {
        .FLOAT => f32,
        .DOUBLE => f64,
        .FLOAT16 => f16,
        .BFLOAT16 => narrow.BFloat16,
        .FLOAT8E4M3FN => narrow.Float8E4M3FN,
        .FLOAT8E4M3FNUZ => narrow.Float8E4M3FNUZ,
        .FLOAT8E5M2 => narrow.Float8E5M2,
        .FLOAT8E5M2FNUZ => narrow.Float8E5M2FNUZ,
        .FLOAT8E8M0 => narrow.Float8E8M0,
        .FLOAT6E2M3 => narrow.Float6E2M3,
        .FLOAT6E3M2 => narrow.Float6E3M2,
        .FLOAT4E2M1 => narrow.Float4E2M1,
        .INT64 => i64,
        .INT32 => i32,
        .INT16 => i16,
        .INT8 => i8,
        .INT4 => i4,
        .INT2 => i2,
        .UINT64 => u64,
        .UINT32 => u32,
        .UINT16 => u16,
        .UINT8 => u8,
        .UINT4 => u4,
        .UINT2 => u2,
        .BOOL => bool,
        .STRING => []const u8,
        .COMPLEX64 => std.math.Complex(f32),
        .COMPLEX128 => std.math.Complex(f64),
    };
}

pub const DataType = enum {
    FLOAT,
    DOUBLE,
    FLOAT16,
    BFLOAT16,
    FLOAT8E4M3FN,
    FLOAT8E4M3FNUZ,
    FLOAT8E5M2,
    FLOAT8E5M2FNUZ,
    FLOAT8E8M0,
    FLOAT6E2M3,
    FLOAT6E3M2,
    FLOAT4E2M1,
    INT64,
    INT32,
    INT16,
    INT8,
    INT4,
    INT2,
    UINT64,
    UINT32,
    UINT16,
    UINT8,
    UINT4,
    UINT2,
    BOOL,
    STRING,
    COMPLEX64,
    COMPLEX128,
};

/// The Zig type of a type as ONNX writes it.
pub fn TypeOf(comptime written: anytype) type {
    const Written = @TypeOf(written);
    if (@hasField(Written, "tensor_type")) return Tensor(ElementType(written.tensor_type.elem_type));
    if (@hasField(Written, "sequence_type")) return Sequence(ElementType(written.sequence_type.elem_type.tensor_type.elem_type));
    if (@hasField(Written, "optional_type")) return ?TypeOf(written.optional_type.elem_type);
    @compileError("no tensor, sequence or optional");
}

/// The types of a list of values, as a tuple.
pub fn TypesOf(comptime values: anytype) type {
    var types: [values.len]type = undefined;
    inline for (values, 0..) |value, place| types[place] = TypeOf(value.type);
    return @Tuple(&types);
}

/// A struct with one field for each value of a graph, under the value's own name.
pub fn Values(comptime graph: anytype) type {
    @setEvalBranchQuota(quota);
    const lists = .{ graph.input, graph.value_info, graph.output };
    const count = graph.input.len + graph.value_info.len + graph.output.len + graph.initializer.len;
    var names: [count][]const u8 = undefined;
    var types: [count]type = undefined;
    var attributes: [count]std.lang.Type.Struct.FieldAttributes = undefined;
    var place = 0;
    for (graph.initializer) |initializer| {
        names[place] = initializer.name;
        types[place] = Tensor(ElementType(initializer.data_type));
        place += 1;
    }
    for (lists) |values| for (values) |value| {
        names[place] = value.name;
        types[place] = TypeOf(value.type);
        place += 1;
    };
    for (&attributes) |*attribute| attribute.* = .{};
    return @Struct(.auto, null, &names, &types, &attributes);
}

/// The values of a graph, and those around it that a subgraph may read.
pub fn Scope(comptime graph: anytype, comptime Outer: type) type {
    return struct {
        pub const Own = Values(graph);

        own: Own = undefined,
        outer: *const Outer,

        pub fn Type(comptime name: []const u8) type {
            return if (@hasField(Own, name)) @FieldType(Own, name) else Outer.Type(name);
        }

        pub fn read(scope: *const @This(), comptime name: []const u8) Type(name) {
            return if (@hasField(Own, name)) @field(scope.own, name) else scope.outer.read(name);
        }
    };
}

/// What is around a whole model.
pub const Nothing = struct {
    pub fn Type(comptime name: []const u8) type {
        @compileError("no value has the name " ++ name);
    }
};

/// The operands of a node as a tuple; an absent one is `{}`.
fn Operands(comptime names: anytype, comptime Around: type) type {
    var types: [names.len]type = undefined;
    for (names, 0..) |name, place| types[place] = if (name.len == 0) void else Around.Type(name);
    return @Tuple(&types);
}

/// The places of the results of a node as a tuple; one that nobody asked for is `{}`.
fn Results(comptime names: anytype, comptime Around: type) type {
    var types: [names.len]type = undefined;
    for (names, 0..) |name, place| types[place] = if (name.len == 0) void else *Around.Type(name);
    return @Tuple(&types);
}

/// Run all nodes of a graph whose inputs are in the scope.
pub fn runNodes(c: *Context, comptime graph: anytype, scope: anytype) Error!void {
    @setEvalBranchQuota(quota);
    inline for (graph.node) |node| try runNode(c, node, scope);
}

fn runNode(c: *Context, comptime node: anytype, scope: anytype) Error!void {
    @setEvalBranchQuota(quota);
    const Around = @TypeOf(scope.*);
    var in: Operands(node.input, Around) = undefined;
    inline for (node.input, 0..) |name, place| {
        if (name.len > 0) in[place] = scope.read(name);
    }
    var out: Results(node.output, Around) = undefined;
    inline for (node.output, 0..) |name, place| {
        if (name.len > 0) out[place] = &@field(scope.own, name);
    }
    if (@hasDecl(control, node.op_type)) return @field(control, node.op_type)(c, node.attribute, in, out, scope);
    return @field(operators, node.op_type)(c, node.attribute, in, out);
}

/// Run a graph: `inputs` is a tuple in the order of `graph.input`, and so is the result in that of `graph.output`.
pub fn runGraph(c: *Context, comptime graph: anytype, outer: anytype, inputs: TypesOf(graph.input)) Error!TypesOf(graph.output) {
    const Around = @typeInfo(@TypeOf(outer)).pointer.child;
    const scope = try c.allocator.create(Scope(graph, Around));
    scope.outer = outer;
    inline for (graph.input, 0..) |input, place| @field(scope.own, input.name) = inputs[place];
    inline for (graph.initializer) |initializer| {
        @field(scope.own, initializer.name) = try initial(c, initializer);
    }
    try runNodes(c, graph, scope);
    var outputs: TypesOf(graph.output) = undefined;
    inline for (graph.output, 0..) |output, place| outputs[place] = @field(scope.own, output.name);
    return outputs;
}

/// A constant: its elements are written out, or lie in the file of weights from `offset` on.
fn initial(c: *Context, comptime initializer: anytype) Error!Tensor(ElementType(initializer.data_type)) {
    const T = ElementType(initializer.data_type);
    const kept = struct {
        const shape: [initializer.dims.len]usize = initializer.dims;
    };
    if (@hasField(@TypeOf(initializer), "data")) {
        const written = struct {
            const items: [initializer.data.len]T = initializer.data;
        };
        return .{ .shape = &kept.shape, .data = &written.items };
    }
    return .{ .shape = &kept.shape, .data = try elements(c, T, c.weights[initializer.offset..], tensor.product(&kept.shape)) };
}

/// Elements from bytes, without a copy where their bits are those of the type.
pub fn elements(c: *Context, comptime T: type, bytes: []const u8, count: usize) Error![]const T {
    if (@typeInfo(T) == .int and @typeInfo(T).int.bits < 8) {
        const result = try c.alloc(T, count);
        for (result, bytes[0..count]) |*to, from| to.* = @bitCast(@as(@Int(.unsigned, @typeInfo(T).int.bits), @truncate(from)));
        return result;
    }
    if (count == 0) return &.{};
    const data: [*]const T = @ptrCast(@alignCast(bytes.ptr));
    return data[0..count];
}

/// Refuse an input whose rank, or whose size where the graph has a number, is not that of the graph.
fn checkInput(comptime written: anytype, value: TypeOf(written)) Error!void {
    if (!@hasField(@TypeOf(written), "tensor_type")) return;
    if (value.data.len != tensor.product(value.shape)) return error.Shape;
    if (!@hasField(@TypeOf(written.tensor_type), "shape")) return;
    if (value.shape.len != written.tensor_type.shape.len) return error.Shape;
    inline for (written.tensor_type.shape, 0..) |extent, axis| {
        if (@TypeOf(extent) == comptime_int and value.shape[axis] != extent) return error.Shape;
    }
}

/// A model as a type: `Inputs`, `Outputs` and `run`.
pub fn Model(comptime graph: anytype) type {
    return struct {
        pub const Inputs = TypesOf(graph.input);
        pub const Outputs = TypesOf(graph.output);

        /// Compute the outputs. `weights` are the bytes of `weights.bin`, aligned to 64 bytes. All results are
        /// allocated by `allocator`, which is best an arena or a FixedBufferAllocator: nothing is freed here.
        pub fn run(allocator: std.mem.Allocator, weights: []align(64) const u8, inputs: Inputs) Error!Outputs {
            return runSeeded(allocator, weights, inputs, 0);
        }

        /// The same with another start for random numbers whose nodes have no seed of their own.
        pub fn runSeeded(allocator: std.mem.Allocator, weights: []align(64) const u8, inputs: Inputs, seed: u64) Error!Outputs {
            @setEvalBranchQuota(quota);
            var c: Context = .{ .allocator = allocator, .weights = weights, .random = .init(seed) };
            inline for (graph.input, 0..) |input, place| try checkInput(input.type, inputs[place]);
            const nothing: Nothing = .{};
            return runGraph(&c, graph, &nothing, inputs);
        }
    };
}

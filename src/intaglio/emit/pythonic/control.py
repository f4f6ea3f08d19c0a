"""Branches, loops and sequences in Python."""

from __future__ import annotations

import re
from collections.abc import Sequence

from intaglio.emit.pythonic.block import Printer, Site, Statement, Writer, indented, lines_of, needed, write_graph
from intaglio.emit.pythonic.rows import Rounds, stacked_rows
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType


def _body(graph: Graph, inner: Writer) -> list[str]:
    """Write the statements of a subgraph, and tell how its outputs are spelled there."""
    write_graph(graph, inner)
    return [inner.read(value) for value in graph.outputs]


def _finish(inner: Writer, outer: Writer, outputs: Sequence[Value]) -> list[Statement]:
    """The statements of a body that its outputs need; what they read from outside, the statement around reads."""
    kept = needed(inner.statements, outputs)
    own = {value for statement in kept for value in statement.gives}
    for statement in kept:
        outer.reads |= statement.reads - own
    outer.reads |= {value for value in inner.reads if value not in own}
    return kept


def print_if(site: Site) -> None:
    """`if` and `else` with an assignment at the end of each."""
    op, writer = site.op, site.writer
    condition = site.x(0)
    parts: list[list[str]] = []
    reads = writer.reads
    names = [writer.names.give(f"{_plain(value)}") for value in site.node.outputs]
    for graph in (op.then_branch, op.else_branch):
        inner = writer.nested()
        texts = _body(graph, inner)
        kept = _finish(inner, writer, graph.outputs)
        parts.append([*lines_of(kept), f"{', '.join(names)} = {', '.join(texts)}"])
    writer.reads |= reads
    for value, name in zip(site.node.outputs, names, strict=True):
        writer.texts[value] = name
        writer.bind(value)
    lines = [f"if {condition}:", *indented(parts[0]), "else:", *indented(parts[1])]
    writer.add(lines, site.node.outputs)


def _plain(value: Value) -> str:
    from intaglio.emit.names import identifier
    from intaglio.emit.pythonic.block import value_hint

    return identifier(value_hint(value))


def print_loop(site: Site) -> None:
    """`for` or `while` around the statements of the body."""
    op, writer = site.op, site.writer
    body: Graph = op.body
    initial = [site.x(position) for position in range(2, len(site.node.inputs))]
    count = site.x(0) if site.has(0) else None
    start = site.x(1) if site.has(1) and not _is_true(site.value(1)) else None
    outer_reads = writer.reads
    index = writer.names.give("i")
    inner = writer.nested()
    carried = [inner.declare(value) for value in body.inputs[2:]]
    rounds = Rounds(body, inner, dict(inner.symbols), {index: f"{index} = 0"})
    condition = writer.names.give("goes_on")
    stacks = [writer.names.give(f"{_plain(value)}_rows") for value in body.outputs[1 + len(carried) :]]
    number, flag = body.inputs[0], body.inputs[1]
    inner.texts[number] = _scalar(writer, index, number)
    inner.texts[flag] = _scalar(writer, "True", flag)
    texts = _body(body, inner)
    has_flag = not _is_always_true(body)
    wanted = body.outputs if has_flag else body.outputs[1:]
    writer.reads = set()
    kept = _finish(inner, writer, wanted)
    writer.reads = {value for value in writer.reads | outer_reads if value not in body.inputs}
    ending = [f"{stack}.append({text})" for stack, text in zip(stacks, texts[1 + len(carried) :], strict=True)]
    moved = [(name, text) for name, text in zip(carried, texts[1 : 1 + len(carried)], strict=True) if name != text]
    if moved:
        ending.append(f"{', '.join(name for name, _ in moved)} = {', '.join(text for _, text in moved)}")
    lines = [f"{name} = {text}" for name, text in zip(carried, initial, strict=True)]
    lines += [f"{stack} = []" for stack in stacks]
    content = [*lines_of(kept), *ending]
    lines += _heading(has_flag, condition, index, count, start, texts[0], content)
    for value, name in zip(site.node.outputs, carried, strict=False):
        writer.texts[value] = name
        writer.bind(value)
    results = zip(
        site.node.outputs[len(carried) :],
        body.outputs[1 + len(carried) :],
        zip(stacks, texts[1 + len(carried) :], strict=True),
        strict=True,
    )
    for value, row, names in results:
        lines += stacked_rows(site, rounds, value, row, names)
    writer.add(lines, site.node.outputs)


def _module(site: Site) -> list[str]:
    return ["xp"] if "xp" in site.writer.language.reserved else []


def _heading(
    has_flag: bool,
    condition: str,
    index: str,
    count: str | None,
    start: str | None,
    flag: str,
    content: list[str],
) -> list[str]:
    if not has_flag and count is not None and start is None:
        is_read = any(re.search(rf"\b{index}\b", line) for line in content)
        head = f"for {index if is_read else '_'} in range(int({count}.item())):"
        return [head, *indented(content or ["pass"])]
    lines = [f"{condition} = {'True' if start is None else f'bool({start})'}", f"{index} = 0"]
    limit = "" if count is None else f" and {index} < int({count}.item())"
    ending = [f"{condition} = bool({flag})", f"{index} += 1"]
    return [*lines, f"while {condition}{limit}:", *indented([*content, *ending])]


def _scalar(writer: Writer, text: str, value: Value) -> str:
    """A number of the loop as the body declares it."""
    rank = len(value.tensor.shape or ())
    return writer.language.array(f"{'[' * rank}{text}{']' * rank}", value.dtype)


def _is_true(value: Value) -> bool:
    return value.constant is not None and bool(value.constant.all())


def _is_always_true(body: Graph) -> bool:
    last = body.outputs[0]
    while last.producer is not None and last.producer.op.name == "Identity":
        last = last.producer.input
    if last is body.inputs[1]:
        return True
    return _is_true(last)


def print_scan(site: Site) -> None:
    """`for` over the slices of the scanned operands."""
    op, writer = site.op, site.writer
    body: Graph = op.body
    count = len(site.node.inputs) - op.num_scan_inputs
    initial = [site.x(position) for position in range(count)]
    axes = op.scan_input_axes or (0,) * op.num_scan_inputs
    turned = op.scan_input_directions or (0,) * op.num_scan_inputs
    rows = [_rows(site, count + i, axes[i], turned[i]) for i in range(op.num_scan_inputs)]
    outer_reads = writer.reads
    inner = writer.nested()
    carried = [inner.declare(value) for value in body.inputs[:count]]
    rounds = Rounds(body, inner, dict(inner.symbols))
    slices = [inner.declare(value) for value in body.inputs[count:]]
    outputs = body.outputs[count:]
    stacks = [writer.names.give(f"{_plain(value)}_rows") for value in outputs]
    for i, name in enumerate(slices):
        _tell_slice(site, rounds, body.inputs[count + i], (name, rows[i]), (count + i, axes[i]))
    texts = _body(body, inner)
    writer.reads = set()
    kept = _finish(inner, writer, body.outputs)
    writer.reads = {value for value in writer.reads | outer_reads if value not in body.inputs}
    content = lines_of(kept)
    content += [f"{stack}.append({text})" for stack, text in zip(stacks, texts[count:], strict=True)]
    moved = [(name, text) for name, text in zip(carried, texts[:count], strict=True) if name != text]
    if moved:
        content.append(f"{', '.join(name for name, _ in moved)} = {', '.join(text for _, text in moved)}")
    lines = [f"{name} = {text}" for name, text in zip(carried, initial, strict=True)]
    lines += [f"{stack} = []" for stack in stacks]
    over = rows[0] if len(rows) == 1 else f"zip({', '.join(rows)}, strict=True)"
    lines += [f"for {', '.join(slices)} in {over}:", *indented(content or ["pass"])]
    for value, name in zip(site.node.outputs, carried, strict=False):
        writer.texts[value] = name
        writer.bind(value)
    out_axes = op.scan_output_axes or (0,) * len(outputs)
    out_turned = op.scan_output_directions or (0,) * len(outputs)
    stacks = [f"{stack}[::-1]" if is_turned else stack for stack, is_turned in zip(stacks, out_turned, strict=True)]
    results = zip(site.node.outputs[count:], outputs, zip(stacks, texts[count:], strict=True), out_axes, strict=True)
    for value, row, names, axis in results:
        lines += stacked_rows(site, rounds, value, row, names, [f"axis={axis}"] if axis else [])
    writer.add(lines, site.node.outputs)


def _tell_slice(site: Site, rounds: Rounds, value: Value, names: tuple[str, str], place: tuple[int, int]) -> None:
    """Note the sizes of a slice, by those of the operand at a position that is cut along an axis."""
    (name, rows), (position, axis) = names, place
    source, dtype = site.value(position), site.dtype(value.dtype)
    zeros = "xp.zeros" if _module(site) else "torch.zeros"
    rounds.starts[name] = f"{name} = {zeros}({rows}.shape[1:], dtype={dtype})"
    if source.tensor.shape is not None:
        for own in range(source.rank - 1):
            outer = own + 1 if own >= axis % source.rank else own
            rounds.tell(value, own, f"{site.x(position)}.shape[{outer}]", source)


def _rows(site: Site, position: int, axis: int, is_turned: int) -> str:
    text = site.x(position)
    if axis:
        text = f"{'xp' if _module(site) else 'torch'}.moveaxis({text}, {axis}, 0)"
    if not is_turned:
        return text
    return f"{text}[::-1]" if _module(site) else f"{text}.flip(0)"


def print_sequence_map(site: Site) -> None:
    """A `for` over sequences that collects what the body gives."""
    op, writer = site.op, site.writer
    body: Graph = op.body
    texts = [site.x(position) for position in range(len(site.node.inputs))]
    is_sequence = [not isinstance(value.type, TensorType) for value in site.node.inputs if value is not None]
    outer_reads = writer.reads
    inner = writer.nested()
    names = [inner.declare(value) for value in body.inputs]
    results = _body(body, inner)
    writer.reads = set()
    kept = _finish(inner, writer, body.outputs)
    writer.reads = {value for value in writer.reads | outer_reads if value not in body.inputs}
    lists = [writer.declare(value) for value in site.node.outputs]
    lines = [f"{name} = []" for name in lists]
    lines += [f"{name} = {text}" for name, text, many in zip(names, texts, is_sequence, strict=True) if not many]
    pairs = [(name, text) for name, text, many in zip(names, texts, is_sequence, strict=True) if many]
    over = pairs[0][1] if len(pairs) == 1 else f"zip({', '.join(text for _, text in pairs)}, strict=True)"
    content = [*lines_of(kept), *(f"{name}.append({text})" for name, text in zip(lists, results, strict=True))]
    lines += [f"for {', '.join(name for name, _ in pairs)} in {over}:", *indented(content)]
    writer.add(lines, site.node.outputs)


def _insert(site: Site) -> str:
    return site.call("inserted", site.x(0), site.x(1), *([f"int({site.x(2)}.item())"] if site.has(2) else []))


def _erase(site: Site) -> str:
    return site.call("erased", site.x(0), *([f"int({site.x(1)}.item())"] if site.has(1) else []))


def _sequence(site: Site) -> str:
    return f"[{', '.join(site.x(position) for position in range(len(site.node.inputs)))}]"


CONTROL: dict[tuple[str, str], Printer] = {
    ("", "If"): print_if,
    ("", "Loop"): print_loop,
    ("", "Scan"): print_scan,
    ("", "SequenceMap"): print_sequence_map,
    ("", "SequenceEmpty"): lambda site: "[]",
    ("", "SequenceConstruct"): _sequence,
    ("", "SequenceInsert"): _insert,
    ("", "SequenceErase"): _erase,
    ("", "SequenceAt"): lambda site: f"{site.x(0)}[int({site.x(1)}.item())]",
    ("", "Optional"): lambda site: site.optional(0),
    ("", "OptionalGetElement"): lambda site: site.x(0),
    ("", "Identity"): lambda site: site.x(0),
}
"""Operators that Python says by itself."""

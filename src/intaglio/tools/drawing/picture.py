"""From a document to the boxes and lines of its drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from onnx import TensorProto, TensorShapeProto, TypeProto, ValueInfoProto

from intaglio.tools.document import Document, Graph, Node
from intaglio.tools.drawing.boxes import Box, Drawing, Line
from intaglio.tools.drawing.scopes import Scope, scopes_of, signature
from intaglio.tools.drawing.theme import theme_of

LONGEST_TEXT = 48
_NAMES = {number: name.lower() for name, number in TensorProto.DataType.items()}
_SHOWN = (
    "kernel_shape",
    "strides",
    "dilations",
    "group",
    "axis",
    "perm",
    "to",
    "mode",
    "num_heads",
    "alpha",
    "epsilon",
)


@dataclass
class Choices:
    """What a drawing shows: types at lines, weights in boxes, groups down to a depth, repeated groups once."""

    shapes: bool = True
    weights: bool = True
    depth: int | None = None
    fold: bool = True


@dataclass
class _Scene:
    """A graph that is being drawn: who makes each value, and the types that the file states."""

    choices: Choices
    types: dict[str, str]
    makers: dict[str, Box]
    constants: dict[str, str]
    lines: list[Line] = field(default_factory=list[Line])
    late: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """What connects boxes, done when all boxes are there."""


def picture(document: Document, choices: Choices | None = None) -> Drawing:
    """The drawing of a document: its graph, the bodies inside, and its functions beside it."""
    choices = choices or Choices()
    root, lines = Box("group", document.graph.shell.name), list[Line]()
    _draw_graph(document.graph, root, choices, {}, {}, lines)
    for function in document.functions:
        box = root.add(Box("group", f"function {function.shell.name}", tip=function.shell.domain))
        graph = Graph(document.graph.shell, function.nodes, *_ends(function.shell.input, function.shell.output))
        _draw_graph(graph, box, choices, {}, {}, lines)
    return Drawing(root, list(dict.fromkeys(lines)))


def _ends(inputs: Iterable[str], outputs: Iterable[str]) -> tuple[list[ValueInfoProto], list[ValueInfoProto]]:
    return [ValueInfoProto(name=name) for name in inputs], [ValueInfoProto(name=name) for name in outputs]


def _draw_graph(
    graph: Graph,
    box: Box,
    choices: Choices,
    outer: Mapping[str, Box],
    outer_constants: Mapping[str, str],
    lines: list[Line],
) -> None:
    """Put the boxes of a graph into a box and add its lines; `outer` has what bodies see of the graphs around."""
    constants = dict(outer_constants) | {tensor.name: tensor_type(tensor) for tensor in graph.initializers}
    infos = [*graph.infos, *graph.inputs, *graph.outputs]
    types = {info.name: type_text(info.type) for info in infos if info.HasField("type")}
    scene = _Scene(choices, types, {name: maker for name, maker in outer.items() if name not in constants}, constants)
    for info in graph.inputs:
        if info.name not in constants:
            scene.makers[info.name] = box.add(_end("input", info, types))
    for node in graph.nodes:
        if is_constant(node):
            scene.constants.update(dict.fromkeys(node.outputs, _constant_text(node)))
    _draw_scope(scopes_of([node for node in graph.nodes if not is_constant(node)]), box, scene, 0)
    for info in graph.outputs:
        end = box.add(_end("output", info, types))
        scene.late.append(lambda name=info.name, end=end: _connect(scene, name, end))
    for connect in scene.late:
        connect()
    lines += scene.lines


def _end(kind: str, info: ValueInfoProto, types: Mapping[str, str]) -> Box:
    box = Box("input" if kind == "input" else "output", short(info.name), theme=kind, tip=info.name)
    box.lines = [types[info.name]] if types.get(info.name) else []
    return box


def _draw_scope(scope: Scope, box: Box, scene: _Scene, depth: int) -> None:
    place = 0
    while place < len(scope.members):
        member = scope.members[place]
        place += 1
        if not isinstance(member, Scope):
            _draw_node(member, box, scene)
            continue
        if scene.choices.depth is not None and depth >= scene.choices.depth:
            _draw_folded([member], box, scene)
            continue
        _draw_scope(member, box.add(Box("group", short(member.name))), scene, depth + 1)
        same = _repeats(scope.members, place - 1) if scene.choices.fold else []
        if len(same) > 1:
            _draw_folded(same, box, scene)
            place += len(same)


def _repeats(members: list[Node | Scope], place: int) -> list[Scope]:
    """The scopes behind one that are built like it."""
    found, first = list[Scope](), members[place]
    assert isinstance(first, Scope)
    wanted = signature(list(first.nodes()))
    for member in members[place + 1 :]:
        if not isinstance(member, Scope) or signature(list(member.nodes())) != wanted:
            break
        found.append(member)
    return found


def _draw_folded(scopes: list[Scope], box: Box, scene: _Scene) -> None:
    """One box for scopes that are not drawn in full."""
    count = sum(1 for scope in scopes for _ in scope.nodes())
    title = scopes[0].name if len(scopes) == 1 else f"{scopes[0].name} … {scopes[-1].name}"
    text = f"{count} nodes" if len(scopes) == 1 else f"{len(scopes)} × the block above"
    fold = box.add(Box("fold", short(title), [text], theme="fold"))
    for scope in scopes:
        for node in scope.nodes():
            _wire(node, fold, scene)


def _draw_node(node: Node, box: Box, scene: _Scene) -> None:
    drawn = Box("operator", node.operator, number=node.number, theme=theme_of(node.shell.op_type), tip=_tip(node))
    drawn.lines = [*attribute_lines(node), *(_weight_lines(node, scene) if scene.choices.weights else [])]
    bodies = [(attribute.name, body) for attribute in node.attributes for body in attribute.bodies()]
    if not bodies:
        _wire(node, box.add(drawn), scene)
        return
    group = box.add(Box("group", node.operator, tip=drawn.tip, theme=drawn.theme))
    _wire(node, group.add(drawn), scene)
    for name, body in bodies:
        inner = group.add(Box("group", name))
        scene.late.append(
            lambda body=body, inner=inner: _draw_graph(
                body, inner, scene.choices, scene.makers, scene.constants, scene.lines
            )
        )


def _wire(node: Node, box: Box, scene: _Scene) -> None:
    scene.makers.update({name: box for name in node.shell.output if name})
    for name in dict.fromkeys(node.shell.input):
        scene.late.append(lambda name=name: _connect(scene, name, box))


def _connect(scene: _Scene, name: str, target: Box) -> None:
    source = scene.makers.get(name)
    if source is not None and source is not target:
        label = scene.types.get(name, "") if scene.choices.shapes else ""
        scene.lines.append(Line(source, target, name, label))


def _weight_lines(node: Node, scene: _Scene) -> list[str]:
    return [scene.constants[name] for name in node.shell.input if name in scene.constants][:4]


def attribute_lines(node: Node) -> list[str]:
    """The attributes that say most about a node, as one line; none where nothing is worth it."""
    parts: list[str] = []
    for name in _SHOWN:
        attribute = node.attribute(name)
        if attribute is None:
            continue
        shell = attribute.shell
        ints = list(shell.ints)
        if name in ("strides", "dilations") and all(each == 1 for each in ints):
            continue
        text = (
            "×".join(map(str, ints))
            if ints
            else shell.s.decode(errors="replace")
            if shell.s
            else f"{shell.i or shell.f:g}"
        )
        parts.append(
            text if name == "kernel_shape" else f"{name} {_NAMES.get(shell.i, text) if name == 'to' else text}"
        )
    return [short(", ".join(parts[:3]))] if parts else []


def is_constant(node: Node) -> bool:
    """Whether a node only says a constant."""
    return node.operator == "Constant" and not node.inputs


def _constant_text(node: Node) -> str:
    value = node.attribute("value")
    return tensor_type(value.shell.t) if value is not None else "constant"


def _tip(node: Node) -> str:
    lines = [f"{node.operator} {node.name}".strip()]
    lines += [f"in   {name or '(left out)'}" for name in node.inputs]
    lines += [f"out  {name or '(not wanted)'}" for name in node.outputs]
    return "\n".join(lines)


def short(text: str) -> str:
    """Text of a model, cut to a length that fits a box."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 18]}…{text[-17:]}"


def tensor_type(tensor: TensorProto) -> str:
    """The type of a stored tensor as short text."""
    sizes = "×".join(map(str, tensor.dims))
    return f"{_NAMES.get(tensor.data_type, '?')}[{sizes}]" if sizes else _NAMES.get(tensor.data_type, "?")


def type_text(type: TypeProto) -> str:
    """A type as short text: `float[batch×3×224×224]`; empty where nothing is known."""
    kind = type.WhichOneof("value")
    if kind == "tensor_type":
        element = _NAMES.get(type.tensor_type.elem_type, "?")
        if not type.tensor_type.HasField("shape"):
            return element
        return f"{element}[{'×'.join(map(_size, type.tensor_type.shape.dim))}]"
    if kind == "sequence_type":
        return f"sequence of {type_text(type.sequence_type.elem_type) or '?'}"
    if kind == "optional_type":
        return f"optional {type_text(type.optional_type.elem_type) or '?'}"
    return "" if kind is None else kind.removesuffix("_type")


def _size(dim: TensorShapeProto.Dimension) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else short(dim.dim_param) or "?"

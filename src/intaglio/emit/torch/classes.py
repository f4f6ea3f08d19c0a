"""Drafts of modules as classes: equal ones become one class, and what differs an argument of its constructor."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from intaglio.emit.names import Names, class_name, comment
from intaglio.emit.pythonic.block import WIDTH, indented, literal, quoted, wrapped
from intaglio.emit.pythonic.parameters import behind_defaults
from intaglio.emit.torch.draft import Attribute, Draft, Layer, Stored, Text
from intaglio.emit.torch.words import LIBRARY, RESERVED
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array
from intaglio.ir.types import OptionalType, SequenceType, Type

_POSITIONAL = {
    "in_channels",
    "out_channels",
    "in_features",
    "out_features",
    "num_features",
    "normalized_shape",
    "num_embeddings",
    "embedding_dim",
    "input_size",
    "hidden_size",
    "num_groups",
    "num_channels",
}
_DEFAULTS: dict[str, Any] = {
    "stride": 1,
    "padding": 0,
    "output_padding": 0,
    "dilation": 1,
    "groups": 1,
    "bias": True,
    "bidirectional": False,
    "ceil_mode": False,
    "num_parameters": 1,
    "axis": 1,
    "dtype": Text("torch.int8"),
    "input_dtype": Text("torch.int8"),
    "output_dtype": Text("torch.int8"),
}


@dataclass
class Template:
    """A class and the drafts that it stands for."""

    key: object
    name: str = ""
    members: list[Draft] = field(default_factory=list)
    parameters: dict[str, list[Any]] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)


class Classes:
    """The classes of a model, inner ones first."""

    def __init__(self, root: Draft) -> None:
        self.root = root
        self.templates: list[Template] = []
        self._of: dict[int, Template] = {}
        self._names = Names(RESERVED | LIBRARY.names)
        self._collect(root)
        for template in self.templates:
            self._parametrise(template)
        self.weights: dict[str, Array] = {}
        self._used: set[str] = set()
        self._gather(root, "")

    def _collect(self, draft: Draft) -> None:
        for attribute in draft.attributes.values():
            if isinstance(attribute, Draft):
                self._collect(attribute)
        if draft.is_sequential:
            return
        key = self._key(draft)
        found = next((template for template in self.templates if template.key == key), None)
        if found is None:
            found = Template(key, self._class_name(draft))
            self.templates.append(found)
        found.members.append(draft)
        self._of[id(draft)] = found

    def _class_name(self, draft: Draft) -> str:
        if not draft.path:
            return "Model"
        if draft.type and not draft.type.startswith("torch.nn.modules.container"):
            return self._give(class_name(draft.type))
        words = [part for part in draft.path if not part.isdigit()]
        last = words[-1] if words else "block"
        last = last.removesuffix("s") if draft.path[-1].isdigit() else last
        return self._give(class_name(last))

    def _give(self, name: str) -> str:
        """A name for a class, with a number at its end where others have it already."""
        given = self._names.give(name)
        return given if name[-1].isdigit() else given.replace("_", "")

    def _key(self, draft: Draft) -> object:
        """What drafts of one class have in common: all but numbers, tensors and comments."""
        lines = tuple(line for statement in draft.statements for line in statement.lines)
        attributes = tuple((name, self._kind(attribute)) for name, attribute in draft.attributes.items())
        names = tuple(name for name, _ in draft.inputs), tuple(text for text, _ in draft.outputs)
        return draft.path == (), lines, attributes, names

    def _kind(self, attribute: Attribute) -> object:
        if isinstance(attribute, Layer):
            return attribute.kind, attribute.dtype, tuple(attribute.arguments), tuple(attribute.tensors)
        if isinstance(attribute, Stored):
            return "tensor", attribute.is_parameter, str(attribute.array.dtype)
        if attribute.is_sequential:
            return "sequential", tuple((name, self._kind(inner)) for name, inner in attribute.attributes.items())
        return "module", id(self._of[id(attribute)])

    def _arguments(self, attribute: Attribute) -> dict[str, Any]:
        """The numbers that a constructor is given."""
        if isinstance(attribute, Layer):
            return attribute.arguments
        if isinstance(attribute, Stored):
            return {"shape": tuple(attribute.array.shape)}
        if attribute.is_sequential:
            inner = attribute.attributes.items()
            return {f"{name}.{key}": value for name, item in inner for key, value in self._arguments(item).items()}
        template = self._of[id(attribute)]
        member = next(i for i, draft in enumerate(template.members) if draft is attribute)
        return {name: values[member] for name, values in template.parameters.items()}

    def _parametrise(self, template: Template) -> None:
        """Find the arguments in which the members differ; those that always agree are one parameter."""
        columns: dict[tuple[str, str], list[Any]] = {}
        for draft in template.members:
            for name, attribute in draft.attributes.items():
                for argument, value in self._arguments(attribute).items():
                    columns.setdefault((name, argument), []).append(value)
        names = Names({"self"})
        for (name, argument), values in columns.items():
            if all(value == values[0] for value in values):
                continue
            same = next((known for known, other in template.parameters.items() if other == values), None)
            if same is None:
                last = argument.rpartition(".")[2]
                same = names.give(last if last not in template.parameters else _joined(name, argument))
                template.parameters[same] = values
            template.places[name, argument] = same

    def _gather(self, draft: Draft, prefix: str) -> None:
        for name, attribute in draft.attributes.items():
            if isinstance(attribute, Draft):
                self._gather(attribute, f"{prefix}{name}.")
            elif isinstance(attribute, Layer):
                self._used |= {attribute.kind} & LIBRARY.names
                self.weights |= {f"{prefix}{name}.{key}": array for key, array in attribute.tensors.items()}
            else:
                self.weights[f"{prefix}{name}"] = attribute.array

    def source(self, title: str, graph: Graph) -> str:
        """The text of the module."""
        used = set[str]().union(*(draft.used for template in self.templates for draft in template.members))
        functions = LIBRARY.source(used | self._used)
        parts = [self._class(template) for template in self.templates]
        parts[-1] += self._pretrained()
        parts.append(_LOAD)
        parts += [function.splitlines() for function in functions]
        code = "\n".join(line for part in parts for line in part)
        lines = [f'"""{comment(title)}: a model as modules of PyTorch, written by Intaglio."""', "", *_imports(code)]
        for part in parts:
            lines += ["", "", *part]
        del graph
        return "\n".join(lines) + "\n"

    def _class(self, template: Template) -> list[str]:
        draft = template.members[0]
        doc = f"{comment('.'.join(draft.path))}" if draft.path else "The whole model."
        doc += f" and {len(template.members) - 1} more like it" if len(template.members) > 1 else ""
        lines = [
            f"class {template.name}(nn.Module):",
            f'    """{doc[0].upper() + doc[1:] if draft.path == () else doc}"""',
            "",
        ]
        parameters = [f"{name}: {_type_name(values)}" for name, values in template.parameters.items()]
        held = self._held(template)
        if held or parameters:
            lines += indented(_definition("def __init__", ["self", *parameters], "None"))
            lines += indented(indented(["super().__init__()", *held]))
            lines.append("")
        lines += indented(self._forward(template))
        return lines

    def _held(self, template: Template) -> list[str]:
        draft = template.members[0]
        lines: list[str] = []
        lists: dict[str, list[str]] = {}
        for name, attribute in draft.attributes.items():
            text = self._constructor(template, name, name, attribute)
            base, _, number = name.partition(".")
            if number:
                lines += [] if base in lists else [f"#{base}"]
                lists.setdefault(base, []).append(text)
            elif isinstance(attribute, Stored) and not attribute.is_parameter:
                lines.append(f"self.{name}: Tensor")
                lines += wrapped(f"self.register_buffer({quoted(name)}, {text})")
            else:
                lines += wrapped(f"self.{name} = {text}")
        for base, items in lists.items():
            is_same = len(items) > 1 and len(set(items)) == 1
            inside = f"{items[0]} for _ in range({len(items)})" if is_same else f"[{', '.join(items)}]"
            place = lines.index(f"#{base}")
            lines[place : place + 1] = wrapped(f"self.{base} = nn.ModuleList({inside})")
        return lines

    def _constructor(self, template: Template, name: str, place: str, attribute: Attribute, prefix: str = "") -> str:
        """The text that makes an attribute; `prefix` leads to it in a Sequential."""

        def shown(argument: str, value: Any) -> str:
            parameter = template.places.get((place, f"{prefix}{argument}"))
            return parameter if parameter is not None else _value_text(value)

        def is_default(argument: str, value: Any) -> bool:
            is_same = (place, f"{prefix}{argument}") not in template.places
            if argument == "eps":
                return is_same and value == 1e-5
            return is_same and argument in _DEFAULTS and value == _DEFAULTS[argument]

        if isinstance(attribute, Layer):
            items = attribute.arguments.items()
            texts = [
                shown(key, value) if key in _POSITIONAL else f"{key}={shown(key, value)}"
                for key, value in items
                if not is_default(key, value)
            ]
            texts += _dtype_texts(attribute.dtype)
            module = "" if attribute.kind in LIBRARY else "nn."
            return f"{module}{attribute.kind}({', '.join(texts)})"
        if isinstance(attribute, Stored):
            kinds = _dtype_texts(from_numpy(attribute.array.dtype).name)
            empty = f"torch.zeros({', '.join([shown('shape', tuple(attribute.array.shape)), *kinds])})"
            return f"nn.Parameter({empty})" if attribute.is_parameter else empty
        if attribute.is_sequential:
            inner = attribute.attributes.items()
            parts = [self._constructor(template, key, place, item, f"{prefix}{key}.") for key, item in inner]
            return f"nn.Sequential({', '.join(_runs(parts))})"
        found = self._of[id(attribute)]
        texts = [f"{key}={shown(key, value)}" for key, value in self._arguments(attribute).items()]
        return f"{found.name}({', '.join(texts)})"

    def _forward(self, template: Template) -> list[str]:
        draft = template.members[0]
        behind = [] if draft.path else behind_defaults([value for _, value in draft.inputs])
        taken = [f"{name}: {_parameter(value, draft, value in behind)}" for name, value in draft.inputs]
        kinds = [_annotation(value.type) for _, value in draft.outputs]
        given = kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]" if kinds else "None"
        lines = _definition("def forward", ["self", *taken], given)
        lines += indented(_shapes(draft))
        for number, statement in enumerate(draft.statements):
            notes = {member.statements[number].note for member in template.members}
            code = [part for line in statement.lines for part in wrapped(line)]
            note = comment(statement.note) if len(notes) == 1 else ""
            is_short = len(code) == 1 and len(code[0]) + len(note) + 12 <= 118
            lines += indented([f"{code[0]}  # {note}"] if note and is_short else code)
        result = ", ".join(text for text, _ in draft.outputs)
        counts = Counter(name.partition(".")[0] for name in draft.attributes if "." in name)
        return _looped([*lines, f"    return {result or 'None'}"], counts)

    def _pretrained(self) -> list[str]:
        if self.weights:
            return indented(_PRETRAINED)
        return indented([*_PRETRAINED[:-3], "    del folder  # it has no weights", "    return cls().eval()"])


def _runs(parts: Sequence[str]) -> list[str]:
    """Texts, of which those that are there several times in a row are one comprehension."""
    found: list[str] = []
    for text, same in groupby(parts):
        count = len(list(same))
        is_long = count > 2 or count == len(parts)
        found += [f"*({text} for _ in range({count}))"] if count > 1 and is_long else [text] * count
    return found


def _definition(head: str, parameters: Sequence[str], result: str) -> list[str]:
    """The first lines of a function; parameters stand one below the other where they need more than a line."""
    line = f"{head}({', '.join(parameters)}) -> {result}:"
    if len(line) <= WIDTH:
        return [line]
    return [f"{head}(", *indented(f"{each}," for each in parameters), f") -> {result}:"]


def _dtype_texts(name: str) -> list[str]:
    """The argument for an element type other than PyTorch's own."""
    return [] if name == "float32" else [f"dtype=torch.{name}"]


def _joined(name: str, argument: str) -> str:
    return re.sub(r"\W+", "_", f"{name}_{argument}")


def _value_text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return literal(np.array(value, np.float64))
    if isinstance(value, str):
        return str(value) if isinstance(value, Text) else quoted(value)
    return str(tuple(int(item) for item in value)) if isinstance(value, tuple) else str(value)


def _type_name(values: Sequence[Any]) -> str:
    kinds = {type(value).__name__ if not isinstance(value, tuple) else "tuple[int, ...]" for value in values}
    return " | ".join(sorted({"int64": "int", "Text": "torch.dtype"}.get(kind, kind) for kind in kinds))


def _annotation(type: Type) -> str:
    if isinstance(type, SequenceType):
        return f"list[{_annotation(type.element)}]"
    if isinstance(type, OptionalType):
        return f"{_annotation(type.element)} | None"
    return "Tensor"


def _parameter(value: Value, draft: Draft, is_behind: bool) -> str:
    """The type of a parameter, and None as the default of one that the model has a default for, or one behind such."""
    has_default = not draft.path and (value.default is not None or is_behind)
    if not has_default:
        return _annotation(value.type)
    union = "" if isinstance(value.type, OptionalType) else " | None"
    return f"{_annotation(value.type)}{union} = None"


def _shapes(draft: Draft) -> list[str]:
    """The shapes of what goes in and comes out."""
    taken = ", ".join(comment(f"{name}: {value.type}") for name, value in draft.inputs)
    given = ", ".join(comment(str(value.type)) for _, value in draft.outputs)
    line = f"# {taken} -> {given}"
    return [line] if len(line) <= 110 else [f"# {taken}"[:116], f"# -> {given}"[:116]]


_CALL = re.compile(r"^(\s*)(\w+) = self\.(\w+)\[(\d+)\]\((\w+)((?:, \w+)*)\)(?:  #.*)?$")


def _looped(lines: list[str], counts: Mapping[str, int]) -> list[str]:
    """Calls of all items of a list one after the other, each with what the one before gave, as a loop.

    `counts` has the number of items of each list.
    """
    found: list[str] = []
    place = 0
    while place < len(lines):
        match = _CALL.match(lines[place])
        end = place + 1
        calls = [match] if match else []
        while calls and end < len(lines):
            following = _CALL.match(lines[end])
            last = calls[-1]
            is_next = following is not None and following[3] == last[3] and int(following[4]) == int(last[4]) + 1
            if not is_next or following is None or following[5] != last[2] or following[6] != last[6]:
                break
            calls.append(following)
            end += 1
        last_name = calls[-1][2] if calls else ""
        middle = {call[2] for call in calls[:-1]} - {last_name}
        is_loop = len(calls) > 1 and calls[0][4] == "0" and not any(_is_read(name, lines[end:]) for name in middle)
        if is_loop:
            changed = {calls[0][5], *(call[2] for call in calls)}
            is_loop = len(calls) == counts.get(calls[0][3]) and changed.isdisjoint(calls[0][6].split(", "))
        if is_loop:
            margin, item = calls[0][1], calls[0][3].removesuffix("s") or "item"
            item = item if item != calls[0][3] else f"{item}_item"
            start = [] if calls[0][5] == last_name else [f"{margin}{last_name} = {calls[0][5]}"]
            found += [*start, f"{margin}for {item} in self.{calls[0][3]}:"]
            found.append(f"{margin}    {last_name} = {item}({last_name}{calls[0][6]})")
        else:
            found += lines[place:end]
        place = end
    return found


def _is_read(name: str, lines: Sequence[str]) -> bool:
    """Whether lines read a name before they give it another meaning."""
    first = next((line.partition("  #")[0] for line in lines if re.search(rf"\b{name}\b", line)), "")
    before, is_assigned, after = first.partition(" = ")
    return bool(first) and (not is_assigned or before.strip() != name or bool(re.search(rf"\b{name}\b", after)))


def _imports(code: str) -> list[str]:
    standard = [name for name in ("contextlib", "itertools", "math") if re.search(rf"\b{name}\.", code)]
    lines = [
        "from __future__ import annotations",
        "",
        *(f"import {name}" for name in standard),
        "from pathlib import Path",
    ]
    lines += ["from typing import Any"] if re.search(r"\bAny\b", code) else []
    lines += [""]
    lines += ["import torch"] if re.search(r"\btorch\.", code) else []
    lines += ["from safetensors.torch import load_file"] if "load_file(" in code else []
    names = ["Tensor"] if re.search(r"\bTensor\b", code) else []
    lines.append(f"from torch import {', '.join([*names, 'nn'])}")
    lines += ["from torch.nn import functional"] if re.search(r"\bfunctional\.", code) else []
    return lines


_PRETRAINED = '''

@classmethod
def from_pretrained(cls, folder: str | Path) -> Model:
    """The model with the weights of a folder, in the mode for running it."""
    model = cls()
    model.load_state_dict(load_file(Path(folder) / "weights.safetensors"))
    return model.eval()
'''.rstrip().splitlines()[1:]

_LOAD_TEXT = '''
def load(folder: str | Path | None = None) -> Model:
    """The model with its weights, which lie in the folder of this module unless another is named."""
    return Model.from_pretrained(Path(__file__).parent if folder is None else folder)
'''
_LOAD: list[str] = list(_LOAD_TEXT.strip().splitlines())

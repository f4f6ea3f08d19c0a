"""Other implementations of operators: how they are registered, and how a model chooses among them.

@intaglio.implementation("Softplus", "stable")
def softplus(X):
    return np.maximum(X, 0) + np.log1p(np.exp(-np.abs(X)))

model = intaglio.load("model.onnx", implementations={"Softplus": "stable"})
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

from intaglio.errors import InputError, IntaglioError, UnsupportedError
from intaglio.ir.build import Builder, infer_by_expansion
from intaglio.ir.dim import UndecidableError
from intaglio.ir.graph import Graph, Node
from intaglio.ir.op import Op
from intaglio.ir.verify import is_compatible
from intaglio.onnx.opsets import given_attributes
from intaglio.onnx.schema_objects import find_operator
from intaglio.ops.functions import OperatorFunction, operator_function
from intaglio.runtime.model.custom import (
    FunctionSignature,
    attribute_values,
    call_on_arrays,
    module_of,
    read_signature,
    reduce_operator,
)

Implementations: TypeAlias = Mapping[str, str]
"""Names of implementations by `Operator`, `domain::Operator`, `node:path` or `*`."""

BUILTIN = "builtin"
"""The name of the implementation that every operator has."""


@dataclass(frozen=True)
class Implementation:
    """A second way to compute an operator: a NumPy function, or an expansion into other operators."""

    operator: type[Op]
    name: str
    function: Callable[..., Any]
    applies: Callable[[Node], bool | str] | None
    is_expansion: bool
    wrapper: type[Op]

    def __str__(self) -> str:
        return f"implementation {self.name!r} of {self.operator.__name__}"


IMPLEMENTATIONS: dict[tuple[str, str], dict[str, Implementation]] = {}
"""The implementations that users registered, by the operator's domain and name, then by their own."""


def implementation(
    operator: str,
    name: str,
    *,
    domain: str = "",
    applies: Callable[[Node], bool | str] | None = None,
    expand: bool = False,
) -> Callable[[Any], Any]:
    """Register a second implementation of an operator: a decorator for a function, which it returns as it is.

    The function computes with NumPy arrays; with `expand` it gets a builder and values, and what it builds is compiled.
    Its positional parameters are the operator's inputs, its keyword-only ones attributes. Where a node has an input or
    sets an attribute that the function does not take, the implementation does not apply; nor where `applies(node)` is
    False or a text that says why. Models use it where `load(..., implementations={...})` says so.
    """
    base = find_operator(operator, domain)
    if base.has("interpret"):
        raise UnsupportedError(f"{operator} runs a subgraph; its implementation cannot be replaced")
    if not name or name == BUILTIN or "@" in name:
        raise InputError(f"{name!r} cannot be the name of an implementation")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        wrapper = _wrapper(base, name, function, expand)
        entry = Implementation(base, name, function, applies, expand, wrapper)
        IMPLEMENTATIONS.setdefault((base.domain, base.__name__), {})[name] = entry
        return function

    return register


def _wrapper(base: type[Op], name: str, function: Callable[..., Any], is_expansion: bool) -> type[Op]:
    """The operator with another body, in a domain of its own so that no rule or kernel takes it for the original."""
    signature = read_signature(function, skipped=1 if is_expansion else 0)

    def accepted(self: Op) -> dict[str, Any]:
        values = attribute_values(self)
        return values if signature.takes_any else {key: values[key] for key in signature.attributes}

    def infer(self: Op, *values: Any) -> Any:
        return _rebuilt(self, base).infer(*values)

    def reference(self: Op, *arrays: Any) -> Any:
        return call_on_arrays(function, arrays, accepted(self))

    def expansion(self: Op, b: Builder, *values: Any) -> Any:
        return function(b, *values, **accepted(self))

    unknown = [key for key in signature.attributes if key not in {field.name for field in base.attributes()}]
    if unknown:
        raise InputError(f"{base.__name__} has no attribute {unknown[0]!r}, which {function.__name__} takes")
    body: dict[str, Any] = {
        "domain": f"{base.domain}@{name}",
        "symbolic": False,
        "host_reason": "" if is_expansion else f"the implementation {name!r} of {base.__name__} is a Python function",
        "infer": infer,
        "reference": Op.reference if is_expansion else reference,
        "expand": expansion if is_expansion else Op.expand,
        "_parameters": base.parameters(),
        "__doc__": function.__doc__ or base.__doc__,
        "__module__": module_of(function),
        "__reduce__": reduce_operator,
    }
    return types.new_class(base.__name__, (base,), {}, lambda namespace: namespace.update(body))


def _rebuilt(op: Op, cls: type[Op]) -> Op:
    return cls(**{field.name: getattr(op, field.name) for field in fields(cast("Any", op))})


@dataclass(frozen=True)
class Operator:
    """An operator as it is registered: its class, and the implementations that users added to it."""

    name: str
    domain: str
    op: type[Op]
    implementations: Mapping[str, Implementation]

    @property
    def function(self) -> OperatorFunction:
        """The operator as a function of arrays or values."""
        return operator_function(self.op)


def get_operator(name: str, domain: str = "") -> Operator:
    """What is registered for an operator; raises InputError where there is nothing.

    >>> get_operator("LeakyRelu").op(alpha=0.5)
    LeakyRelu(alpha=0.5)
    """
    found = find_operator(name, domain)
    known = IMPLEMENTATIONS.get((found.domain, found.__name__), {})
    return Operator(found.__name__, found.domain, found, types.MappingProxyType(known))


@dataclass(frozen=True)
class Choice:
    """An implementation that was asked for: the node where it is used, or `refusal`, the reason why it is not."""

    implementation: str
    operator: str
    node: str
    refusal: str = ""

    def __str__(self) -> str:
        place = f" at {self.node}" if self.node else ""
        title = f"implementation {self.implementation!r} of {self.operator}"
        return f"{title} is not used{place}: {self.refusal}" if self.refusal else f"{title} is used{place}"


def choose(graph: Graph, wanted: Implementations) -> tuple[Choice, ...]:
    """Put the wanted implementations in place of nodes' operators, where they apply, and tell what was done.

    A key for a node goes before one for its operator, and that before `*`. Raises InputError for a name that is not
    known.
    """
    if not wanted:
        return ()
    nodes = list(graph.all_nodes())
    _check_keys(wanted, nodes)
    choices = [choice for node in nodes if (choice := _choose_for(node, wanted)) is not None]
    met = {_operator_key(node) for node in nodes}
    for key, name in wanted.items():
        if not key.startswith("node:") and key != "*" and _plain_key(key) not in met:
            choices.append(Choice(name, key, "", "the model has no node of this operator"))
    return tuple(choices)


def refusals(choices: Sequence[Choice]) -> list[Choice]:
    """The nodes at which an implementation that was asked for is not used."""
    return [choice for choice in choices if choice.refusal and choice.node]


def warn_of_refusals(choices: Sequence[Choice]) -> None:
    """Warn where some node keeps its own implementation although another was asked for."""
    refused = refusals(choices)
    if refused:
        more = f" (and at {len(refused) - 1} more nodes, see explain())" if len(refused) > 1 else ""
        warnings.warn(f"{refused[0]}{more}", UserWarning, stacklevel=4)


def _choose_for(node: Node, wanted: Implementations) -> Choice | None:
    name = _wish(node, wanted)
    if name is None or name == BUILTIN:
        return None
    entry = _known(node).get(name)
    if entry is None:
        return None
    place = node.origin.path or node.outputs[0].name
    refusal = _refusal(node, entry)
    if not refusal:
        node.op = _rebuilt(node.op, entry.wrapper)
    return Choice(name, _operator_key(node), place, refusal)


def _wish(node: Node, wanted: Implementations) -> str | None:
    """The name that the most specific key gives; one for a node counts where the operator there has the name."""
    for path in _paths(node):
        name = wanted.get(f"node:{path}")
        if name is not None and (name == BUILTIN or name in _known(node)):
            return name
    for key in _operator_keys(node):
        if key in wanted:
            return wanted[key]
    return wanted.get("*")


def _known(node: Node) -> dict[str, Implementation]:
    return IMPLEMENTATIONS.get((node.op.domain.partition("@")[0], node.op.name), {})


def _paths(node: Node) -> tuple[str, ...]:
    """The node's path with and without the operator that it ends in."""
    path = node.origin.path
    return (path, path.removesuffix(f" ({path.rpartition(' (')[2]}")) if path else ()


def _operator_keys(node: Node) -> tuple[str, ...]:
    domain = node.op.domain.partition("@")[0]
    plain = (node.op.name, f"ai.onnx::{node.op.name}")
    return (f"{domain}::{node.op.name}",) if domain else plain


def _operator_key(node: Node) -> str:
    return _operator_keys(node)[0]


def _plain_key(key: str) -> str:
    return key.removeprefix("ai.onnx::")


def _refusal(node: Node, entry: Implementation) -> str:
    """Why an implementation cannot be used at a node; an empty text where it can."""
    if node.outputs and all(value.contents is not None for value in node.outputs):
        return "the result is known before the run"
    skipped = 1 if entry.is_expansion else 0
    reasons = [*_signature_refusals(node, read_signature(entry.function, skipped))]
    if reasons:
        return reasons[0]
    try:
        answer = True if entry.applies is None else entry.applies(node)
        if not isinstance(answer, (bool, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"`applies` of the {entry} must return True, False or a text, got {answer!r}")
        if answer is not True:
            return answer or "its check says that it does not apply"
        return _expansion_refusal(node, entry) if entry.is_expansion else ""
    except (IntaglioError, UndecidableError) as error:
        if isinstance(error, InputError):
            raise
        return f"it cannot be decided: {error}"


def _signature_refusals(node: Node, signature: FunctionSignature) -> Iterator[str]:
    formal = signature.inputs
    is_variadic = any(parameter.kind == "variadic" for parameter in formal)
    given = len(node.inputs)
    if given > len(formal) and not is_variadic:
        yield f"it takes {len(formal)} inputs, the node has {given}"
    for position, parameter in enumerate(formal):
        if parameter.kind == "single" and (position >= given or node.inputs[position] is None):
            yield f"it needs the input {parameter.name!r}"
    if not signature.takes_any:
        for name, value in given_attributes(node.op).items():
            if name not in signature.attributes:
                yield f"it does not take the attribute {name!r}, which is {value!r} here"


def _expansion_refusal(node: Node, entry: Implementation) -> str:
    built = infer_by_expansion(_rebuilt(node.op, entry.wrapper), node.inputs)
    found = built if isinstance(built, tuple) else (built,)
    if len(found) < len(node.outputs):
        return f"it gives {len(found)} results, the node has {len(node.outputs)}"
    for value, type in zip(node.outputs, found, strict=False):
        if not is_compatible(type, value.type):
            return f"it gives {type} for %{value.name}: {value.type}"
    return ""


def _check_keys(wanted: Implementations, nodes: Sequence[Node]) -> None:
    """Raise InputError for an operator, implementation or node that does not exist."""
    for key, name in wanted.items():
        if key.startswith("node:"):
            _check_node_key(key.removeprefix("node:"), name, nodes)
        elif key == "*":
            _check_name(name, {known for entries in IMPLEMENTATIONS.values() for known in entries}, "any operator")
        else:
            domain, _, operator = _plain_key(key).rpartition("::")
            found = find_operator(operator, domain)
            _check_name(name, IMPLEMENTATIONS.get((found.domain, operator), {}), operator)


def _check_node_key(path: str, name: str, nodes: Sequence[Node]) -> None:
    there = [node for node in nodes if path in _paths(node)]
    if not there:
        near = get_close_matches(path, [known for node in nodes for known in _paths(node)[1:]], 1)
        hint = f"; did you mean 'node:{near[0]}'?" if near else ""
        raise InputError(f"implementations: the model has no node {path!r}{hint}")
    operators = ", ".join(dict.fromkeys(node.op.name for node in there))
    _check_name(name, {known for node in there for known in _known(node)}, f"{operators} at {path}")


def _check_name(name: str, known: Any, operator: str) -> None:
    if name == BUILTIN or name in known:
        return
    names = sorted(known)
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(map(repr, [BUILTIN, *names]))}"
    raise InputError(f"implementations: there is no implementation {name!r} of {operator}; {hint}")

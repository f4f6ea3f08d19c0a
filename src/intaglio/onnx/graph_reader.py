"""GraphProto to Graph: names and scopes, nodes, functions inlined, all problems gathered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from onnx import FunctionProto, GraphProto, NodeProto, ValueInfoProto

from intaglio.errors import GraphError, IntaglioError, LimitError, LoadError, UnsupportedError
from intaglio.ir.build import Builder, check_arity, with_output_count
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import OPERATORS, Array, Op, is_required
from intaglio.ir.origin import Origin
from intaglio.ir.types import Type
from intaglio.onnx.adapters import Adapter
from intaglio.onnx.attributes import AttributeReader
from intaglio.onnx.constants import constant_array
from intaglio.onnx.external import ExternalData
from intaglio.onnx.functions import FunctionKey, FunctionTable, default_attributes, describe, subgraphs
from intaglio.onnx.gradients import differentiate
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.order import sorted_nodes
from intaglio.onnx.protobuf import shorten, text, texts
from intaglio.onnx.schema import Resolution, function_body, normal_domain, output_is_variadic, resolve
from intaglio.onnx.scope import (
    BROKEN,
    MEMORY_HINT,
    BoundAttribute,
    Broken,
    Problem,
    Scope,
    Site,
    bind_attributes,
    check_attributes,
    origin_of,
)
from intaglio.onnx.signatures import adapter_signature
from intaglio.onnx.tensors import read_sparse, read_tensor
from intaglio.onnx.types import contradiction, merged_type, read_type
from intaglio.onnx.write_types import type_proto
from intaglio.ops.training import Gradient


class _ReportedError(IntaglioError):
    """Stops the work on a node whose problems are already noted."""


class GraphReader:
    """Reads the graphs of one model. Problems are gathered, and a value that depends on one is passed over."""

    def __init__(
        self,
        external: ExternalData,
        functions: FunctionTable,
        limits: ReadLimits,
        reported: Collection[tuple[str, str, int]] = (),
    ) -> None:
        """Operators in `reported`, by domain, name and version, are passed over: their absence is known already."""
        self.problems: list[Problem] = []
        self._reported = reported
        self._passed_over = 0
        self.warnings: list[str] = []
        self._external = external
        self._functions = functions
        self._limits = limits
        self._attributes = AttributeReader(external, limits)
        self._reserved: set[str] = set()

    def read_model_graph(
        self, proto: GraphProto, opsets: Mapping[str, int], ir_version: int, cut: Mapping[int, memoryview]
    ) -> Graph:
        """The main graph, where initializers of inputs are defaults since IR version 4 and constants before.

        `cut` holds raw data that was taken out of the message, by the initializer's position.
        """
        graph = Graph(text(proto.name) or "graph")
        scope = Scope(graph, opsets)
        self._reserve(graph, _all_names(proto))
        inputs = [] if ir_version < 4 else texts(value.name for value in proto.input)
        defaults = self._read_initializers(proto, scope, set(inputs), cut)
        for value in proto.input:
            name = text(value.name)
            if ir_version >= 4 or name not in scope.values:
                self._read_input(value, None, scope, defaults.get(name))
        self._read_body(proto, scope)
        if not proto.output:
            self.problems.append(Problem(LoadError("the graph has no outputs"), ""))
        return graph

    def _reserve(self, graph: Graph, names: Iterable[str]) -> None:
        """Keep the model's own names from being taken by values that adapters and expansions make up."""
        for name in names:
            if name and name not in graph.names:
                graph.names[name] = 0
                self._reserved.add(name)

    def _claim(self, scope: Scope, name: str) -> str:
        """The name that a value shall have, released right before the value takes it."""
        hint = scope.hint(name)
        if hint in self._reserved:
            self._reserved.remove(hint)
            del scope.graph.names[hint]
        return hint

    def _attempt(self, where: str, action: Callable[[], None]) -> bool:
        """Do it, or note why that was not possible."""
        try:
            action()
        except _ReportedError:
            return False
        except IntaglioError as error:
            self.problems.append(Problem(error, where))
            return False
        except RecursionError:
            self.problems.append(Problem(LimitError("is nested too deep for Python's stack"), where))
            return False
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError) as error:
            wrapped = LoadError(f"cannot be read: {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            self.problems.append(Problem(wrapped, where))
            return False
        return True

    def _read_initializers(
        self, proto: GraphProto, scope: Scope, inputs: set[str], cut: Mapping[int, memoryview]
    ) -> dict[str, Array]:
        """Define the constants, and return the arrays of those that are also inputs."""
        defaults: dict[str, Array] = {}

        def add(name: str, read: Callable[[], Array]) -> None:
            if name in defaults or not name:
                raise LoadError("an initializer needs a name of its own")
            if name in inputs:
                defaults[name] = read()
            else:
                array = read()
                scope.define(name, scope.graph.constant(array, self._claim(scope, name)))

        for name, read in self._stored_tensors(proto, cut):
            where = scope.where(f"initializer {shorten(name)!r}")
            if not self._attempt(where, lambda n=name, r=read: add(n, r)):
                scope.values.setdefault(name, BROKEN)
        return defaults

    def _stored_tensors(
        self, proto: GraphProto, cut: Mapping[int, memoryview]
    ) -> Iterator[tuple[str, Callable[[], Array]]]:
        for position, tensor in enumerate(proto.initializer):
            raw = cut.get(position)
            yield text(tensor.name), lambda t=tensor, r=raw: read_tensor(t, self._external, "the tensor", r)
        limit = self._limits.dense_bytes
        for sparse in proto.sparse_initializer:
            yield text(sparse.values.name), lambda s=sparse: read_sparse(s, self._external, limit, "the tensor")

    def _read_input(self, proto: ValueInfoProto, given: Type | None, scope: Scope, default: Array | None) -> None:
        name = text(proto.name)
        where = scope.where(f"input {shorten(name)!r}")
        if not self._attempt(where, lambda: self._add_input(name, proto, given, scope, default)):
            scope.values.setdefault(name, BROKEN)

    def _add_input(
        self, name: str, proto: ValueInfoProto, given: Type | None, scope: Scope, default: Array | None
    ) -> None:
        if not name:
            raise LoadError("has no name")
        if scope.values.get(name, BROKEN) is not BROKEN:
            raise LoadError("is already defined: names must be unique")
        type = merged_type(read_type(proto.type, name), given)
        if default is not None:
            stored = Graph().constant(default).type
            type = merged_type(type, stored) or stored
            conflict = contradiction(type, stored)
            if conflict:
                raise LoadError(f"is declared as {type}, but its initializer is {stored}: {conflict}")
        if type is None:
            raise LoadError("declares no type")
        value = scope.graph.add_input(self._claim(scope, name), type)
        value.default = default
        scope.define(name, value)

    def _read_body(self, proto: GraphProto, scope: Scope) -> None:
        """Nodes, then outputs."""
        scope.graph.doc = text(proto.doc_string)
        scope.graph.metadata = {text(entry.key): text(entry.value) for entry in proto.metadata_props}
        builder = Builder(scope.graph)
        with builder.active():
            self._read_nodes(proto.node, scope, builder)
        scope.graph.set_outputs(self._read_outputs(proto, scope))

    def _read_nodes(self, nodes: Sequence[NodeProto], scope: Scope, builder: Builder) -> None:
        def read_all() -> None:
            ordered, note = sorted_nodes(nodes, scope.values)
            if note:
                self.warnings.append(scope.where(note))
            for index, node in ordered:
                self._read_node(node, index, scope, builder)

        if not self._attempt(scope.path, read_all):
            for node in nodes:
                _break_outputs(node, scope)

    def _read_outputs(self, proto: GraphProto, scope: Scope) -> list[Value]:
        outputs: list[Value] = []
        seen: set[str] = set()

        def add(declared: ValueInfoProto, name: str) -> None:
            if not name:
                raise LoadError("has no name")
            if name in seen and scope.outer is None:
                raise LoadError("is listed twice")
            seen.add(name)
            value = scope.find(name)
            if isinstance(value, Value):
                self._check_output(declared, value, scope)
                outputs.append(value)

        for declared in proto.output:
            name = text(declared.name)
            self._attempt(scope.where(f"output {shorten(name)!r}"), lambda d=declared, n=name: add(d, n))
        return outputs

    def _check_output(self, declared: ValueInfoProto, value: Value, scope: Scope) -> None:
        expected = read_type(declared.type, value.name)
        conflict = None if expected is None else contradiction(expected, value.type)
        if conflict:
            name = shorten(text(declared.name))
            message = f"output {name!r} is declared as {expected}, but it is {value.type}: {conflict}"
            self.warnings.append(scope.where(message))

    def _read_node(self, node: NodeProto, index: int, scope: Scope, builder: Builder) -> None:
        """Add what a node means; a problem with it is noted and breaks its outputs."""
        saved, builder.origin = builder.origin, origin_of(node, index, scope)
        if not self._attempt(builder.origin.path, lambda: self._read_site(node, scope, builder)):
            _break_outputs(node, scope)
        builder.origin = saved

    def _read_site(self, node: NodeProto, scope: Scope, builder: Builder) -> None:
        found = scope.find_all(texts(node.input))
        inputs = [value for value in found if not isinstance(value, Broken)]
        if len(inputs) < len(found):
            self._check_attribute_names(node, scope)
            _break_outputs(node, scope)
            return
        while inputs and inputs[-1] is None:
            inputs.pop()
        site = Site(node, inputs, bind_attributes(node, scope), scope, builder)
        call = self._functions.find(node)
        if call is not None:
            self._call_function(site, *call)
        else:
            self._read_operator(site)

    def _check_attribute_names(self, node: NodeProto, scope: Scope) -> None:
        """Raise LoadError for what is wrong with a node's attributes although its inputs are not known."""
        given = [name for name in bind_attributes(node, scope) if name != MEMORY_HINT]
        call = self._functions.find(node)
        if call is not None:
            check_attributes(given, dict.fromkeys(default_attributes(call[1]), False))
            return
        domain, name = normal_domain(text(node.domain)), text(node.op_type)
        if (domain, name, scope.opsets.get(domain, 1)) in self._reported:
            return
        found = resolve(domain, name, imported_version(scope.opsets, domain))
        if found.adapter is not None:
            check_attributes(given, adapter_signature(found.adapter.function).attributes)
        elif found.operator is not None and found.operator is not Gradient:
            check_attributes(given, _allowed(found.operator))

    def _read_operator(self, site: Site) -> None:
        domain, name = normal_domain(text(site.node.domain)), text(site.node.op_type)
        if (domain, name, site.scope.opsets.get(domain, 1)) in self._reported:
            self._passed_over += 1
            raise _ReportedError
        version = imported_version(site.scope.opsets, domain)
        found = resolve(domain, name, version)
        taken = _taken_branch(site) if domain == "" and name == "If" else None
        if domain == "" and name == "Constant" and found.schema is not None:
            self._add_constant(site, found)
        elif taken is not None:
            self._inline_branch(site, taken)
        elif found.adapter is not None:
            self._add_adapted(site, found, found.adapter, version)
        elif found.operator is Gradient:
            self._add_gradient(site, found, found.operator)
        elif found.operator is not None:
            self._add_operator(site, found, found.operator)
        elif found.has_body:
            self._call_body(site, found, version)
        else:
            raise UnsupportedError(f"the operator {name} of {domain or 'ai.onnx'} {version} is not known")

    def _attribute_values(self, site: Site, found: Resolution, allowed: Mapping[str, bool]) -> dict[str, Any]:
        """The values by name; `allowed` tells which attributes are read and which of those are required."""
        values: dict[str, Any] = {}
        given = dict(site.attributes)
        if found.schema is not None and found.schema.since_version < 6:
            given.pop(MEMORY_HINT, None)
        check_attributes(given, allowed)
        for name, bound in sorted(given.items(), key=lambda item: item[1].proto.HasField("g")):
            types = _body_types(found.operator, name, site.inputs, values)
            values[name] = self._attribute(site, name, bound, found, types)
        return values

    def _attribute(
        self, site: Site, name: str, bound: BoundAttribute, found: Resolution, types: Sequence[Type | None]
    ) -> Any:
        declared = None if found.schema is None else found.schema.attributes.get(name)
        expected = None if declared is None else declared.type.value
        place = Origin(f"{site.path}/{name}", outer=site.builder.origin)
        return self._attributes.read(
            bound.proto, expected, lambda _, graph: self._read_subgraph(place, graph, bound.scope, types)
        )

    def _read_subgraph(self, place: Origin, proto: GraphProto, scope: Scope, types: Sequence[Type | None]) -> Graph:
        self._check_depth(scope)
        graph = Graph(text(proto.name) or "body", outer=scope.graph)
        inner = Scope(graph, scope.opsets, place.path, scope.prefix, scope, scope.depth + 1)
        inner.attributes, inner.place = scope.attributes, place
        known = self._noted
        self._read_initializers(proto, inner, set(), {})
        stored = set(inner.values)  # files before IR version 4 list initializers as inputs too
        for position, value in enumerate(proto.input):
            if value.name not in stored:
                self._read_input(value, types[position] if position < len(types) else None, inner, None)
        self._read_body(proto, inner)
        self._stop_after(known)
        return graph

    def _check_depth(self, scope: Scope) -> None:
        if scope.depth >= self._limits.depth:
            raise LimitError(f"functions and subgraphs are nested more than {self._limits.depth} deep")

    @property
    def _noted(self) -> int:
        """How many problems were met, those that were reported before included."""
        return len(self.problems) + self._passed_over

    def _stop_after(self, known: int) -> None:
        """Stop the work on the current node where problems were noted since there were `known` of them."""
        if self._noted > known:
            raise _ReportedError

    def _add_constant(self, site: Site, found: Resolution) -> None:
        allowed = {} if found.schema is None else dict.fromkeys(found.schema.attributes, False)
        array = constant_array(self._attribute_values(site, found, allowed))
        names = site.output_names(is_variadic=False)
        if len(names) != 1 or site.inputs:
            raise LoadError(f"has {len(site.inputs)} inputs and {len(names)} outputs, expected 0 and 1")
        value = site.scope.graph.constant(array, self._claim(site.scope, names[0]))
        value.is_literal = True
        site.scope.define(names[0], value)

    def _add_operator(self, site: Site, found: Resolution, operator: type[Op]) -> None:
        names = site.output_names(operator.variadic_outputs)
        op = with_output_count(operator(**self._attribute_values(site, found, _allowed(operator))), len(names))
        check_arity(op, site.inputs)
        hints = [self._claim(site.scope, name) for name in names]
        for name, value in zip(names, site.builder.add(op, site.inputs, len(names), hints), strict=True):
            if name:
                site.scope.define(name, value)

    def _add_gradient(self, site: Site, found: Resolution, operator: type[Op]) -> None:
        names = site.output_names(is_variadic=True)
        op = Gradient(**self._attribute_values(site, found, _allowed(operator)))
        results = differentiate(op, site.inputs, site.scope, site.builder)
        if results is None:
            _break_outputs(site.node, site.scope)
            return
        if len(site.scope.graph) > self._limits.nodes:  # a derivative of a derivative, and so on, grows fast
            raise LimitError(f"the graph has more than {self._limits.nodes} nodes once it is differentiated")
        if len(names) > len(results):
            raise LoadError(f"has {len(names)} outputs for the {len(results)} tensors in xs")
        for name, value in zip(names, results, strict=False):
            if name:
                self._define_copy(site, name, value)

    def _add_adapted(self, site: Site, found: Resolution, adapter: Adapter, version: int) -> None:
        names = site.output_names(output_is_variadic(found.schema))
        signature = adapter_signature(adapter.function)
        values = self._attribute_values(site, found, signature.attributes)
        signature.check_inputs(site.inputs)
        reserved = {"outputs": len(names), "opset": version}
        values.update((name, reserved[name]) for name in signature.reserved)
        last = site.scope.graph.last
        result = adapter.function(site.builder, *site.inputs, **values)
        results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(results) < len(names):
            raise GraphError(f"has {len(results)} outputs in this version, the node asks for {len(names)}")
        self._adopt(site, names, results[: len(names)], _nodes_after(site.scope.graph, last))

    def _adopt(self, site: Site, names: Sequence[str], values: Sequence[Value], new: set[Node]) -> None:
        """Name the values that an adapter made after the node's outputs; a value of others gets an Identity."""
        taken = {value for value in site.inputs if value is not None}
        for name, value in zip(names, values, strict=True):
            is_own = value not in taken and (value.producer is None or value.producer in new)
            taken.add(value)
            if name and is_own:
                value.name = site.scope.graph.unique_name(self._claim(site.scope, name))
                site.scope.define(name, value)
            elif name:
                self._define_copy(site, name, value)

    def _define_copy(self, site: Site, name: str, value: Value) -> None:
        """Define a second name for a value through an Identity, so that it can be asked for by that name."""
        identity = OPERATORS[("", "Identity")]()
        site.scope.define(name, site.builder.add(identity, [value], 1, [self._claim(site.scope, name)])[0])

    def _inline_branch(self, site: Site, branch: BoundAttribute) -> None:
        """Read the branch of an If whose condition is known in place of the node; the other one may be nonsense."""
        self._check_depth(site.scope)
        proto, scope = branch.proto.g, branch.scope
        place = Origin(f"{site.path}/{text(branch.proto.name)}", outer=site.builder.origin)
        inner = Scope(site.scope.graph, scope.opsets, place.path, scope.prefix, scope, scope.depth + 1)
        inner.attributes, inner.place = scope.attributes, place
        known = self._noted
        self._read_initializers(proto, inner, set(), {})
        self._read_nodes(proto.node, inner, site.builder)
        outputs = self._read_outputs(proto, inner)
        self._stop_after(known)
        names = site.output_names(is_variadic=True)
        if len(names) != len(outputs):
            raise LoadError(f"has {len(names)} outputs, its branch has {len(outputs)}")
        for name, value in zip(names, outputs, strict=True):
            if name:
                self._define_copy(site, name, value)

    def _call_function(self, site: Site, key: FunctionKey, proto: FunctionProto) -> None:
        check_attributes(site.attributes, dict.fromkeys(default_attributes(proto), False))
        opsets = {normal_domain(text(entry.domain)): entry.version for entry in proto.opset_import}
        self._inline(site, proto, describe(key), opsets or site.scope.opsets, {})

    def _call_body(self, site: Site, found: Resolution, version: int) -> None:
        """Inline the function body that the operator's schema gives."""
        schema = found.schema
        if schema is None:
            raise GraphError("has no schema")
        check_attributes(site.attributes, dict.fromkeys(schema.attributes, False))
        body = function_body(schema, version, _plain_node(site), [type_proto(v and v.type) for v in site.inputs])
        if body is None:
            raise UnsupportedError(f"{schema.name} has neither an implementation nor a function body for these inputs")
        defaults = {
            name: BoundAttribute(declared.default_value, site.scope)
            for name, declared in schema.attributes.items()
            if declared.default_value.name
        }
        opsets = {normal_domain(text(entry.domain)): entry.version for entry in body.opset_import}
        self._inline(site, body, schema.name, {**site.scope.opsets, **opsets}, defaults)

    def _inline(
        self,
        site: Site,
        proto: FunctionProto,
        title: str,
        opsets: Mapping[str, int],
        defaults: Mapping[str, BoundAttribute],
    ) -> None:
        """Add a function's nodes in place of the call."""
        self._check_depth(site.scope)
        inner = _function_scope(site, proto, title, opsets)
        given = {name: BoundAttribute(a, inner) for name, a in default_attributes(proto).items() if a is not None}
        inner.attributes = {**defaults, **given, **site.attributes}
        known = self._noted
        self._read_nodes(proto.node, inner, site.builder)
        self._stop_after(known)
        formal, actual = texts(proto.output), texts(site.node.output)
        if len(actual) > len(formal):
            raise LoadError(f"asks for {len(actual)} outputs of the function {title}, which has {len(formal)}")
        for name, result in zip(formal, actual, strict=False):
            if result:
                self._return(site, inner, name, result)

    def _return(self, site: Site, inner: Scope, name: str, result: str) -> None:
        value = inner.find(name)
        if not isinstance(value, Value):
            raise LoadError(f"asks for the output {shorten(name)!r}, which the function does not compute")
        if name in inner.hints:
            site.scope.define(result, value)
        else:
            self._define_copy(site, result, value)


def imported_version(opsets: Mapping[str, int], domain: str) -> int:
    """The version of a domain's operator set that a scope imports; raises LoadError where it imports none."""
    if domain not in opsets:
        known = ", ".join(repr(name or "ai.onnx") for name in opsets) or "none"
        raise LoadError(f"the operator set {domain or 'ai.onnx'!r} is not imported; imported: {known}")
    return opsets[domain]


@cache
def _allowed(operator: type[Op]) -> Mapping[str, bool]:
    """The attributes of an operator class, each with whether it is required."""
    return {attribute.name: is_required(attribute) for attribute in operator.attributes()}


def _break_outputs(node: NodeProto, scope: Scope) -> None:
    for name in texts(node.output):
        if name:
            scope.values.setdefault(name, BROKEN)


def _function_scope(site: Site, proto: FunctionProto, title: str, opsets: Mapping[str, int]) -> Scope:
    formal = texts(proto.input)
    missing = len(formal) - len(site.inputs)
    if missing < 0:
        raise LoadError(f"the function {title} takes at most {len(formal)} inputs, got {len(site.inputs)}")
    own = next((name for name in (text(site.node.name), *texts(site.node.output)) if name), title)
    inner = Scope(site.scope.graph, opsets, site.path, f"{site.scope.hint(own)}/", depth=site.scope.depth + 1)
    inner.place = site.builder.origin
    inner.values.update(zip(formal, [*site.inputs, *[None] * missing], strict=True))
    results = zip(texts(proto.output), texts(site.node.output), strict=False)
    inner.hints = {name: site.scope.hint(result) for name, result in results if result and name not in inner.values}
    return inner


def _plain_node(site: Site) -> NodeProto:
    """The node with its attribute references replaced by what they stand for."""
    plain = NodeProto()
    plain.CopyFrom(site.node)
    del plain.attribute[:]
    for name, bound in site.attributes.items():
        plain.attribute.add().CopyFrom(bound.proto)
        plain.attribute[-1].name = name
    return plain


def _taken_branch(site: Site) -> BoundAttribute | None:
    """The branch that an If must take where its condition is known, else None."""
    condition = site.inputs[0] if len(site.inputs) == 1 else None
    contents = None if condition is None else condition.contents
    if contents is None or contents.size != 1 or not isinstance(contents.flat[0], (bool, int)):
        return None
    branch = site.attributes.get("then_branch" if contents.flat[0] else "else_branch")
    return branch if branch is not None and branch.proto.HasField("g") else None


def _nodes_after(graph: Graph, last: Node | None) -> set[Node]:
    if last is None:
        return set(graph.nodes)
    found: set[Node] = set()
    node = last.next
    while node is not None:
        found.add(node)
        node = node.next
    return found


def _body_types(
    operator: type[Op] | None, name: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> Sequence[Type | None]:
    """The types that a body's inputs take from the node's inputs, where the operator class knows them."""
    known = getattr(operator, "body_types", None)
    return () if known is None else known(name, inputs, attributes) or ()


def _all_names(proto: GraphProto) -> Iterator[str]:
    """The names of all values of a graph, its own first, then those of its subgraphs."""
    pending = [proto]
    for graph in pending:
        yield from texts(value.name for value in graph.input)
        yield from texts(tensor.name for tensor in graph.initializer)
        yield from texts(tensor.values.name for tensor in graph.sparse_initializer)
        for node in graph.node:
            yield from texts(node.output)
            pending.extend(inner for _, inner in subgraphs(node))

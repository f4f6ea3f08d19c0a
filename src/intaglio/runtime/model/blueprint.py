"""The graph that a model is built from, and everything that is made of it: engines, explanations, files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from intaglio.errors import CompileError, InputError, UnsupportedError
from intaglio.ir.clone import clone_with_values
from intaglio.ir.graph import Graph, Value
from intaglio.ir.limits import check_time
from intaglio.kernels import plan
from intaglio.memory.constants import trim
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.onnx.mapped import check_files
from intaglio.passes import Report, simplify
from intaglio.runtime.artifact.saving import save_compiled
from intaglio.runtime.engine.engine import Engine, Options, Progress
from intaglio.runtime.engine.limits import check_weights
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.engine.reference import ReferenceEngine
from intaglio.runtime.engine.weights import HeldGraph, drop_files, share_weights, signature
from intaglio.runtime.model.donation import donation_of
from intaglio.runtime.model.explain import (
    Explanation,
    explain_plan,
    explain_reference,
    sizes_of_graph,
    sizes_of_plan,
)
from intaglio.runtime.model.implementations import Choice, choose, refusals
from intaglio.runtime.model.lineage import Lineage, lineage_of
from intaglio.runtime.model.memory import MemoryPlan, memory_of_graph, memory_of_plan
from intaglio.runtime.model.variant import Variant


class Blueprint:
    """A model's graph as it was read, with the options for what is made of it."""

    def __init__(self, imported: Imported, options: Options) -> None:
        self.graph: Graph = imported.graph
        self.options = options
        check_weights(self.graph, options.limits)
        share_weights(self.graph, is_mapped=options.engine == "native")
        self._names = [value.name for value in self.graph.outputs]

    def build(self, names: Sequence[str], overridden: frozenset[str], progress: Progress | None) -> Variant:
        """The engine for these outputs, where inputs with defaults are fed only if they are overridden."""
        graph, report, choices = self._simplify(names, overridden)
        make = None if self.options.implementations else lambda: self._simplify(names, overridden)[0]
        held, inputs = HeldGraph(graph, make), signature(graph)
        drop_files(self.graph)
        trim()
        del graph
        engine = self._make_engine(held, progress, self._places(inputs, names))
        drop_files(self.graph)
        trim()
        fed = [value.name for value in inputs]
        given = None if self.options.is_state else donation_of(self.options.donate, fed, names)
        return Variant(engine, inputs, fed, held, report, choices, given)

    def _simplify(
        self, names: Sequence[str], overridden: frozenset[str]
    ) -> tuple[Graph, Report | None, tuple[Choice, ...]]:
        """A copy of the graph that computes these outputs, as the engine runs it."""
        graph, values = clone_with_values(self.graph)
        if list(names) != self._names:
            graph.set_outputs(values[value] for value in self._find(names))
        _settle_defaults(graph, overridden)
        choices = choose(graph, dict(self.options.implementations))
        if self.options.strict and refusals(choices):
            refused = "\n".join(f"  {choice}" for choice in refusals(choices))
            raise UnsupportedError(f"strict=True, and these implementations cannot be used:\n{refused}")
        report = None
        if self.options.simplify:
            report = simplify(graph, disable=self.options.disable, exact=self.options.exact)
        check_files(self.graph)
        return graph, report, choices

    def _find(self, names: Sequence[str]) -> list[Value]:
        known = {value.name: value for value in self.graph.values()}
        known.update((value.name, value) for value in self.graph.constants())
        known.update(zip(self._names, self.graph.outputs, strict=True))
        unknown = [name for name in names if name not in known]
        if unknown:
            near = difflib.get_close_matches(unknown[0], known, 3)
            hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
            raise InputError(f"the model has no tensor {', '.join(map(repr, unknown))}{hint}")
        return [known[name] for name in names]

    def _places(self, inputs: Sequence[Value], names: Sequence[str]) -> plan.Donation:
        """The inputs that are given away, by their places."""
        found = donation_of(self.options.donate, [value.name for value in inputs], names)
        return plan.NOTHING if found is None else plan.Donation(found.pairs, self.options.is_state)

    def _make_engine(self, held: HeldGraph, progress: Progress | None, donation: plan.Donation) -> Engine:
        if self.options.engine == "reference":
            return ReferenceEngine(held.get())
        engine = NativeEngine(
            held, self.options.threads, self.options.executor, exact=self.options.exact, donation=donation
        )
        self._refuse_host(engine)
        engine.load(_watched(progress))
        self._refuse_host(engine)  # what the C compiler refuses is on the host now
        return engine

    def _refuse_host(self, engine: NativeEngine) -> None:
        if self.options.strict and engine.form.hosts:
            reasons = "\n".join(f"  {host.node.operator} at {host}" for host in engine.form.hosts)
            raise UnsupportedError(f"strict=True, and these nodes cannot be compiled:\n{reasons}")

    def explain(self, main: Variant, dims: Mapping[str, int]) -> Explanation:
        """What a variant runs, and why, with numbers for the dimensions that are given."""
        memory = self.memory_plan(main, dims)
        if isinstance(main.engine, NativeEngine):
            sizes = sizes_of_plan(main.engine.lowered, dims)
            device = main.engine.device
            found = explain_plan(main.engine.lowered, device, self.options.threads, main.report, sizes)
        else:
            sizes = sizes_of_graph(graph_of(main), dims)
            found = explain_reference(graph_of(main), main.report, sizes)
        return replace(
            found,
            memory=memory.to_dict(),
            memory_summary=memory.with_sizes(sizes.put).summary,
            notes=(*map(str, main.choices), *found.notes),
            dims=dict(dims),
            sizes={name: str(size) for name, size in sizes.names.items()},
        )

    def memory_plan(self, main: Variant, sizes: Mapping[str, int]) -> MemoryPlan:
        """What a run of a variant holds in memory."""
        engine = main.engine
        if isinstance(engine, NativeEngine):
            return memory_of_plan(self.graph, engine, dict(sizes))
        return memory_of_graph(self.graph, graph_of(main), dict(sizes))

    def c_source(self, main: Variant) -> str:
        """The generated C of a variant, as one file that compiles alone."""
        if not isinstance(main.engine, NativeEngine):
            raise CompileError("the model runs on the reference engine, for which no C is generated")
        return main.engine.source_file(self.graph.name)

    def lineage(self, main: Variant) -> list[Lineage]:
        """What became of each node of the file in a variant's code."""
        source = self.c_source(main)
        assert isinstance(main.engine, NativeEngine)
        return lineage_of(main.engine, source)

    def save_compiled(self, main: Variant, info: ModelInfo, path: str | os.PathLike[str]) -> int:
        """Write a variant with its machine code to a file; returns its size."""
        if not isinstance(main.engine, NativeEngine):
            raise CompileError("the model runs on the reference engine; only a compiled model can be saved as one")
        return save_compiled(
            path, graph_of(main), info, main.engine, exact=self.options.exact, donate=self.options.donate
        )


def graph_of(variant: Variant) -> Graph:
    """The graph that a variant's engine runs."""
    assert variant.held is not None
    return variant.held.get()


def _watched(progress: Progress | None) -> Progress:
    """The progress of compilation, stopped where loading takes too long."""

    def told(done: int, total: int) -> None:
        check_time()
        if progress is not None:
            progress(done, total)

    return told


def _settle_defaults(graph: Graph, overridden: frozenset[str]) -> None:
    """Inputs that are not fed take their defaults as constants, so that they can be folded and packed."""
    for value in list(graph.inputs):
        if value.default is not None and value.name not in overridden:
            graph.close(value, value.default)

# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""The backend of torch.compile: graphs of TorchDynamo, forward and backward, as programs of ours.

torch.compile(model, backend="intaglio")
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from intaglio import garbage
from intaglio.errors import InputError, UnsupportedError
from intaglio.ir.graph import Graph
from intaglio.record import Record
from intaglio.runtime.engine.engine import LOAD_OPTIONS
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.torch.background import BackgroundGraph, Pending
from intaglio.torch.decompositions import decompositions
from intaglio.torch.partition import Classified, classify, is_size
from intaglio.torch.report import CompiledGraph, amend, note
from intaglio.torch.runnable import Assembly, LateModel, ModelInstruction, RunnableGraph, returned_nodes
from intaglio.torch.strides import take_strides, tell_strides
from intaglio.torch.translate import operator_name
from intaglio.torch.views import seen_nodes

OWN_OPTIONS = ("fallback", "freeze", "eager", "background")

_KNOWN = ", ".join((*OWN_OPTIONS, *LOAD_OPTIONS))


class Options(Record):
    """What `options={...}` of torch.compile may say: those of `intaglio.load`, and how graphs are cut.

    `quick` is on unless `load` says otherwise: people wait for the first call.
    """

    load: tuple[tuple[str, Any], ...] = ()
    fallback: bool = True
    """Whether PyTorch may run operators that we cannot; else they are an error."""
    freeze: bool = False
    """Whether graphs without gradients keep weights packed, and look only whether PyTorch counts a change of them."""
    eager: tuple[str, ...] = ()
    """Operators that PyTorch shall run, by full name: `aten.mm.default`."""
    background: bool = False
    """Whether PyTorch runs a graph while its code is being compiled."""


def read_options(options: Mapping[str, Any] | None) -> Options:
    """The options that torch.compile was given; raises InputError for unknown ones."""
    given = dict(options or {})
    own: dict[str, Any] = {name: given.pop(name) for name in OWN_OPTIONS if name in given}
    unknown = [name for name in given if name not in LOAD_OPTIONS]
    if unknown:
        raise InputError(f"there is no option {unknown[0]!r} of the backend intaglio; the options are {_KNOWN}")
    eager = own.get("eager", ())
    own["eager"] = (eager,) if isinstance(eager, str) else tuple(eager)
    if own.get("freeze") and own.get("background"):
        raise InputError("freeze and background exclude each other: choose one of them")
    return Options(tuple(given.items()), **own)


class Watcher(Record):
    """Who is told: `see` of each graph before it is compiled, which may change it, `saw` of each model that was made.

    `observe` gets the values of all tensors of each forward pass. With a watcher, models are made when they first run.
    """

    see: Callable[[str, Graph], None]
    saw: Callable[[Model], None]
    observe: Callable[[Mapping[str, Any]], None] | None = None


def backend(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What torch.compile calls with a graph: traced to ATen operators, it is compiled with and without gradients."""
    if mode not in (None, "default"):
        raise InputError(f"mode={mode!r} is a setting of inductor; the backend intaglio has options={{...}}: {_KNOWN}")
    with garbage.paused():
        return compile_with(read_options(options))(module, example_inputs)


def compile_with(options: Options, watch: Watcher | None = None) -> Any:
    """A backend for torch.compile with these options; `watch` is told of every graph."""
    compiler = partial(_compile, options, watch)
    return aot_autograd(
        fw_compiler=partial(compiler, "forward"),
        bw_compiler=partial(compiler, "backward"),
        inference_compiler=partial(compiler, "inference"),
        decompositions=decompositions(),
        partition_fn=partial(min_cut_rematerialization_partition, compiler="inductor"),
    )


@garbage.paused()
def _compile(
    options: Options, watch: Watcher | None, kind: str, module: GraphModule, example_inputs: Sequence[Any]
) -> Callable[[list[Any]], list[Any]]:
    """One graph of AOTAutograd."""
    with _disable_current_modes():  # constants of the graph are tensors with data, which PyTorch's modes refuse
        return _compile_graph(options, watch, kind, module, example_inputs)


def _compile_graph(
    options: Options, watch: Watcher | None, kind: str, module: GraphModule, example_inputs: Sequence[Any]
) -> Callable[[list[Any]], list[Any]]:
    begin = time.perf_counter()
    threads = torch.get_num_threads()
    pending = Pending() if options.background and watch is None else None

    def make(graph: Graph) -> Model | LateModel:
        if pending is not None:
            return pending.make(lambda: make_now(graph))
        if watch is None:
            return make_now(graph)
        watch.see(kind, graph)
        observe = watch.observe if kind != "backward" else None
        return LateModel(lambda: make_now(graph), watch.saw, observe)

    def make_now(graph: Graph) -> Model:
        given: dict[str, Any] = {"threads": threads, "progress": False, "quick": True, **dict(options.load)}
        return load(graph, **given)

    classified = classify(module, options.eager)
    if classified.eager and not options.fallback:
        listed = "; ".join(f"{operator_name(node)}: {why}" for node, why in classified.eager.items())
        raise UnsupportedError(f"fallback is off, and PyTorch would have to run {listed}")
    seen = seen_nodes(returned_nodes(module)[: _visible(kind)], classified.eager)
    if kind == "backward":
        take_strides(module, example_inputs, seen)
    fixed = None if "threads" in dict(options.load) else threads

    def assemble(frozen: Mapping[Any, torch.Tensor] | None) -> RunnableGraph:
        assembly = Assembly(module, classified, make, seen, frozen, kind == "backward")
        program = assembly.program()
        program.threads = fixed
        if kind == "forward":
            tell_strides(assembly.returned, assembly.plain)
        return program

    places = _static_places() if options.freeze and kind == "inference" else ()
    if places:
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        note(_graph_report(kind, module, None, classified, time.perf_counter() - begin))
        return FrozenGraph(lambda tensors: assemble({nodes[p]: t for p, t in tensors.items()}), places)
    program = assemble(None)
    noted = _graph_report(kind, module, program, classified, time.perf_counter() - begin)
    if pending is None:
        note(noted)
        return program
    shown = note(replace(noted, is_pending=True))
    return BackgroundGraph(
        module, program, pending, lambda models: amend(shown, replace(noted, host=tuple(_host_nodes(models))))
    )


def _static_places() -> tuple[int, ...]:
    """Which inputs of the graph are weights and buffers, which stay where they are from call to call."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return () if metadata is None else tuple(metadata.static_input_indices)


class FrozenGraph:
    """A program with weights as constants, made at the first call and again where PyTorch counts a change of them."""

    def __init__(self, make: Callable[[Mapping[int, torch.Tensor]], RunnableGraph], places: Sequence[int]) -> None:
        self._make, self._places = make, tuple(places)
        self._program: RunnableGraph | None = None
        self._seen: list[tuple[int, int]] = []
        self._boxed_call = True

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Run the program."""
        weights = [arguments[place] for place in self._places]
        if any(weight.is_inference() for weight in weights):
            raise UnsupportedError("freeze=True, and PyTorch counts no changes of tensors made in inference mode")
        seen = [(weight.data_ptr(), weight._version) for weight in weights]
        if self._program is None or seen != self._seen:
            copies = {place: weight.detach() for place, weight in zip(self._places, weights, strict=True)}
            self._program, self._seen = self._make(copies), seen
        return self._program(arguments)


def _visible(kind: str) -> int | None:
    """How many outputs the user sees; what a forward pass keeps for the backward one may lie in any order."""
    if kind != "forward":
        return None
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return None
    metadata.bw_donated_idxs = []  # we write over nothing that is kept, so a backward pass may run more than once
    return len(metadata.tokens) + metadata.num_forward_returns


def _graph_report(
    kind: str, module: GraphModule, program: RunnableGraph | None, classified: Classified, seconds: float
) -> CompiledGraph:
    calls = [node for node in module.graph.nodes if node.op == "call_function" and not is_size(node)]
    listed = [each for each in calls if "getitem" not in operator_name(each)]
    eager = tuple((operator_name(n), classified.eager[n]) for n in listed if n in classified.eager)
    models = [step.model for step in program.steps if isinstance(step, ModelInstruction)] if program is not None else []
    made = [model for model in models if isinstance(model, Model)]
    return CompiledGraph(kind, len(listed) - len(eager), len(models), eager, tuple(_host_nodes(made)), seconds)


def _host_nodes(models: Sequence[Model]) -> list[str]:
    return [reason for model in models for reason in model.host_reasons()]

"""`load` and `Model`: the way in for users."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from intaglio.c.compiler import NoCompilerError, find_compiler
from intaglio.c.constants import trim
from intaglio.c.native import using_threads
from intaglio.c.target import Target, usable_cores
from intaglio.errors import CompileError, InputError, LimitError, UnsupportedError
from intaglio.ir.clone import clone, clone_with_values
from intaglio.ir.graph import Graph, Value
from intaglio.ir.limits import Limits, check_time, within
from intaglio.ir.state import graph_from_state, graph_state
from intaglio.ir.types import Type
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.opsets import target_opsets
from intaglio.onnx.reader import Imported, ModelInfo, Source, read_model
from intaglio.passes import Report, simplify
from intaglio.runtime.arrays import as_input, order_feeds
from intaglio.runtime.artifact import is_compiled, read_compiled, save_compiled
from intaglio.runtime.explain import Explanation, explain_plan, explain_reference
from intaglio.runtime.implementations import Choice, Implementations, choose, refusals, warn_of_refusals
from intaglio.runtime.limits import check_weights, settled
from intaglio.runtime.memory import MemoryPlan, memory_of_graph, memory_of_plan
from intaglio.runtime.native import NativeEngine
from intaglio.runtime.reference import ReferenceEngine
from intaglio.runtime.weights import Held, check_files, drop_files, share_weights, signature
from intaglio.version import __version__

EngineName = Literal["native", "reference"]
Progress = Callable[[int, int], None]

VARIANT_LIMIT = 8
"""How many sets of outputs and overridden inputs a model keeps compiled."""


BUILT_IR_VERSION = 10
"""The IR version that a model which never was a file says it has."""


class Engine(Protocol):
    """What runs a graph."""

    def run(self, inputs: Sequence[Any], timeout: float | None = None) -> list[Any]:
        """The outputs for arrays in the order of the graph's inputs."""
        ...


@dataclass(frozen=True)
class Signature:
    """The name and type of an input or output; `is_optional` where an input has a default."""

    name: str
    type: Type
    is_optional: bool = False


@dataclass(frozen=True)
class Options:
    """How a model is run: what `load` was given."""

    engine: EngineName
    threads: int
    simplify: bool = True
    disable: tuple[str, ...] = ()
    exact: bool = False
    strict: bool = False
    implementations: tuple[tuple[str, str], ...] = ()
    limits: Limits = field(default_factory=lambda: settled(None))
    target: Target | None = None
    """What the code is generated for; None is this machine."""


@dataclass
class _Variant:
    """An engine for one choice of outputs and fed inputs."""

    engine: Engine
    held: Held
    inputs: list[Value]
    names: list[str]
    report: Report | None = field(default=None)
    choices: tuple[Choice, ...] = ()


def load(
    source: Source | Graph,
    *,
    engine: EngineName | None = None,
    threads: int | None = None,
    simplify: bool = True,
    disable: Collection[str] = (),
    exact: bool = False,
    strict: bool = False,
    base_folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    implementations: Implementations | None = None,
    limits: Limits | None = None,
) -> Model:
    """Read an ONNX model and make it ready to run.

    `source` is a path, bytes, a ModelProto or a graph, or a compiled model (a path or bytes), which is code: load only
    what you trust. `engine` is "native" (compiled C, the default) or "reference"
    (NumPy); the environment variable INTAGLIO_ENGINE changes the default. `threads` bounds the threads of a run.
    `simplify=False` runs the graph as it is in the file, `disable` leaves out passes by name, `exact` what can
    change rounding. `strict` refuses a model of which some node cannot be compiled. External data of a model given as
    bytes is looked for in `base_folder` only. `progress(done, total)` is told of compiled functions. `implementations`
    chooses among those registered with `implementation`, by operator or node. `limits` bounds what loading the model
    and each run may cost.
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads is {threads}, expected at least 1")
    bounds = settled(limits)
    with within(bounds, is_timed=True):
        chosen, is_wanted = _choose_engine(engine)
        own = tuple((implementations or {}).items())
        options = Options(chosen, threads or usable_cores(), simplify, tuple(disable), exact, strict, own, bounds)
        if is_compiled(source):
            return _load_compiled(source, options, progress)
        imported = _import(source, base_folder, bounds)
        model = _make_model(imported, options, progress, is_wanted)
    warn_of_refusals(model.choices)
    return model


def _load_compiled(source: Any, options: Options, progress: Progress | None) -> Model:
    """A model from its compiled form; compiled anew where its code is not for this machine or this version."""
    compiled = read_compiled(source)
    options = replace(options, simplify=False, exact=compiled.exact, target=compiled.target)
    if options.engine == "reference":
        return Model(compiled.imported, replace(options, target=None), progress)
    try:
        compiled.adopt()
        return Model(compiled.imported, options, progress)
    except NoCompilerError as error:
        raise CompileError(
            f"the model was compiled by Intaglio {compiled.version} and its code does not fit version {__version__} of "
            f"it, which is installed here; compile the model again, or install a C compiler. {error}"
        ) from error
    except CompileError as error:
        if find_compiler() is None:
            raise
        print(f"intaglio: the model is compiled anew: {error}", file=sys.stderr)
        return Model(compiled.imported, replace(options, target=None), progress)


def _import(source: Source | Graph, base_folder: str | os.PathLike[str] | None, limits: Limits) -> Imported:
    if isinstance(source, Graph):
        return _import_graph(source)
    imported = read_model(source, base_folder=base_folder, limits=ReadLimits(nodes=limits.nodes))
    check_time()
    return imported


def _import_graph(graph: Graph) -> Imported:
    info = ModelInfo(BUILT_IR_VERSION, target_opsets(graph, None), producer_name="intaglio", doc=graph.doc)
    return Imported(clone(graph), info)


def _choose_engine(engine: str | None) -> tuple[EngineName, bool]:
    """The engine, and whether the user asked for it."""
    wanted = engine or os.environ.get("INTAGLIO_ENGINE") or ""
    if wanted not in ("", "native", "reference"):
        raise InputError(f"there is no engine {wanted!r}; the engines are 'native' and 'reference'")
    return "reference" if wanted == "reference" else "native", bool(wanted)


def _make_model(imported: Imported, options: Options, progress: Progress | None, is_wanted: bool) -> Model:
    """The model, on the reference engine where it would have to be compiled and nothing can compile it."""
    try:
        return Model(imported, options, progress)
    except NoCompilerError:
        if is_wanted or options.strict:
            raise
        print(
            "intaglio: no C compiler found, and the cache does not hold all of the model, which runs on the slow "
            "reference engine; install gcc or clang, or `pip install intaglio[zig]`",
            file=sys.stderr,
        )
        return Model(imported, replace(options, engine="reference"), progress)


class Model:
    """A model that can be called. Safe to use from several threads, after fork, and to pickle and copy."""

    def __init__(self, imported: Imported, options: Options, progress: Progress | None = None) -> None:
        self._graph = imported.graph
        check_weights(self._graph, options.limits)
        share_weights(self._graph, is_mapped=options.engine == "native")
        self.info: ModelInfo = imported.info
        self.options = options
        self._variants: OrderedDict[tuple[tuple[str, ...], frozenset[str]], _Variant] = OrderedDict()
        self._lock = threading.RLock()
        self._names = [value.name for value in self._graph.outputs]
        with within(options.limits, is_timed=True):
            self._main = self._variant(tuple(self._names), frozenset(), progress)

    @property
    def graph(self) -> Graph:
        """The graph as it was read, before simplification; do not change it."""
        return self._graph

    @property
    def simplified(self) -> Graph:
        """The graph after simplification, which the engine runs; do not change it."""
        return self._main.held.get()

    @property
    def report(self) -> Report | None:
        """What simplification did; None with `simplify=False`."""
        return self._main.report

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Which of the asked for `implementations` are used at which nodes, and why others are not."""
        return self._main.choices

    @property
    def host_runs(self) -> int:
        """How many nodes the reference engine has run for this model so far, beside the compiled ones."""
        engines = [variant.engine for variant in self._variants.values()]
        return sum(engine.host_runs for engine in engines if isinstance(engine, NativeEngine))

    @property
    def inputs(self) -> tuple[Signature, ...]:
        """The inputs in order."""
        return tuple(Signature(v.name, v.type, v.default is not None) for v in self._graph.inputs)

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """The outputs in order."""
        return tuple(Signature(name, v.type) for name, v in zip(self._names, self._graph.outputs, strict=True))

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run on arrays by position or name; returns the output, or a tuple of them where there are several."""
        main = self._main
        if not named and len(arrays) == len(main.inputs):
            results = main.engine.run_again(arrays) if isinstance(main.engine, NativeEngine) else None
            if results is None:
                values = [as_input(value, array) for value, array in zip(main.inputs, arrays, strict=True)]
                results = self._run(main.engine, values, None, None)
        else:
            results = list(self.run(self._name_arguments(arrays, named)).values())
        return results[0] if len(results) == 1 else tuple(results)

    def _name_arguments(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [value.name for value in self._graph.inputs]
        if len(arrays) > len(names):
            raise InputError(f"{len(arrays)} inputs were given, the model has {len(names)}: {', '.join(names)}")
        feeds = dict(zip(names, arrays, strict=False))
        twice = [name for name in named if name in feeds]
        if twice:
            raise InputError(f"input {twice[0]!r} was given by position and by name")
        return feeds | dict(named)

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
        threads: int | None = None,
    ) -> dict[str, Any]:
        """Run on inputs by name; returns outputs by name.

        `outputs` may name any tensor of the model, not only its outputs. A run that takes longer than `timeout` seconds
        raises RunTimeoutError. `threads` bounds the threads of this run instead of what the model was loaded with; the
        results are the same bits. The arrays returned belong to the caller.
        """
        if outputs is None and timeout is None and threads is None:
            again = self._run_again(feeds)
            if again is not None:
                return again
        if not isinstance(feeds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"run takes a dict of inputs by name and not a {type(feeds).__name__}; or call the model")
        names = tuple(self._names if outputs is None else outputs)
        overridden = frozenset(v.name for v in self._graph.inputs if v.default is not None and v.name in feeds)
        with within(self.options.limits, is_timed=True):
            variant = self._variant(names, overridden)
        kept = set(variant.names)
        unused = {v.name for v in self._graph.inputs} - kept
        values = order_feeds(variant.inputs, {k: v for k, v in feeds.items() if k in kept or k not in unused})
        results = self._run(variant.engine, values, timeout, threads)
        return dict(zip(names, results, strict=True))

    def _run(self, engine: Engine, values: Sequence[Any], timeout: float | None, threads: int | None) -> list[Any]:
        """Run an engine within the model's limits."""
        limits = self.options.limits
        times = [time for time in (timeout, limits.time) if time is not None]
        with within(limits), nullcontext() if threads is None else _using(threads, self.options.engine):
            try:
                return engine.run(values, min(times, default=None))
            except MemoryError as error:
                if isinstance(error, LimitError):
                    raise
                text = f"the run needs more memory than there is, or than the limit of {limits.memory} bytes"
                raise LimitError(text) from error

    def _run_again(self, feeds: Mapping[str, Any]) -> dict[str, Any] | None:
        """A run like one before, with none of the work that is done once; None where there was none like it."""
        main = self._main
        if type(feeds) is not dict or len(feeds) != len(main.names) or not isinstance(main.engine, NativeEngine):
            return None
        try:
            results = main.engine.run_again([feeds[name] for name in main.names])
        except KeyError:
            return None
        return None if results is None else dict(zip(self._names, results, strict=True))

    def _variant(
        self, names: tuple[str, ...], overridden: frozenset[str], progress: Progress | None = None
    ) -> _Variant:
        key = (names, overridden)
        found = self._variants.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in self._variants:
                self._variants[key] = self._build(names, overridden, progress)
                if len(self._variants) > VARIANT_LIMIT:
                    self._variants.pop(next(k for k in self._variants if k != (tuple(self._names), frozenset())))
            return self._variants[key]

    def _build(self, names: Sequence[str], overridden: frozenset[str], progress: Progress | None) -> _Variant:
        graph, report, choices = self._simplify(names, overridden)
        make = None if self.options.implementations else lambda: self._simplify(names, overridden)[0]
        held, inputs = Held(graph, make), signature(graph)
        drop_files(self._graph)
        trim()
        del graph
        engine = self._make_engine(held, progress)
        drop_files(self._graph)
        trim()
        return _Variant(engine, held, inputs, [value.name for value in inputs], report, choices)

    def _simplify(
        self, names: Sequence[str], overridden: frozenset[str]
    ) -> tuple[Graph, Report | None, tuple[Choice, ...]]:
        """A copy of the graph that computes these outputs, as the engine runs it."""
        check_files(self._graph)
        graph, values = clone_with_values(self._graph)
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
        return graph, report, choices

    def _find(self, names: Sequence[str]) -> list[Value]:
        known = {value.name: value for value in self._graph.values()}
        known.update((value.name, value) for value in self._graph.constants())
        known.update(zip(self._names, self._graph.outputs, strict=True))
        unknown = [name for name in names if name not in known]
        if unknown:
            import difflib

            near = difflib.get_close_matches(unknown[0], known, 3)
            hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
            raise InputError(f"the model has no tensor {', '.join(map(repr, unknown))}{hint}")
        return [known[name] for name in names]

    def _make_engine(self, held: Held, progress: Progress | None) -> Engine:
        if self.options.engine == "reference":
            return ReferenceEngine(held.get())
        engine = NativeEngine(held, self.options.threads, self.options.target, exact=self.options.exact)
        if self.options.strict and engine.plan.host_steps:
            reasons = "\n".join(
                f"  {step.node.op.name} at {step.node.source}: {step.reason}" for step in engine.plan.host_steps
            )
            raise UnsupportedError(f"strict=True, and these nodes cannot be compiled:\n{reasons}")
        return engine.load(_watched(progress))

    def explain(self) -> Explanation:
        """Kernels in the order they run, what each computes, and every node that is not compiled and why."""
        engine = self._main.engine
        if isinstance(engine, NativeEngine):
            found = explain_plan(engine.plan, engine.target, self.options.threads, self.report)
        else:
            found = explain_reference(self.simplified, self.report)
        memory = self.memory_plan()
        return replace(found, memory=memory.to_dict(), notes=(*map(str, self.choices), *found.notes))

    def memory_plan(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> MemoryPlan:
        """What a run holds in memory for sizes of named dimensions: `memory_plan(batch=8)`, or a dict.

        Sizes that are not given stay open, and what depends on them is an expression.
        """
        given, engine = {**(sizes or {}), **named}, self._main.engine
        if isinstance(engine, NativeEngine):
            return memory_of_plan(self._graph, engine.plan, given)
        return memory_of_graph(self._graph, self.simplified, given)

    def c_source(self) -> str:
        """The generated C of the model: every kernel, then the drivers that call them."""
        engine = self._main.engine
        if not isinstance(engine, NativeEngine):
            raise CompileError("the model runs on the reference engine, for which no C is generated")
        return "\n".join(function.source for function in engine.functions())

    def save_compiled(self, path: str | os.PathLike[str]) -> int:
        """Write the model with its machine code to one file, which `load` opens without a compiler and without ONNX.

        By convention the file is named `*.intaglio`. Returns its size in bytes.
        """
        engine = self._main.engine
        if not isinstance(engine, NativeEngine):
            raise CompileError("the model runs on the reference engine; only a compiled model can be saved as one")
        engines = engine.all_engines()
        functions = [function for each in engines for function in each.functions()]
        exact = self.options.exact
        return save_compiled(
            path, self.simplified, self.info, functions, engine.target, exact=exact, version=__version__
        )

    def __repr__(self) -> str:
        def listed(items: Sequence[Signature]) -> str:
            return ", ".join(f"{item.name}: {item.type}" for item in items)

        return (
            f"<Model {self._graph.name!r} ({listed(self.inputs)}) -> ({listed(self.outputs)}) on {self.options.engine}>"
        )

    def __reduce__(self) -> Any:
        check_files(self._graph)
        return _restore, (graph_state(self._graph), self.info, self.options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return Model(Imported(clone(self._graph), self.info), self.options)


def _using(threads: int, engine: EngineName) -> AbstractContextManager[None]:
    """So many threads for what is run inside; the reference engine has but one."""
    if threads < 1:
        raise InputError(f"threads is {threads}, expected at least 1")
    return using_threads(threads) if engine == "native" else nullcontext()


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
            constant = Value(value.name, value.type, constant=value.default)
            value.replace_uses(constant)
            graph.inputs.remove(value)


def _restore(state: dict[str, Any], info: ModelInfo, options: Options) -> Model:
    return Model(Imported(graph_from_state(state), info), options)

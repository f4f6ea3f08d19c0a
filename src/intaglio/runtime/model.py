"""`load` and `Model`: the way in for users."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from intaglio.errors import CompileError, InputError, LimitError, UnsupportedError
from intaglio.ir.limits import Limits, check_time, within
from intaglio.ir.types import Type
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.processor import granted_threads, usable_cores
from intaglio.record import Record
from intaglio.runtime.arrays import as_input, order_feeds
from intaglio.runtime.artifact import Compiled, is_compiled, read_compiled
from intaglio.runtime.deadline import Deadline, sooner
from intaglio.runtime.limits import check_weight_bytes, settled
from intaglio.runtime.outputs import apart, check_targets, written
from intaglio.runtime.program import Program
from intaglio.runtime.progress import told
from intaglio.runtime.sources import as_source
from intaglio.runtime.tensors import has_tensor, tensors_of
from intaglio.runtime.variant import Engine, EngineName, Options, Progress, Variant
from intaglio.runtime.warm import WarmStart, warm_start
from intaglio.targets.c.native import using_threads
from intaglio.targets.c.toolchain import NoCompilerError
from intaglio.version import __version__

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph
    from intaglio.onnx.reader import ModelProto, Source
    from intaglio.passes import Report
    from intaglio.runtime.blueprint import Blueprint
    from intaglio.runtime.explain import Explanation
    from intaglio.runtime.implementations import Choice, Implementations
    from intaglio.runtime.memory import MemoryPlan
    from intaglio.runtime.segment import Into

VARIANT_LIMIT = 8
"""How many sets of outputs and overridden inputs a model keeps compiled."""


BUILT_IR_VERSION = 10
"""The IR version that a model which never was a file says it has."""


class Signature(Record):
    """The name and type of an input or output; `is_optional` where an input has a default."""

    name: str
    type: Type
    is_optional: bool = False


def load(
    source: Source | Graph | Any,
    example_inputs: Any = None,
    *,
    dynamic_shapes: Any = None,
    engine: EngineName | None = None,
    threads: int | None = None,
    simplify: bool = True,
    disable: Collection[str] = (),
    exact: bool = False,
    strict: bool = False,
    base_folder: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    implementations: Implementations | None = None,
    limits: Limits | None = None,
) -> Model:
    """Read an ONNX model and make it ready to run.

    `source` is a path, bytes, an open file, a ModelProto, a graph, what `torch.onnx.export` gives, a model of onnx_ir
    or a function of onnxscript; or a compiled model (a path or bytes), which is code: load only what you trust. It may
    be a module of PyTorch with `example_inputs`, a tensor or a tuple of its arguments, and `dynamic_shapes` as
    `torch.export` takes them; or an ExportedProgram.
    `engine` is "native" (compiled C, the default) or "reference" (NumPy); the environment variable INTAGLIO_ENGINE
    changes the default. `threads` bounds the threads of a run.
    `simplify=False` runs the graph as it is in the file, `disable` leaves out passes by name, `exact` what can
    change rounding. `strict` refuses a model of which some node cannot be compiled, which is newer than the installed
    `onnx`, or which does not import an operator set that it uses. External data of a model given as bytes is looked for
    in `base_folder` only. `progress(done,
    total)` is told of compiled functions; without it, a line on a terminal or a bar in a notebook tells of compiling
    that takes longer than a second; `progress=True` writes a line elsewhere too, False nothing. `implementations`
    chooses among those registered with `implementation`, by operator or node. `limits` bounds what loading the model
    and each run may cost.
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads is {threads}, expected at least 1")
    source, bounds = as_source(source, example_inputs, dynamic_shapes), settled(limits)
    with within(bounds, is_timed=True), told(progress) as watcher:
        chosen, is_wanted = _choose_engine(engine)
        own = tuple((implementations or {}).items())
        left_out = (disable,) if isinstance(disable, str) else tuple(disable)
        used = granted_threads(threads or usable_cores())
        options = Options(chosen, used, simplify, left_out, exact, strict, own, bounds)
        if is_compiled(source):
            return _load_compiled(source, options, watcher)
        start = warm_start(source, options)
        model = None if start is None else _load_warm(start, options)
        if model is None:
            model = _load_graph(source, base_folder, options, watcher, is_wanted, start)
    _warn(model)
    return model


def _warn(model: Model) -> None:
    """Warn the caller of `load` of what is not as it was asked for."""
    for text in model.info.newer:
        warnings.warn(f"{text}; load the model with strict=True to refuse it", UserWarning, stacklevel=3)
    if model.choices:
        from intaglio.runtime.implementations import warn_of_refusals

        warn_of_refusals(model.choices)


def _check_versions(info: ModelInfo, options: Options) -> None:
    """Raise UnsupportedError for a model whose versions had to be guessed, where only known ones are wanted."""
    if options.strict and info.newer:
        raise UnsupportedError(f"strict=True, and {'; '.join(info.newer)}")


def _load_warm(start: WarmStart, options: Options) -> Model | None:
    """A model from its program in the cache; None where there is none."""
    compiled = start.find()
    return None if compiled is None else _from_program(compiled, options)


def _from_program(compiled: Compiled, options: Options) -> Model | None:
    """A model that runs without its graph; None where it has no program that this version can run."""
    if compiled.program is None:
        return None
    _check_versions(compiled.info, options)
    check_weight_bytes(compiled.program.weight_bytes, options.limits)
    model = Model.__new__(Model)
    engine = compiled.engine(options.threads, lambda: model._whole().engine)  # pyright: ignore[reportPrivateUsage]
    if engine is None:
        return None
    model._start(compiled.program, engine, compiled, options)  # pyright: ignore[reportPrivateUsage]
    return model


def _load_graph(
    source: Source | Graph,
    base_folder: str | os.PathLike[str] | None,
    options: Options,
    progress: Progress | None,
    is_wanted: bool,
    start: WarmStart | None,
) -> Model:
    """A model by way of its graph; its program is kept for later starts."""
    imported = import_source(source, options.limits, base_folder)
    _check_versions(imported.info, options)
    model = _make_model(imported, options, progress, is_wanted)
    if start is not None:
        start.keep(imported, model._whole().engine)  # pyright: ignore[reportPrivateUsage]
    return model


def _load_compiled(source: Any, options: Options, progress: Progress | None) -> Model:
    """A model from its compiled form; compiled anew where its code is not for this machine or this version."""
    compiled = read_compiled(source)
    _check_settled(compiled, options)
    options = replace(options, simplify=False, exact=compiled.exact, target=compiled.target)
    if options.engine == "reference":
        return Model(compiled.imported(), replace(options, target=None), progress)
    try:
        compiled.adopt()
        return _from_program(compiled, options) or Model(compiled.imported(), options, progress)
    except NoCompilerError as error:
        raise CompileError(
            f"the model was compiled by Intaglio {compiled.version} and its code does not fit version {__version__} of "
            f"it, which is installed here; compile the model again, or install a C compiler. {error}"
        ) from error
    except CompileError as error:
        from intaglio.targets.c.compiler import find_compiler

        if find_compiler() is None:
            raise
        print(f"intaglio: the model is compiled anew: {error}", file=sys.stderr)
        return Model(compiled.imported(), replace(options, target=None), progress)


def _check_settled(compiled: Compiled, options: Options) -> None:
    """Raise InputError for options that come too late for a model which is compiled already."""
    wishes = {
        "disable": bool(options.disable),
        "exact": options.exact and not compiled.exact,
        "implementations": bool(options.implementations),
    }
    late = [name for name, is_wanted in wishes.items() if is_wanted]
    if late:
        raise InputError(
            f"the model was compiled without {' and '.join(late)}, and code that is there cannot follow; "
            "give them to `load` of the ONNX model, before `save_compiled`"
        )


def import_source(
    source: Source | Graph, limits: Limits, base_folder: str | os.PathLike[str] | None = None
) -> Imported:
    """The graph of what `load` was given, unless that is a compiled model."""
    from intaglio.ir.graph import Graph
    from intaglio.onnx.limits import ReadLimits
    from intaglio.onnx.reader import read_model
    from intaglio.runtime.guard import guard_files

    source = as_source(source)
    if isinstance(source, Graph):
        return _import_graph(source)
    guard_files()
    imported = read_model(source, base_folder=base_folder, limits=ReadLimits(nodes=limits.nodes))
    check_time()
    return imported


def _import_graph(graph: Graph) -> Imported:
    from intaglio.ir.clone import clone
    from intaglio.onnx.opsets import target_opsets

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
            "reference engine; install gcc or clang, or `pip install ziglang`",
            file=sys.stderr,
        )
        return Model(imported, replace(options, engine="reference"), progress)


class Model:
    """A model that can be called. Safe to use from several threads, after fork, and to pickle and copy."""

    def __init__(self, imported: Imported, options: Options, progress: Progress | None = None) -> None:
        graph = imported.graph
        inputs = [Signature(v.name, v.type, v.default is not None) for v in graph.inputs]
        outputs = [Signature(v.name, v.type) for v in graph.outputs]
        self._prepare(graph.name, inputs, outputs, imported.info, options, lambda: imported)
        with within(options.limits, is_timed=True):
            self._main = self._variant(tuple(self._names), frozenset(), progress)

    def _start(self, program: Program, engine: Engine, compiled: Compiled, options: Options) -> None:
        """What `__init__` does, for a model whose graph is read only when somebody asks for it."""
        inputs = [Signature(port.name, port.type, port.is_optional) for port in program.inputs]
        outputs = [Signature(port.name, port.type) for port in program.outputs]
        self._prepare(program.name, inputs, outputs, compiled.info, options, compiled.imported)
        self._main = Variant(engine, program.fed, [port.name for port in program.fed])
        self._variants[tuple(self._names), frozenset()] = self._main

    def _prepare(
        self,
        name: str,
        inputs: Sequence[Signature],
        outputs: Sequence[Signature],
        info: ModelInfo,
        options: Options,
        read: Callable[[], Imported],
    ) -> None:
        self.info = info
        self.options = options
        self._name, self._inputs, self._outputs = name, tuple(inputs), tuple(outputs)
        self._names = [output.name for output in outputs]
        self._read = read
        self._plans: Blueprint | None = None
        self._variants: OrderedDict[tuple[tuple[str, ...], frozenset[str]], Variant] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def _blueprint(self) -> Blueprint:
        """What the model is built from; read now where it came from a program."""
        with self._lock:
            if self._plans is None:
                from intaglio.runtime.blueprint import Blueprint

                self._plans = Blueprint(self._read(), self.options)
            return self._plans

    def _whole(self) -> Variant:
        """The main variant with its graph, made now where it came from a program."""
        if self._main.held is None:
            with self._lock, within(self.options.limits):
                if self._main.held is None:
                    main = self._blueprint.build(self._names, frozenset(), None)
                    self._variants[tuple(self._names), frozenset()] = self._main = main
        return self._main

    @property
    def graph(self) -> Graph:
        """The graph as it was read, before simplification; do not change it."""
        return self._blueprint.graph

    @property
    def simplified(self) -> Graph:
        """The graph after simplification, which the engine runs; do not change it."""
        held = self._whole().held
        assert held is not None
        return held.get()

    @property
    def report(self) -> Report | None:
        """What simplification did; None with `simplify=False`."""
        return self._whole().report

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Which of the asked for `implementations` are used at which nodes, and why others are not."""
        return self._main.choices

    @property
    def host_runs(self) -> int:
        """How many nodes the reference engine has run for this model so far, beside the compiled ones."""
        return sum(variant.engine.host_runs for variant in self._variants.values())

    @property
    def inputs(self) -> tuple[Signature, ...]:
        """The inputs in order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """The outputs in order."""
        return self._outputs

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run on arrays by position or name; returns the output, or a tuple of them where there are several.

        Where a tensor of PyTorch is among the inputs, the outputs are tensors too. Nothing is copied for it.
        """
        main = self._main
        if not named and len(arrays) == len(main.inputs):
            results = main.engine.run_again(arrays)
            if results is None and has_tensor(arrays):
                results = tensors_of(self._call_on_tensors(arrays))
            elif results is None:
                values = [as_input(value, array) for value, array in zip(main.inputs, arrays, strict=True)]
                results = self._run(main.engine, values, None, None)
        else:
            results = list(self.run(self._name_arguments(arrays, named)).values())
        return results[0] if len(results) == 1 else tuple(results)

    def _call_on_tensors(self, given: Sequence[Any]) -> list[Any]:
        """A call with tensors of PyTorch among the inputs."""
        main = self._main
        arrays = [as_input(value, item) for value, item in zip(main.inputs, given, strict=True)]
        results = main.engine.run_again(arrays)
        return self._run(main.engine, arrays, None, None) if results is None else results

    def _name_arguments(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [item.name for item in self._inputs]
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
        outputs: Sequence[str] | str | None = None,
        timeout: float | None = None,
        threads: int | None = None,
        prune: bool = False,
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Run on inputs by name; returns outputs by name.

        `outputs` may name any tensor of the model, not only its outputs; a lone name is one output. What is not among
        those of the model is compiled when it is first asked for. A run that takes longer than `timeout` seconds, that
        included, raises RunTimeoutError. `threads` bounds the threads of this run instead of what the model was loaded
        with; the results are the same bits. With `prune`, nothing is computed that `outputs` do not need: the model is
        compiled for these when they are first asked for. The arrays returned belong to the caller; they are tensors of
        PyTorch where one is among the inputs.

        `out` has arrays by the names of outputs, which are written to and returned: writable, contiguous, of the type
        and shape of the output. A run that fails leaves them with anything in them.
        """
        if outputs is None and timeout is None and threads is None and out is None:
            again = self._run_again(feeds)
            if again is not None:
                return again
        if not isinstance(feeds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"run takes a dict of inputs by name and not a {type(feeds).__name__}; or call the model")
        deadline = Deadline.after(timeout)
        names = tuple(self._names) if outputs is None else (outputs,) if isinstance(outputs, str) else tuple(outputs)
        computed = names if prune else self._computed(names)
        overridden = frozenset(item.name for item in self._inputs if item.is_optional and item.name in feeds)
        with within(self.options.limits, is_timed=True, deadline=None if deadline is None else deadline.check):
            variant = self._variant(computed, overridden)
        kept = set(variant.names)
        unused = {item.name for item in self._inputs} - kept
        values = order_feeds(variant.inputs, {k: v for k, v in feeds.items() if k in kept or k not in unused})
        targets = None if out is None else check_targets(out, names, self._outputs)
        into = None if targets is None else apart([targets.get(name) for name in computed], values)
        found = self._run(variant.engine, values, deadline, threads, into)
        shown = tensors_of(found) if has_tensor(feeds.values()) else found
        results = dict(zip(computed, shown, strict=True))
        if targets is not None:
            arrays = dict(zip(computed, found, strict=True))
            results |= {name: written(name, arrays[name], target) for name, target in targets.items()}
        return results if names == computed else {name: results[name] for name in names}

    def _computed(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The outputs that are computed so that a run can give these: all of the model's where they will do."""
        return tuple(self._names) if set(names) <= set(self._names) else names

    def _run(
        self,
        engine: Engine,
        values: Sequence[Any],
        deadline: Deadline | None,
        threads: int | None,
        into: Into | None = None,
    ) -> list[Any]:
        """Run an engine within the model's limits."""
        limits = self.options.limits
        deadline = sooner(deadline, Deadline.after(limits.time))
        check = None if deadline is None else deadline.check
        if check is not None:
            check()
        with within(limits, deadline=check), nullcontext() if threads is None else _using(threads, self.options.engine):
            try:
                return engine.run(values, deadline, into)
            except MemoryError as error:
                if isinstance(error, LimitError):
                    raise
                text = f"the run needs more memory than there is, or than the limit of {limits.memory} bytes"
                raise LimitError(text) from error

    def run_into(self, values: Sequence[Any], into: Into) -> list[Any]:
        """Run on arrays of the right types in the order of `fed`, and write each output where `into` has an array.

        Such an array must fit and share memory with no other; nothing of this is checked.
        """
        results = self._run(self._main.engine, values, None, None, into)
        pairs = zip(results, into, self._names, strict=True)
        return [result if target is None else written(name, result, target) for result, target, name in pairs]

    @property
    def fed(self) -> list[str]:
        """The names of the inputs that a run must be given, in order."""
        return list(self._main.names)

    def _run_again(self, feeds: Mapping[str, Any]) -> dict[str, Any] | None:
        """A run like one before, with none of the work that is done once; None where there was none like it."""
        main = self._main
        if type(feeds) is not dict or len(feeds) != len(main.names):
            return None
        try:
            results = main.engine.run_again([feeds[name] for name in main.names])
        except KeyError:
            return None
        return None if results is None else dict(zip(self._names, results, strict=True))

    def forget_sizes(self) -> None:
        """Keep no plan of memory for the sizes of earlier runs; the next run with such sizes plans anew."""
        for variant in list(self._variants.values()):
            variant.engine.forget_sizes()

    def _variant(self, names: tuple[str, ...], overridden: frozenset[str], progress: Progress | None = None) -> Variant:
        key = (names, overridden)
        found = self._variants.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in self._variants:
                self._variants[key] = self._blueprint.build(names, overridden, progress)
                if len(self._variants) > VARIANT_LIMIT:
                    self._variants.pop(next(k for k in self._variants if k != (tuple(self._names), frozenset())))
            return self._variants[key]

    def explain(self, dims: Mapping[str, int] | None = None) -> Explanation:
        """Kernels in the order they run, what each computes, and every node that is not compiled and why.

        `dims` gives numbers for named dimensions: `explain(dims={"batch": 8})`. Others stay open.
        """
        return self._blueprint.explain(self._whole(), dict(dims or {}))

    def memory_plan(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> MemoryPlan:
        """What a run holds in memory for sizes of named dimensions: `memory_plan(batch=8)`, or a dict.

        Sizes that are not given stay open, and what depends on them is an expression. Those that only data tells may be
        given too; `plan.tensors` shows their names.
        """
        return self._blueprint.memory_plan(self._whole(), {**(sizes or {}), **named})

    def c_source(self) -> str:
        """The generated C of the model as one file that compiles alone: the kernels, and the drivers that call them."""
        return self._blueprint.c_source(self._whole())

    def to_onnx(self, opset: int | None = None) -> ModelProto:
        """The model as an ONNX message, as it was before simplification.

        It is written at the lowest operator set that has its operators, or at `opset`.
        """
        from intaglio.onnx.writer import write_model

        return write_model(self.graph, opset=opset)

    def save(
        self, path: str | os.PathLike[str], opset: int | None = None, external_data: bool | int | None = None
    ) -> None:
        """Write the model to an ONNX file; `external_data=True` puts large weights in a file beside it."""
        from intaglio.onnx.writer import save_model

        save_model(self.graph, path, opset=opset, external_data=external_data)

    def save_compiled(self, path: str | os.PathLike[str]) -> int:
        """Write the model with its machine code to one file, which `load` opens without a compiler and without ONNX.

        By convention the file is named `*.intaglio`. Returns its size in bytes.
        """
        return self._blueprint.save_compiled(self._whole(), self.info, path)

    def __repr__(self) -> str:
        def listed(items: Sequence[Signature]) -> str:
            return ", ".join(f"{item.name}: {item.type}" for item in items)

        return f"<Model {self._name!r} ({listed(self.inputs)}) -> ({listed(self.outputs)}) on {self.options.engine}>"

    def _repr_html_(self) -> str:
        """The model as tables, for notebooks."""
        from intaglio.ir.html import line, table, titled

        rows = [("input", item.name, item.type, "optional" if item.is_optional else "") for item in self.inputs]
        rows += [("output", item.name, item.type, "") for item in self.outputs]
        engine = f"{self.options.engine} engine, up to {self.options.threads} threads"
        made = f"made by {self.info.producer_name} {self.info.producer_version}".rstrip()
        return titled(
            f"model {self._name}",
            table(("", "name", "type", ""), rows),
            line(f"{engine}; {made}" if self.info.producer_name else engine),
            *(line(f"warning: {text}") for text in self.info.warnings),
        )

    def __reduce__(self) -> Any:
        from intaglio.ir.clone import clone
        from intaglio.ir.state import graph_state
        from intaglio.runtime.weights import share_weights

        graph = clone(self.graph)
        share_weights(graph, is_mapped=False)
        return _restore, (graph_state(graph), self.info, self.options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        from intaglio.ir.clone import clone

        return Model(Imported(clone(self.graph), self.info), self.options)


def _using(threads: int, engine: EngineName) -> AbstractContextManager[None]:
    """So many threads for what is run inside; the reference engine has but one."""
    if threads < 1:
        raise InputError(f"threads is {threads}, expected at least 1")
    return using_threads(threads) if engine == "native" else nullcontext()


def _restore(state: dict[str, Any], info: ModelInfo, options: Options) -> Model:
    from intaglio.ir.state import graph_from_state

    return Model(Imported(graph_from_state(state), info), options)

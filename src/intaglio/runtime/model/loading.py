"""`load`: the way in for users. What is given becomes a graph, or the plan of one that was compiled before."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from intaglio import garbage
from intaglio.errors import CompileError, GraphError, InputError, UnsupportedError
from intaglio.ir.limits import Limits, check_time, within
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.processor import granted_threads, usable_cores
from intaglio.runtime.artifact.reading import Compiled, is_compiled, read_compiled
from intaglio.runtime.artifact.warm import WarmStart, warm_start
from intaglio.runtime.engine.engine import Engine, EngineName, Options, Progress
from intaglio.runtime.engine.limits import check_weight_bytes, settled
from intaglio.runtime.engine.plan_engine import PlanEngine
from intaglio.runtime.engine.stored import hosted_run_of, stored_engine
from intaglio.runtime.model.donation import StateUpdates, donated_pairs, donation_of
from intaglio.runtime.model.model import Model, face_of_plan, graph_model
from intaglio.runtime.model.progress import told
from intaglio.runtime.model.sources import as_source
from intaglio.runtime.model.variant import Variant
from intaglio.targets import executor_for
from intaglio.targets.errors import NoCompilerError
from intaglio.version import __version__

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph
    from intaglio.onnx.reader import Source
    from intaglio.runtime.model.implementations import Implementations

BUILT_IR_VERSION = 10
"""The IR version that a model which never was a file says it has."""


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
    quick: bool = False,
    strict: bool = False,
    donate: Mapping[str, str] | None = None,
    base_folder: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    implementations: Implementations | None = None,
    limits: Limits | None = None,
    shared_weights: bool = False,
    device: str = "cpu",
    tf32: bool = False,
) -> Model:
    """Read an ONNX model and make it ready to run.

    `source` is a path, bytes, an open file, a ModelProto, a graph, what `torch.onnx.export` gives, a model of onnx_ir
    or a function of onnxscript; or a compiled model (a path or bytes), which is code: load only what you trust. It may
    be a module of PyTorch with `example_inputs`, a tensor or a tuple of its arguments, and `dynamic_shapes` as
    `torch.export` takes them; or an ExportedProgram.
    `engine` is "native" (compiled C, the default) or "reference" (NumPy); the environment variable INTAGLIO_ENGINE
    changes the default. `threads` bounds the threads of a run.
    `simplify=False` runs the graph as it is in the file, `disable` leaves out passes by name, `exact` what can
    change rounding. `quick` lets the C compiler do less: it takes a quarter to a half less time, and the model runs up
    to 5 % slower. `strict` refuses a model of which some node cannot be compiled, which is newer than the installed
    `onnx`, or which does not import an operator set that it uses. `donate` names inputs that runs may write over, each
    with the output that takes its memory, of the same type and shape: `donate={"cache": "new_cache"}`. The array given
    as the input is returned as the output; only what changes is written, where nothing reads the input afterwards. A
    run that fails leaves anything in it. External data of a model given as bytes is looked for in `base_folder` only.
    `progress(done, total)` is told of compiled functions; without it, a line on a terminal or a bar in a notebook tells
    of compiling that takes longer than a second; `progress=True` writes a line elsewhere too, False nothing.
    `implementations` chooses among those registered with `implementation`, by operator or node. `limits` bounds what
    loading the model and each run may cost. With `shared_weights` the weights stay in a mapped file of the cache, so
    that all processes of this machine which load the model so hold them once; a warning names the reason where that
    cannot be.
    `device` is "cpu", or "cuda" or "cuda:1" for a device of NVIDIA's; `tf32` lets such a device round the operands of
    products and convolutions of single precision to ten bits behind the point, which is several times as fast.
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads is {threads}, expected at least 1")
    source, bounds = as_source(source, example_inputs, dynamic_shapes), settled(limits)
    with within(bounds, is_timed=True), told(progress) as watcher, garbage.paused():
        chosen, is_wanted = _choose_engine(engine)
        own = tuple((implementations or {}).items())
        left_out = (disable,) if isinstance(disable, str) else tuple(disable)
        used = granted_threads(threads or usable_cores())
        given, is_state = donated_pairs(donate), isinstance(donate, StateUpdates)
        options = Options(chosen, used, simplify, left_out, exact, strict, own, bounds, given, is_state, quick)
        options = replace(options, shared_weights=shared_weights, device=device, tf32=tf32)
        _check_device(options)
        if is_compiled(source):
            return _load_compiled(source, options, watcher)
        start = warm_start(source, options)
        model = None if start is None else _load_warm(start, options)
        if model is None:
            model = _load_graph(source, base_folder, options, watcher, is_wanted, start)
    _warn(model)
    return model


def _check_device(options: Options) -> None:
    """Raise InputError for a device that there is none of, and for what only the processor does."""
    executor_for(options.device)
    if options.device == "cpu":
        if options.tf32:
            raise InputError("tf32 is for CUDA devices: leave out tf32=True, or load the model with device='cuda'")
        return
    if options.engine == "reference":
        raise InputError(
            f"the reference engine runs on the processor; load the model without device={options.device!r}"
        )
    if options.donate:
        raise InputError(f"donated inputs are for the processor: leave out donate= or device={options.device!r}")


def _warn(model: Model) -> None:
    """Warn the caller of `load` of what is not as it was asked for."""
    for text in model.info.newer:
        warnings.warn(f"{text}; load the model with strict=True to refuse it", UserWarning, stacklevel=3)
    if model.choices:
        from intaglio.runtime.model.implementations import warn_of_refusals

        warn_of_refusals(model.choices)


def _check_versions(info: ModelInfo, options: Options) -> None:
    """Raise UnsupportedError for a model whose versions had to be guessed, where only known ones are wanted."""
    if options.strict and info.newer:
        raise UnsupportedError(f"strict=True, and {'; '.join(info.newer)}")


def _load_warm(start: WarmStart, options: Options) -> Model | None:
    """A model from its plan in the cache; None where there is none."""
    compiled = start.find(is_mapped=options.shared_weights)
    return None if compiled is None else _from_plan(compiled, options, start)


def _from_plan(compiled: Compiled, options: Options, start: WarmStart | None = None) -> Model | None:
    """A model that runs without its graph; None where it has no plan that this version can run."""
    stored = compiled.stored
    make = _engine_maker(compiled, options, start)
    if stored is None or make is None or (options.strict and (stored.hosts or not stored.outline.frames)):
        return None  # where that is strict, the graph tells which nodes are run by the host
    _check_versions(compiled.info, options)
    check_weight_bytes(stored.weight_bytes, options.limits)

    def begin(whole: Callable[[], Engine]) -> Variant:
        def watched() -> Engine:
            engine = whole()
            if start is not None:
                start.keep_added(compiled.info, compiled.files, engine)
            return engine

        inputs = stored.outline.inputs
        fed, made = [port.name for port in inputs], [port.name for port in stored.outputs]
        given = None if options.is_state else donation_of(options.donate, fed, made)
        return Variant(make(watched), inputs, fed, donation=given)

    return Model(face_of_plan(stored, compiled.info), options, compiled.imported, begin)


def _engine_maker(
    compiled: Compiled, options: Options, start: WarmStart | None
) -> Callable[[Callable[[], Engine] | None], PlanEngine] | None:
    """What makes the engine of a stored plan, given that of the whole model; None where this version cannot run it."""
    stored, steps = compiled.stored, compiled.steps(options.threads)
    if stored is None or steps is None:
        return None

    def find(name: str) -> PlanEngine | None:
        place = None if start is None else start.for_special(name)
        special = None if place is None else place.find(is_mapped=options.shared_weights)
        make = None if special is None else _engine_maker(special, options, place)
        return None if make is None else make(None)

    try:
        hosted = None if stored.hosts is None else hosted_run_of(stored.hosts)
    except GraphError:
        return None
    return partial(stored_engine, stored, steps, compiled.read_plan, find, hosted)


def _load_graph(
    source: Source | Graph,
    base_folder: str | os.PathLike[str] | None,
    options: Options,
    progress: Progress | None,
    is_wanted: bool,
    start: WarmStart | None,
) -> Model:
    """A model by way of its graph; its plan is kept for later starts."""
    imported = import_source(source, options.limits, base_folder)
    _check_versions(imported.info, options)
    if start is None and options.shared_weights:
        start = warm_start(imported.graph, options)
    model = _make_model(imported, options, progress, is_wanted)
    if start is not None:
        start.keep(imported, model.whole_engine())
    return _with_shared_weights(model, options, start) if options.shared_weights else model


def _with_shared_weights(model: Model, options: Options, start: WarmStart | None) -> Model:
    """The model again, from the plan that was just kept, whose weights are mapped; itself where there is none."""
    shared = None if start is None else _load_warm(start, options)
    if shared is None:
        reason = "the reference engine runs it" if options.engine == "reference" else "the cache keeps no plan of it"
        text = f"the weights of the model are memory of this process and not shared with others: {reason}"
        warnings.warn(f"{text} (docs/design.md, Starts, says of which models it does)", UserWarning, stacklevel=4)
    return shared or model


def _load_compiled(source: Any, options: Options, progress: Progress | None) -> Model:
    """A model from its compiled form; compiled anew where its code is not for this machine or this version."""
    compiled = read_compiled(source)
    _check_settled(compiled, options)
    anew = replace(options, simplify=False, exact=compiled.exact, donate=compiled.donate)
    options = replace(anew, target=compiled.executor.target, quick=compiled.executor.is_quick)
    if options.shared_weights:
        raise InputError("shared_weights: a compiled model is read whole; load the ONNX model instead")
    if options.engine == "reference":
        return graph_model(compiled.imported(), anew, progress)
    try:
        compiled.adopt()
        return _from_plan(compiled, options) or graph_model(compiled.imported(), options, progress)
    except NoCompilerError as error:
        raise CompileError(
            f"the model was compiled by Intaglio {compiled.version} and its code does not fit version {__version__} of "
            f"it, which is installed here; compile the model again, or install a C compiler. {error}"
        ) from error
    except CompileError as error:
        if not options.executor.can_compile:
            raise
        print(f"intaglio: the model is compiled anew: {error}", file=sys.stderr)
        return graph_model(compiled.imported(), anew, progress)


def _check_settled(compiled: Compiled, options: Options) -> None:
    """Raise InputError for options that come too late for a model which is compiled already."""
    wishes = {
        "disable": bool(options.disable),
        "exact": options.exact and not compiled.exact,
        "implementations": bool(options.implementations),
        "donate": bool(options.donate) and options.donate != compiled.donate,
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
    from intaglio.runtime.engine.guard import guard_files

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
        return graph_model(imported, options, progress)
    except NoCompilerError:
        if is_wanted or options.strict:
            raise
        print(
            "intaglio: no C compiler found, and the cache does not hold all of the model, which runs on the slow "
            "reference engine; install gcc or clang, or `pip install ziglang`",
            file=sys.stderr,
        )
        return graph_model(imported, replace(options, engine="reference"), progress)

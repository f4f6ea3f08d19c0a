"""`Model`: what users hold."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from intaglio.errors import InputError, LimitError
from intaglio.ir.limits import within
from intaglio.ir.types import Type
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.record import Record
from intaglio.runtime.engine.deadline import Deadline, is_stoppable, sooner
from intaglio.runtime.engine.engine import Engine, EngineName, Options, Progress
from intaglio.runtime.engine.stored import StoredPlan
from intaglio.runtime.model.arrays import all_arrays, as_input, order_feeds
from intaglio.runtime.model.bound import Bound, free_targets, nanoseconds, shape_of
from intaglio.runtime.model.donation import check_pairs
from intaglio.runtime.model.outputs import check_targets, not_overlapping, written
from intaglio.runtime.model.tensors import has_tensor, tensors_of
from intaglio.runtime.model.variant import Variant
from intaglio.targets import executor_for

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph
    from intaglio.onnx.reader import ModelProto
    from intaglio.passes import Report
    from intaglio.runtime.engine.repeated_runs import Shapes
    from intaglio.runtime.model.blueprint import Blueprint
    from intaglio.runtime.model.counting import Counts
    from intaglio.runtime.model.explain import Explanation
    from intaglio.runtime.model.implementations import Choice
    from intaglio.runtime.model.lineage import Lineage
    from intaglio.runtime.model.memory import MemoryPlan
    from intaglio.targets.step import Direct, Into

VARIANT_LIMIT = 8
"""How many sets of outputs and overridden inputs a model keeps compiled."""


class Signature(Record):
    """The name and type of an input or output; `is_optional` where an input has a default."""

    name: str
    type: Type
    is_optional: bool = False


class Face(Record):
    """What users see of a model before it runs."""

    name: str
    inputs: tuple[Signature, ...]
    outputs: tuple[Signature, ...]
    info: ModelInfo


def face_of_plan(stored: StoredPlan, info: ModelInfo) -> Face:
    """The face of a model that was compiled before."""
    inputs = tuple([Signature(port.name, port.type, port.is_optional) for port in stored.inputs])
    return Face(stored.name, inputs, tuple([Signature(port.name, port.type) for port in stored.outputs]), info)


def graph_model(imported: Imported, options: Options, progress: Progress | None = None) -> Model:
    """A model made of its graph."""
    graph = imported.graph
    inputs = tuple(Signature(value.name, value.type, value.default is not None) for value in graph.inputs)
    outputs = tuple(Signature(value.name, value.type) for value in graph.outputs)
    return Model(Face(graph.name, inputs, outputs, imported.info), options, lambda: imported, progress=progress)


class Model:
    """A model that can be called. Safe to use from several threads, after fork, and to pickle and copy."""

    def __init__(
        self,
        face: Face,
        options: Options,
        read: Callable[[], Imported],
        begin: Callable[[Callable[[], Engine]], Variant] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """A model whose graph `read` gives when it is needed.

        That is now, unless `begin` gives its main variant; it is given a function for the engine of the whole graph.
        """
        self.info = face.info
        self.options = options
        self._name, self._inputs, self._outputs = face.name, face.inputs, face.outputs
        self._names = [output.name for output in face.outputs]
        check_pairs(options.donate, face.inputs, face.outputs)
        self._read = read
        self._plans: Blueprint | None = None
        self._variants: OrderedDict[tuple[tuple[str, ...], frozenset[str]], Variant] = OrderedDict()
        self._lock = threading.RLock()
        key = (tuple(self._names), frozenset[str]())
        if begin is not None:
            self._main = self._variants[key] = begin(self.whole_engine)
            return
        with within(options.limits, is_timed=True):
            self._main = self._variant(*key, progress)

    @property
    def _blueprint(self) -> Blueprint:
        """What the model is built from; read now where it came from a stored plan."""
        with self._lock:
            if self._plans is None:
                from intaglio.runtime.model.blueprint import Blueprint

                self._plans = Blueprint(self._read(), self.options)
            return self._plans

    def _whole(self) -> Variant:
        """The main variant with its graph, made now where it came from a stored plan."""
        if self._main.held is None:
            with self._lock, within(self.options.limits):
                if self._main.held is None:
                    main = self._blueprint.build(self._names, frozenset(), None)
                    self._variants[tuple(self._names), frozenset()] = self._main = main
        return self._main

    def whole_engine(self) -> Engine:
        """The engine of the model's graph, made now where the model came from a stored plan."""
        return self._whole().engine

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
            results = main.runs.run_again(arrays)
            if results is None and has_tensor(arrays):
                results = tensors_of(self._call_on_tensors(arrays))
            elif results is None:
                results = self._run(main, _converted(main, arrays), None, None)
        else:
            results = list(self.run(self._name_arguments(arrays, named)).values())
        return results[0] if len(results) == 1 else tuple(results)

    def _call_on_tensors(self, given: Sequence[Any]) -> list[Any]:
        """A call with tensors of PyTorch among the inputs."""
        main = self._main
        arrays = _converted(main, given)
        results = main.runs.run_again(arrays)
        return self._run(main, arrays, None, None) if results is None else results

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
        if outputs is None and threads is None:
            again = self._run_again(feeds, timeout, out)
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
        if variant.donation is not None:
            variant.donation.check_fed(feeds, variant.names, values, out or {})
        targets = None if out is None else check_targets(out, names, self._outputs)
        into = None if targets is None else not_overlapping([targets.get(name) for name in computed], values)
        found = self._run(variant, values, deadline, threads, into)
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
        variant: Variant,
        values: Sequence[Any],
        deadline: Deadline | None,
        threads: int | None,
        into: Into | None = None,
    ) -> list[Any]:
        """Run a variant within the model's limits."""
        limits = self.options.limits
        deadline = sooner(deadline, Deadline.after(limits.time))
        check = None if deadline is None else deadline.check
        if check is not None:
            check()
        with within(limits, deadline=check), nullcontext() if threads is None else _using(threads, self.options.engine):
            try:
                return variant.runs.run(values, deadline, into)
            except MemoryError as error:
                if isinstance(error, LimitError):
                    raise
                text = f"the run needs more memory than there is, or than the limit of {limits.memory} bytes"
                raise LimitError(text) from error

    def run_into(self, values: Sequence[Any], into: Into) -> list[Any]:
        """Run on inputs in the order of `fed`, and write each output where `into` has an array.

        Such an array must fit and share memory with no other; nothing of this is checked.
        """
        main = self._main
        results = main.runs.run_again(values, 0, into)
        if results is None:
            results = self._run(main, _converted(main, values), None, None, into)
        pairs = zip(results, into, self._names, strict=True)
        return [result if target is None else written(name, result, target) for result, target, name in pairs]

    def direct(self, shapes: Shapes) -> Direct | None:
        """What runs the model's code on addresses of contiguous memory, for inputs of shapes that were run before.

        None where there was no such run, or where a run is more than one call of compiled code.
        """
        return self._main.engine.direct(shapes)

    def host_reasons(self) -> list[str]:
        """The nodes that are not compiled, each with the reason; none for the reference engine."""
        return self._main.engine.host_reasons()

    @property
    def fed(self) -> list[str]:
        """The names of the inputs that a run must be given, in order."""
        return list(self._main.names)

    def _run_again(
        self, feeds: Mapping[str, Any], timeout: float | None, out: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        """A run like one before, with none of the work that is done once; None where there was none like it."""
        main = self._main
        if type(feeds) is not dict or len(feeds) != len(main.names):
            return None
        try:
            arrays = [feeds[name] for name in main.names]
        except KeyError:
            return None
        is_plain = timeout is None and out is None
        results = main.runs.run_again(arrays) if is_plain else self._again(arrays, timeout, out)
        return None if results is None else dict(zip(self._names, results, strict=True))

    def _again(self, arrays: Sequence[Any], timeout: float | None, out: Mapping[str, Any] | None) -> list[Any] | None:
        """The outputs of a run like one before, within a time or into arrays of the caller; None where it needs more.

        What is wrong with arrays, time or targets is found by the way with all checks.
        """
        time = nanoseconds(timeout)
        if time is None or is_stoppable():
            return None
        if out is None:
            return self._main.runs.run_again(arrays, time)
        into = free_targets(out, self._names, arrays) if type(out) is dict and all_arrays(arrays) else None
        if into is None:
            return None
        results = self._main.runs.run_again(arrays, time, into)
        if results is not None:
            for place, target in enumerate(into):
                if target is not None and results[place] is not target:
                    if results[place].shape != target.shape or results[place].dtype != target.dtype:
                        return None
                    results[place] = written(self._names[place], results[place], target)
        return results

    def run_arrays(
        self, arrays: Sequence[Any], out: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[Any]:
        """Run on what `fed` lists, in its order; returns the outputs in their order.

        `out` and `timeout` are those of `run`.
        """
        results = self._again(arrays, timeout, out)
        if results is not None:
            return results
        return list(self.run(dict(zip(self._main.names, arrays, strict=True)), timeout=timeout, out=out).values())

    def bind(self, *given: Any) -> Bound:
        """The model for inputs of fixed sizes, each given as an example or as a shape (a tuple of integers).

        The inputs are those that a run must be given, in order. What depends on sizes is worked out now, so that the
        first call is as fast as all others; see `Bound` for how it is called. Raises ShapeError for sizes that the
        model cannot have.

        >>> import numpy as np
        >>> from intaglio import build, ops
        >>> with build("half") as g:
        ...     g.output(y=ops.Mul(g.input("x", "float32[N]"), np.float32(0.5)))
        >>> bound = g.model().bind((3,))
        >>> y = np.empty(3, np.float32)
        >>> bound(np.array([2, 4, 6], np.float32), out={"y": y}, timeout=1.0) is y, y.tolist()
        (True, [1.0, 2.0, 3.0])
        """
        fed = list(self._main.inputs)
        if len(given) != len(fed):
            names = ", ".join(item.name for item in fed)
            raise InputError(f"{len(given)} sizes or examples were given, the model has {len(fed)} inputs: {names}")
        shapes = [shape_of(item, each) for item, each in zip(fed, given, strict=True)]
        known = [shape for shape in shapes if shape is not None]
        if len(known) == len(shapes):
            with within(self.options.limits):
                self._main.engine.prepare(tuple(known))
        return Bound(self, fed, self._names, shapes)

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

    def count(self, feeds: Mapping[str, Any] | None = None, *, most_spans: int = 0) -> AbstractContextManager[Counts]:
        """Count what runs inside of a `with` block do: how often each kernel and host node ran, and how long it took.

        The block is given what is filled when it ends. `feeds` are inputs whose sizes tell how much each kernel has to
        do; `most_spans` is how many single times are kept of each segment. Counted are runs that give the outputs of
        the model, and of those what is compiled when the block begins, so run once before. Count one thread at a time:
        runs at the same time may lose counts. Raises UnsupportedError for the reference engine.
        """
        from intaglio.runtime.model.counting import counting

        return counting(self._whole(), feeds or {}, most_spans)

    def memory_plan(self, sizes: Mapping[str, int] | None = None, /, **named: int) -> MemoryPlan:
        """What a run holds in memory for sizes of named dimensions: `memory_plan(batch=8)`, or a dict.

        Sizes that are not given stay open, and what depends on them is an expression. Those that only data tells may be
        given too; `plan.tensors` shows their names.
        """
        return self._blueprint.memory_plan(self._whole(), {**(sizes or {}), **named})

    def c_source(self) -> str:
        """The generated C of the model as one file that compiles alone: the kernels, and the drivers that call them."""
        return self._blueprint.c_source(self._whole())

    def lineage(self) -> list[Lineage]:
        """What became of each node of the file: the nodes that run for it, and their C functions with their lines.

        Lines are those of `c_source`. Nodes of which nothing is left, because they were folded or nobody reads them,
        are not in it. Raises CompileError for a model on the reference engine.
        """
        return self._blueprint.lineage(self._whole())

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
        from intaglio.runtime.engine.weights import share_weights

        graph = clone(self.graph)
        share_weights(graph, is_mapped=False)
        return _restore, (graph_state(graph), self.info, self.options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        from intaglio.ir.clone import clone

        return graph_model(Imported(clone(self.graph), self.info), self.options)


def _converted(variant: Variant, given: Sequence[Any]) -> list[Any]:
    """What is given for the inputs of a variant, in their order, as arrays."""
    arrays = [as_input(item, each) for item, each in zip(variant.inputs, given, strict=True)]
    if variant.donation is not None:
        variant.donation.check_given(given, arrays)
    return arrays


def _using(threads: int, engine: EngineName) -> AbstractContextManager[None]:
    """So many threads for what is run inside; the reference engine has but one."""
    if threads < 1:
        raise InputError(f"threads is {threads}, expected at least 1")
    return executor_for().using_threads(threads) if engine == "native" else nullcontext()


def _restore(state: dict[str, Any], info: ModelInfo, options: Options) -> Model:
    from intaglio.ir.state import graph_from_state

    return graph_model(Imported(graph_from_state(state), info), options)

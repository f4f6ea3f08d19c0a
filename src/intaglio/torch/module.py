# pyright: reportMissingImports=false, reportUnknownParameterType=false, reportUntypedBaseClass=false
"""`Module`: a module of PyTorch as compiled code, forward and backward; `module` decorates a class with it."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import FunctionType
from typing import Any, cast

import torch
from torch._dynamo.exc import TorchDynamoException
from torch._functorch import config as functorch_config
from torch.utils import _pytree as pytree

from intaglio.errors import InputError, IntaglioError, LoadError
from intaglio.ir.graph import Graph
from intaglio.runtime.model.model import Model
from intaglio.torch.backend import Options, Watcher, compile_with
from intaglio.torch.export import inner, is_users, quiet, reason

FORM_LIMIT = 64
"""How many forms of calls a module remembers to have compiled code for."""

ImportHook = Callable[["Module"], None]
AutodiffHook = Callable[[Graph, Graph], None]
CompileHook = Callable[[Model], None]


class Module(torch.nn.Module):
    """A module whose `forward` is compiled when it is first called; the given module stays as `model`.

    Weights are shared with it: what an optimizer writes, the next call sees. `training` is the mode that it is put
    into. With `backward`, gradients flow through inputs and parameters; without, outputs have none. `double_backward`
    lets gradients be differentiated again, for which PyTorch runs the module a second time. `optimize=False` leaves
    graphs as they are translated. With `debug_values`, `values` has every tensor of the last forward pass by name.
    `example_inputs` compiles at once. `dynamic_shapes` is True where all sizes may change, or sizes by argument as
    `torch.export` takes them; without it, a size is open from the second value on that it takes. `device` can be
    "cpu" alone. Hooks may look at graphs and change them before they are compiled.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        example_inputs: Any = None,
        training: bool = False,
        backward: bool = False,
        optimize: bool = True,
        debug_values: bool = False,
        device: Any = None,
        name: str | None = None,
        dynamic_shapes: Any = None,
        *,
        double_backward: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if device is not None and torch.device(device).type != "cpu":
            raise InputError(f"device is {device!r}; Intaglio computes on the CPU")
        self.model = module
        self.is_differentiable = backward or double_backward
        self.is_twice = double_backward
        self.graph_name = name or type(module).__name__
        self.dynamic_shapes = dynamic_shapes
        self.debug_values = debug_values
        self.load_options: dict[str, Any] = {"simplify": optimize, **dict(options or {})}
        self.post_import_hooks: OrderedDict[str, ImportHook] = OrderedDict()
        self.post_autodiff_hooks: OrderedDict[str, AutodiffHook] = OrderedDict()
        self.post_compile_hooks: OrderedDict[str, CompileHook] = OrderedDict()
        self.train(training)
        self.reset()
        if example_inputs is not None:
            self._compile_for(example_inputs)

    def reset(self) -> None:
        """Forget what was compiled: the next call translates, asks the hooks and compiles anew."""
        self.forward_graph: Graph | None = None
        self.backward_graph: Graph | None = None
        self.compiled: list[Model] = []
        self.values: dict[str, Any] = {}
        self._run: Any = None
        self._forms: set[tuple[Any, ...]] = set()

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """What the module computes, by compiled code."""
        _check_devices((arguments, named))
        self._mark_sizes(arguments, named)
        if not self.is_differentiable:
            with torch.no_grad():
                return self._call(arguments, named)
        if self.is_twice and torch.is_grad_enabled():
            return _twice(self, arguments, named)
        return self._call(arguments, named)

    def _call(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if self._run is None:
            self._run = self._compiled_function()
        form = self._form_of(arguments, named)
        if form in self._forms:
            try:
                return self._run(self.model, arguments, named)
            except TorchDynamoException:  # it is to be compiled anew after all, for which PyTorch has to be prepared
                self._forms.discard(form)
        try:
            with _recurrent(self.model), quiet(), functorch_config.patch(force_non_lazy_backward_lowering=True):
                found = self._run(self.model, arguments, named)
        except IntaglioError:
            raise
        except TorchDynamoException as error:
            cause = inner(error)
            if isinstance(cause, IntaglioError) or (cause is not error and is_users(cause)):
                raise cause from error
            raise LoadError(f"PyTorch cannot trace {type(self.model).__name__}: {reason(error)}") from error
        if len(self._forms) >= FORM_LIMIT:
            self._forms.clear()
        self._forms.add(form)
        return found

    def _form_of(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """What calls that need the same code have in common."""
        modes = (torch.is_grad_enabled(), self.model.training, torch.is_autocast_enabled("cpu"))
        return (*modes, *map(_leaf_form, pytree.tree_leaves((arguments, named))))

    def _compiled_function(self) -> Any:
        """The call, compiled; its code is an object of its own, since PyTorch keeps what it compiled with the code."""
        code = _call_module.__code__.replace(co_name=f"call_{type(self.model).__name__}")
        function = FunctionType(code, _call_module.__globals__, code.co_name)
        watcher = Watcher(self._see, self._saw_model, self._observe if self.debug_values else None)
        chosen = Options(tuple(self.load_options.items()))
        is_dynamic = self.dynamic_shapes if isinstance(self.dynamic_shapes, bool) else None
        return torch.compile(function, backend=compile_with(chosen, watcher), fullgraph=True, dynamic=is_dynamic)

    def _see(self, kind: str, graph: Graph) -> None:
        """A graph that is about to be compiled: the hooks may change it."""
        graph.name = self.graph_name if kind != "backward" else f"{self.graph_name}_backward"
        if kind != "backward":
            self.forward_graph, self.backward_graph = graph, None
            for hook in self.post_import_hooks.values():
                hook(self)
            return
        is_first = self.backward_graph is None
        self.backward_graph = graph
        if is_first and self.forward_graph is not None:
            for hook in self.post_autodiff_hooks.values():
                hook(self.forward_graph, graph)

    def _saw_model(self, model: Model) -> None:
        self.compiled.append(model)
        for hook in self.post_compile_hooks.values():
            hook(model)

    def _observe(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    def _mark_sizes(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Tell PyTorch which sizes of the arguments are open."""
        given = self.dynamic_shapes
        if given is None or isinstance(given, bool):
            return
        bound = inspect.signature(self.model.forward).bind(*arguments, **named).arguments
        listed = given.items() if isinstance(given, dict) else zip(bound, given, strict=False)
        for name, sizes in cast("Any", listed):
            if isinstance(bound.get(name), torch.Tensor) and sizes:
                for axis in sizes if isinstance(sizes, dict) else _named_axes(sizes):
                    torch._dynamo.maybe_mark_dynamic(bound[name], axis)

    def _compile_for(self, example_inputs: Any) -> None:
        """Compile for inputs like these, without any trace of the run: buffers and random numbers are as before."""
        arguments = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
        kept = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        with torch.random.fork_rng(devices=[]):
            self(*arguments)
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)

    def append_post_import_hook(self, name: str, func: ImportHook) -> None:
        """Call a function with this module, last, when its forward graph was translated; it is in `forward_graph`."""
        _place(self.post_import_hooks, name, func, is_last=True)

    def prepend_post_import_hook(self, name: str, func: ImportHook) -> None:
        """Like `append_post_import_hook`, first."""
        _place(self.post_import_hooks, name, func, is_last=False)

    def append_post_autodiff_hook(self, name: str, func: AutodiffHook) -> None:
        """Call a function, last, with the graphs of the forward and the backward pass before they are compiled."""
        _place(self.post_autodiff_hooks, name, func, is_last=True)

    def prepend_post_autodiff_hook(self, name: str, func: AutodiffHook) -> None:
        """Like `append_post_autodiff_hook`, first."""
        _place(self.post_autodiff_hooks, name, func, is_last=False)

    def append_post_compile_hook(self, name: str, func: CompileHook) -> None:
        """Call a function, last, with each model that was compiled."""
        _place(self.post_compile_hooks, name, func, is_last=True)

    def prepend_post_compile_hook(self, name: str, func: CompileHook) -> None:
        """Like `append_post_compile_hook`, first."""
        _place(self.post_compile_hooks, name, func, is_last=False)

    def __getstate__(self) -> dict[str, Any]:
        fresh = {
            "forward_graph": None,
            "backward_graph": None,
            "compiled": [],
            "values": {},
            "_run": None,
            "_forms": set(),
        }
        return {**self.__dict__, **fresh}


def _leaf_form(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.dtype, leaf.requires_grad
    return leaf if isinstance(leaf, (bool, int, float, str)) else type(leaf)


def _call_module(module: Any, arguments: Any, named: Any) -> Any:
    return module(*arguments, **named)


def _named_axes(sizes: Sequence[Any]) -> list[int]:
    return [axis for axis, size in enumerate(sizes) if size is not None]


def _place(hooks: OrderedDict[str, Any], name: str, func: Any, is_last: bool) -> None:
    if name in hooks:
        raise InputError(f"there is a hook {name!r} already; the hooks are {', '.join(map(repr, hooks))}")
    hooks[name] = func
    hooks.move_to_end(name, last=is_last)


def _check_devices(given: Any) -> None:
    for leaf in pytree.tree_leaves(given):
        if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu":
            raise InputError(f"an input is on {leaf.device}; Intaglio computes on the CPU: give it tensor.cpu()")


def _recurrent(module: torch.nn.Module) -> Any:
    """PyTorch traces recurrent layers only where it is told to."""
    has_one = any(isinstance(each, torch.nn.RNNBase) for each in module.modules())
    return torch._dynamo.config.patch(allow_rnn=True) if has_one else nullcontext()


def _twice(owner: Module, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """A call whose gradients can be differentiated again."""
    leaves, spec = pytree.tree_flatten((list(arguments), dict(named)))
    parameters = dict(owner.model.named_parameters())
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    call = _TwiceCall(owner, leaves, spec, places, list(parameters))
    found = _Twice.apply(call, *[leaves[place] for place in places], *parameters.values())
    return pytree.tree_unflatten(list(cast("Any", found)), call.result_spec)


class _TwiceCall:
    """What a call that is differentiated twice has to remember."""

    def __init__(self, owner: Module, leaves: list[Any], spec: Any, places: list[int], names: list[str]) -> None:
        self.owner, self.leaves, self.spec, self.places, self.names = owner, leaves, spec, places, names
        self.result_spec: Any = None

    def arguments(self, tensors: Sequence[Any]) -> tuple[Any, Any]:
        """Positional and named arguments with these tensors in them."""
        given = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            given[place] = tensor
        arguments, named = pytree.tree_unflatten(given, self.spec)
        return arguments, named

    def eager(self, tensors: Sequence[Any]) -> list[Any]:
        """The outputs by PyTorch."""
        count = len(self.places)
        arguments, named = self.arguments(tensors[:count])
        weights = dict(zip(self.names, tensors[count:], strict=True))
        return pytree.tree_leaves(torch.func.functional_call(self.owner.model, weights, tuple(arguments), named))


class _Twice(torch.autograd.Function):
    """The compiled forward and backward pass; a backward pass that is to be differentiated is PyTorch's."""

    @staticmethod
    def forward(ctx: Any, call: _TwiceCall, *tensors: Any) -> Any:
        """Run compiled code, and keep its own graph of gradients."""
        count = len(call.places)
        with torch.enable_grad():
            inner = [each.detach().requires_grad_(each.requires_grad) for each in tensors[:count]]
            arguments, named = call.arguments(inner)
            found, call.result_spec = pytree.tree_flatten(call.owner._call(arguments, named))
        ctx.call, ctx.inner, ctx.found = call, inner, found
        ctx.save_for_backward(*tensors)
        return tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in found)

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        """The gradients of all tensors."""
        tensors = list(ctx.saved_tensors)
        wanted = [place for place, each in enumerate(tensors) if each.requires_grad]
        if torch.is_grad_enabled():
            outputs, sources = ctx.call.eager(tensors), [tensors[place] for place in wanted]
        else:
            own = [*ctx.inner, *ctx.call.owner.model.parameters()]
            outputs, sources = ctx.found, [own[place] for place in wanted]
        pairs = [(y, bar) for y, bar in zip(outputs, bars, strict=True) if _has_gradient(y) and bar is not None]
        found = torch.autograd.grad(
            [y for y, _ in pairs],
            sources,
            [bar for _, bar in pairs],
            create_graph=torch.is_grad_enabled(),
            retain_graph=True,
            allow_unused=True,
        )
        result: list[Any] = [None] * len(tensors)
        for place, bar in zip(wanted, found, strict=True):
            result[place] = bar
        return None, *result


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def module(cls: type[Any] | None = None, /, **options: Any) -> Any:
    """Make modules of a class compiled ones: `@module` or `@module(backward=True)`; the options are those of `Module`.

    The class as it was is its attribute `original`.
    """
    if cls is None:
        return lambda decorated: module(decorated, **options)
    original: Any = cls

    class Decorated(Module):
        __doc__ = original.__doc__

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(original(*arguments, **named), **options)

    Decorated.__name__, Decorated.__qualname__ = original.__name__, original.__qualname__
    Decorated.__module__ = original.__module__
    Decorated.original = original  # pyright: ignore[reportAttributeAccessIssue]
    original.__qualname__ = f"{original.__qualname__}.original"
    return Decorated

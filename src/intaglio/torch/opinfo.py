# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""The table of ATen operators judged by PyTorch's own samples: `python -m intaglio.torch.opinfo`.

Each sample is traced to ATen operators, translated and run; its results are compared with those of PyTorch. A sample
passes, differs, is refused (with the reason), or fails in some other way. Nothing may differ.
"""

from __future__ import annotations

import argparse
import logging
import sys
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from intaglio.errors import UnsupportedError
from intaglio.record import Record
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.tensors import tensor_of
from intaglio.torch.aten import TABLE
from intaglio.torch.decompositions import decompositions
from intaglio.torch.translate import Translator, operator_name

DTYPES = ("float32", "int64", "bool", "float64", "bfloat16")
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-7, 1e-7), torch.bfloat16: (1.6e-2, 1e-2)}
NARROW = (torch.bfloat16, torch.float16)
"""Types in which PyTorch rounds between steps that we take at once: who is nearer to double's results is right."""
UNDEFINED = (
    *("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted"),
    *("rand_like", "randn_like", "randint_like", "item"),
)
"""Operators whose results are not defined, or are no tensors."""
LOOSE = dict.fromkeys(("topk", "median", "nanmedian", "kthvalue", "mode"), 1)
"""How many results are compared where others, the places of equal elements, are not defined."""
STABLE = ("sort", "argsort")
"""Operators that are asked to keep equal elements in order, since the places of those are not defined else."""
RANDOM = ("rand", "normal", "uniform", "bernoulli", "multinomial", "dropout", "cauchy", "exponential", "geometric")


class Verdict(Record):
    """What came of one sample; `operators` are the ATen operators in it."""

    name: str
    dtype: str
    outcome: str
    reason: str = ""
    operators: tuple[str, ...] = ()


def infos() -> list[Any]:
    """PyTorch's descriptions of its operators with samples."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401  # pyright: ignore
        except ImportError:  # PyTorch's helpers for tests import it for what is not used here
            stand_in = types.ModuleType("expecttest")
            stand_in.TestCase = unittest.TestCase  # pyright: ignore
            sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def judge(
    names: Callable[[str], bool],
    dtypes: Sequence[str] = DTYPES,
    limit: int | None = None,
    engine: str = "reference",
) -> Iterator[Verdict]:
    """The verdicts on the samples of operators whose names are wanted, up to `limit` for each type."""
    for info in infos():
        if not names(info.name) or info.name in UNDEFINED or any(word in info.name for word in RANDOM):
            continue
        for name in dtypes:
            dtype = getattr(torch, name)
            if dtype in info.supported_dtypes("cpu"):
                yield from _judge_info(info, dtype, limit, engine)


def _judge_info(info: Any, dtype: torch.dtype, limit: int | None, engine: str) -> Iterator[Verdict]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples = list(info.sample_inputs("cpu", dtype))
        except Exception as error:  # samples that this build of PyTorch cannot make
            yield Verdict(_title(info), str(dtype), "no samples", f"{type(error).__name__}: {error}")
            return
        for sample in samples[:limit]:
            yield _judge_sample(info, dtype, sample, engine)


def _title(info: Any) -> str:
    return info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")


def _arguments(name: str, sample: Any) -> tuple[Any, dict[str, Any]]:
    """The arguments of a sample that follow the first."""
    if name not in STABLE:
        return sample.args, sample.kwargs
    named = dict(zip(("dim", "descending"), sample.args, strict=False))
    return (), {**named, **sample.kwargs, "stable": True}


def _judge_sample(info: Any, dtype: torch.dtype, sample: Any, engine: str) -> Verdict:
    verdict = partial(Verdict, _title(info), str(dtype).removeprefix("torch."))
    leaves, spec = pytree.tree_flatten((sample.input, *_arguments(info.name, sample)))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> list[Any]:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        first, arguments, named = pytree.tree_unflatten(given, spec)
        return pytree.tree_leaves(info.op(first, *arguments, **named))

    tensors = [leaves[place] for place in places]
    try:
        expected = call(*[tensor.clone() for tensor in tensors])
        traced = _traced(call, tensors)
    except Exception as error:  # what PyTorch itself cannot trace
        return verdict("not traced", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    operators = tuple(dict.fromkeys(operator_name(n) for n in traced.graph.nodes if n.op == "call_function"))
    try:
        found = run_graph(traced, tensors, engine)
    except UnsupportedError as error:
        return verdict("refused", str(error), operators)
    except Exception as error:  # a fault of ours, which the verdict tells
        return verdict("failed", f"{type(error).__name__}: {error}", operators)
    difference = _difference(found, expected, LOOSE.get(info.name))
    if difference and dtype in NARROW and _is_nearer(call, tensors, found, expected):
        difference = ""
    return verdict("differs" if difference else "passes", difference, operators)


def _traced(call: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    """The graph of a function as torch.compile traces it: without writes, and taken apart where we ask for it."""
    try:
        traced = make_fx(dispatch_functionalize(call), decompositions(), "fake")(*tensors)
    except AssertionError:  # operators with effects, such as LAPACK's checks, need torch.compile's own order of them
        traced = make_fx(torch.func.functionalize(call, remove="mutations"), decompositions(), "fake")(*tensors)
    traced.graph.eliminate_dead_code()
    return traced


def run_graph(traced: torch.fx.GraphModule, tensors: Sequence[torch.Tensor], engine: Any) -> list[Any]:
    """The outputs of a traced function by a model of ours."""
    translator = Translator()
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            translator.add_input(node)
        elif node.op == "get_attr":
            translator.constant(node, getattr(traced, node.target))
        elif node.op == "call_function":
            translator.add(node)
        elif node.op == "output":
            listed = list(node.args[0])
            if not all(isinstance(each, torch.fx.Node) for each in listed):
                raise UnsupportedError("a result that is no tensor")
            with translator.builder.active():
                outputs = [translator.builder.Identity(translator.values[each]) for each in listed]
            translator.graph.set_outputs(outputs)
    if not translator.graph.outputs:
        raise UnsupportedError("no result")
    model = load(translator.graph, engine=engine)
    found = model(*[tensor.detach() for tensor in tensors])
    return [tensor_of(each) for each in (found if isinstance(found, tuple) else [found])]


def _difference(found: Sequence[Any], expected: Sequence[Any], count: int | None = None) -> str:
    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    for have, want in zip(found[:count], map(torch.as_tensor, expected[:count]), strict=True):
        relative, absolute = TOLERANCE.get(want.dtype, (0.0, 0.0))
        try:
            torch.testing.assert_close(have, want.detach(), rtol=relative, atol=absolute, equal_nan=True)
        except (AssertionError, TypeError) as error:
            return " ".join(str(error).split())[:300]
    return ""


def _is_nearer(
    call: Callable[..., list[Any]], tensors: Sequence[torch.Tensor], found: Sequence[Any], expected: Sequence[Any]
) -> bool:
    """Whether results are of the right types and shapes, and no further from those in double than PyTorch's are."""
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]
    try:
        exact = [torch.as_tensor(each).detach() for each in call(*wide)]
    except Exception:  # an operator that takes the narrow type alone
        return False
    if not len(found) == len(expected) == len(exact):
        return False
    for mine, theirs, best in zip(found, map(torch.as_tensor, expected), exact, strict=True):
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape or not mine.is_floating_point():
            return False
        if _distance(mine, best) > _distance(theirs.detach(), best):
            return False
    return True


def _distance(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference; infinite where one is no number and the other is."""
    mine, best = found.double(), exact.double()
    is_same = (mine == best) | (mine.isnan() & best.isnan())
    apart = torch.where(is_same, 0.0, (mine - best).abs().nan_to_num(nan=torch.inf))
    return float(apart.max()) if apart.numel() else 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the share of samples that pass; the exit status tells whether one differs or fails."""
    parser = argparse.ArgumentParser(prog="python -m intaglio.torch.opinfo", description=__doc__)
    parser.add_argument("names", nargs="*", help="operators as PyTorch's tests name them; all by default")
    parser.add_argument("--dtypes", default="float32,int64,bool", help="element types, by default float32,int64,bool")
    parser.add_argument("--limit", type=int, help="so many samples of each operator and type at most")
    parser.add_argument("--engine", default="reference", choices=["reference", "native"], help="what computes")
    parser.add_argument("--list", action="store_true", help="list what is refused, with reasons")
    parser.add_argument("--table", help="write the page of the documentation to this file")
    given = parser.parse_args(arguments)
    logging.getLogger("torch").setLevel(logging.CRITICAL)  # of samples that cannot be traced
    verdicts = list(
        judge(lambda n: not given.names or n in given.names, given.dtypes.split(","), given.limit, given.engine)
    )
    print(summary(verdicts))
    for verdict in verdicts:
        if verdict.outcome in ("differs", "failed"):
            print(f"{verdict.outcome}: {verdict.name} {verdict.dtype}: {verdict.reason}")
    if given.list:
        print(reasons(verdicts))
    if given.table:
        with open(given.table, "w", encoding="utf-8") as file:
            file.write(page(verdicts, given.dtypes.replace(",", ", "), given.limit))
    return int(any(verdict.outcome in ("differs", "failed") for verdict in verdicts))


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many samples came out how, and the share that passes."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    judged = sum(counts[each] for each in ("passes", "differs", "refused", "failed"))
    share = 100 * counts["passes"] / max(judged, 1)
    run = sum(counts[each] for each in ("passes", "differs", "failed"))
    right = 100 * counts["passes"] / max(run, 1)
    listed = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    return f"{len(verdicts)} samples: {listed}; {share:.1f} % of those traced pass, {right:.2f} % of those run"


def reasons(verdicts: Sequence[Verdict]) -> str:
    """The reasons for refusals, the most frequent first."""
    counts = Counter(verdict.reason for verdict in verdicts if verdict.outcome == "refused")
    names: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.outcome == "refused":
            names.setdefault(verdict.reason, []).append(verdict.name)
    lines = [f"{n:5} {why}: {', '.join(list(dict.fromkeys(names[why]))[:5])}" for why, n in counts.most_common()]
    return "\n".join(lines)


def page(verdicts: Sequence[Verdict], dtypes: str, limit: int | None) -> str:
    """The page of the documentation: what is in the table, and what came of the samples."""
    counted = "all samples" if limit is None else f"up to {limit} samples"
    families = "\n".join(f"| `{name}` | {', '.join(listed)} |" for name, listed in _families())
    return f"""# Operators of PyTorch

What `intaglio.torch` translates, judged by PyTorch's own samples. This page is written by
`python -m intaglio.torch.opinfo --table docs/aten.md`; it shows {counted} of each operator in {dtypes}.
A sample passes where its results are PyTorch's; it is refused where an operator in it is left to PyTorch, for the
reason given. None may differ. What PyTorch itself cannot trace is not counted, nor are random numbers and results that
are not defined.

{summary(verdicts)}

## ATen operators that are translated

PyTorch takes others apart into these where it knows how.

| family | operators |
|---|---|
{families}

## Samples

{table(verdicts)}"""


def _families() -> list[tuple[str, list[str]]]:
    """The names of operators by the module that has their functions."""
    found: dict[str, list[str]] = {}
    for name, rule in TABLE.items():
        found.setdefault(rule.__module__.rpartition(".")[2], []).append(
            name.removeprefix("aten.").removesuffix(".default")
        )
    return [(family, sorted(names)) for family, names in sorted(found.items())]


def table(verdicts: Sequence[Verdict]) -> str:
    """A row for each operator: how many of its samples pass, and the first reason where some do not."""
    rows: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.outcome not in ("not traced", "no samples"):
            rows.setdefault(verdict.name, []).append(verdict)
    lines = ["| operator | samples that pass | why others do not |", "|---|---|---|"]
    for name in sorted(rows):
        passing = sum(verdict.outcome == "passes" for verdict in rows[name])
        others = next((v.reason for v in rows[name] if v.outcome != "passes"), "")
        lines.append(f"| {name} | {passing} of {len(rows[name])} | {_cell(others)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "\\[").replace("<", "\\<")


if __name__ == "__main__":
    raise SystemExit(main())

"""Kernels for devices, gathered from models of the official suite: lowered for CUDA, which needs no device."""

from __future__ import annotations

from collections.abc import Iterator

from intaglio.conformance.suite import cases
from intaglio.ir.clone import clone
from intaglio.kernels.faults import Faults
from intaglio.kernels.kernel import Kernel, LibraryCall
from intaglio.kernels.plan import Plan
from intaglio.kernels.repair import lower_safely
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.targets.cuda.functions import ATTENTION, function_of
from intaglio.targets.cuda.target_rules import CudaRules

VARIANTS = {
    "line": ("line_small", "line_large"),
    "row": ("row1_small", "row1_large", "row32_small", "row32_large", "row512_small", "row512_large"),
    "cached": ("cached32_small", "cached256_small", "single32_small", "single256_small"),
    "each": ("each_small", "each_large"),
    "wide": ("wide",),
    "attention": ("even", "any"),
    "tasks": ("tasks",),
}
"""The functions of each form of kernel."""


def lowered(name: str) -> Plan:
    """The plan for a device of one of the suite's models."""
    graph = read_model(cases()[name].model()).graph
    simplify(graph)
    return lower_safely(lambda: clone(graph), CudaRules(), Faults())


def printed_kernels(plan: Plan) -> list[Kernel]:
    """The kernels of a plan that are CUDA C++ of our own."""
    return [k for k in plan.kernels if not isinstance(k.body, LibraryCall) or k.body.name == ATTENTION]


def variants_of(kernel: Kernel) -> Iterator[str]:
    """Every function of a kernel that some sizes start."""
    from intaglio.targets.cuda.printing import printed

    body, function = kernel.body, function_of(kernel)
    if isinstance(body, LibraryCall):
        yield from VARIANTS["attention"]
    elif kernel.loops is None:
        yield from VARIANTS["tasks"]
    elif kernel.loops.scans:
        yield from VARIANTS["line"]
    elif kernel.loops.has_reduction:
        yield from VARIANTS["row"]
        yield from VARIANTS["cached"] if printed(kernel.loops).row_pack else ()
    else:
        yield from VARIANTS["each"]
        yield from VARIANTS["wide"] if printed(kernel.loops).pack > 1 else ()
    assert function.text

"""Kernels as values: equal where they compute the same, and printed after lowering."""

import onnx.parser

from intaglio.kernels.kernel import FileKernel, Kernel
from intaglio.kernels.lower import lower
from intaglio.onnx.reader import read_model
from intaglio.targets.c.kernel_source import kernel_source
from intaglio.targets.c.target import TARGETS
from intaglio.targets.c.target_rules import CRules


def kernels_of(body: str) -> list[Kernel]:
    head = (
        '<ir_version: 10, opset_import: ["" : 21]>\nmodel (float[n, 8] x, float[8, 8] w, float[8] b) => (float[n, 8] y)'
    )
    graph = read_model(onnx.parser.parse_model(f"{head} {{\n{body}\n}}").SerializeToString()).graph
    return lower(graph, CRules(TARGETS["avx2"])).kernels


def test_equal_calls_share_one_kernel() -> None:
    (kernel,) = kernels_of("p = MatMul (x, w)\nq = Add (p, b)\nr = MatMul (q, w)\ny = Add (r, b)")
    assert isinstance(kernel.body, FileKernel)
    assert kernel.body.name == "gemm"
    assert dict(kernel.body.parameters)["ELEMENT"] == "float"


def test_kernels_of_two_lowerings_are_equal_and_other_epilogues_are_not() -> None:
    (one,) = kernels_of("p = MatMul (x, w)\ny = Add (p, b)")
    (same,) = kernels_of("q = MatMul (x, w)\ny = Add (q, b)")
    (other,) = kernels_of("p = MatMul (x, w)\ny = Mul (p, b)")
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert kernel_source(one) is kernel_source(same), "the text is made once"
    assert kernel_source(one) != kernel_source(other)

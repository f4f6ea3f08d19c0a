"""Every rule: text in, text out; the harness verifies the graph and runs it before and after."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from intaglio.passes import PIPELINE, Report

CASES: dict[str, tuple[str, str, str]] = {}
"""The passes to run, the graph before and the body of the graph after, by rule (and variant behind a space)."""

Check = Callable[[str, str, str], Report]

CASES["fold"] = (
    "fold-constants",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %s = Add(float32[3] {1.0, 2.0, 3.0}, float32[] {1.0})
      %y = Mul(%x, %s)
    }
    """,
    """
    %s: float32[3] = {2.0, 3.0, 4.0}
    %y: float32[N, 3] = Mul(%x, %s)
    """,
)

CASES["fold-known-integers"] = (
    "fold-shapes",
    """
    graph "g" (%x: float32[2, 3], %z: float32[N, 6]) -> (%y, %n) {
      %s = Shape(%x)
      %k = Gather(%s, int64[] {1})
      %t = Unsqueeze(%k, int64[1] {0})
      %m = Mul(%t, int64[1] {2})
      %u = Concat(int64[1] {-1}, %m; axis=0)
      %y = Reshape(%x, int64[1] {6})
      %v = Reshape(%z, %u)
      %n = Relu(%v)
    }
    """,
    """
    %constant_4: int64[1] = {6}
    %y: float32[6] = Reshape(%x, %constant_4)
    %u: int64[2] = {-1, 6}
    %v: float32[N, 6] = Reshape(%z, %u)
    %n: float32[N, 6] = Relu(%v)
    """,
)

CASES["constant-target"] = (
    "fold-shapes dead-code",
    """
    graph "g" (%x: float32[N, M, 6]) -> (%y) {
      %s = Shape(%x)
      %n, %m, %k = Split(%s, int64[3] {1, 1, 1})
      %t = Concat(%n, int64[1] {2}, %m, int64[1] {3}; axis=0)
      %y = Reshape(%x, %t)
    }
    """,
    """
    %t_1: int64[4] = {0, 2, -1, 3}
    %y: float32[N, 2, M, 3] = Reshape(%x, %t_1)
    """,
)

CASES["identity"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Identity(%x)
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["identity of-an-input"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y, %z) {
      %y = Identity(%x)
      %z = Relu(%y)
    }
    """,
    """
    %y: float32[N, 3] = Identity(%x)
    %z: float32[N, 3] = Relu(%x)
    """,
)

CASES["single-operand"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Sum(%x)
      %b = Concat(%a; axis=0)
      %y = Relu(%b)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["dropout"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a, %m = Dropout(%x, float32[] {0.5}, bool[] {false})
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["same-cast"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Cast(%x; to=1)
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["cast-back"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Cast(%x; to=11)
      %b = Cast(%a; to=1)
      %y = Relu(%b)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["same-shape"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Reshape(%x, int64[2] {-1, 3})
      %b = Expand(%a, int64[2] {1, 1})
      %y = Relu(%b)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["view-of-view"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 4]) -> (%y, %z) {
      %a = Unsqueeze(%x, int64[1] {1})
      %b = Squeeze(%a, int64[1] {1})
      %y = Relu(%b)
      %c = Reshape(%x, int64[3] {-1, 2, 2})
      %d = Flatten(%c; axis=2)
      %z = Relu(%d)
    }
    """,
    """
    %y: float32[N, 4] = Relu(%x)
    %shape: int64[2] = {-1, 2}
    %d: float32[2*N, 2] = Reshape(%x, %shape)
    %z: float32[2*N, 2] = Relu(%d)
    """,
)

CASES["same-order"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Transpose(%x; perm=[0, 1])
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["transpose-of-transpose"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3, 4]) -> (%y, %z) {
      %a = Transpose(%x; perm=[1, 2, 0])
      %b = Transpose(%a; perm=[0, 2, 1])
      %y = Relu(%b)
      %c = Transpose(%a; perm=[2, 0, 1])
      %z = Relu(%c)
    }
    """,
    """
    %b: float32[3, N, 4] = Transpose(%x; perm=[1, 0, 2])
    %y: float32[3, N, 4] = Relu(%b)
    %z: float32[N, 3, 4] = Relu(%x)
    """,
)

CASES["split-transpose-merge"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[5, 4, 6], %n: float32[N, 4, 6]) -> (%y, %z, %u) {
      %a = Reshape(%x, int64[3] {5, 8, 3})
      %b = Transpose(%a; perm=[1, 0, 2])
      %y = Reshape(%b, int64[4] {4, 2, 5, 3})
      %c = Unsqueeze(%x, int64[1] {2})
      %d = Transpose(%c; perm=[2, 1, 0, 3])
      %z = Reshape(%d, int64[2] {20, 6})
      %e = Reshape(%n, int64[3] {0, 8, 3})
      %f = Transpose(%e; perm=[1, 0, 2])
      %u = Reshape(%f, int64[4] {4, 2, -1, 3})
    }
    """,
    """
    %shape: int64[4] = {5, 4, 2, 3}
    %reshape: float32[5, 4, 2, 3] = Reshape(%x, %shape)
    %y: float32[4, 2, 5, 3] = Transpose(%reshape; perm=[1, 2, 0, 3])
    %transpose_1: float32[4, 5, 6] = Transpose(%x; perm=[1, 0, 2])
    %shape_3: int64[2] = {20, 6}
    %z: float32[20, 6] = Reshape(%transpose_1, %shape_3)
    %shape_4: int64[4] = {0, 4, 2, 3}
    %reshape_4: float32[N, 4, 2, 3] = Reshape(%n, %shape_4)
    %u: float32[4, 2, N, 3] = Transpose(%reshape_4; perm=[1, 2, 0, 3])
    """,
)

CASES["transpose-of-concat"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[1, N, 4], %y: float32[2, N, 4]) -> (%z, %last) {
      %a = Concat(%x, %y; axis=0)
      %b = Transpose(%a; perm=[1, 0, 2])
      %z = Relu(%b)
      %c = Concat(%x, %x; axis=-1)
      %d = Transpose(%c; perm=[1, 0, 2])
      %last = Relu(%d)
    }
    """,
    """
    %transpose: float32[N, 1, 4] = Transpose(%x; perm=[1, 0, 2])
    %transpose_1: float32[N, 2, 4] = Transpose(%y; perm=[1, 0, 2])
    %b: float32[N, 3, 4] = Concat(%transpose, %transpose_1; axis=1)
    %z: float32[N, 3, 4] = Relu(%b)
    %c: float32[1, N, 8] = Concat(%x, %x; axis=-1)
    %d: float32[N, 1, 8] = Transpose(%c; perm=[1, 0, 2])
    %last: float32[N, 1, 8] = Relu(%d)
    """,
)

CASES["empty-pad"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Pad(%x, int64[4] {0, 0, 0, 0})
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["whole-slice"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y, %z) {
      %a = Slice(%x, int64[1] {0}, int64[1] {9223372036854775807}, int64[1] {1})
      %y = Relu(%a)
      %b = Slice(%x, int64[1] {-1}, int64[1] {-9223372036854775807}, int64[1] {1}, int64[1] {-1})
      %z = Relu(%b)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    %constant_3: int64[1] = {-1}
    %constant_4: int64[1] = {-9223372036854775807}
    %constant_5: int64[1] = {1}
    %constant_6: int64[1] = {-1}
    %b: float32[N, 3] = Slice(%x, %constant_3, %constant_4, %constant_5, %constant_6)
    %z: float32[N, 3] = Relu(%b)
    """,
)

CASES["tile-once"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Tile(%x, int64[2] {1, 1})
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["clip-without-bounds"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Clip(%x)
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["constant-condition"] = (
    "constant-control",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %c: bool[] = {true}
      %y = If(%c; then_branch=graph "then" () -> (%p) {
      %p = Relu(%x)
      }, else_branch=graph "else" () -> (%q) {
      %q = Neg(%x)
      })
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["multiply-by-one"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Mul(float32[1, 1] {1.0}, %x)
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["divide-by-one"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Div(%x, float32[] {1.0})
      %b = Pow(%a, float32[] {1.0})
      %y = Relu(%b)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["subtract-zero"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Sub(%x, float32[] {0.0})
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["add-zero"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3], %n: int64[N]) -> (%y, %m) {
      %a = Add(%x, float32[] {-0.0})
      %y = Relu(%a)
      %b = Add(%n, int64[] {0})
      %m = Abs(%b)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    %m: int64[N] = Abs(%n)
    """,
)

CASES["add-positive-zero"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Add(%x, float32[] {0.0})
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["twice-is-nothing"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3], %c: bool[N]) -> (%y, %d) {
      %a = Neg(%x)
      %b = Neg(%a)
      %y = Relu(%b)
      %e = Not(%c)
      %f = Not(%e)
      %d = And(%f, %c)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    %d: bool[N] = And(%c, %c)
    """,
)

CASES["twice-is-once"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Relu(%x)
      %b = Relu(%a)
      %y = Exp(%b)
    }
    """,
    """
    %a: float32[N, 3] = Relu(%x)
    %y: float32[N, 3] = Exp(%a)
    """,
)

CASES["sum-of-two"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3], %z: float32[3]) -> (%y) {
      %y = Sum(%x, %z)
    }
    """,
    """
    %y: float32[N, 3] = Add(%x, %z)
    """,
)

CASES["abs-of-neg"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Neg(%x)
      %y = Abs(%a)
    }
    """,
    """
    %y: float32[N, 3] = Abs(%x)
    """,
)

CASES["transposed-product"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3], %z: float32[N, 5]) -> (%y) {
      %a = Transpose(%x; perm=[1, 0])
      %b = MatMul(%a, %z)
      %y = Transpose(%b; perm=[1, 0])
    }
    """,
    """
    %transpose: float32[5, N] = Transpose(%z; perm=[1, 0])
    %y: float32[5, 3] = MatMul(%transpose, %x)
    """,
)

CASES["add-negated"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3], %z: float32[3]) -> (%y) {
      %a = Neg(%z)
      %y = Add(%a, %x)
    }
    """,
    """
    %y: float32[N, 3] = Sub(%x, %z)
    """,
)

CASES["subtract-negated"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3], %z: float32[3]) -> (%y) {
      %a = Neg(%z)
      %y = Sub(%x, %a)
    }
    """,
    """
    %y: float32[N, 3] = Add(%x, %z)
    """,
)

CASES["both-negated"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3], %z: float32[3]) -> (%y) {
      %a = Neg(%x)
      %b = Neg(%z)
      %y = Div(%a, %b)
    }
    """,
    """
    %y: float32[N, 3] = Div(%x, %z)
    """,
)

CASES["where-is-decided"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3], %z: float32[N, 3]) -> (%y) {
      %a = Where(bool[1] {false}, %x, %z)
      %y = Relu(%a)
    }
    """,
    """
    %y: float32[N, 3] = Relu(%z)
    """,
)

CASES["divide-by-power-of-two"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %y = Div(%x, float32[] {8.0})
    }
    """,
    """
    %constant_1: float32[] = {0.125}
    %y: float32[N, 3] = Mul(%x, %constant_1)
    """,
)

CASES["square"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %y = Pow(%x, float32[] {2.0})
    }
    """,
    """
    %y: float32[N, 3] = Mul(%x, %x)
    """,
)

CASES["merge-integer-constants"] = (
    "algebra",
    """
    graph "g" (%x: int64[N, 3]) -> (%y) {
      %a = Mul(%x, int64[3] {1, 2, 3})
      %y = Mul(int64[] {4}, %a)
    }
    """,
    """
    %constant_1_1: int64[3] = {4, 8, 12}
    %y: int64[N, 3] = Mul(%x, %constant_1_1)
    """,
)

CASES["merge-float-constants"] = (
    "algebra",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Add(%x, float32[3] {1.0, 2.0, 3.0})
      %y = Add(%a, float32[] {0.5})
    }
    """,
    """
    %constant_1_1: float32[3] = {1.5, 2.5, 3.5}
    %y: float32[N, 3] = Add(%x, %constant_1_1)
    """,
)

CASES["batch-normalization"] = (
    "fuse-batchnorm",
    """
    graph "g" (%x: float32[N, 2, 4, 4]) -> (%y) {
      %w: float32[2, 2, 1, 1] = {1.0, 2.0, 3.0, 4.0}
      %a = Conv(%x, %w, float32[2] {1.0, -1.0})
      %y = BatchNormalization(%a, float32[2] {2.0, 3.0},
          float32[2] {0.5, 0.25}, float32[2] {1.0, 2.0}, float32[2] {3.0, 0.0}; epsilon=1.0)
    }
    """,
    """
    %weight: float32[2, 2, 1, 1] = {1.0, 2.0, 9.0, 12.0}
    %bias: float32[2] = {0.5, -8.75}
    %y: float32[N, 2, 4, 4] = Conv(%x, %weight, %bias)
    """,
)

CASES["batch-normalization of-a-grouped-transposed-convolution"] = (
    "fuse-batchnorm",
    """
    graph "g" (%x: float32[N, 2, 3]) -> (%y) {
      %w: float32[2, 2, 1] = {1.0, 2.0, 3.0, 4.0}
      %a = ConvTranspose(%x, %w; group=2)
      %y = BatchNormalization(%a, float32[4] {2.0, 3.0, 4.0, 5.0},
          float32[4] {0.5, 0.25, 1.0, 1.5}, float32[4] {1.0, 2.0, 0.0, 4.0},
          float32[4] {3.0, 0.0, 0.0, 0.0}; epsilon=1.0)
    }
    """,
    """
    %weight: float32[2, 2, 1] = {1.0, 6.0, 12.0, 20.0}
    %bias: float32[4] = {-0.5, -5.75, 1.0, -18.5}
    %y: float32[N, 4, 3] = ConvTranspose(%x, %weight, %bias; group=2)
    """,
)

CASES["batch-normalization of-a-product"] = (
    "fuse-batchnorm",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %w: float32[2, 3] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
      %a = Gemm(%x, %w, float32[2] {1.0, 2.0}; alpha=0.5, beta=2.0, transB=1)
      %y = BatchNormalization(%a, float32[2] {2.0, 3.0},
          float32[2] {0.5, 0.25}, float32[2] {1.0, 2.0}, float32[2] {3.0, 0.0}; epsilon=1.0)
    }
    """,
    """
    %weight: float32[2, 3] = {1.0, 2.0, 3.0, 12.0, 15.0, 18.0}
    %bias: float32[2] = {1.5, 6.25}
    %y: float32[N, 2] = Gemm(%x, %weight, %bias; alpha=0.5, transB=1)
    """,
)

CASES["parallel-convolutions"] = (
    "merge-branches",
    """
    graph "g" (%x: float32[N, 2, S]) -> (%y) {
      %v: float32[2, 1, 3] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
      %a = Conv(%x, %v; group=2, pads=[1, 1])
      %b = Conv(%x, float32[2, 1, 1] {10.0, 20.0}, float32[2] {1.0, -1.0}; group=2)
      %c = Add(%b, %a)
      %d = BatchNormalization(%x, float32[2] {2.0, 3.0},
          float32[2] {0.5, 0.25}, float32[2] {1.0, 2.0}, float32[2] {3.0, 0.0}; epsilon=1.0)
      %y = Sub(%c, %d)
    }
    """,
    """
    %weight_1: float32[2, 1, 3] = {1.0, 11.0, 3.0, 4.0, 22.0, 6.0}
    %bias_1: float32[2] = {1.5, 4.75}
    %y: float32[N, 2, S] = Conv(%x, %weight_1, %bias_1; group=2, pads=[1, 1])
    """,
)

CASES["gelu-erf"] = (
    "recognise-gelu",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Div(%x, float32[] {1.4142135})
      %b = Erf(%a)
      %c = Add(%b, float32[] {1.0})
      %d = Mul(%x, %c)
      %y = Mul(%d, float32[] {0.5})
    }
    """,
    """
    %y: float32[N, 3] = Gelu(%x)
    """,
)

CASES["gelu-erf with-half-first"] = (
    "recognise-gelu",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %h = Mul(%x, float32[] {0.5})
      %a = Mul(%x, float32[] {0.70710677})
      %b = Erf(%a)
      %c = Add(float32[] {1.0}, %b)
      %y = Mul(%h, %c)
    }
    """,
    """
    %y: float32[N, 3] = Gelu(%x)
    """,
)

CASES["gelu-tanh"] = (
    "recognise-gelu",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %p = Pow(%x, float32[] {3.0})
      %q = Mul(%p, float32[] {0.044715})
      %r = Add(%x, %q)
      %s = Mul(%r, float32[] {0.7978846})
      %t = Tanh(%s)
      %u = Add(%t, float32[] {1.0})
      %h = Mul(%x, float32[] {0.5})
      %y = Mul(%h, %u)
    }
    """,
    """
    %y: float32[N, 3] = Gelu(%x; approximate="tanh")
    """,
)

CASES["gelu-tanh factored"] = (
    "recognise-gelu",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Mul(%x, %x)
      %q = Mul(%a, float32[] {0.044715})
      %r = Add(float32[] {1.0}, %q)
      %v = Mul(%x, float32[] {0.7978846})
      %s = Mul(%v, %r)
      %t = Tanh(%s)
      %u = Add(%t, float32[] {1.0})
      %w = Mul(%x, %u)
      %y = Mul(%w, float32[] {0.5})
    }
    """,
    """
    %y: float32[N, 3] = Gelu(%x; approximate="tanh")
    """,
)

CASES["normalization"] = (
    "recognise-layernorm",
    """
    graph "g" (%x: float32[N, 4]) -> (%y) {
      %m = ReduceMean(%x, int64[1] {-1})
      %d = Sub(%x, %m)
      %p = Pow(%d, float32[] {2.0})
      %v = ReduceMean(%p, int64[1] {-1})
      %e = Add(%v, float32[] {1e-05})
      %r = Sqrt(%e)
      %n = Div(%d, %r)
      %y = Relu(%n)
    }
    """,
    """
    %scale: float32[4] = {1.0, 1.0, 1.0, 1.0}
    %n: float32[N, 4] = LayerNormalization(%x, %scale)
    %y: float32[N, 4] = Relu(%n)
    """,
)

CASES["normalization of-root-mean-square"] = (
    "recognise-layernorm",
    """
    graph "g" (%x: float32[N, 4]) -> (%y) {
      %p = Mul(%x, %x)
      %v = ReduceMean(%p, int64[1] {1})
      %e = Add(%v, float32[] {1e-05})
      %r = Sqrt(%e)
      %i = Reciprocal(%r)
      %n = Mul(%x, %i)
      %y = Mul(float32[4] {1.0, 2.0, 3.0, 4.0}, %n)
    }
    """,
    """
    %constant_2: float32[4] = {1.0, 2.0, 3.0, 4.0}
    %y: float32[N, 4] = RMSNormalization(%x, %constant_2)
    """,
)

CASES["normalization by-a-power"] = (
    "recognise-layernorm",
    """
    graph "g" (%x: float32[N, 4]) -> (%n) {
      %p = Mul(%x, %x)
      %v = ReduceMean(%p, int64[1] {1})
      %e = Add(%v, float32[] {1e-05})
      %i = Pow(%e, float32[] {-0.5})
      %n = Mul(%i, %x)
    }
    """,
    """
    %scale: float32[4] = {1.0, 1.0, 1.0, 1.0}
    %n: float32[N, 4] = RMSNormalization(%x, %scale)
    """,
)

CASES["normalization-scale"] = (
    "recognise-layernorm",
    """
    graph "g" (%x: float32[N, 4], %s: float32[4]) -> (%y) {
      %m = ReduceMean(%x, int64[1] {-1})
      %d = Sub(%x, %m)
      %p = Mul(%d, %d)
      %v = ReduceMean(%p, int64[1] {-1})
      %e = Add(%v, float32[] {1e-05})
      %r = Sqrt(%e)
      %n = Div(%d, %r)
      %y = Mul(%n, %s)
    }
    """,
    """
    %y: float32[N, 4] = LayerNormalization(%x, %s)
    """,
)

CASES["normalization-bias"] = (
    "recognise-layernorm",
    """
    graph "g" (%x: float32[N, 4]) -> (%y) {
      %m = ReduceMean(%x, int64[1] {-1})
      %d = Sub(%x, %m)
      %p = Mul(%d, %d)
      %v = ReduceMean(%p, int64[1] {-1})
      %e = Add(%v, float32[] {1e-05})
      %r = Sqrt(%e)
      %n = Div(%d, %r)
      %g = Mul(%n, float32[4] {1.0, 2.0, 3.0, 4.0})
      %y = Add(float32[4] {0.5, 0.25, 0.0, -1.0}, %g)
    }
    """,
    """
    %constant_3: float32[4] = {1.0, 2.0, 3.0, 4.0}
    %constant_4: float32[4] = {0.5, 0.25, 0.0, -1.0}
    %y: float32[N, 4] = LayerNormalization(%x, %constant_3, %constant_4)
    """,
)

CASES["attention"] = (
    "recognise-attention",
    """
    graph "g" (%q: float32[N, 2, S, 4], %k: float32[N, 2, M, 4], %v: float32[N, 2, M, 5]) -> (%y) {
      %t = Transpose(%k; perm=[0, 1, 3, 2])
      %a = MatMul(%q, %t)
      %b = Div(%a, float32[] {2.0})
      %p = Softmax(%b)
      %y = MatMul(%p, %v)
    }
    """,
    """
    %t: float32[N, 2, 4, M] = Transpose(%k; perm=[0, 1, 3, 2])
    %transpose: float32[N, 2, M, 4] = Transpose(%t; perm=[0, 1, 3, 2])
    %y: float32[N, 2, S, 5] = Attention(%q, %transpose, %v; scale=0.5)
    """,
)

CASES["attention with-an-additive-mask"] = (
    "recognise-attention remove-noops",
    """
    graph "g" (%q: float32[N, 2, S, 4], %k: float32[N, M, 2, 4], %v: float32[N, 2, M, 5],
        %m: float32[N, 1, S, M]) -> (%y) {
      %t = Transpose(%k; perm=[0, 2, 3, 1])
      %c = Mul(%q, float32[] {0.70710677})
      %d = Mul(%t, float32[] {0.70710677})
      %a = MatMul(%c, %d)
      %b = Add(%m, %a)
      %p = Softmax(%b; axis=3)
      %y = MatMul(%p, %v)
    }
    """,
    """
    %t: float32[N, 2, 4, M] = Transpose(%k; perm=[0, 2, 3, 1])
    %transpose: float32[N, 2, M, 4] = Transpose(%t; perm=[0, 1, 3, 2])
    %y: float32[N, 2, S, 5] = Attention(%q, %transpose, %v, %m; scale=0.49999997)
    """,
)

CASES["attention with-a-boolean-mask"] = (
    "recognise-attention",
    """
    graph "g" (%q: float32[N, 2, S, 4], %t: float32[N, 2, 4, M], %v: float32[N, 2, M, 5], %m: bool[S, M]) -> (%y) {
      %a = MatMul(%q, %t)
      %b = Where(%m, float32[] {-3.4028235e+38}, %a)
      %p = Softmax(%b)
      %y = MatMul(%p, %v)
    }
    """,
    """
    %constant_2: float32[] = {-3.4028235e+38}
    %constant_1: float32[] = {0.0}
    %where: float32[S, M] = Where(%m, %constant_2, %constant_1)
    %transpose: float32[N, 2, M, 4] = Transpose(%t; perm=[0, 1, 3, 2])
    %y: float32[N, 2, S, 5] = Attention(%q, %transpose, %v, %where; scale=1.0)
    """,
)

CASES["sigmoid"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Neg(%x)
      %b = Exp(%a)
      %c = Add(%b, float32[] {1.0})
      %y = Reciprocal(%c)
    }
    """,
    """
    %y: float32[N, 3] = Sigmoid(%x)
    """,
)

CASES["swish"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Mul(%x, float32[] {1.702})
      %b = Sigmoid(%a)
      %y = Mul(%x, %b)
    }
    """,
    """
    %y: float32[N, 3] = Swish(%x; alpha=1.702)
    """,
)

CASES["mish"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Softplus(%x)
      %b = Tanh(%a)
      %y = Mul(%x, %b)
    }
    """,
    """
    %y: float32[N, 3] = Mish(%x)
    """,
)

CASES["softplus"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Exp(%x)
      %b = Add(%a, float32[] {1.0})
      %y = Log(%b)
    }
    """,
    """
    %y: float32[N, 3] = Softplus(%x)
    """,
)

CASES["hard-sigmoid"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Add(%x, float32[] {3.0})
      %b = Clip(%a, float32[] {0.0}, float32[] {6.0})
      %y = Div(%b, float32[] {6.0})
    }
    """,
    """
    %y: float32[N, 3] = HardSigmoid(%x; alpha=0.16666667)
    """,
)

CASES["hard-swish"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = HardSigmoid(%x; alpha=0.16666667, beta=0.5)
      %y = Mul(%a, %x)
    }
    """,
    """
    %y: float32[N, 3] = HardSwish(%x)
    """,
)

CASES["hard-swish-of-clip"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %a = Add(%x, float32[] {3.0})
      %b = Clip(%a, float32[] {0.0}, float32[] {6.0})
      %c = Mul(%x, %b)
      %y = Div(%c, float32[] {6.0})
    }
    """,
    """
    %y: float32[N, 3] = HardSwish(%x)
    """,
)

CASES["relu-of-clip"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %y = Clip(%x, float32[] {0.0})
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["relu-of-max"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %y = Max(%x, float32[1] {0.0})
    }
    """,
    """
    %y: float32[N, 3] = Relu(%x)
    """,
)

CASES["clip-of-relu"] = (
    "recognise-activations",
    """
    graph "g" (%x: float32[N, 3]) -> (%y, %z) {
      %a = Relu(%x)
      %y = Min(%a, float32[] {6.0})
      %b = Relu(%y)
      %z = Clip(%b, _, float32[] {3.0})
    }
    """,
    """
    %constant_2: float32[] = {0.0}
    %constant_3: float32[] = {6.0}
    %y: float32[N, 3] = Clip(%x, %constant_2, %constant_3)
    %constant_4: float32[] = {0.0}
    %constant_5: float32[] = {3.0}
    %z: float32[N, 3] = Clip(%y, %constant_4, %constant_5)
    """,
)

CASES["attention of-rank-3"] = (
    "recognise-attention",
    """
    graph "g" (%q: float32[N, S, 4], %t: float32[N, 4, M], %v: float32[N, M, 5], %m: float32[S, M]) -> (%y) {
      %a = MatMul(%q, %t)
      %s = Mul(%a, float32[] {0.5})
      %b = Add(%s, %m)
      %p = Softmax(%b)
      %y = MatMul(%p, %v)
    }
    """,
    """
    %constant_1: int64[1] = {0}
    %unsqueeze: float32[1, N, S, 4] = Unsqueeze(%q, %constant_1)
    %constant_2: int64[1] = {0}
    %unsqueeze_1: float32[1, N, 4, M] = Unsqueeze(%t, %constant_2)
    %constant_3: int64[1] = {0}
    %unsqueeze_2: float32[1, N, M, 5] = Unsqueeze(%v, %constant_3)
    %transpose: float32[1, N, M, 4] = Transpose(%unsqueeze_1; perm=[0, 1, 3, 2])
    %attention: float32[1, N, S, 5] = Attention(%unsqueeze, %transpose, %unsqueeze_2, %m; scale=0.5)
    %constant_4: int64[1] = {0}
    %y: float32[N, S, 5] = Squeeze(%attention, %constant_4)
    """,
)

CASES["integer-convolution"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: uint8[N, 2, 4, 5]) -> (%y) {
      %d = DequantizeLinear(%x, float32[] {0.5}, uint8[] {3})
      %w = DequantizeLinear(int8[2, 2, 1, 1] {1, 2, 3, 4}, float32[2] {0.25, 0.125}, int8[2] {0, 0}; axis=0)
      %c = DequantizeLinear(int32[2] {5, 6}, float32[2] {0.125, 0.0625}; axis=0)
      %y = Conv(%d, %w, %c)
    }
    """,
    """
    %constant_2: int8[2, 2, 1, 1] = {1, 2, 3, 4}
    %constant_7: uint8[] = {3}
    %convinteger: int32[N, 2, 4, 5] = ConvInteger(%x, %constant_2, %constant_7)
    %constant_8: int32[2, 1, 1] = {5, 6}
    %add: int32[N, 2, 4, 5] = Add(%convinteger, %constant_8)
    %cast: float32[N, 2, 4, 5] = Cast(%add; to=1)
    %constant_9: float32[2, 1, 1] = {0.125, 0.0625}
    %y: float32[N, 2, 4, 5] = Mul(%cast, %constant_9)
    """,
)

CASES["integer-convolution with a bias of floats"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: uint8[N, 2, 4, 5], %c: float32[2]) -> (%y) {
      %d = DequantizeLinear(%x, float32[] {0.5}, uint8[] {3})
      %w = DequantizeLinear(int8[2, 2, 1, 1] {1, 2, 3, 4}, float32[] {0.25}, int8[] {1})
      %y = Conv(%d, %w, %c)
    }
    """,
    """
    %constant_2: int8[2, 2, 1, 1] = {1, 2, 3, 4}
    %constant_5: uint8[] = {3}
    %constant_6: int8[] = {1}
    %convinteger: int32[N, 2, 4, 5] = ConvInteger(%x, %constant_2, %constant_5, %constant_6)
    %cast: float32[N, 2, 4, 5] = Cast(%convinteger; to=1)
    %constant_7: float32[] = {0.125}
    %mul: float32[N, 2, 4, 5] = Mul(%cast, %constant_7)
    %constant_8: int64[3] = {-1, 1, 1}
    %reshape: float32[2, 1, 1] = Reshape(%c, %constant_8)
    %y: float32[N, 2, 4, 5] = Add(%mul, %reshape)
    """,
)

CASES["integer-product"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: uint8[N, 2], %w: int8[2, 3]) -> (%y) {
      %d = DequantizeLinear(%x, float32[] {0.5}, uint8[] {3})
      %e = DequantizeLinear(%w, float32[] {0.25})
      %y = MatMul(%d, %e)
    }
    """,
    """
    %constant_3: uint8[] = {3}
    %matmulinteger: int32[N, 3] = MatMulInteger(%x, %w, %constant_3)
    %cast: float32[N, 3] = Cast(%matmulinteger; to=1)
    %constant_4: float32[] = {0.125}
    %y: float32[N, 3] = Mul(%cast, %constant_4)
    """,
)

CASES["integer-gemm"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: uint8[N, 2], %w: int8[3, 2]) -> (%y) {
      %d = DequantizeLinear(%x, float32[] {0.5}, uint8[] {3})
      %e = DequantizeLinear(%w, float32[] {0.25})
      %c = DequantizeLinear(int32[3] {5, 6, 7}, float32[] {0.125})
      %y = Gemm(%d, %e, %c; transB=1)
    }
    """,
    """
    %transpose: int8[2, 3] = Transpose(%w; perm=[1, 0])
    %constant_5: uint8[] = {3}
    %matmulinteger: int32[N, 3] = MatMulInteger(%x, %transpose, %constant_5)
    %constant_6: int32[3] = {5, 6, 7}
    %add: int32[N, 3] = Add(%matmulinteger, %constant_6)
    %cast: float32[N, 3] = Cast(%add; to=1)
    %constant_7: float32[] = {0.125}
    %y: float32[N, 3] = Mul(%cast, %constant_7)
    """,
)

CASES["scale-into-factor"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: int32[N, 2]) -> (%y) {
      %f = Cast(%x; to=1)
      %m = Mul(%f, float32[2] {0.5, 0.25})
      %a = Add(%m, float32[2] {1.0, 2.0})
      %y = QuantizeLinear(%a, float32[] {0.5}, uint8[] {3})
    }
    """,
    """
    %f: float32[N, 2] = Cast(%x; to=1)
    %constant_4: float32[2] = {1.0, 0.5}
    %mul: float32[N, 2] = Mul(%f, %constant_4)
    %constant_5: float32[2] = {2.0, 4.0}
    %add: float32[N, 2] = Add(%mul, %constant_5)
    %constant_6: float32[] = {1.0}
    %constant_3: uint8[] = {3}
    %y: uint8[N, 2] = QuantizeLinear(%add, %constant_6, %constant_3)
    """,
)

CASES["scale-into-sum"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: uint8[N, 2], %z: int8[N, 2]) -> (%y) {
      %d = DequantizeLinear(%x, float32[] {0.5}, uint8[] {3})
      %e = DequantizeLinear(%z, float32[] {0.25}, int8[] {1})
      %a = Add(%d, %e)
      %y = QuantizeLinear(%a, float32[] {0.5}, uint8[] {3})
    }
    """,
    """
    %constant_6: float32[] = {1.0}
    %constant_1: uint8[] = {3}
    %dequantizelinear: float32[N, 2] = DequantizeLinear(%x, %constant_6, %constant_1)
    %constant_7: float32[] = {0.5}
    %constant_3: int8[] = {1}
    %dequantizelinear_1: float32[N, 2] = DequantizeLinear(%z, %constant_7, %constant_3)
    %add: float32[N, 2] = Add(%dequantizelinear, %dequantizelinear_1)
    %constant_8: float32[] = {1.0}
    %constant_5: uint8[] = {3}
    %y: uint8[N, 2] = QuantizeLinear(%add, %constant_8, %constant_5)
    """,
)

CASES["rectified"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: float32[N, 2]) -> (%y) {
      %r = Relu(%x)
      %y = QuantizeLinear(%r, float32[] {0.5}, uint8[] {3})
    }
    """,
    """
    %constant: float32[] = {0.5}
    %constant_1: uint8[] = {3}
    %quantizelinear: uint8[N, 2] = QuantizeLinear(%x, %constant, %constant_1)
    %constant_2: uint8[] = {3}
    %y: uint8[N, 2] = Max(%quantizelinear, %constant_2)
    """,
)

CASES["rectified from the lowest"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: float32[N, 2]) -> (%y) {
      %r = Relu(%x)
      %y = QuantizeLinear(%r, float32[] {0.5}, uint8[] {0})
    }
    """,
    """
    %constant: float32[] = {0.5}
    %constant_1: uint8[] = {0}
    %y: uint8[N, 2] = QuantizeLinear(%x, %constant, %constant_1)
    """,
)

CASES["moved"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: uint8[N, 2, 4]) -> (%y) {
      %d = DequantizeLinear(%x, float32[] {0.5}, uint8[] {3})
      %t = Transpose(%d; perm=[0, 2, 1])
      %y = QuantizeLinear(%t, float32[] {0.5}, uint8[] {3})
    }
    """,
    """
    %y: uint8[N, 4, 2] = Transpose(%x; perm=[0, 2, 1])
    """,
)

CASES["moved with several inputs"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: uint8[N, 2], %z: uint8[N, 3]) -> (%y) {
      %d = DequantizeLinear(%x, float32[] {0.5}, uint8[] {3})
      %e = DequantizeLinear(%z, float32[] {0.5}, uint8[] {3})
      %t = Concat(%d, %e; axis=1)
      %y = QuantizeLinear(%t, float32[] {0.5}, uint8[] {3})
    }
    """,
    """
    %y: uint8[N, 5] = Concat(%x, %z; axis=1)
    """,
)

CASES["quantized-again"] = (
    "integer-arithmetic",
    """
    graph "g" (%x: uint8[N, 2]) -> (%y) {
      %d = DequantizeLinear(%x, float32[] {0.5}, uint8[] {3})
      %q = QuantizeLinear(%d, float32[] {0.5}, uint8[] {3})
      %y = BitwiseNot(%q)
    }
    """,
    """
    %y: uint8[N, 2] = BitwiseNot(%x)
    """,
)

CASES["reduction-of-one"] = (
    "remove-noops",
    """
    graph "g" (%x: float32[N, 1, 3, 1]) -> (%y, %z) {
      %a = ReduceSum(%x, int64[2] {1, -1}; keepdims=0)
      %y = Relu(%a)
      %b = ReduceMax(%x, int64[1] {3})
      %c = ReduceMean(%b, int64[1] {2}; keepdims=0)
      %z = Relu(%c)
    }
    """,
    """
    %constant_3: int64[2] = {1, 3}
    %a: float32[N, 3] = Squeeze(%x, %constant_3)
    %y: float32[N, 3] = Relu(%a)
    %constant_2: int64[1] = {2}
    %c: float32[N, 1, 1] = ReduceMean(%x, %constant_2; keepdims=0)
    %z: float32[N, 1, 1] = Relu(%c)
    """,
)

CASES["part-of-split"] = (
    "sequences",
    """
    graph "g" (%x: float32[N, 3]) -> (%y) {
      %s = SplitToSequence(%x; axis=1)
      %y = SequenceAt(%s, int64[] {-1})
    }
    """,
    """
    %constant: int64[] = {-1}
    %cast: int64[] = Cast(%constant; to=7)
    %constant_1: int64[1] = {1}
    %reshape: int64[1] = Reshape(%cast, %constant_1)
    %y: float32[N, 1] = Gather(%x, %reshape; axis=1)
    """,
)

CASES["length-of-split"] = (
    "sequences",
    """
    graph "g" (%x: float32[N, 3]) -> (%n) {
      %s = SplitToSequence(%x, int64[3] {1, 1, 1}; axis=1)
      %n = SequenceLength(%s)
    }
    """,
    """
    %shape: int64[1] = Shape(%x; start=1, end=2)
    %constant_1: int64[0] = {}
    %n: int64[] = Reshape(%shape, %constant_1)
    """,
)

CASES["repeated-rows"] = (
    "sequences",
    """
    graph "g" (%x: float32[N, 3], %k: int64[N]) -> (%y) {
      %c = Abs(%k)
      %n = Shape(%x; start=0, end=1)
      %e = SequenceEmpty()
      %s = Loop(%n, _, %e; body=graph "b" (%i: int64[1], %o: bool[], %l: seq(float32[...])) -> (%o, %q) {
        %d = Gather(%c, %i)
        %r = Gather(%x, %i)
        %u = Unsqueeze(%r, int64[1] {1})
        %t = Concat(int64[1] {1}, %d, int64[1] {3}; axis=0)
        %w = Expand(%u, %t)
        %f = Reshape(%w, int64[2] {-1, 3})
        %q = SequenceInsert(%l, %f)
      })
      %y = ConcatFromSequence(%s; axis=0)
    }
    """,
    """
    %c: int64[N] = Abs(%k)
    %constant_4: int64[1] = {0}
    %reducemin: int64[1] = ReduceMin(%c, %constant_4)
    %constant_5: int64[1] = {0}
    %less: bool[1] = Less(%reducemin, %constant_5)
    %constant_6: int64[1] = {0}
    %reducesum: int64[1] = ReduceSum(%c, %constant_6)
    %constant_8: int64[1] = {1}
    %add: int64[1] = Add(%reducesum, %constant_8)
    %constant_7: int64[1] = {-1}
    %where: int64[1] = Where(%less, %constant_7, %add)
    %constantofshape: int64['constantofshape.0'] = ConstantOfShape(%where; value=tensor int64[1] {0})
    %constant_9: int64[] = {0}
    %cumsum: int64[N] = CumSum(%c, %constant_9; exclusive=1)
    %shape: int64[1] = Shape(%c)
    %constantofshape_1: int64[N] = ConstantOfShape(%shape; value=tensor int64[1] {1})
    %scatterelements: int64['constantofshape.0'] = ScatterElements(%constantofshape, %cumsum, %constantofshape_1; reduction="add")
    %constant_10: int64[1] = {0}
    %constant_11: int64[1] = {0}
    %slice: int64['slice.0'] = Slice(%scatterelements, %constant_10, %reducesum, %constant_11)
    %constant_12: int64[] = {0}
    %cumsum_1: int64['slice.0'] = CumSum(%slice, %constant_12)
    %constant_13: int64[1] = {1}
    %sub: int64['slice.0'] = Sub(%cumsum_1, %constant_13)
    %y: float32['slice.0', 3] = Gather(%x, %sub)
    """,  # noqa: E501 (a line is a node)
)


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str, check: Check) -> None:
    passes, before, after = CASES[name]
    report = check(passes, before, after)
    rule = name.split()[0]
    assert rule in {event.rule for events in report.applied.values() for event in events}


def test_every_rule_has_a_case() -> None:
    rules = {rule.name for each in PIPELINE for rule in each.rules}
    assert rules == {name.split()[0] for name in CASES}


def test_every_rule_says_its_algebra() -> None:
    for each in PIPELINE:
        for rule in each.rules:
            assert "->" in rule.algebra, rule.name

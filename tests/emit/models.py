"""Small models in ONNX's text for tests of exporters."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper


def parse(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    """A model of opset 22 with weights by name."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def drawn(*shape: int) -> np.ndarray:
    """Weights that are the same each time."""
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def convolution() -> onnx.ModelProto:
    return parse(
        """net (float[N, 3, 8, 8] image) => (float[N, 4] scores) {
            c = Conv <strides=[2, 2], pads=[1, 1, 1, 1]> (image, cw, cb)
            r = Relu(c)
            p = GlobalAveragePool(r)
            f = Flatten(p)
            g = Gemm <transB=1> (f, fw, fb)
            scores = Softmax(g)
        }""",
        cw=drawn(5, 3, 3, 3),
        cb=drawn(5),
        fw=drawn(4, 5),
        fb=drawn(4),
    )


def shapes() -> onnx.ModelProto:
    return parse(
        """net (float[batch, seq, 12] x) => (float[batch, 3, seq, 4] y) {
            s = Shape(x)
            n = Gather <axis=0> (s, zero)
            t = Gather <axis=0> (s, one)
            n1 = Unsqueeze(n, axis)
            t1 = Unsqueeze(t, axis)
            target = Concat <axis=0> (n1, t1, three, four)
            r = Reshape(x, target)
            y = Transpose <perm=[0, 2, 1, 3]> (r)
        }""",
        zero=np.array(0),
        one=np.array(1),
        axis=np.array([0]),
        three=np.array([3]),
        four=np.array([4]),
    )


def loop() -> onnx.ModelProto:
    return parse(
        """net (float[2] x, int64 count, bool flag) => (float[2] last, float[m, 2] rows, float[2] chosen) {
            last, rows = Loop(count, , x) <body = body (int64 i, bool go, float[2] v)
                => (bool again, float[2] w, float[2] row) {
                again = Identity(go) w = Add(v, step) row = Mul(w, w) }>
            chosen = If(flag) <then_branch = t () => (float[2] p) { p = Neg(last) },
                else_branch = e () => (float[2] q) { q = Exp(x) }>
        }""",
        step=np.array([0.5, 0.25], np.float32),
    )


def recurrent() -> onnx.ModelProto:
    return parse(
        """net (float[T, N, 3] x) => (float[T, 2, N, 4] y, float[2, N, 4] h) {
            y, h, c = LSTM <hidden_size=4, direction="bidirectional"> (x, w, r, b) }""",
        w=drawn(2, 16, 3),
        r=drawn(2, 16, 4),
        b=drawn(2, 32),
    )


def open_rank(axes: int, auto_pad: str = "NOTSET") -> onnx.ModelProto:
    """A convolution and reductions of what has one rank in one branch and another in the other."""
    sizes = ", ".join(["8"] * axes)
    pads = f"pads={[1] * 2 * axes}" if auto_pad == "NOTSET" else f'auto_pad="{auto_pad}"'
    return parse(
        f"""net (float[2, 3, {sizes}] x, bool flag) => (float y, float z) {{
            r = If(flag) <then_branch = t () => (float p) {{ p = Relu(x) }},
                else_branch = e () => (float q) {{ q = Flatten(x) }}>
            c = Conv <{pads}> (r, w, b)
            y = ReduceMean(c, last) z = ReduceMax(c, last) }}""",
        w=drawn(4, 3, *[3] * axes),
        b=drawn(4),
        last=np.array([1]),
    )


MODELS = {"convolution": convolution, "shapes": shapes, "loop": loop, "recurrent": recurrent}
"""The models of the snapshots."""

FEEDS = {
    "convolution": [drawn(2, 3, 8, 8)],
    "shapes": [drawn(2, 5, 12)],
    "loop": [drawn(2), np.array(3), np.array(True)],
    "recurrent": [drawn(6, 2, 3)],
}

"""Older versions of operators with subgraphs, judged by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

SCAN = """
<ir_version: 6, opset_import: ["" : 8]>
g ({lens}float[B, 2] s, float[B, T, 2] x, float[B, T, 2] z) => (float[B, 2] y, float[B, T, 2] o) {{
    y, o = Scan <num_scan_inputs = 2, directions = [0, {back}],
        body = b (float[2] state, float[2] a, float[2] c) => (float[2] next, float[2] q) {{
            t = Add (state, a)
            next = Mul (t, c)
            q = Neg (next)
        }}
    > ({given}, s, x, z)
}}"""


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("lengths", [None, [3, 1], [2, 3]])
def test_scan_8_scans_each_element_of_a_batch(back, lengths):
    given = ("int64[B] lens, ", "lens") if lengths is not None else ("", "")
    model = onnx.parser.parse_model(SCAN.format(lens=given[0], given=given[1], back=back))
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in [(2, 2), (2, 3, 2), (2, 3, 2)]]
    inputs = inputs if lengths is None else [np.array(lengths, np.int64), *inputs]
    results = evaluate(read_model(model).graph, inputs)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [info.name for info in session.get_inputs()]
    expected = map(np.asarray, session.run(None, dict(zip(names, inputs, strict=True))))
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("opset", [8, 11, 13])
def test_loop_and_if_of_older_versions(opset):
    text = f"""
    <ir_version: 6, opset_import: ["" : {opset}]>
    g (int64 m, bool c, float[2] x) => (float[2] y, float[R, 2] z) {{
        v, z = Loop (m, c, x) <
            body = b (int64 i, bool go, float[2] p) => (bool more, float[2] q, float[2] r) {{
                more = Identity (go)
                q = Add (p, x)
                r = Neg (q)
            }}
        >
        y = If (c) <
            then_branch = t () => (float[2] a) {{ a = Neg (v) }},
            else_branch = e () => (float[2] d) {{ d = Identity (v) }}
        >
    }}"""
    model = onnx.parser.parse_model(text)
    inputs = {"m": np.array(3, np.int64), "c": np.array(True), "x": np.array([1, 2], np.float32)}
    results = evaluate(read_model(model).graph, list(inputs.values()))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(results, session.run(None, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)

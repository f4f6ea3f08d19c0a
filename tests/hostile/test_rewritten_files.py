"""Files of a model that are cut short while they are mapped: an exception of ours, and never the end of the process.

Each case runs in a process of its own, since what it guards against would end the tests too.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

SETUP = """
import os, pickle, sys
import numpy as np
import intaglio
from intaglio.errors import LoadError
from intaglio.onnx.writer import save_model

path, victim = sys.argv[1:]
x, rows = np.ones((4, 256), np.float32), np.arange(3)


def cut():
    os.truncate(victim, 64)


def refused(action):
    try:
        action()
    except LoadError as error:
        assert "was rewritten" in str(error) or "cut short" in str(error), error
    else:
        raise AssertionError("not refused")
"""

AFTER_LOADING = """
model = intaglio.load(path, engine="native")
before = model(x, rows)
cut()
after = model(x, rows)
assert all(np.array_equal(a, b) for a, b in zip(before, after)), "a run reads the file"
longer = model(np.ones((9, 256), np.float32), rows)  # other sizes need no file either
constants = [value.constant for value in model.graph.constants()]
assert any(float(np.asarray(array).sum()) == 0 for array in constants), "nothing of the file was read"
refused(lambda: model.run({"x": x, "rows": rows}, outputs=["product"]))
refused(lambda: pickle.dumps(model))
refused(lambda: save_model(model.graph, path + ".copy"))
assert not os.path.exists(path + ".copy")
"""

REFERENCE = """
model = intaglio.load(path, engine="reference")
before = model(x, rows)
cut()
after = model(x, rows)
assert all(np.array_equal(a, b) for a, b in zip(before, after)), "a run reads the file"
pickle.dumps(model)
"""

WHILE_IT_IS = """
import {module} as module
original = module.{function}


def interrupted(*arguments, **named):
    cut()
    return original(*arguments, **named)


module.{function} = interrupted
refused(lambda: intaglio.load(path, engine="{engine}"))
"""


def place(folder: Path, is_external: bool) -> tuple[Path, Path]:
    """A model with weights that are packed and others that are read as they are, and the file that holds them.

    The weights are new each time: a model that was compiled before is not read whole.
    """
    generator = np.random.default_rng()
    weights = [numpy_helper.from_array(generator.random((256, 256), np.float32), name) for name in ("w", "table")]
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
        helper.make_node("Gather", ["table", "rows"], ["z"]),
    ]
    inputs = [value("x", TensorProto.FLOAT, ["n", 256]), value("rows", TensorProto.INT64, [3])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", 1, None), value("z", 1, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "m.onnx"
    if is_external:
        onnx.save(model, path, save_as_external_data=True, location="weights")
        return path, folder / "weights"
    onnx.save(model, path)
    return path, path


def run(code: str, files: tuple[Path, Path]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SETUP + code, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"


@pytest.mark.parametrize("is_external", [False, True])
@pytest.mark.parametrize("code", [AFTER_LOADING, REFERENCE], ids=["native", "reference"])
def test_after_loading(tmp_path: Path, code: str, is_external: bool) -> None:
    run(code, place(tmp_path, is_external))


STAGES = {
    "walked": ("intaglio.onnx.reader", "split_model"),
    "simplified": ("intaglio.runtime.model.blueprint", "simplify"),
    "lowered": ("intaglio.runtime.engine.native", "lower_safely"),
    "packed": ("intaglio.runtime.engine.lowered", "own_constants"),
}


@pytest.mark.parametrize("is_external", [False, True])
@pytest.mark.parametrize("stage", STAGES)
def test_while_it_is_loaded(tmp_path: Path, stage: str, is_external: bool) -> None:
    if stage == "walked" and is_external:
        pytest.skip("external data is opened later than that, and is then known to be short")
    module, function = STAGES[stage]
    run(WHILE_IT_IS.format(module=module, function=function, engine="native"), place(tmp_path, is_external))


@pytest.mark.parametrize("is_external", [False, True])
def test_while_the_reference_engine_copies_it(tmp_path: Path, is_external: bool) -> None:
    code = WHILE_IT_IS.format(module="intaglio.runtime.model.blueprint", function="share_weights", engine="reference")
    run(code, place(tmp_path, is_external))


def test_after_loading_a_compiled_model(tmp_path: Path) -> None:
    path, _ = place(tmp_path, False)
    compiled = tmp_path / "m.intaglio"
    run(f"intaglio.load(path).save_compiled({str(compiled)!r})", (path, path))
    code = "model = intaglio.load(path)\nbefore = model(x, rows)\ncut()\nafter = model(x, rows)\n"
    code += "assert all(np.array_equal(a, b) for a, b in zip(before, after))\n"
    code += "refused(lambda: model.graph)\n"
    run(code, (compiled, compiled))

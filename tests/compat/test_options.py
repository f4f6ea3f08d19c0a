"""Every option of ONNX Runtime, set to an unusual value: it has its effect, or it raises."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio
from intaglio import compat
from intaglio.compat.environment import process
from intaglio.compat.errors import ModelLoadCanceled
from intaglio.targets.c.native import kept_memory

X = np.array([[1, -2, 3]], np.float32)
Effect = Callable[[Path, pytest.CaptureFixture[str]], None]
EFFECTS: dict[str, Effect] = {}


def effect(*names: str) -> Callable[[Effect], Effect]:
    """Say which options a function shows the effect of."""

    def enter(function: Effect) -> Effect:
        EFFECTS.update(dict.fromkeys(names, function))
        return function

    return enter


def model(body: str = "t = Tanh(x) y = Mul(t, w) z = Exp(t)", given: str = "float[n, 3] x") -> bytes:
    """A model of a few nodes with one weight."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({given}) => (float[n, 3] y, float[n, 3] z) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.array(2, np.float32), "w"))
    return proto.SerializeToString()


def options(**fields: Any) -> compat.SessionOptions:
    found = compat.SessionOptions()
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def run_options(**fields: Any) -> compat.RunOptions:
    found = compat.RunOptions()
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def wide() -> bytes:
    """A model that keeps memory between its nodes."""
    weights = [numpy_helper.from_array(np.full((64, 64), 0.1, np.float32), f"w{i}") for i in range(3)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(3)]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in ("x0", "x3")]
    graph = helper.make_graph(nodes, "wide", infos[:1], infos[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


WIDE = np.ones((512, 64), np.float32)


def grown(session: compat.InferenceSession, run: compat.RunOptions | None = None) -> int:
    """The bytes that a run leaves behind for the next one; sessions of other tests must not go away meanwhile."""
    gc.collect()
    before = kept_memory()
    session.run(None, {"x0": WIDE}, run)
    return kept_memory() - before


@effect("SessionOptions.enable_cpu_mem_arena", "RunOptions.add_run_config_entry", "RunOptions.get_run_config_entry")
def memory_is_kept_or_not(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sessions = [compat.InferenceSession(wide(), options(enable_cpu_mem_arena=flag)) for flag in (False, True)]
    assert grown(sessions[0]) == 0
    shrinking = compat.RunOptions()
    shrinking.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    assert shrinking.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    assert grown(sessions[1], shrinking) == 0
    assert grown(sessions[1]) > 0
    providers = [("CPUExecutionProvider", {"use_arena": "0"})]
    assert grown(compat.InferenceSession(wide(), providers=providers)) == 0
    for name, value in (("memory.enable_memory_arena_shrinkage", "gpu:0"), ("gpu_graph_id", "1"), ("nonsense", "1")):
        with pytest.raises(intaglio.UnsupportedError, match=name):
            compat.RunOptions().add_run_config_entry(name, value)
    with pytest.raises(compat.InvalidArgument, match="nonsense"):
        compat.RunOptions().get_run_config_entry("nonsense")


@effect("SessionOptions.enable_mem_pattern")
def plans_of_memory_are_kept_or_not(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for is_kept in (True, False):
        session = compat.InferenceSession(wide(), options(enable_mem_pattern=is_kept))
        first = session.run(None, {"x0": WIDE})[0]
        engine: Any = session.model._main.engine  # pyright: ignore[reportPrivateUsage]
        assert (engine._runs.find([WIDE]) is not None) == is_kept
        np.testing.assert_array_equal(session.run(None, {"x0": WIDE})[0], first)


@effect("SessionOptions.enable_mem_reuse", "SessionOptions.execution_mode", "SessionOptions.execution_order")
def hints_without_effect_are_a_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = compat.InferenceSession(model()).run(None, {"x": X})
    for name, value, shown in (
        ("enable_mem_reuse", False, "False"),
        ("execution_mode", compat.ExecutionMode.ORT_PARALLEL, "ORT_PARALLEL"),
        ("execution_order", compat.ExecutionOrder.PRIORITY_BASED, "PRIORITY_BASED"),
        ("execution_order", compat.ExecutionOrder.MEMORY_EFFICIENT, "MEMORY_EFFICIENT"),
    ):
        made = options(**{name: value})
        assert getattr(made, name) == value
        capfd.readouterr()
        found = compat.InferenceSession(model(), made).run(None, {"x": X})
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith(f"intaglio: {name} = {shown} has no effect: ")
        np.testing.assert_array_equal(found, expected)
    compat.InferenceSession(model(), options(execution_mode=1, log_severity_level=3))
    compat.InferenceSession(model(), options(execution_mode=0, execution_order=0, enable_mem_reuse=True))
    assert capfd.readouterr().err == ""
    for name in ("enable_mem_reuse", "execution_mode", "execution_order"):
        with pytest.raises(compat.InvalidArgument, match=name):
            options(**{name: "nonsense"})


HINTS = {
    "session.disable_prepacking": "1",
    "session.dynamic_block_base": "4",
    "session.force_spinning_stop": "0",
    "session.inter_op.allow_spinning": "1",
    "session.intra_op.allow_spinning": "1",
    "session.intra_op_thread_affinities": "1;2",
    "session.use_device_allocator_for_initializers": "1",
    "session.use_env_allocators": "1",
}


def test_entries_that_are_hints_are_a_line_each(capfd: pytest.CaptureFixture[str]) -> None:
    made = compat.SessionOptions()
    for name, value in HINTS.items():
        made.add_session_config_entry(name, value)
    compat.InferenceSession(model(), made, [("CPUExecutionProvider", {"arena_extend_strategy": "kNextPowerOfTwo"})])
    lines = capfd.readouterr().err.splitlines()
    expected = [*(f"{name} = {value}" for name, value in HINTS.items()), "arena_extend_strategy = kNextPowerOfTwo"]
    assert [line.removeprefix("intaglio: ").partition(" has no effect: ")[0] for line in lines] == expected


def test_entries_that_results_hang_on_are_refused() -> None:
    made = compat.SessionOptions()
    for name, value in (
        ("session.set_denormal_as_zero", "0"),
        ("session.load_model_format", "ORT"),
        ("optimization.enable_gelu_approximation", "1"),
    ):
        with pytest.raises(intaglio.UnsupportedError, match=name):
            made.add_session_config_entry(name, value)
    with pytest.raises(intaglio.UnsupportedError, match=r"did you mean 'session.intra_op.allow_spinning'\?"):
        made.add_session_config_entry("session.intra_op.allow_spining", "0")


@effect(
    "SessionOptions.enable_profiling",
    "SessionOptions.profile_file_prefix",
    "InferenceSession.end_profiling",
    "InferenceSession.get_profiling_start_time_ns",
)
def a_profile_is_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = compat.InferenceSession(
        model(), options(enable_profiling=True, profile_file_prefix=str(tmp_path / "unusual"))
    )
    for _ in range(2):
        session.run(None, {"x": X})
    assert session.get_profiling_start_time_ns() > 0
    path = session.end_profiling()
    assert Path(path).name.startswith("unusual_")
    events = json.loads(Path(path).read_text())
    whole = [event["name"] for event in events if event["cat"] == "Session"]
    assert whole == ["model_loading", "model_run", "model_run"]
    nodes = [event for event in events if event["cat"] == "Node"]
    assert len(nodes) >= 2
    assert all(event["args"]["provider"] == "CPUExecutionProvider" and event["args"]["op_name"] for event in nodes)
    runs = [(event["ts"], event["ts"] + event["dur"]) for event in events if event["name"] == "model_run"]
    for event in nodes:
        assert any(begin - 1 <= event["ts"] <= event["ts"] + event["dur"] <= end + 2 for begin, end in runs)
    assert session.end_profiling() == path
    without = compat.InferenceSession(model())
    assert (without.end_profiling(), without.get_profiling_start_time_ns()) == ("", 0)


@effect("SessionOptions.graph_optimization_level")
def the_level_decides_what_is_rewritten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = {0: (False, False), 1: (True, True), 2: (True, False), 3: (True, False), 99: (True, False)}
    for level in compat.GraphOptimizationLevel:
        made = compat.InferenceSession(model(), options(graph_optimization_level=level)).model.options
        assert (made.simplify, made.exact) == expected[int(level)]
    with pytest.raises(compat.InvalidArgument, match="ORT_ENABLE_BASIC"):
        options(graph_optimization_level=7)


@effect("SessionOptions.intra_op_num_threads", "SessionOptions.inter_op_num_threads")
def threads_are_those_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    default = intaglio.load(model()).options.threads
    for asked, expected in ((7, 7), (0, default), (-1, default)):
        # as in ONNX Runtime, the second number has a meaning only for ORT_PARALLEL, which has no effect
        made = options(intra_op_num_threads=asked, inter_op_num_threads=5)
        assert compat.InferenceSession(model(), made).model.options.threads == expected
    for name in ("intra_op_num_threads", "inter_op_num_threads"):
        with pytest.raises(compat.InvalidArgument, match=name):
            options(**{name: 1.5})


@effect("SessionOptions.use_per_session_threads", "set_global_thread_pool_sizes")
def threads_of_the_process(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    compat.set_global_thread_pool_sizes(5)
    try:
        shared = options(use_per_session_threads=False, intra_op_num_threads=3)
        assert compat.InferenceSession(model(), shared).model.options.threads == 5
    finally:
        compat.set_global_thread_pool_sizes()
    capfd.readouterr()
    compat.set_global_thread_pool_sizes(0, 4)
    assert "inter_op_num_threads = 4 has no effect: nodes run one after another" in capfd.readouterr().err
    with pytest.raises(compat.InvalidArgument, match="at least 0"):
        compat.set_global_thread_pool_sizes(-2)


@effect(
    "SessionOptions.log_severity_level",
    "SessionOptions.log_verbosity_level",
    "SessionOptions.logid",
    "RunOptions.log_severity_level",
    "RunOptions.log_verbosity_level",
    "RunOptions.logid",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
)
def what_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def told(session: compat.SessionOptions | None = None, run: compat.RunOptions | None = None) -> str:
        compat.InferenceSession(model(), session, providers=["CUDAExecutionProvider"]).run(None, {"x": X}, run)
        return capfd.readouterr().err

    assert told().count("\n") == 1
    assert told(options(log_severity_level=3)) == ""
    assert "[unusual] <Model" in told(options(log_severity_level=1, logid="unusual"))
    assert "the run took" in told(options(log_severity_level=0))
    assert "Tanh" in told(options(log_severity_level=0, log_verbosity_level=1))
    quiet = options(log_severity_level=4)
    assert told(quiet, run_options(log_severity_level=0, logid="this one")).startswith("intaglio: [this one] the run")
    assert "x [1, 3]" in told(quiet, run_options(log_severity_level=0, log_verbosity_level=1))
    try:
        compat.set_default_logger_severity(0)
        assert "the run took" in told()
        compat.set_default_logger_verbosity(1)
        assert "Tanh" in told()
        compat.set_default_logger_severity(4)
        assert told() == ""
    finally:
        compat.set_default_logger_severity(2)
        compat.set_default_logger_verbosity(0)
    for level in (-2, 5):
        with pytest.raises(compat.InvalidArgument, match="log_severity_level"):
            options(log_severity_level=level)


@effect("SessionOptions.optimized_model_filepath")
def the_simplified_model_is_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "unusual.onnx"
    expected = compat.InferenceSession(model(), options(optimized_model_filepath=str(path))).run(None, {"x": X})
    for mine, other in zip(compat.InferenceSession(path).run(None, {"x": X}), expected, strict=True):
        np.testing.assert_array_equal(mine, other)


@effect("SessionOptions.use_deterministic_compute")
def results_are_the_same_bits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = [
        compat.InferenceSession(
            wide(), options(use_deterministic_compute=True, intra_op_num_threads=threads)
        ).run(None, {"x0": WIDE})[0]
        for threads in (1, 2, 3)
    ]  # fmt: skip
    assert len({array.tobytes() for array in found}) == 1


@effect("SessionOptions.add_session_config_entry", "SessionOptions.get_session_config_entry")
def entries_are_obeyed_or_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = compat.SessionOptions()
    made.add_session_config_entry("session.disable_quant_qdq", "1")
    assert made.get_session_config_entry("session.disable_quant_qdq") == "1"
    assert compat.InferenceSession(model(), made).model.options.disable == ("integer-arithmetic",)
    with pytest.raises(compat.InvalidArgument, match="nonsense"):
        made.get_session_config_entry("nonsense")
    for name, value in (
        ("session.load_model_format", "ORT"),
        ("nonsense", "1"),
    ):
        with pytest.raises(intaglio.UnsupportedError, match=name):
            made.add_session_config_entry(name, value)


@effect("InferenceSession.get_provider_graph_assignment_info")
def nodes_are_on_the_processor(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(compat.InvalidArgument, match="record_ep_graph_assignment_info"):
        compat.InferenceSession(model()).get_provider_graph_assignment_info()
    made = compat.SessionOptions()
    made.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    (part,) = compat.InferenceSession(model(), made).get_provider_graph_assignment_info()
    assert part.ep_name == "CPUExecutionProvider"
    assert sorted(node.op_type for node in part.get_nodes()) == ["Exp", "Mul", "Tanh"]


@effect("SessionOptions.add_free_dimension_override_by_name")
def a_dimension_gets_a_size(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(model())
    for source in (model(), tmp_path / "m.onnx", onnx.load_from_string(model())):
        made = compat.SessionOptions()
        made.add_free_dimension_override_by_name("n", 4)
        session = compat.InferenceSession(source, made)
        assert [item.shape for item in (*session.get_inputs(), *session.get_outputs())] == [[4, 3]] * 3
        with pytest.raises(compat.InvalidArgument, match="expected 4"):
            session.run(None, {"x": X})
    made.add_free_dimension_override_by_name("unusual", 4)
    with pytest.raises(compat.InvalidArgument, match="'unusual'"):
        compat.InferenceSession(model(), made)
    with pytest.raises(compat.InvalidArgument, match="at least 0"):
        made.add_free_dimension_override_by_name("n", -1)


@effect("SessionOptions.add_free_dimension_override_by_denotation")
def a_denoted_dimension_gets_a_size(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    proto = onnx.load_from_string(model())
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    made = compat.SessionOptions()
    made.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    assert compat.InferenceSession(proto, made).get_inputs()[0].shape == [2, 3]


@effect("SessionOptions.add_initializer", "SessionOptions.add_external_initializers")
def initializers_are_replaced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    value = compat.OrtValue.ortvalue_from_numpy(np.array(5, np.float32))
    for add in (
        lambda made: made.add_initializer("w", value),
        lambda made: made.add_external_initializers(["w"], [value]),
    ):
        made = compat.SessionOptions()
        add(made)
        (found,) = compat.InferenceSession(model(), made).run(["y"], {"x": X})
        np.testing.assert_allclose(found, np.tanh(X) * 5, rtol=1e-6)
    for name, other in (("unusual", value), ("w", compat.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32)))):
        made = compat.SessionOptions()
        made.add_initializer(name, other)
        with pytest.raises(compat.InvalidArgument, match=f"'{name}'"):
            compat.InferenceSession(model(), made)
    with pytest.raises(compat.InvalidArgument, match="expected as many"):
        made.add_external_initializers(["w", "v"], [value])


@effect("SessionOptions.add_external_initializers_from_files_in_memory")
def external_data_is_given_in_memory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    proto = onnx.load_from_string(model())
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "8"), ("length", "4")):
        tensor.external_data.add(key=key, value=value)
    content = b"\0" * 8 + np.float32(7).tobytes()
    made = compat.SessionOptions()
    made.add_external_initializers_from_files_in_memory(["weights.bin"], [content], [len(content)])
    (found,) = compat.InferenceSession(proto.SerializeToString(), made).run(["y"], {"x": X})
    np.testing.assert_allclose(found, np.tanh(X) * 7, rtol=1e-6)
    made.add_external_initializers_from_files_in_memory(["weights.bin"], [content], [len(content) - 1])
    with pytest.raises(compat.InvalidArgument, match="lies outside"):
        compat.InferenceSession(proto.SerializeToString(), made)


@effect(
    "SessionOptions.add_provider",
    "SessionOptions.add_provider_for_devices",
    "SessionOptions.has_providers",
    "SessionOptions.set_provider_selection_policy",
    "SessionOptions.set_provider_selection_policy_delegate",
    "get_ep_devices",
)
def there_is_one_provider(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = compat.SessionOptions()
    assert not made.has_providers()
    made.add_provider("CPUExecutionProvider", {"use_arena": "0"})
    assert made.has_providers()
    assert grown(compat.InferenceSession(wide(), made)) == 0
    made.add_provider_for_devices(compat.get_ep_devices(), {})
    made.set_provider_selection_policy(compat.OrtExecutionProviderDevicePolicy.PREFER_CPU)
    with pytest.raises(intaglio.UnsupportedError, match="CUDAExecutionProvider"):
        made.add_provider("CUDAExecutionProvider", {})
    with pytest.raises(compat.InvalidArgument, match="unusual"):
        made.add_provider("CPUExecutionProvider", {"unusual": "1"})
    with pytest.raises(intaglio.UnsupportedError, match="PREFER_GPU"):
        made.set_provider_selection_policy(compat.OrtExecutionProviderDevicePolicy.PREFER_GPU)
    with pytest.raises(intaglio.UnsupportedError, match="one provider"):
        made.set_provider_selection_policy_delegate(print)


@effect(
    "SessionOptions.register_custom_ops_library",
    "SessionOptions.set_ep_context_data_read_func",
    "SessionOptions.clear_ep_context_data_read_func",
)
def code_for_others_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(intaglio.UnsupportedError, match=r"unusual\.so"):
        compat.SessionOptions().register_custom_ops_library("unusual.so")
    with pytest.raises(intaglio.UnsupportedError, match="EPContext"):
        compat.SessionOptions().set_ep_context_data_read_func(print)
    compat.SessionOptions().clear_ep_context_data_read_func()  # what cannot be set is clear


@effect("SessionOptions.set_load_cancellation_flag")
def loading_is_cancelled(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = compat.SessionOptions()
    made.set_load_cancellation_flag(True)
    with pytest.raises(ModelLoadCanceled, match="cancelled"):
        compat.InferenceSession(model(), made)
    made.set_load_cancellation_flag(False)
    compat.InferenceSession(model(), made)


@effect("RunOptions.terminate")
def another_thread_stops_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    weight = numpy_helper.from_array(np.full((512, 512), 1 / 512, np.float32), "w")
    nodes = [helper.make_node("MatMul", [f"x{i}", "w"], [f"x{i + 1}"]) for i in range(400)]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 512]) for name in ("x0", "x400")]
    graph = helper.make_graph(nodes, "long", infos[:1], infos[1:], [weight])
    long = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session, given = compat.InferenceSession(long, options(intra_op_num_threads=1)), compat.RunOptions()
    seen: list[Exception] = []

    def work() -> None:
        try:
            while True:
                session.run(None, {"x0": np.ones((4096, 512), np.float32)}, given)
        except compat.Fail as error:
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    given.terminate = True
    thread.join(120)
    assert not thread.is_alive()
    assert "terminate" in str(seen[0])
    with pytest.raises(compat.Fail, match="not started"):
        session.run(None, {"x0": np.ones((1, 512), np.float32)}, given)
    given.terminate = False
    assert session.run(None, {"x0": np.ones((1, 512), np.float32)}, given)[0].shape == (1, 512)


@effect("RunOptions.only_execute_path_to_fetches")
def only_the_path_is_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = compat.InferenceSession(model())
    for flag, count in ((False, 1), (True, 2)):
        (found,) = session.run(["y"], {"x": X}, run_options(only_execute_path_to_fetches=flag))
        np.testing.assert_allclose(found, np.tanh(X) * 2, rtol=1e-6)
        assert len(session.model._variants) == count  # pyright: ignore[reportPrivateUsage]


@effect("RunOptions.add_active_adapter")
def adapters_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(intaglio.UnsupportedError, match="LoRA"):
        compat.RunOptions().add_active_adapter(object())


@effect("InferenceSession()")
def arguments_of_sessions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = compat.InferenceSession(model(), disabled_optimizers=["algebra"], enable_fallback=0)
    assert session.model.options.disable == ("algebra",)
    with pytest.raises(compat.InvalidArgument, match="'ConstantSharing'"):
        compat.InferenceSession(model(), disabled_optimizers=["ConstantSharing"])
    with pytest.raises(compat.InvalidArgument, match="'unusual'"):
        compat.InferenceSession(model(), unusual=1)
    with pytest.raises(intaglio.UnsupportedError, match="read_config_from_model"):
        compat.InferenceSession(model(), read_config_from_model=1)
    with pytest.raises(compat.InvalidArgument, match="expected as many"):
        compat.InferenceSession(model(), providers=["CPUExecutionProvider"], provider_options=[])
    with pytest.raises(compat.InvalidArgument, match="unusual"):
        compat.InferenceSession(model(), providers=["CPUExecutionProvider"], provider_options=[{"unusual": 1}])
    growing = [("CPUExecutionProvider", {"arena_extend_strategy": "unusual"})]
    with pytest.raises(intaglio.UnsupportedError, match="kNextPowerOfTwo"):
        compat.InferenceSession(model(), providers=growing)


@effect("InferenceSession.set_providers", "InferenceSession.disable_fallback", "InferenceSession.enable_fallback")
def providers_of_sessions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = compat.InferenceSession(wide())
    session.set_providers(["CUDAExecutionProvider", "CPUExecutionProvider"], [{}, {"use_arena": "0"}])
    assert "CUDAExecutionProvider is not available" in capfd.readouterr().err
    assert session.get_provider_options() == {"CPUExecutionProvider": {"use_arena": "0"}}
    assert grown(session) == 0
    for turn in (session.disable_fallback, session.enable_fallback):
        turn()  # there is nothing to fall back to
        assert session.get_providers() == ["CPUExecutionProvider"]


@effect(
    "InferenceSession.set_tuning_results",
    "InferenceSession.get_tuning_results",
    "InferenceSession.set_ep_dynamic_options",
    "InferenceSession.release_captured_graph",
)
def what_belongs_to_devices_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = compat.InferenceSession(model())
    session.set_tuning_results(session.get_tuning_results())
    session.set_ep_dynamic_options({})
    for call in (
        lambda: session.set_tuning_results([{"ep": "x"}]),
        lambda: session.set_ep_dynamic_options({"a": "b"}),
        lambda: session.release_captured_graph(3),
    ):
        with pytest.raises(intaglio.UnsupportedError):
            call()


@effect("set_seed")
def random_numbers_cannot_come_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def drawing(attributes: str) -> bytes:
        return model(f"r = RandomNormalLike{attributes}(x) y = Mul(r, w) z = Neg(r)")

    compat.set_seed(1234)
    try:
        with pytest.raises(intaglio.UnsupportedError, match="RandomNormalLike"):
            compat.InferenceSession(drawing(""))
        first, second = (compat.InferenceSession(drawing("<seed = 3.0>")).run(None, {"x": X}) for _ in range(2))
        np.testing.assert_array_equal(first, second)
    finally:
        process.seed = None
    compat.InferenceSession(drawing(""))


@effect("preload_dlls")
def there_are_no_libraries_to_load(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    compat.preload_dlls()
    with pytest.raises(intaglio.UnsupportedError, match="unusual"):
        compat.preload_dlls(directory="unusual")
    with pytest.raises(compat.InvalidArgument, match="cuda"):
        compat.preload_dlls(cuda="unusual")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", EFFECTS)
def test_an_option_has_an_effect_or_raises(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    EFFECTS[name](tmp_path, capfd)


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_every_option_is_tried(kind: str) -> None:
    real = {f"{kind}.{name}" for name in dir(getattr(onnxruntime, kind)) if not name.startswith("_")}
    ours = {f"{kind}.{name}" for name in dir(getattr(compat, kind)) if not name.startswith("_")}
    assert real == ours == {name for name in EFFECTS if name.startswith(f"{kind}.")}


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_no_field_takes_what_it_cannot_mean(kind: str) -> None:
    names = [name for name in dir(getattr(onnxruntime, kind)()) if not name.startswith("_")]
    fields = [name for name in names if not callable(getattr(getattr(onnxruntime, kind)(), name))]
    for name in fields:
        made = getattr(compat, kind)()
        before = getattr(made, name)
        real = getattr(getattr(onnxruntime, kind)(), name)
        assert before == (real if isinstance(real, str) else int(real))
        with pytest.raises(compat.Fail, match=name):
            setattr(made, name, object())
        assert getattr(made, name) == before
    with pytest.raises(AttributeError):
        getattr(compat, kind)().unusual = 1

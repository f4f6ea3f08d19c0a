import numpy as np
import onnx
import pytest
from bench.generate import cnn, small, transformer, zoo
from bench.generate.graph import GraphWriter


def parameters(model: onnx.ModelProto) -> int:
    weights = (t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT)
    return sum(int(np.prod(tensor.dims)) for tensor in weights if "running" not in tensor.name)


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


# The counts of the published models.
SMALL = [(small.mlp, 1_732), (small.lstm, 2 * 4 * 128 * (64 + 128 + 2) + 2570), (cnn.mobilenet_v2, 3_504_872)]
LARGE = [
    (cnn.resnet50, 25_557_032),
    (transformer.bert_base, 109_482_240),
    (transformer.gpt2_small, 124_439_808),
    (transformer.vit_b16, 86_567_656),
]


@pytest.mark.parametrize(("build", "count"), SMALL, ids=lambda value: getattr(value, "__name__", ""))
def test_small_models_have_the_parameters_of_the_originals(build, count):
    assert parameters(build()) == count


@pytest.mark.slow
@pytest.mark.parametrize(("build", "count"), LARGE, ids=lambda value: getattr(value, "__name__", ""))
def test_large_models_have_the_parameters_of_the_originals(build, count):
    assert parameters(build()) == count


def test_same_model_every_time():
    assert small.lstm().SerializeToString() == small.lstm().SerializeToString()


def test_batch_is_symbolic_and_shapes_infer():
    model = onnx.shape_inference.infer_shapes(cnn.mobilenet_v2(), strict_mode=True, data_prop=True)
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", 1000]


def test_writer_refuses_two_weights_of_one_name():
    g = GraphWriter("twice")
    g.weight("w", np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="two weights are called w"):
        g.weight("w", np.zeros(1, np.float32))


def test_output_renames_the_value_for_its_readers_too():
    g = GraphWriter("renamed")
    y = g.op("Relu", g.input("x", ["n"]))
    z = g.op("Neg", y)
    g.output(y, "first", ["n"])
    g.output(z, "second", ["n"])
    relu, neg = g.model().graph.node
    assert list(relu.output) == list(neg.input) == ["first"]


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_zoo_models_keep_their_nodes_and_get_real_weights(name):
    original, model = onnx.load(zoo.light_path(name)), zoo.reweighted(name)
    assert operators(model) == operators(original) - {"ConstantOfShape"}
    assert [value.name for value in model.graph.output] == [value.name for value in original.graph.output]
    assert len(model.graph.input) == 1
    floats = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    assert all(onnx.numpy_helper.to_array(tensor).std() > 0 for tensor in floats)


def test_every_zoo_model_is_in_the_onnx_package():
    assert all(zoo.light_path(name).exists() for name in zoo.NAMES)

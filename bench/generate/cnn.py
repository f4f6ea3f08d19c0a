"""Convolutional networks: ResNet-50 and MobileNetV2, with their BatchNormalization nodes still in place."""

import math

import onnx

from bench.generate.graph import GraphWriter

RESNET50_STAGES = [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]  # width, blocks, stride of the first block
MOBILENET_STAGES = [  # expansion, channels, blocks, stride of the first block
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


class ConvWriter(GraphWriter):
    """Adds the convolution block that both networks are made of."""

    def conv_bn(
        self, name: str, x: str, inner: int, outer: int, kernel: int, *, stride: int = 1, group: int = 1, gain: float
    ) -> str:
        """Conv and BatchNormalization; the output has about `gain`^2 times the second moment of the input."""
        fan_in = inner // group * kernel * kernel
        weight = self.normal(f"{name}.weight", [outer, inner // group, kernel, kernel], gain / math.sqrt(fan_in))
        x = self.op(
            "Conv",
            x,
            weight,
            dilations=[1, 1],
            group=group,
            kernel_shape=[kernel, kernel],
            pads=[kernel // 2] * 4,
            strides=[stride, stride],
        )
        statistics = [
            self.uniform(f"{name}.bn.weight", [outer], 0.8, 1.2),
            self.normal(f"{name}.bn.bias", [outer], 0.1),
            self.normal(f"{name}.bn.running_mean", [outer], 0.1),
            self.uniform(f"{name}.bn.running_var", [outer], 0.8, 1.2),
        ]
        return self.op("BatchNormalization", x, *statistics, epsilon=1e-5, momentum=0.9)

    def classifier(self, x: str, channels: int) -> None:
        """GlobalAveragePool, Flatten and Gemm to 1000 classes."""
        x = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        weight = self.normal("classifier.weight", [1000, channels], 2 / math.sqrt(channels))
        bias = self.normal("classifier.bias", [1000], 0.05)
        x = self.op("Gemm", x, weight, bias, alpha=1.0, beta=1.0, transB=1)
        self.output(x, "logits", ["batch", 1000])


def resnet50() -> onnx.ModelProto:
    """ResNet-50 (version 1.5: the stride is on the 3x3 convolution), 25.6 million parameters."""
    g = ConvWriter("resnet50", seed=50)
    x = g.input("image", ["batch", 3, 224, 224])
    x = g.op("Relu", g.conv_bn("stem", x, 3, 64, 7, stride=2, gain=math.sqrt(2)))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    channels = 64
    for stage, (width, blocks, stride) in enumerate(RESNET50_STAGES, 1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            x = _bottleneck(g, name, x, channels, width, stride if block == 0 else 1)
            channels = 4 * width
    g.classifier(x, channels)
    return g.model()


def _bottleneck(g: ConvWriter, name: str, x: str, channels: int, width: int, stride: int) -> str:
    gain = math.sqrt(2)
    y = g.op("Relu", g.conv_bn(f"{name}.conv1", x, channels, width, 1, gain=gain))
    y = g.op("Relu", g.conv_bn(f"{name}.conv2", y, width, width, 3, stride=stride, gain=gain))
    # The branch is the smaller summand; otherwise sixteen sums would double the variance sixteen times.
    y = g.conv_bn(f"{name}.conv3", y, width, 4 * width, 1, gain=0.5)
    if channels != 4 * width:
        x = g.conv_bn(f"{name}.downsample", x, channels, 4 * width, 1, stride=stride, gain=1.0)
    return g.op("Relu", g.op("Add", y, x))


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2 at width 1.0, 3.5 million parameters."""
    g = ConvWriter("mobilenet_v2", seed=2)
    x = g.input("image", ["batch", 3, 224, 224])
    x = _relu6(g, g.conv_bn("stem", x, 3, 32, 3, stride=2, gain=math.sqrt(2)))
    channels = 32
    for stage, (expansion, outer, blocks, stride) in enumerate(MOBILENET_STAGES):
        for block in range(blocks):
            name = f"features.{stage}.{block}"
            x = _inverted_residual(g, name, x, channels, outer, expansion, stride if block == 0 else 1)
            channels = outer
    x = _relu6(g, g.conv_bn("head", x, channels, 1280, 1, gain=math.sqrt(2)))
    g.classifier(x, 1280)
    return g.model()


def _relu6(g: GraphWriter, x: str) -> str:
    return g.op("Clip", x, g.constant(0.0), g.constant(6.0))


def _inverted_residual(g: ConvWriter, name: str, x: str, channels: int, outer: int, expansion: int, stride: int) -> str:
    hidden = channels * expansion
    gain = math.sqrt(2)
    y = x
    if expansion != 1:
        y = _relu6(g, g.conv_bn(f"{name}.expand", y, channels, hidden, 1, gain=gain))
    y = _relu6(g, g.conv_bn(f"{name}.depthwise", y, hidden, hidden, 3, stride=stride, group=hidden, gain=gain))
    is_residual = stride == 1 and channels == outer
    y = g.conv_bn(f"{name}.project", y, hidden, outer, 1, gain=0.5 if is_residual else 1.0)
    return g.op("Add", x, y) if is_residual else y

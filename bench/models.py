"""The registry of benchmark models: where each comes from, what it is fed, and how exact an answer must be."""

import argparse
import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from bench import inputs, wheels
from bench.generate import zoo
from bench.inputs import Feeds

GENERATE = Path(__file__).parent / "generate"
OPTIONAL = {"light"}  # groups that are raced only when they are named


class Unavailable(RuntimeError):
    """A model cannot be had on this machine; the text says why."""


@dataclass(frozen=True)
class BenchModel:
    """One model of the race.

    `write(path)` makes the file; `feeds(batch)` makes the inputs; an answer is right when it differs from the judge's
    by at most `tolerance` times the largest value. `sources` are the modules whose change makes a file stale. `fixed`
    are inputs and axes that the file leaves open although the model is made for one size.
    """

    name: str
    group: str
    about: str
    write: Callable[[Path], None]
    feeds: Callable[[int], Feeds]
    tolerance: float = 1e-4
    largest_batch: int | None = None
    sources: tuple[Path, ...] = ()
    fixed: tuple[tuple[str, int], ...] = ()

    def path(self) -> Path:
        """The model's file, made now unless an up-to-date one is cached. Raises Unavailable."""
        target = cache_folder() / f"{self.name}.onnx"
        newest = max((source.stat().st_mtime for source in self.sources), default=0.0)
        if not target.exists() or target.stat().st_mtime < newest:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.write(target)
            except (ImportError, OSError, wheels.DownloadError) as error:
                raise Unavailable(f"{type(error).__name__}: {error}") from error
        return target


def cache_folder() -> Path:
    """Where model files are kept: $INTAGLIO_BENCH_MODELS, else bench/models."""
    return Path(os.environ.get("INTAGLIO_BENCH_MODELS") or Path(__file__).parent / "models")


def chosen(command: argparse.ArgumentParser, names: list[str]) -> list[BenchModel]:
    """The models that a command was given; wrong names are wrong usage of it."""
    try:
        return select(names)
    except ValueError as error:
        command.error(str(error))


def select(patterns: list[str]) -> list[BenchModel]:
    """Models whose name or group matches any pattern; none given: all but the optional groups.

    >>> [model.name for model in select(["mobile*", "lstm"])]
    ['mobilenet_v2', 'lstm']
    """
    if not patterns:
        return [model for model in MODELS if model.group not in OPTIONAL]
    for pattern in patterns:
        if not any(_matches(model, pattern) for model in MODELS):
            raise ValueError(f"no benchmark model is called {pattern!r}; --list shows them")
    return [model for model in MODELS if any(_matches(model, pattern) for pattern in patterns)]


def _matches(model: BenchModel, pattern: str) -> bool:
    return pattern in ("all", model.group) or fnmatchcase(model.name, pattern)


def _write_built(module: str, function: str, arguments: tuple[str, ...], target: Path) -> None:
    build = getattr(importlib.import_module(f"bench.generate.{module}"), function)
    partial_file = target.with_name(target.name + ".partial")
    partial_file.write_bytes(build(*arguments).SerializeToString())
    partial_file.replace(target)


def _write_light(name: str, target: Path) -> None:
    shutil.copyfile(zoo.light_path(name), target)


def _built(group: str, module: str, function: str, feeds: Callable[[int], Feeds], about: str, **more) -> BenchModel:
    arguments = more.pop("arguments", ())
    write = partial(_write_built, module, function, arguments)
    sources = (GENERATE / "graph.py", GENERATE / f"{module}.py")
    return BenchModel(more.pop("name", function), group, about, write, feeds, sources=sources, **more)


def _wheel(name: str, package: str, member: str, feeds: Callable[[int], Feeds], about: str, **more) -> BenchModel:
    return BenchModel(name, "wheels", about, partial(wheels.extract, package, member), feeds, **more)


def _generated_models() -> Iterator[BenchModel]:
    build = partial(_built, "generated")
    yield build("cnn", "resnet50", inputs.photo("image"), "ResNet-50, 224 x 224")
    yield build("cnn", "mobilenet_v2", inputs.photo("image"), "MobileNetV2, 224 x 224")
    yield build("transformer", "bert_base", inputs.bert_tokens, "BERT-base, 128 tokens")
    yield build("transformer", "gpt2_small", inputs.tokens("input_ids", 50257, 64), "GPT-2 small, 64 tokens")
    yield build("transformer", "vit_b16", inputs.photo("pixel_values"), "ViT-B/16, 224 x 224")
    yield build("small", "lstm", inputs.normal("x", 50, 64), "bidirectional LSTM of 128, 50 steps")
    yield build("small", "mlp", inputs.normal("x", 16), "perceptron 16-32-32-4", tolerance=1e-5)


def _torch_models() -> Iterator[BenchModel]:
    build = partial(_built, "torch", "torch_export")
    yield build("resnet18", inputs.photo("image"), "ResNet-18 by torch.onnx.export", name="torch-resnet18")
    yield build("encoder", inputs.tokens("tokens", 8192, 128), "nn.TransformerEncoder, 4 x 256", name="torch-encoder")


def _zoo_models() -> Iterator[BenchModel]:
    for name in zoo.NAMES:
        about = f"{name} of the onnx package, random weights"
        given = {"name": f"zoo-{name}", "arguments": (name,), "largest_batch": 1}
        yield _built("zoo", "zoo", "reweighted", _zoo_photo(name), about, **given)
    for name in zoo.NAMES:
        about = f"{name} of the onnx package, as it is"
        write = partial(_write_light, name)
        yield BenchModel(f"light-{name}", "light", about, write, _zoo_photo(name), largest_batch=1)


def _zoo_photo(name: str) -> Callable[[int], Feeds]:
    is_from_caffe2 = name in ("resnet50", "shufflenet", "zfnet512")
    return inputs.photo("gpu_0/data_0" if is_from_caffe2 else "data_0")


def _wheel_models() -> Iterator[BenchModel]:
    yield _wheel("magika", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx", inputs.file_bytes, "file types")
    silero, data = "silero-vad==6.2.3", "silero_vad/data"
    yield _wheel("silero-vad", silero, f"{data}/silero_vad.onnx", inputs.speech, "voice activity, nested If")
    yield _wheel("silero-vad-18", silero, f"{data}/silero_vad_op18_ifless.onnx", inputs.speech, "the same, opset 18")
    photo = inputs.bright_photo("images", 320, 320)
    yield _wheel("nudenet", "nudenet==3.4.2", "nudenet/320n.onnx", photo, "YOLOv8 nano, 320 x 320")
    page = inputs.text_picture(480, 640, 32)
    line = inputs.text_picture(48, 320, 32, "Order no. 4711")
    lines = {"fixed": (("x", 2),)}  # 48 high: the last pools have no window, or rows are left over, at other heights
    package, folder = "rapidocr_onnxruntime==1.4.4", "rapidocr_onnxruntime/models"
    # Its sigmoid is steep: ONNX Runtime with and without optimisations differ by 1.3e-4 from each other.
    yield _wheel("ppocr4-det", package, f"{folder}/ch_PP-OCRv4_det_infer.onnx", page, "text detection, 480 x 640",
                 tolerance=3e-4)  # fmt: skip
    yield _wheel("ppocr4-rec", package, f"{folder}/ch_PP-OCRv4_rec_infer.onnx", line, "text recognition, 48 x 320",
                 **lines)  # fmt: skip
    turned = inputs.text_picture(48, 192, 32, "Order no. 4711")
    yield _wheel("ppocr2-cls", package, f"{folder}/ch_ppocr_mobile_v2.0_cls_infer.onnx", turned, "text direction",
                 **lines)  # fmt: skip
    package, folder = "rapidocr==3.10.0", "rapidocr/models"
    yield _wheel("ppocr6-det", package, f"{folder}/PP-OCRv6_det_small.onnx", page, "text detection, 480 x 640")
    yield _wheel("ppocr6-rec", package, f"{folder}/PP-OCRv6_rec_small.onnx", line, "text recognition, 48 x 320")


MODELS = [*_generated_models(), *_torch_models(), *_zoo_models(), *_wheel_models()]

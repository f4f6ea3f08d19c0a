"""Libraries that use ONNX Runtime, unmodified: `python -m tests.compat.libraries NAME (intaglio | onnxruntime)`.

Each function uses one library as its documentation shows it and returns what came out, which is printed as JSON. The
models are those that come with the library; where it would download one, a small model of that form is made.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.compat import small_models


def _picture(*lines: str, size: tuple[int, int] = (480, 160), height: int = 36) -> Any:
    """Text in black on white."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((20, 20 + number * (height + 20)), line, fill="black", font=ImageFont.load_default(height))
    return image


def _encoded(image: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def _sound() -> np.ndarray:
    """Three seconds at 16 kHz: silence, something with the pitch and rhythm of a voice, silence."""
    times = np.arange(48000) / 16000
    pitch = 120 + 20 * np.sin(2 * np.pi * 1.5 * times)
    phase = 2 * np.pi * np.cumsum(pitch) / 16000
    voice = sum(np.sin(k * phase) / k for k in range(1, 20)) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * times))
    voice *= (times > 0.8) & (times < 2.2)
    return (0.3 * voice + 0.003 * np.random.default_rng(0).standard_normal(48000)).astype(np.float32)


def magika(folder: Path) -> Any:
    """Kinds of files."""
    from magika import Magika

    texts = [b"import os\n\n\ndef main():\n    print(os.getcwd())\n", b"<html><body><p>Hi</p></body></html>" * 4,
             b"{\"a\": [1, 2, 3], \"b\": null}" * 9, bytes(range(256)) * 8,
             b"#include <stdio.h>\nint main(void) {}\n" * 5]  # fmt: skip
    found = [Magika().identify_bytes(text) for text in texts]
    return [(str(each.output.label), each.score) for each in found]


def silero_vad(folder: Path) -> Any:
    """Where somebody speaks, step by step and all at once."""
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    sound = torch.from_numpy(_sound())
    model = load_silero_vad(onnx=True)
    steps = [float(model(sound[start : start + 512], 16000)) for start in range(0, 47616, 512)]
    model.reset_states()
    return steps, get_speech_timestamps(sound, model)


def faster_whisper(folder: Path) -> Any:
    """The same of another library."""
    from faster_whisper.vad import VadOptions, get_speech_timestamps, get_vad_model

    model = get_vad_model()
    return model(np.pad(_sound(), (0, 512 - 48000 % 512))).tolist(), get_speech_timestamps(_sound(), VadOptions())


def rapidocr_1(folder: Path) -> Any:
    """Text in pictures."""
    from rapidocr_onnxruntime import RapidOCR

    found, _ = RapidOCR()(np.asarray(_picture("Hello World", "Intaglio 2024")))
    return [(box, text, float(score)) for box, text, score in found]


def rapidocr_3(folder: Path) -> Any:
    """Text in pictures, of a newer version."""
    from rapidocr import RapidOCR

    found = RapidOCR()(np.asarray(_picture("Hello World", "Intaglio 2024")))
    return found.boxes.tolist(), list(found.txts), [float(score) for score in found.scores]


def ddddocr(folder: Path) -> Any:
    """Short words, and where they are."""
    import ddddocr as library

    word = _encoded(_picture("R7Kq", size=(160, 60)).crop((0, 10, 160, 70)))
    page = _encoded(_picture("W   E   R", "K   M", size=(400, 200), height=60))
    words = [library.DdddOcr(show_ad=False, beta=is_new).classification(word) for is_new in (False, True)]
    return words, np.asarray(library.DdddOcr(ocr=False, det=True, show_ad=False).detection(page)).tolist()


def fastembed(folder: Path) -> Any:
    """Vectors of sentences."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    small_models.encoder(folder)
    TextEmbedding.add_custom_model(
        "small", PoolingType.MEAN, True, ModelSource(hf="none/small"), small_models.HIDDEN, "model.onnx"
    )
    model = TextEmbedding("small", specific_model_path=str(folder), threads=1, enable_cpu_mem_arena=False)
    return [vector.tolist() for vector in model.embed(["Intaglio cuts models", "a copper plate prints prints prints"])]


def nudenet(folder: Path) -> Any:
    """Parts of bodies in pictures: of noise and of a drawing there are hardly any, so the raw scores are compared."""
    from nudenet import NudeDetector

    detector = NudeDetector()
    pictures = [_noise(1, 240, 320, 3), np.asarray(_picture("No body", size=(320, 200)))]
    (raw,) = detector.onnx_session.run(None, {detector.input_name: np.stack(
        [np.resize(picture.astype(np.float32) / 255, (3, 320, 320)) for picture in pictures])})  # fmt: skip
    return detector.detect(pictures[0]), detector.detect_batch(pictures, batch_size=2), raw[:, :, ::100].tolist()


def insightface(folder: Path) -> Any:
    """Faces: vectors, attributes and places; sessions are pickled on the way."""
    import pickle

    from insightface.model_zoo import get_model

    small_models.convolutions(folder / "face.onnx", 112, 32)
    small_models.convolutions(folder / "age.onnx", 96, 3)
    small_models.detector(folder / "places.onnx")
    picture = _noise(3, 320, 320, 3)
    faces, ages = (get_model(str(folder / name)) for name in ("face.onnx", "age.onnx"))
    faces.prepare(ctx_id=-1)
    places = get_model(str(folder / "places.onnx"))
    places.prepare(ctx_id=-1, input_size=(320, 320))
    boxes, points = places.detect(picture, max_num=5)
    copy = pickle.loads(pickle.dumps(faces.session))
    (again,) = copy.run(None, {faces.input_name: np.zeros((1, 3, 112, 112), np.float32)})
    vectors = faces.get_feat([picture[:112, :112], picture[100:212, 100:212]])
    age = ages.session.run(None, {ages.input_name: np.ones((1, 3, 96, 96), np.float32)})[0]
    return type(faces).__name__, type(ages).__name__, [np.asarray(each).tolist() for each in (
        vectors, age, boxes, points, again)]  # fmt: skip


def onnxtr(folder: Path) -> Any:
    """Documents: where words are, and what they say."""
    from onnxtr.models import crnn_mobilenet_v3_small, linknet_resnet18
    from onnxtr.models.engine import EngineConfig
    from onnxtr.models.recognition.models.crnn import default_cfgs

    def shrink(options: Any) -> Any:
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        return options

    small_models.page_map(folder / "map.onnx")
    network = linknet_resnet18(str(folder / "map.onnx"), engine_cfg=EngineConfig(run_options_provider=shrink))
    page = np.asarray(_picture("Some words", "on a page", size=(256, 256)))
    map_ = network(page[None].transpose(0, 3, 1, 2).astype(np.float32) / 255 - 0.8, return_model_output=True)
    small_models.letters(folder / "letters.onnx", len(default_cfgs["crnn_mobilenet_v3_small"]["vocab"]) + 1)
    reader = crnn_mobilenet_v3_small(str(folder / "letters.onnx"))
    words = reader(_noise(4, 2, 3, 32, 128).astype(np.float32) / 255)["preds"]
    return map_["out_map"][:, ::16, ::16].tolist(), [np.asarray(each).tolist() for each in map_["preds"][0]], words


def optimum(folder: Path) -> Any:
    """Classes of sentences, and sentences that go on, with and without bound memory."""
    from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForSequenceClassification
    from transformers import PreTrainedTokenizerFast

    found: list[Any] = []
    (folder / "c").mkdir()
    small_models.classifier(folder / "c")
    (folder / "d").mkdir()
    small_models.decoder(folder / "d")
    words = PreTrainedTokenizerFast.from_pretrained(folder / "c")
    texts = words(["Intaglio cuts models", "a plate"], padding=True, return_tensors="pt")
    for is_bound in (False, True):
        model = ORTModelForSequenceClassification.from_pretrained(folder / "c", use_io_binding=is_bound)
        found.append(model(**texts).logits.tolist())
        writer = ORTModelForCausalLM.from_pretrained(folder / "d", use_io_binding=is_bound)
        begin = words(["intaglio cuts"], return_tensors="pt", add_special_tokens=False)
        asked = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None}
        found.append(writer.generate(begin["input_ids"], attention_mask=begin["attention_mask"], **asked).tolist())
    return found


MODULES = {"rapidocr_1": "rapidocr_onnxruntime", "rapidocr_3": "rapidocr", "optimum": "optimum.onnxruntime"}
"""What is imported, where that is not the name of the case."""

CASES: dict[str, Callable[[Path], Any]] = {
    case.__name__: case
    for case in (
        magika,
        silero_vad,
        faster_whisper,
        rapidocr_1,
        rapidocr_3,
        ddddocr,
        fastembed,
        nudenet,
        insightface,
        onnxtr,
        optimum,
    )
}


def main(name: str, runtime: str) -> None:
    """Run one library on one of the two, and print what came out as one line of JSON."""
    if runtime == "intaglio":
        import intaglio.compat

        intaglio.compat.install()
    with tempfile.TemporaryDirectory() as folder:
        found = CASES[name](Path(folder))
    loaded = "onnxruntime_pybind11_state" in Path("/proc/self/maps").read_text()
    assert loaded == (runtime == "onnxruntime"), f"ONNX Runtime's library is {'' if loaded else 'not '}loaded"
    print("\n" + json.dumps(found, default=float))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Inputs of the benchmark models: the same on every run, and like what each model sees in use."""

from collections.abc import Callable

import numpy as np

Feeds = dict[str, np.ndarray]

PAGE = """An intaglio is a picture that is cut
into a stone, so that the wax which is
pressed on it shows the picture raised.
Onyx, with layers of two colours, was
the stone that engravers liked best.
Order no. 4711 - total 129.50 EUR"""

SOURCE = '''import sys


def digits(number: int) -> int:
    """The sum of the decimal digits of `number`."""
    return sum(int(digit) for digit in str(abs(number)))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(argument, digits(int(argument)))
'''


def picture(batch: int, height: int, width: int) -> np.ndarray:
    """Smooth shapes with a little noise, three channels of mean 0 and deviation 1, as after normalisation."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    image = 0.2 * rng.standard_normal((batch, 3, height, width))
    for frequency in (1, 2, 3, 5, 9, 17):
        for sample, channel in np.ndindex(batch, 3):
            angle, phase = rng.uniform(0, 2 * np.pi, 2)
            wave = 2 * np.pi * frequency * (x * np.cos(angle) + y * np.sin(angle))
            image[sample, channel] += np.sin(wave + phase) / np.sqrt(frequency)
    image -= image.mean((2, 3), keepdims=True)
    image /= image.std((2, 3), keepdims=True)
    return image.astype(np.float32)


def photo(name: str, height: int = 224, width: int = 224) -> Callable[[int], Feeds]:
    """A normalised picture."""
    return lambda batch: {name: picture(batch, height, width)}


def bright_photo(name: str, height: int, width: int) -> Callable[[int], Feeds]:
    """A picture with values from 0 to 1."""
    return lambda batch: {name: np.clip(picture(batch, height, width) / 4 + 0.5, 0, 1)}


def normal(name: str, *shape: int) -> Callable[[int], Feeds]:
    """Standard normal values behind a batch axis."""
    return lambda batch: {name: np.random.default_rng(7).standard_normal((batch, *shape), dtype=np.float32)}


def tokens(name: str, vocabulary: int, length: int) -> Callable[[int], Feeds]:
    """Token numbers whose frequencies fall as those of words do."""
    return lambda batch: {name: _words(vocabulary, batch, length)}


def _words(vocabulary: int, batch: int, length: int) -> np.ndarray:
    ranks = np.random.default_rng(7).zipf(1.2, (batch, length))
    return (ranks * 2654435761 % vocabulary).astype(np.int64)


def bert_tokens(batch: int) -> Feeds:
    """Two sentences of 112 tokens together, padded to 128."""
    attention_mask, token_type_ids = np.ones((batch, 128), np.int64), np.zeros((batch, 128), np.int64)
    attention_mask[:, 112:] = 0
    token_type_ids[:, 60:112] = 1
    input_ids = np.where(attention_mask == 1, _words(30522, batch, 128), 0)
    return {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}


def file_bytes(batch: int) -> Feeds:
    """The beginning and the end of a small source file, 1024 bytes each, padded with 256."""
    data = np.full(2048, 256, np.int32)
    content = np.frombuffer(SOURCE.encode(), np.uint8)
    data[: len(content)] = content
    data[2048 - len(content) :] = content
    return {"bytes": np.tile(data, (batch, 1))}


def speech(batch: int) -> Feeds:
    """576 samples at 16 kHz of something like a vowel: harmonics of 120 Hz under two formants."""
    time = np.arange(576) / 16000
    harmonics = 120 * np.arange(1, 30)
    formants = np.exp(-(((harmonics - 700) / 200) ** 2)) + 0.6 * np.exp(-(((harmonics - 1200) / 250) ** 2))
    wave = (formants[:, None] * np.sin(2 * np.pi * harmonics[:, None] * time)).sum(0)
    wave = 0.3 * wave / np.abs(wave).max() + 0.003 * np.random.default_rng(7).standard_normal(576)
    return {
        "input": np.tile(wave.astype(np.float32), (batch, 1)),
        "state": np.zeros((2, batch, 128), np.float32),
        "sr": np.array(16000, np.int64),
    }


def text_picture(height: int, width: int, size: int, text: str = PAGE) -> Callable[[int], Feeds]:
    """Black text on white, values from -1 to 1. Needs Pillow."""
    return lambda batch: {"x": np.tile(_drawn(height, width, size, text), (batch, 3, 1, 1))}


def _drawn(height: int, width: int, size: int, text: str) -> np.ndarray:
    from PIL import Image, ImageDraw, ImageFont  # only the text recognition models need Pillow

    image = Image.new("L", (width, height), 255)
    margin = max(2, (height - size) // 16)
    ImageDraw.Draw(image).text((margin, margin), text, fill=0, font=ImageFont.load_default(size))
    return (np.asarray(image, np.float32) / 127.5 - 1)[None, None]

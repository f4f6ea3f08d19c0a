"""ImageDecoder, where Pillow is installed."""

from __future__ import annotations

import io

import numpy as np
import pytest
from tests.present import operator

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import UINT8
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType

PIXELS = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3) * 4


def encoded(kind):
    image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image.fromarray(PIXELS).save(stream, kind)
    return np.frombuffer(stream.getvalue(), np.uint8)


def decode(data, pixel_format="RGB"):
    return operator("ImageDecoder", pixel_format=pixel_format).reference(data)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF"])
def test_lossless_formats_keep_their_pixels(kind):
    np.testing.assert_array_equal(decode(encoded(kind)), PIXELS)
    np.testing.assert_array_equal(decode(encoded(kind), "BGR"), PIXELS[:, :, ::-1])
    assert decode(encoded(kind), "Grayscale").shape == (4, 5, 1)


def test_what_is_no_image_gives_nothing():
    data = encoded("PNG")
    for broken in (data[:20], np.zeros(0, np.uint8), np.zeros(100, np.uint8), data[: len(data) - 30]):
        assert decode(broken).shape == (0, 0, 3)
    assert decode(encoded("GIF")).shape == (0, 0, 3)


def test_pillow_is_asked_for(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(UnsupportedError, match=r"pip install pillow"):
        decode(np.zeros(4, np.uint8))


def test_infer():
    b = Builder(Graph())
    stream = b.graph.add_input("x", TensorType(UINT8, (9,)))
    assert b.ImageDecoder(stream, pixel_format="Grayscale").shape[2] == 1
    with pytest.raises(ShapeError, match="pixel_format 'HSV' is none of"):
        b.ImageDecoder(stream, pixel_format="HSV")

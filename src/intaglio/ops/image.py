"""ImageDecoder, by Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from intaglio.errors import LimitError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import UINT8
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import need_rank

FORMATS = ("BMP", "DIB", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
PIXEL_LIMIT = 1 << 28


class ImageDecoder(Op):
    """The pixels of an encoded image, height x width x channels; nothing where it cannot be decoded."""

    no_gradient = "it has no input that changes smoothly"
    pixel_format: str = "RGB"

    def infer(self, encoded_stream: Value) -> TensorType:
        need_rank(encoded_stream, 1, 1)
        if self.pixel_format not in ("RGB", "BGR", "Grayscale"):
            raise ShapeError(f"pixel_format {self.pixel_format!r} is none of RGB, BGR, Grayscale")
        return TensorType(UINT8, (dims.fresh(), dims.fresh(), self._channels()))

    def _channels(self) -> int:
        return 1 if self.pixel_format == "Grayscale" else 3

    def reference(self, encoded_stream: Array) -> Array:
        image = self._decode(encoded_stream.tobytes())
        if image is None:
            return np.zeros((0, 0, self._channels()), np.uint8)
        pixels = np.asarray(image.convert("L" if self.pixel_format == "Grayscale" else "RGB"), np.uint8)
        if self.pixel_format == "Grayscale":
            return pixels[:, :, None]
        return pixels if self.pixel_format == "RGB" else pixels[:, :, ::-1].copy()

    def _decode(self, data: bytes) -> Any:
        try:
            from PIL import Image
        except ImportError:
            raise UnsupportedError("ImageDecoder needs Pillow: pip install pillow") from None
        try:
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            if image.width * image.height > PIXEL_LIMIT:
                raise LimitError(
                    f"an image of {image.width} x {image.height} pixels, at most {PIXEL_LIMIT} are decoded"
                )
            image.load()
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None
        return image

"""Older versions of the operators of ai.onnx.ml."""

from __future__ import annotations

import numpy as np
import pytest

from intaglio.errors import ShapeError

ML = "ai.onnx.ml"


def test_label_encoder_1_maps_strings_to_places(agree):
    words = np.array(["b", "q", "a"], object)
    agree("LabelEncoder", words, domain=ML, ml=1, classes_strings=["a", "b"], default_int64=-9)


def test_label_encoder_1_maps_places_to_strings(agree):
    agree("LabelEncoder", np.array([[1, 5, 0]], np.int64), domain=ML, ml=1, classes_strings=["a", "b"])


def test_label_encoder_1_needs_its_classes(agree):
    with pytest.raises(ShapeError, match="expected classes_strings"):
        agree("LabelEncoder", np.array([1], np.int64), domain=ML, ml=1, expected=[])

"""Imports every family of adapters, so that all of them are registered."""

from intaglio.onnx.adapters import activation as activation
from intaglio.onnx.adapters import control as control
from intaglio.onnx.adapters import elementwise as elementwise
from intaglio.onnx.adapters import indexing as indexing
from intaglio.onnx.adapters import linear as linear
from intaglio.onnx.adapters import ml as ml
from intaglio.onnx.adapters import movement as movement
from intaglio.onnx.adapters import normalization as normalization
from intaglio.onnx.adapters import pooling as pooling
from intaglio.onnx.adapters import recurrent as recurrent
from intaglio.onnx.adapters import reduce as reduce
from intaglio.onnx.adapters import resize as resize
from intaglio.onnx.adapters import selection as selection
from intaglio.onnx.adapters import shape as shape
from intaglio.onnx.adapters import signal as signal
from intaglio.onnx.adapters import softmax as softmax
from intaglio.onnx.adapters import vision_nn as vision_nn

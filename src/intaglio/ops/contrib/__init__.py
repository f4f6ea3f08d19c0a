"""The operators of ONNX Runtime: domains com.microsoft and com.microsoft.nchwc."""

from intaglio.ops.contrib import attention as attention
from intaglio.ops.contrib import experts as experts
from intaglio.ops.contrib import fused as fused
from intaglio.ops.contrib import gated as gated
from intaglio.ops.contrib import group_attention as group_attention
from intaglio.ops.contrib import layouts as layouts
from intaglio.ops.contrib import quantize as quantize
from intaglio.ops.contrib import recurrent as recurrent
from intaglio.ops.contrib import tensor as tensor

"""Every family of operators: importing this module completes the table of them."""

from intaglio.ir.op import OPERATORS
from intaglio.ops import activation as activation
from intaglio.ops import arithmetic as arithmetic
from intaglio.ops import attention as attention
from intaglio.ops import cast as cast
from intaglio.ops import contrib as contrib
from intaglio.ops import control as control
from intaglio.ops import convolution as convolution
from intaglio.ops import einsum as einsum
from intaglio.ops import evaluate as evaluate
from intaglio.ops import functions as functions
from intaglio.ops import image as image
from intaglio.ops import indexing as indexing
from intaglio.ops import linear as linear
from intaglio.ops import linear_attention as linear_attention
from intaglio.ops import logic as logic
from intaglio.ops import loss as loss
from intaglio.ops import ml as ml
from intaglio.ops import movement as movement
from intaglio.ops import normalization as normalization
from intaglio.ops import pooling as pooling
from intaglio.ops import quantize as quantize
from intaglio.ops import random as random
from intaglio.ops import recurrent as recurrent
from intaglio.ops import reduce as reduce
from intaglio.ops import resize as resize
from intaglio.ops import selection as selection
from intaglio.ops import sequence as sequence
from intaglio.ops import shape as shape
from intaglio.ops import signal as signal
from intaglio.ops import softmax as softmax
from intaglio.ops import text as text
from intaglio.ops import tokenizer as tokenizer
from intaglio.ops import training as training
from intaglio.ops import unary as unary
from intaglio.ops import vision_nn as vision_nn

OPERATORS.is_complete = True

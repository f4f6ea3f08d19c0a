"""The lowering of structured operators, by family; importing this package registers them all."""

from intaglio.targets.c.rules import attention as attention
from intaglio.targets.c.rules import attention_gradient as attention_gradient
from intaglio.targets.c.rules import axes as axes
from intaglio.targets.c.rules import convolution as convolution
from intaglio.targets.c.rules import counted_results as counted_results
from intaglio.targets.c.rules import crop as crop
from intaglio.targets.c.rules import deform as deform
from intaglio.targets.c.rules import determinant as determinant
from intaglio.targets.c.rules import dynamic_quantize as dynamic_quantize
from intaglio.targets.c.rules import experts as experts
from intaglio.targets.c.rules import features as features
from intaglio.targets.c.rules import fold as fold
from intaglio.targets.c.rules import fourier as fourier
from intaglio.targets.c.rules import gather as gather
from intaglio.targets.c.rules import integer as integer
from intaglio.targets.c.rules import integer_convolution as integer_convolution
from intaglio.targets.c.rules import linear as linear
from intaglio.targets.c.rules import mel as mel
from intaglio.targets.c.rules import movement as movement
from intaglio.targets.c.rules import nibbles as nibbles
from intaglio.targets.c.rules import pad as pad
from intaglio.targets.c.rules import pattern as pattern
from intaglio.targets.c.rules import pool as pool
from intaglio.targets.c.rules import pool_gradient as pool_gradient
from intaglio.targets.c.rules import random as random
from intaglio.targets.c.rules import recurrent as recurrent
from intaglio.targets.c.rules import repeats as repeats
from intaglio.targets.c.rules import resize as resize
from intaglio.targets.c.rules import roi as roi
from intaglio.targets.c.rules import runtime_sizes as runtime_sizes
from intaglio.targets.c.rules import sampling as sampling
from intaglio.targets.c.rules import scan as scan
from intaglio.targets.c.rules import scatter as scatter
from intaglio.targets.c.rules import selection as selection
from intaglio.targets.c.rules import softmax as softmax
from intaglio.targets.c.rules import trees as trees
from intaglio.targets.c.rules import unpool as unpool
from intaglio.targets.c.rules import weight_gradient as weight_gradient
from intaglio.targets.c.rules.table import ANCHORS, LATE

__all__ = ["ANCHORS", "LATE"]

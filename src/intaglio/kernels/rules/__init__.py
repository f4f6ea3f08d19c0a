"""The lowering of structured operators, by family; importing this package registers them all."""

from intaglio.kernels.rules import attention as attention
from intaglio.kernels.rules import convolution as convolution
from intaglio.kernels.rules import features as features
from intaglio.kernels.rules import crop as crop
from intaglio.kernels.rules import deform as deform
from intaglio.kernels.rules import determinant as determinant
from intaglio.kernels.rules import fold as fold
from intaglio.kernels.rules import gather as gather
from intaglio.kernels.rules import integer as integer
from intaglio.kernels.rules import integer_convolution as integer_convolution
from intaglio.kernels.rules import linear as linear
from intaglio.kernels.rules import movement as movement
from intaglio.kernels.rules import pad as pad
from intaglio.kernels.rules import pattern as pattern
from intaglio.kernels.rules import pool as pool
from intaglio.kernels.rules import recurrent as recurrent
from intaglio.kernels.rules import resize as resize
from intaglio.kernels.rules import roi as roi
from intaglio.kernels.rules import sampling as sampling
from intaglio.kernels.rules import scan as scan
from intaglio.kernels.rules import scatter as scatter
from intaglio.kernels.rules import selection as selection
from intaglio.kernels.rules import trees as trees

"""The lowering of structured operators, by family; importing this package registers them all."""

from intaglio.kernels.rules import convolution as convolution
from intaglio.kernels.rules import linear as linear
from intaglio.kernels.rules import movement as movement

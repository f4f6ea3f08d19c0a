"""The operators of ai.onnx.ml: features, linear models, support vector machines and trees."""

from intaglio.ops.ml import features as features
from intaglio.ops.ml import labels as labels
from intaglio.ops.ml import linear as linear
from intaglio.ops.ml import svm as svm
from intaglio.ops.ml import trees as trees

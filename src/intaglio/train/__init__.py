"""Training: losses, optimizers and schedules, and the trainer that compiles a step of them with a model."""

from intaglio.train import schedules as schedules
from intaglio.train.distributed import Processes as Processes
from intaglio.train.distributed import torch_processes as torch_processes
from intaglio.train.fit import EarlyStopping as EarlyStopping
from intaglio.train.fit import History as History
from intaglio.train.initial import kaiming_uniform as kaiming_uniform
from intaglio.train.initial import normal as normal
from intaglio.train.initial import xavier_uniform as xavier_uniform
from intaglio.train.losses import L1 as L1
from intaglio.train.losses import MSE as MSE
from intaglio.train.losses import NLL as NLL
from intaglio.train.losses import BCEWithLogits as BCEWithLogits
from intaglio.train.losses import CrossEntropy as CrossEntropy
from intaglio.train.losses import Huber as Huber
from intaglio.train.losses import KLDiv as KLDiv
from intaglio.train.losses import Loss as Loss
from intaglio.train.optimizers import SGD as SGD
from intaglio.train.optimizers import Adagrad as Adagrad
from intaglio.train.optimizers import Adam as Adam
from intaglio.train.optimizers import AdamW as AdamW
from intaglio.train.optimizers import Lion as Lion
from intaglio.train.optimizers import Optimizer as Optimizer
from intaglio.train.optimizers import RMSprop as RMSprop
from intaglio.train.step import Group as Group
from intaglio.train.trainer import Trainer as Trainer
from intaglio.train.training_info import training_step as training_step

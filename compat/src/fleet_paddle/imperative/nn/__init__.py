"""Layers of the imperative mode: `paddle.nn` over torch."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.imperative.nn import (
    activation,
    conv,
    distance,
    dropout,
    functional,
    image,
    loss_special,
    table,
    weighted,
)
from fleet_paddle.imperative.nn.activation import *
from fleet_paddle.imperative.nn.base import initializer
from fleet_paddle.imperative.nn.base.layer import (
    Flatten,
    Identity,
    Layer,
    LayerDict,
    LayerList,
    ParameterList,
    Sequential,
)
from fleet_paddle.imperative.nn.conv import *
from fleet_paddle.imperative.nn.distance import *
from fleet_paddle.imperative.nn.dropout import *
from fleet_paddle.imperative.nn.image import *
from fleet_paddle.imperative.nn.loss_special import *
from fleet_paddle.imperative.nn.norms import batch_norm, norm
from fleet_paddle.imperative.nn.norms.batch_norm import *
from fleet_paddle.imperative.nn.norms.norm import *
from fleet_paddle.imperative.nn.sequences import attention, cells, recurrent, transformer
from fleet_paddle.imperative.nn.sequences.attention import *
from fleet_paddle.imperative.nn.sequences.cells import *
from fleet_paddle.imperative.nn.sequences.recurrent import *
from fleet_paddle.imperative.nn.sequences.transformer import *
from fleet_paddle.imperative.nn.table import *
from fleet_paddle.imperative.nn.weighted import *
from fleet_programs.backward.clip import GradientClipByGlobalNorm as ClipGradByGlobalNorm
from fleet_programs.backward.clip import GradientClipByNorm as ClipGradByNorm
from fleet_programs.backward.clip import GradientClipByValue as ClipGradByValue

__all__ = [
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "Flatten",
    "Identity",
    "Layer",
    "LayerDict",
    "LayerList",
    "ParameterList",
    "Sequential",
    "functional",
    "initializer",
]
__all__ += activation.__all__
__all__ += attention.__all__
__all__ += batch_norm.__all__
__all__ += cells.__all__
__all__ += conv.__all__
__all__ += distance.__all__
__all__ += dropout.__all__
__all__ += image.__all__
__all__ += loss_special.__all__
__all__ += norm.__all__
__all__ += recurrent.__all__
__all__ += table.__all__
__all__ += transformer.__all__
__all__ += weighted.__all__

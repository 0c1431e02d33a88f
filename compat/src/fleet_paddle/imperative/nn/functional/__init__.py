"""Functions that layers are made of, with Paddle's arguments; results are our tensors.

Given variables of a program, each is the function of its name in `programs.functional`, and so are the layers.
"""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.imperative.functions.table import tanh
from fleet_paddle.imperative.nn.functional import (
    activation,
    conv,
    image,
    loss_special,
    noise,
    norm,
    pool,
    table,
    vectors,
)
from fleet_paddle.imperative.nn.functional.activation import *
from fleet_paddle.imperative.nn.functional.conv import *
from fleet_paddle.imperative.nn.functional.image import *
from fleet_paddle.imperative.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    softmax_with_cross_entropy,
    square_error_cost,
)
from fleet_paddle.imperative.nn.functional.loss_special import *
from fleet_paddle.imperative.nn.functional.noise import *
from fleet_paddle.imperative.nn.functional.norm import *
from fleet_paddle.imperative.nn.functional.pool import *
from fleet_paddle.imperative.nn.functional.table import *
from fleet_paddle.imperative.nn.functional.vectors import *
from fleet_paddle.imperative.nn.functional.weighted import (
    embedding,
    layer_norm,
    linear,
    one_hot,
)
from fleet_paddle.imperative.operands import all_by_operand

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "embedding",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "linear",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "smooth_l1_loss",
    "softmax_with_cross_entropy",
    "square_error_cost",
    "tanh",
]
__all__ += activation.__all__
__all__ += conv.__all__
__all__ += image.__all__
__all__ += loss_special.__all__
__all__ += noise.__all__
__all__ += norm.__all__
__all__ += pool.__all__
__all__ += table.__all__
__all__ += vectors.__all__

all_by_operand(globals(), __all__, "fleet_paddle.programs.functional")

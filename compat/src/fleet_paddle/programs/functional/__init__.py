"""Functions of variables with the names and arguments of version 2.0's `nn.functional`."""
# ruff: noqa: F401, F403  (a module of names, each listed where it is made)

from __future__ import annotations

from fleet_paddle.imperative.functions.table import tanh
from fleet_paddle.imperative.nn.functional.table import *
from fleet_paddle.programs.functional.activation import dropout
from fleet_paddle.programs.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    dice_loss,
    kl_div,
    l1_loss,
    log_loss,
    margin_ranking_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    softmax_with_cross_entropy,
    square_error_cost,
)
from fleet_paddle.programs.functional.weighted import (
    batch_norm,
    cosine_similarity,
    embedding,
    label_smooth,
    layer_norm,
    linear,
    normalize,
    one_hot,
    one_hot_v2,
    prelu,
    sequence_mask,
)
from fleet_paddle.programs.functional.window import (
    adaptive_avg_pool2d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    conv1d,
    conv2d,
    conv3d,
    max_pool1d,
    max_pool2d,
    pad,
)

"""Imperative mode: layers, tensors and optimizers of Paddle 2.0 over torch, for scripts that are written so.

    import fleet_paddle.imperative as paddle

    layer = paddle.nn.Linear(10, 1)
    adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=layer.parameters())
    loss = paddle.nn.MSELoss()(layer(paddle.randn([8, 10])), paddle.zeros([8, 1]))
    loss.backward()
    adam.step()
    adam.clear_grad()

A Layer is a torch module, an optimizer a torch optimizer: `fleet.distributed_model` and `fleet.distributed_optimizer`
take them as they take torch's own.
"""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet.static.attr import ParamAttr
from fleet_paddle.imperative import amp, creation, files, nn, optimizer, parallel, place, random, tensor
from fleet_paddle.imperative.creation import *
from fleet_paddle.imperative.files import *
from fleet_paddle.imperative.functions import (
    asking,
    autograd,
    linear,
    manipulation,
    ordering,
    picking,
    pointwise,
    reduction,
    table,
)
from fleet_paddle.imperative.functions.asking import *
from fleet_paddle.imperative.functions.autograd import *
from fleet_paddle.imperative.functions.linear import *
from fleet_paddle.imperative.functions.manipulation import *
from fleet_paddle.imperative.functions.ordering import *
from fleet_paddle.imperative.functions.picking import *
from fleet_paddle.imperative.functions.pointwise import *
from fleet_paddle.imperative.functions.reduction import *
from fleet_paddle.imperative.functions.table import *
from fleet_paddle.imperative.parallel import *
from fleet_paddle.imperative.place import *
from fleet_paddle.imperative.random import *
from fleet_paddle.imperative.tensor import *

__all__ = ["ParamAttr", "amp", "nn", "optimizer"]
__all__ += creation.__all__
__all__ += files.__all__
__all__ += asking.__all__
__all__ += autograd.__all__
__all__ += linear.__all__
__all__ += manipulation.__all__
__all__ += ordering.__all__
__all__ += picking.__all__
__all__ += pointwise.__all__
__all__ += reduction.__all__
__all__ += table.__all__
__all__ += parallel.__all__
__all__ += place.__all__
__all__ += random.__all__
__all__ += tensor.__all__

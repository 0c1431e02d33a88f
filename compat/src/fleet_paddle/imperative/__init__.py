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

from fleet_paddle.imperative import amp, creation, files, nn, optimizer, parallel, place, tensor
from fleet_paddle.imperative.creation import *
from fleet_paddle.imperative.exchange import ReduceOp, all_gather, all_reduce, barrier, broadcast, reduce
from fleet_paddle.imperative.files import *
from fleet_paddle.imperative.functions import autograd, table
from fleet_paddle.imperative.functions.autograd import *
from fleet_paddle.imperative.functions.table import *
from fleet_paddle.imperative.parallel import *
from fleet_paddle.imperative.place import *
from fleet_paddle.imperative.tensor import *
from fleet_programs.parameters.attr import ParamAttr

__all__ = ["ParamAttr", "amp", "nn", "optimizer"]
__all__ += ["ReduceOp", "all_gather", "all_reduce", "barrier", "broadcast", "reduce"]
__all__ += creation.__all__
__all__ += files.__all__
__all__ += autograd.__all__
__all__ += table.__all__
__all__ += parallel.__all__
__all__ += place.__all__
__all__ += tensor.__all__

"""Imperative mode in the words of version 1.8: `guard`, `to_variable`, layers with `act=`, `save_dygraph`."""

from __future__ import annotations

from fleet_paddle.dygraph.cells import GRUCell, LSTMCell
from fleet_paddle.dygraph.files import load_dygraph, save_dygraph
from fleet_paddle.dygraph.layer import Layer, LayerList, ParameterList, Sequential
from fleet_paddle.dygraph.norm import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, SpectralNorm
from fleet_paddle.dygraph.pairing import NCE, BilinearTensorProduct
from fleet_paddle.dygraph.plain import Dropout, Flatten, Pool2D, prepare_context, to_variable
from fleet_paddle.dygraph.volume import Conv3D, Conv3DTranspose
from fleet_paddle.dygraph.weighted import Conv2D, Conv2DTranspose, Embedding, GRUUnit, Linear, PRelu

__all__ = [
    "NCE",
    "BatchNorm",
    "BilinearTensorProduct",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GRUUnit",
    "GroupNorm",
    "InstanceNorm",
    "LSTMCell",
    "Layer",
    "LayerList",
    "LayerNorm",
    "Linear",
    "PRelu",
    "ParameterList",
    "Pool2D",
    "Sequential",
    "SpectralNorm",
    "load_dygraph",
    "prepare_context",
    "save_dygraph",
    "to_variable",
]

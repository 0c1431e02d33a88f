"""Layers of the imperative mode: `paddle.nn` over torch."""

from __future__ import annotations

from fleet.imperative.nn import functional, initializer
from fleet.imperative.nn.activation import (
    ELU,
    GELU,
    Hardsigmoid,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    ReLU,
    ReLU6,
    Sigmoid,
    Silu,
    Softmax,
    Softplus,
    Softsign,
    Swish,
    Tanh,
)
from fleet.imperative.nn.layer import Flatten, Identity, Layer, LayerList, ParameterList, Sequential
from fleet.imperative.nn.linear import Conv2D, Embedding, Linear
from fleet.imperative.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from fleet.imperative.nn.norm import BatchNorm1D, BatchNorm2D, LayerNorm
from fleet.imperative.nn.pooling import AdaptiveAvgPool2D, AvgPool2D, Dropout, MaxPool2D
from fleet.static.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue

__all__ = [
    "ELU",
    "GELU",
    "AdaptiveAvgPool2D",
    "AvgPool2D",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1D",
    "BatchNorm2D",
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "Conv2D",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "Hardsigmoid",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "Layer",
    "LayerList",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2D",
    "NLLLoss",
    "ParameterList",
    "ReLU",
    "ReLU6",
    "Sequential",
    "Sigmoid",
    "Silu",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Softsign",
    "Swish",
    "Tanh",
    "functional",
    "initializer",
]

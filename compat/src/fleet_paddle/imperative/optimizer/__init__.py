"""Optimizers of the imperative mode: `Adam(learning_rate=0.001, parameters=layer.parameters())`."""

from __future__ import annotations

from fleet_paddle.imperative.optimizer import lr
from fleet_paddle.imperative.optimizer.base import Optimizer
from fleet_paddle.imperative.optimizer.rules import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Lamb, Momentum, RMSProp

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum", "Optimizer", "RMSProp", "lr"]

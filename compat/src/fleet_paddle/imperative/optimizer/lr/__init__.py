"""Learning-rate schedules: objects that an optimizer is given as its `learning_rate`; `step()` moves on.

    rate = lr.StepDecay(learning_rate=0.1, step_size=30)
    optimizer = SGD(learning_rate=rate, parameters=layer.parameters())
    for epoch in range(90):
        ...
        rate.step()

`last_epoch` counts the steps, from 0; what one is, an epoch or a batch, is the script's choice.
"""

from __future__ import annotations

from fleet_paddle.imperative.optimizer.lr.base import LRScheduler
from fleet_paddle.imperative.optimizer.lr.plateau import ReduceOnPlateau
from fleet_paddle.imperative.optimizer.lr.schedules import (
    CosineAnnealingDecay,
    ExponentialDecay,
    InverseTimeDecay,
    LambdaDecay,
    LinearWarmup,
    MultiplicativeDecay,
    MultiStepDecay,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
    StepDecay,
)

__all__ = [
    "CosineAnnealingDecay",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LRScheduler",
    "LambdaDecay",
    "LinearWarmup",
    "MultiStepDecay",
    "MultiplicativeDecay",
    "NaturalExpDecay",
    "NoamDecay",
    "PiecewiseDecay",
    "PolynomialDecay",
    "ReduceOnPlateau",
    "StepDecay",
]

"""Optimizers for programs: `SGD(learning_rate=0.01).minimize(loss)`."""

from __future__ import annotations

from fleet_programs.optimizer.adagrad import Adagrad, DecayedAdagrad, Ftrl, RMSProp
from fleet_programs.optimizer.adam import Adam, Adamax, AdamW, Lamb
from fleet_programs.optimizer.base import Optimizer
from fleet_programs.optimizer.momentum import SGD, LarsMomentum, Momentum

AdagradOptimizer = Adagrad
AdamOptimizer = Adam
AdamWOptimizer = AdamW
AdamaxOptimizer = Adamax
DecayedAdagradOptimizer = DecayedAdagrad
FtrlOptimizer = Ftrl
LambOptimizer = Lamb
LarsMomentumOptimizer = LarsMomentum
MomentumOptimizer = Momentum
RMSPropOptimizer = RMSProp
SGDOptimizer = SGD

__all__ = [
    "SGD",
    "Adagrad",
    "AdagradOptimizer",
    "Adam",
    "AdamOptimizer",
    "AdamW",
    "AdamWOptimizer",
    "Adamax",
    "AdamaxOptimizer",
    "DecayedAdagrad",
    "DecayedAdagradOptimizer",
    "Ftrl",
    "FtrlOptimizer",
    "Lamb",
    "LambOptimizer",
    "LarsMomentum",
    "LarsMomentumOptimizer",
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "RMSProp",
    "RMSPropOptimizer",
    "SGDOptimizer",
]

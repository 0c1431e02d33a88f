"""The optimizers: torch's formulas, Paddle's arguments. `parameters` is what to train.

`learning_rate` is a number or a schedule of `optimizer.lr`, `weight_decay` a number, L2Decay or L1Decay, `grad_clip`
one of nn.ClipGradByValue, ClipGradByNorm and ClipGradByGlobalNorm. All take the gradients of `Embedding(sparse=True)`.
"""
# ruff: noqa: ARG002  (`name` names nothing here)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from fleet.optim import Lamb as FleetLamb
from fleet_paddle.imperative.optimizer.base import Optimizer
from fleet_paddle.imperative.optimizer.gradients import adagrad_rows, adam_rows
from fleet_paddle.imperative.optimizer.groups import (
    Clip,
    Decay,
    Parameters,
    Rate,
    decoupled_groups_of,
    groups_of,
    rate_of,
)

# torch chooses this by itself, but only for parameters of its own class.
_TOGETHER = True


class SGD(Optimizer, torch.optim.SGD):
    """Plain gradient descent."""

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.SGD
    keeps_sparse = True

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        parameters: Parameters = None,
        weight_decay: Decay = None,
        grad_clip: Clip = None,
        name: str | None = None,
    ) -> None:
        rate, groups = rate_of(learning_rate), groups_of(parameters, weight_decay)
        torch.optim.SGD.__init__(self, groups, rate, foreach=_TOGETHER)
        self.begin(learning_rate, grad_clip)


class Momentum(Optimizer, torch.optim.SGD):
    """Gradient descent with momentum, Nesterov's if wanted."""

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.SGD

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        momentum: float = 0.9,
        parameters: Parameters = None,
        use_nesterov: bool = False,
        weight_decay: Decay = None,
        grad_clip: Clip = None,
        name: str | None = None,
    ) -> None:
        rate, groups = rate_of(learning_rate), groups_of(parameters, weight_decay)
        torch.optim.SGD.__init__(self, groups, rate, momentum, nesterov=use_nesterov, foreach=_TOGETHER)
        self.begin(learning_rate, grad_clip)


class Adam(Optimizer, torch.optim.Adam):
    """Adam. With `lazy_mode` rows without a gradient stay as they are, and so do their moments."""

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adam

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Parameters = None,
        weight_decay: Decay = None,
        grad_clip: Clip = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        rate, groups = rate_of(learning_rate), groups_of(parameters, weight_decay)
        torch.optim.Adam.__init__(self, groups, rate, (beta1, beta2), epsilon, foreach=_TOGETHER)
        if lazy_mode:
            self.by_rows, self.is_lazy = adam_rows, True
        self.begin(learning_rate, grad_clip)


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam, apart from which weights grow smaller by `weight_decay` times the rate.

    `apply_decay_param_fun` is given a parameter's name and says whether that concerns it. `lazy_mode` is Adam's; the
    decay is that of all rows.
    """

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.AdamW

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Parameters = None,
        weight_decay: Decay = 0.01,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: Clip = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        rate, groups = rate_of(learning_rate), decoupled_groups_of(parameters, weight_decay, apply_decay_param_fun)
        torch.optim.AdamW.__init__(self, groups, rate, (beta1, beta2), epsilon, foreach=_TOGETHER)
        if lazy_mode:
            self.by_rows, self.is_lazy = adam_rows, True
        self.begin(learning_rate, grad_clip)


class Adagrad(Optimizer, torch.optim.Adagrad):
    """Adagrad."""

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adagrad
    by_rows = staticmethod(adagrad_rows)

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        epsilon: float = 1e-06,
        parameters: Parameters = None,
        weight_decay: Decay = None,
        grad_clip: Clip = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        rate, groups = rate_of(learning_rate), groups_of(parameters, weight_decay)
        torch.optim.Adagrad.__init__(self, groups, rate, 0, 0, initial_accumulator_value, epsilon, foreach=_TOGETHER)
        self.begin(learning_rate, grad_clip)


class RMSProp(Optimizer, torch.optim.RMSprop):
    """RMSProp by torch's formula, as programs and servers have it too: `epsilon` is added to the root.

    PaddlePaddle adds it to what is below the root, so that with the same number its steps are shorter where gradients
    are small; its momentum has the rate inside, which matters only while the rate changes.
    """

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.RMSprop

    def __init__(
        self,
        learning_rate: Rate,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Parameters = None,
        weight_decay: Decay = None,
        grad_clip: Clip = None,
        name: str | None = None,
    ) -> None:
        rate, groups = rate_of(learning_rate), groups_of(parameters, weight_decay)
        torch.optim.RMSprop.__init__(self, groups, rate, rho, epsilon, 0, momentum, centered, foreach=_TOGETHER)
        self.begin(learning_rate, grad_clip)


class Adamax(Optimizer, torch.optim.Adamax):
    """Adam with the greatest gradient of late in place of its mean square."""

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adamax

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Parameters = None,
        weight_decay: Decay = None,
        grad_clip: Clip = None,
        name: str | None = None,
    ) -> None:
        rate, groups = rate_of(learning_rate), groups_of(parameters, weight_decay)
        torch.optim.Adamax.__init__(self, groups, rate, (beta1, beta2), epsilon, foreach=_TOGETHER)
        self.begin(learning_rate, grad_clip)


class Lamb(Optimizer, FleetLamb):
    """Adam for large batches: each layer's step is measured against its weights."""

    stands_for: ClassVar[type[torch.optim.Optimizer]] = FleetLamb

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameters: Parameters = None,
        grad_clip: Clip = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        name: str | None = None,
    ) -> None:
        rate, groups = rate_of(learning_rate), decoupled_groups_of(parameters, lamb_weight_decay)
        several = [one for group in groups for one in group["params"]]
        excluded = [one for one in several if exclude_from_weight_decay_fn and exclude_from_weight_decay_fn(one)]
        FleetLamb.__init__(self, groups, rate, (beta1, beta2), epsilon, lamb_weight_decay, excluded)
        self.begin(learning_rate, grad_clip)

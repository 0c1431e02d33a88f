"""The optimizers: torch's formulas, Paddle's arguments. `parameters` is what to train.

`learning_rate` is a number or a schedule of `optimizer.lr`, `weight_decay` a number or L2Decay, `grad_clip` one of
nn.ClipGradByValue, ClipGradByNorm and ClipGradByGlobalNorm.
"""
# ruff: noqa: ARG002  (`name` names nothing here)

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch

from fleet.errors import NotSupportedError
from fleet.imperative.optimizer.base import Optimizer, Rate, decay_of, groups_of, rate_of
from fleet.optim import Lamb as FleetLamb
from fleet.static.clip import GradientClip
from fleet.static.variable import Penalty

Parameters = Iterable[Any] | None
Decay = float | Penalty | None
Clip = GradientClip | None

# torch chooses this by itself, but only for parameters of its own class.
_TOGETHER = True


class SGD(Optimizer, torch.optim.SGD):
    """Plain gradient descent."""

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.SGD

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        parameters: Parameters = None,
        weight_decay: Decay = None,
        grad_clip: Clip = None,
        name: str | None = None,
    ) -> None:
        rate, decay = rate_of(learning_rate), decay_of(weight_decay)
        torch.optim.SGD.__init__(self, groups_of(parameters), rate, weight_decay=decay, foreach=_TOGETHER)
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
        rate, decay = rate_of(learning_rate), decay_of(weight_decay)
        torch.optim.SGD.__init__(self, groups_of(parameters), rate, momentum, 0, decay, use_nesterov, foreach=_TOGETHER)
        self.begin(learning_rate, grad_clip)


class Adam(Optimizer, torch.optim.Adam):
    """Adam."""

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
        _not_lazy("Adam", lazy_mode)
        rate, decay = rate_of(learning_rate), decay_of(weight_decay)
        torch.optim.Adam.__init__(self, groups_of(parameters), rate, (beta1, beta2), epsilon, decay, foreach=_TOGETHER)
        self.begin(learning_rate, grad_clip)


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam, apart from which weights grow smaller by `weight_decay` times the rate.

    `apply_decay_param_fun` is given a parameter's name and says whether that concerns it.
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
        _not_lazy("AdamW", lazy_mode)
        rate, decay, groups = rate_of(learning_rate), decay_of(weight_decay), groups_of(parameters)
        if apply_decay_param_fun is not None:
            groups = _parted(groups, apply_decay_param_fun)
        torch.optim.AdamW.__init__(self, groups, rate, (beta1, beta2), epsilon, decay, foreach=_TOGETHER)
        self.begin(learning_rate, grad_clip)


class Adagrad(Optimizer, torch.optim.Adagrad):
    """Adagrad."""

    stands_for: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adagrad

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
        rate, decay = rate_of(learning_rate), decay_of(weight_decay)
        torch.optim.Adagrad.__init__(
            self, groups_of(parameters), rate, 0, decay, initial_accumulator_value, epsilon, foreach=_TOGETHER
        )
        self.begin(learning_rate, grad_clip)


class RMSProp(Optimizer, torch.optim.RMSprop):
    """RMSProp; `epsilon` is added to the root, as torch does."""

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
        rate, decay = rate_of(learning_rate), decay_of(weight_decay)
        torch.optim.RMSprop.__init__(
            self, groups_of(parameters), rate, rho, epsilon, decay, momentum, centered, foreach=_TOGETHER
        )
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
        rate, decay = rate_of(learning_rate), decay_of(weight_decay)
        torch.optim.Adamax.__init__(
            self, groups_of(parameters), rate, (beta1, beta2), epsilon, decay, foreach=_TOGETHER
        )
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
        rate, groups = rate_of(learning_rate), groups_of(parameters)
        several = [one for group in groups for one in (group["params"] if isinstance(group, dict) else [group])]
        excluded = [one for one in several if exclude_from_weight_decay_fn and exclude_from_weight_decay_fn(one)]
        FleetLamb.__init__(self, groups, rate, (beta1, beta2), epsilon, lamb_weight_decay, excluded)
        self.begin(learning_rate, grad_clip)


def _not_lazy(what: str, lazy_mode: bool) -> None:
    if lazy_mode:
        raise NotSupportedError(
            f"{what}: lazy_mode is not built here; keep rows that are looked up in fleet.nn.Embedding, whose rules are"
        )


def _parted(groups: list[Any], wants_decay: Callable[[str], bool]) -> list[Any]:
    """A group of the parameters that weight decay is for, and one of the others."""
    if any(isinstance(group, dict) for group in groups):
        raise NotSupportedError("apply_decay_param_fun does not go with groups of parameters; give one list of them")
    sides: dict[bool, list[Any]] = {True: [], False: []}
    for place, one in enumerate(groups):
        sides[bool(wants_decay(getattr(one, "name", None) or str(place)))].append(one)
    made: list[dict[str, Any]] = [{"params": sides[True]}, {"params": sides[False], "weight_decay": 0.0}]
    return [group for group in made if group["params"]]

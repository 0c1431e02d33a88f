"""The optimizers: torch's formulas, Paddle's arguments. `parameters` is what to train.

`learning_rate` is a number or a schedule of `optimizer.lr`, `weight_decay` a number, L2Decay or L1Decay, `grad_clip`
one of nn.ClipGradByValue, ClipGradByNorm and ClipGradByGlobalNorm. All take the gradients of `Embedding(sparse=True)`.
`takes` has every argument once: `rho->alpha=0.95` is torch's `alpha`, and 0.95 if left out.
"""

from __future__ import annotations

from typing import Any

import torch

from fleet.optim import Lamb as FleetLamb
from fleet_paddle.imperative.optimizer.base import Optimizer
from fleet_paddle.imperative.optimizer.gradients import adagrad_rows
from fleet_paddle.imperative.optimizer.groups import Groups, decoupled_groups_of
from fleet_paddle.imperative.optimizer.later import LATER
from fleet_paddle.imperative.optimizer.touched import AdamTouched

_REST = "weight_decay=None, grad_clip=None, name"
_BETAS = "beta1=0.9, beta2=0.999, epsilon->eps"


class SGD(Optimizer, torch.optim.SGD):
    """Plain gradient descent."""

    stands_for = torch.optim.SGD
    takes = f"learning_rate=0.001, parameters=None, {_REST}"
    keeps_sparse = True


class Momentum(Optimizer, torch.optim.SGD):
    """Gradient descent with momentum, Nesterov's if wanted."""

    stands_for = torch.optim.SGD
    takes = (
        f"learning_rate=0.001, momentum=0.9, parameters=None, use_nesterov->nesterov=False, {_REST}, {LATER}, "
        "rescale_grad=1.0, use_multi_tensor=False"
    )


class Adam(Optimizer, torch.optim.Adam):
    """Adam. With `lazy_mode` rows without a gradient stay as they are, and so do their moments."""

    stands_for = torch.optim.Adam
    is_fused = True
    takes = f"learning_rate=0.001, {_BETAS}=1e-08, parameters=None, {_REST}, lazy_mode=False, {LATER}"

    def take(self, given: dict[str, Any]) -> None:
        self.by_rows = AdamTouched()
        super().take(given)


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam, apart from which weights grow smaller by `weight_decay` times the rate.

    `apply_decay_param_fun` is given a parameter's name and says whether that concerns it. `lazy_mode` is Adam's; the
    decay is that of all rows.
    """

    stands_for = torch.optim.AdamW
    is_fused = True
    takes = (
        f"learning_rate=0.001, {_BETAS}=1e-08, parameters=None, weight_decay=0.01, apply_decay_param_fun=None, "
        f"grad_clip=None, name, lazy_mode=False, {LATER}, lr_ratio=None"
    )

    def groups(self, given: dict[str, Any]) -> Groups:
        return decoupled_groups_of(
            given.pop("parameters"), given.pop("weight_decay"), given.pop("apply_decay_param_fun")
        )


class Adagrad(Optimizer, torch.optim.Adagrad):
    """Adagrad."""

    stands_for = torch.optim.Adagrad
    is_fused = True
    takes = f"learning_rate, epsilon->eps=1e-06, parameters=None, {_REST}, initial_accumulator_value=0.0"
    by_rows = staticmethod(adagrad_rows)


class Adadelta(Optimizer, torch.optim.Adadelta):
    """Adadelta, whose steps have the size of earlier ones; `learning_rate` has no part in it, as in PaddlePaddle."""

    stands_for = torch.optim.Adadelta
    takes = f"learning_rate=0.001, epsilon->eps=1e-06, rho=0.95, parameters=None, {_REST}"

    def _apply(self) -> None:
        rates = [group["lr"] for group in self.param_groups]
        try:
            for group in self.param_groups:
                group["lr"] = 1.0
            super()._apply()
        finally:
            for group, rate in zip(self.param_groups, rates, strict=True):
                group["lr"] = rate


class RMSProp(Optimizer, torch.optim.RMSprop):
    """RMSProp by torch's formula, as programs and servers have it too: `epsilon` is added to the root.

    PaddlePaddle adds it to what is below the root, so that with the same number its steps are shorter where gradients
    are small; its momentum has the rate inside, which matters only while the rate changes.
    """

    stands_for = torch.optim.RMSprop
    takes = (
        f"learning_rate, rho->alpha=0.95, epsilon->eps=1e-06, momentum=0.0, centered=False, parameters=None, {_REST}"
    )


class Adamax(Optimizer, torch.optim.Adamax):
    """Adam with the greatest gradient of late in place of its mean square."""

    stands_for = torch.optim.Adamax
    takes = f"learning_rate=0.001, {_BETAS}=1e-08, parameters=None, {_REST}"


class Lamb(Optimizer, FleetLamb):
    """Adam for large batches: each layer's step is measured against its weights."""

    stands_for = FleetLamb
    takes = (
        f"learning_rate=0.001, lamb_weight_decay->weight_decay=0.01, {_BETAS}=1e-06, parameters=None, grad_clip=None, "
        "exclude_from_weight_decay_fn->no_decay=None, name"
    )
    is_foreach = False

    def groups(self, given: dict[str, Any]) -> Groups:
        made = decoupled_groups_of(given.pop("parameters"), given["weight_decay"])
        is_excluded = given["no_decay"] or (lambda _: False)
        given["no_decay"] = [one for group in made for one in group["params"] if is_excluded(one)]
        return made

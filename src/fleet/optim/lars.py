"""LARS: momentum whose rate is set for each parameter by the norms of its weights and of its gradient."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from fleet.errors import UsageError
from fleet.optim.layerwise import Group, Layerwise, check_at_least, matching, norms, refuse_unless, scale_


class Lars(Layerwise):
    """Layer-wise adaptive rates for momentum, for batches so large that one rate does not fit all layers.

        rate = lr * coeff * |w| / (|g| + weight_decay * |w| + epsilon)      lr where |w| or |g| is zero
        v = momentum * v + rate * (g + weight_decay * w)
        w = w - v                                                           nesterov: w - (rate * (...) + momentum * v)

    Parameters in `no_decay` have no weight decay, in the rate neither. The state of a parameter is `velocity`.

        optimizer = fleet.optim.Lars(model.parameters(), lr=8.0, momentum=0.9)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor,
        momentum: float = 0.9,
        coeff: float = 0.001,
        weight_decay: float = 0.0005,
        epsilon: float = 0.0,
        nesterov: bool = False,
        no_decay: Collection[Tensor] = (),
    ) -> None:
        check_at_least(0, lr=float(lr), momentum=momentum, coeff=coeff, weight_decay=weight_decay, epsilon=epsilon)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "coeff": coeff,
            "weight_decay": weight_decay,
            "epsilon": epsilon,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults, no_decay)

    @classmethod
    def taking_over(
        cls,
        sgd: torch.optim.SGD,
        *,
        coeff: float = 0.001,
        weight_decay: float = 0.0005,
        epsilon: float = 0.0,
        exclude: Collection[str] = (),
        names: Mapping[Parameter, str] | None = None,
    ) -> Lars:
        """Take the place of an SGD with momentum: its groups, rates, momentum and nesterov, LARS's own decay.

        `exclude` lists parts of `names` of parameters without weight decay. The SGD must not have stepped yet: its
        momentum holds gradients, that of LARS holds steps.
        """
        refuse_unless(sgd, (torch.optim.SGD,), "torch.optim.SGD with momentum", "LARS", weight_decay)
        if not all(group["momentum"] for group in sgd.param_groups):
            raise UsageError("LARS needs momentum, got SGD with momentum=0; write SGD(..., momentum=0.9)")
        if any(state.get("momentum_buffer") is not None for state in sgd.state.values()):
            raise UsageError("LARS cannot go on with the momentum of an SGD that has stepped; take over before that")
        lars = cls(
            sgd.param_groups,
            lr=sgd.defaults["lr"],
            momentum=sgd.defaults["momentum"],
            coeff=coeff,
            weight_decay=weight_decay,
            epsilon=epsilon,
            nesterov=sgd.defaults["nesterov"],
            no_decay=matching(names or {}, exclude),
        )
        lars._take_over(sgd, weight_decay)
        return lars

    def _update(self, group: Group, weights: list[Tensor], grads: list[Tensor], weight_decay: float) -> None:
        momentum, lr = group["momentum"], group["lr"]
        velocities = [self._velocity(weight) for weight in weights]
        weight_norms, grad_norms = norms(weights), norms(grads)
        scaled = lr * group["coeff"] * weight_norms / (grad_norms + weight_decay * weight_norms + group["epsilon"])
        rates = torch.where((weight_norms > 0) & (grad_norms > 0), scaled, lr)

        steps = list(torch._foreach_add(grads, weights, alpha=weight_decay))
        scale_(steps, rates)
        torch._foreach_mul_(velocities, momentum)
        torch._foreach_add_(velocities, steps)
        if group["nesterov"]:
            torch._foreach_add_(steps, velocities, alpha=momentum)
        torch._foreach_sub_(weights, steps if group["nesterov"] else velocities)

    def _velocity(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        velocity: Tensor = state["velocity"]
        return velocity

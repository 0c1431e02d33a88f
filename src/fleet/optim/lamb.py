"""LAMB: Adam whose step is scaled for each parameter by the norms of its weights and of the step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from fleet.errors import UsageError
from fleet.optim.layerwise import Group, Layerwise, check_at_least, matching, norms, refuse_unless, scale_


class Lamb(Layerwise):
    """Layer-wise adaptive rates for Adam, for batches so large that one rate does not fit all layers.

        m, v as in Adam, with bias correction
        r = m / (sqrt(v) + eps) + weight_decay * w
        w = w - lr * |w| / |r| * r                      1 in place of |w| / |r| where either is zero

    Parameters in `no_decay` have no weight decay. The state of a parameter is Adam's: `step`, `exp_avg`, `exp_avg_sq`.

        optimizer = fleet.optim.Lamb(model.parameters(), lr=2e-3)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        no_decay: Collection[Tensor] = (),
    ) -> None:
        check_at_least(0, lr=float(lr), eps=eps, weight_decay=weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise UsageError(f"betas must be two numbers in [0, 1), got {betas}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}, no_decay)

    @classmethod
    def taking_over(
        cls,
        adam: torch.optim.Adam | torch.optim.AdamW,
        *,
        weight_decay: float = 0.01,
        exclude: Collection[str] = (),
        names: Mapping[Parameter, str] | None = None,
    ) -> Lamb:
        """Take the place of an Adam or AdamW: its groups, rates, betas, eps and moments, LAMB's own decay.

        `exclude` lists parts of `names` of parameters without weight decay.
        """
        kinds = (torch.optim.Adam, torch.optim.AdamW)
        refuse_unless(adam, kinds, "torch.optim.Adam or AdamW", "LAMB", weight_decay)
        for group in adam.param_groups:
            # Torch keeps the steps of such groups on the device, where LAMB would have to wait for them.
            group.update(capturable=False, fused=None)
        lamb = cls(
            adam.param_groups,
            lr=adam.defaults["lr"],
            betas=adam.defaults["betas"],
            eps=adam.defaults["eps"],
            weight_decay=weight_decay,
            no_decay=matching(names or {}, exclude),
        )
        lamb._take_over(adam, weight_decay)
        return lamb

    def _update(self, group: Group, weights: list[Tensor], grads: list[Tensor], weight_decay: float) -> None:
        beta1, beta2 = group["betas"]
        states = [self._state(weight) for weight in weights]
        firsts, seconds = [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states]
        steps = [state["step"] for state in states]
        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(firsts, grads, 1 - beta1)
        torch._foreach_mul_(seconds, beta2)
        torch._foreach_addcmul_(seconds, grads, grads, 1 - beta2)

        # The steps lie in host memory, so nothing waits for a device.
        made = torch.stack(steps).double()
        roots = list(torch._foreach_sqrt(seconds))
        torch._foreach_div_(roots, (1 - beta2**made).sqrt().tolist())
        torch._foreach_add_(roots, group["eps"])
        directions = list(torch._foreach_div(firsts, roots))
        torch._foreach_div_(directions, (1 - beta1**made).tolist())
        torch._foreach_add_(directions, weights, alpha=weight_decay)

        weight_norms, direction_norms = norms(weights), norms(directions)
        trust = torch.where((weight_norms > 0) & (direction_norms > 0), weight_norms / direction_norms, 1.0)
        scale_(directions, trust * group["lr"])
        torch._foreach_sub_(weights, directions)

    def _state(self, weight: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[weight]
        if "step" not in state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        return state

"""The optimizer under deep gradient compression: momentum SGD, except where the momentum was applied before sending."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from fleet.errors import UsageError
from fleet.optim.common import loss_of


class DGCMomentum(Optimizer):
    """Steps for a momentum SGD whose larger gradients may come compressed.

    A gradient in `compressed` is a step already: each worker put momentum and weight decay into what it sent, so its
    parameter moves by plain w = w - lr * grad. All others are left to the SGD itself. Whoever compresses
    (fleet.collective.parts.topk) keeps `compressed` up to date; while it is empty this is exactly the SGD. Groups
    and state are the SGD's own, so its schedules and its checkpoints go on working.
    """

    def __init__(self, sgd: SGD) -> None:
        super().__init__(sgd.param_groups, sgd.defaults)
        self.param_groups = sgd.param_groups
        self.state = sgd.state
        self.compressed: set[Tensor] = set()
        self._sgd = sgd

    @classmethod
    def taking_over(cls, sgd: SGD) -> DGCMomentum:
        """Take the place of an SGD with momentum."""
        if not isinstance(sgd, SGD):
            raise UsageError(f"DGC takes the place of torch.optim.SGD with momentum, got {type(sgd).__name__}; use SGD")
        for group in sgd.param_groups:
            if not group["momentum"]:
                raise UsageError("DGC corrects momentum, got SGD with momentum=0; write SGD(..., momentum=0.9)")
            for flag in ("maximize", "differentiable"):
                if group[flag]:
                    raise UsageError(f"DGC does not know {flag}=True; leave it out of torch.optim.SGD")
        return cls(sgd)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = loss_of(closure)
        ready: dict[Tensor, Tensor] = {}
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight in self.compressed and weight.grad is not None]
            grads = [weight.grad for weight in weights]
            if weights:
                torch._foreach_add_(weights, grads, alpha=-float(group["lr"]))
            ready.update(zip(weights, grads, strict=True))
        for weight in ready:
            weight.grad = None
        try:
            self._sgd.step()
        finally:
            for weight, grad in ready.items():
                weight.grad = grad
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict()` gave, into the SGD too."""
        shared = self.param_groups
        self._sgd.load_state_dict(state_dict)
        shared[:] = self._sgd.param_groups
        self.param_groups = self._sgd.param_groups = shared
        self.state = self._sgd.state

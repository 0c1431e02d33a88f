"""LARS: momentum whose rate is set by the norms of a parameter and of its gradient, as `fleet.optim.Lars` does."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.training.update import Rate, Rule, is_sparse, register_update

LARGEST = torch.finfo(torch.float32).max


def norm_of(is_by_row: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """The norm of a tensor, or of each of its rows, in double and on its device."""

    def norm(tensor: torch.Tensor) -> torch.Tensor:
        dims = tuple(range(1, tensor.ndim)) if is_by_row else None
        if is_by_row and not dims:
            return tensor.abs().double()
        found: torch.Tensor = torch.linalg.vector_norm(tensor, dim=dims, keepdim=is_by_row, dtype=torch.float64)
        return found

    return norm


@register_update(
    "lars_momentum",
    ("Velocity",),
    {"mu": 0.9, "lars_coeff": 0.001, "lars_weight_decay": 0.0005, "epsilon": 0.0},
)
def _lars_momentum(op: Operator, lowering: Lowering) -> Rule:
    """A gradient of rows is measured row by row, as tables on servers do."""
    momentum, coeff, decay, epsilon = (op.attr(name) for name in ("mu", "lars_coeff", "lars_weight_decay", "epsilon"))
    norm = norm_of(is_sparse(op, lowering))

    def update(param: torch.Tensor, grad: torch.Tensor, rate: Rate, velocity: torch.Tensor) -> None:
        weights, size = norm(param), norm(grad)
        scaled = (weights * coeff).div_(size + weights * decay + epsilon)
        factor = torch.where((weights > 0) & (size > 0), scaled, 1.0).mul(rate).clamp_(max=LARGEST)
        change = grad.add(param, alpha=decay).mul_(factor.to(grad.dtype))
        param.sub_(velocity.mul_(momentum).add_(change))

    return update

"""Deep gradient compression of several workers in one process, as slow as it is plain."""

from __future__ import annotations

import torch
from torch import Tensor


class SlowWorker:
    """What one worker keeps of one parameter's gradient, and what it sends."""

    def __init__(self, momentum: float, weight_decay: float = 0.0, nesterov: bool = False) -> None:
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov
        self.u: Tensor | None = None
        self.v: Tensor | None = None

    def send(self, grad: Tensor, weight: Tensor, count: int) -> Tensor:
        """The values sent, and zeros where nothing is."""
        u = torch.zeros_like(grad) if self.u is None else self.u
        v = torch.zeros_like(grad) if self.v is None else self.v
        d = grad + self.weight_decay * weight
        u = self.momentum * u + d
        v = v + (d + self.momentum * u if self.nesterov else u)
        chosen = v.abs().reshape(-1).sort(descending=True, stable=True).indices[:count]
        mask = torch.zeros(v.numel(), dtype=torch.bool).index_fill_(0, chosen, True).view_as(v)
        self.u, self.v = u.masked_fill(mask, 0), v.masked_fill(mask, 0)
        return v.masked_fill(~mask, 0)


def send_all(workers: list[SlowWorker], grads: list[Tensor], weight: Tensor, sparsity: float) -> Tensor:
    """The mean of what all workers send of their gradients of one parameter."""
    count = max(1, round(weight.numel() * (1 - sparsity)))
    sent = [worker.send(grad, weight, count) for worker, grad in zip(workers, grads, strict=True)]
    return torch.stack(sent).mean(0)

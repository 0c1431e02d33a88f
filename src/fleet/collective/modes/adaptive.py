"""Adaptive LocalSGD: the interval between two averages follows the loss and the learning rate."""

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from fleet.collective.modes.local_sgd import Interval, LocalSGDPolicy
from fleet.errors import UsageError

LONGEST = 16


class AdaptiveLocalSGDPolicy(LocalSGDPolicy):
    """Next interval: sqrt(first interval x (lr0 loss) / (lr loss0)), rounded up, from 1 to 16.

    `loss` is the mean over the workers of the last one that `scale_loss` saw; loss0 and lr0 are those of the first
    average.
    """

    name = "adaptive_localsgd"
    no_join = "a worker without data has no loss to follow"

    def __init__(self, module: nn.Module, num_workers: int, interval: Interval) -> None:
        super().__init__(module, num_workers, interval)
        self._optimizer: Optimizer | None = None
        self._first: tuple[float, float] | None = None

    def take(self, optimizer: Optimizer) -> Optimizer:
        self._optimizer = optimizer
        return optimizer

    def _follow(self, loss: torch.Tensor | None) -> None:
        if loss is None:
            raise UsageError(
                "strategy.adaptive_localsgd follows the loss, which it has not seen; "
                "write model.scale_loss(loss).backward()"
            )
        assert self._optimizer is not None
        mean = loss.detach().float().cpu() / self.num_workers
        dist.all_reduce(mean)
        value, rate = float(mean), float(self._optimizer.param_groups[0]["lr"])
        if self._first is None and math.isfinite(value):
            self._first = value, rate
        if self._first is not None:
            self.k_steps = next_interval(self.interval.k_steps, self._first, (value, rate))

    def state_dict(self) -> dict[str, torch.Tensor]:
        first = [] if self._first is None else list(self._first)
        return super().state_dict() | {
            "first": torch.tensor(first, dtype=torch.float64),
            "k": torch.tensor(self.k_steps),
        }

    def load_state_dict(self, states: list[dict[str, torch.Tensor]], index: int) -> None:
        super().load_state_dict(states, index)
        first = states[0]["first"].tolist()
        self._first = (first[0], first[1]) if first else None
        self.k_steps = int(states[0]["k"])


def next_interval(first_k: int, first: tuple[float, float], now: tuple[float, float]) -> int:
    """The interval when (loss, learning rate) have gone from `first` to `now`."""
    try:
        product = first_k * (now[0] / first[0]) * (first[1] / now[1])
    except ZeroDivisionError:
        return 1
    if not math.isfinite(product) or product <= 1.0:
        return 1
    return min(LONGEST, math.ceil(math.sqrt(product)))

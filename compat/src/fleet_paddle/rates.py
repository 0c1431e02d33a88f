"""A schedule of `optimizer.lr` that decides the learning rate of a program: `scheduler.step()` sets its variable."""

from __future__ import annotations

from typing import Any

from fleet_programs.optimizer import Optimizer


def follow(scheduler: Any, optimizer: Optimizer) -> None:
    """Let the optimizer of a program have the scheduler's rate from now on; it was made with the rate of now."""
    follower = _Follower(optimizer, scheduler())
    scheduler.attach(follower)
    optimizer.__dict__["scheduler"] = follower  # which the scheduler itself does not keep


class _Follower:
    """What a scheduler takes for an optimizer: one group, whose rate is a variable."""

    def __init__(self, optimizer: Optimizer, rate: float) -> None:
        self.param_groups = [_Group(optimizer, rate)]


class _Group(dict[str, Any]):
    def __init__(self, optimizer: Optimizer, rate: float) -> None:
        super().__init__(lr=rate)
        self._optimizer = optimizer

    def __setitem__(self, name: str, value: Any) -> None:
        if value != self[name]:
            self._optimizer.set_lr(value)
            super().__setitem__(name, value)

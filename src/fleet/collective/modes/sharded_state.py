"""Sharding, stage 1: every worker keeps the optimizer's state of its own share of the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim import Optimizer

from fleet.collective.modes.base import refuse_stepped
from fleet.collective.modes.reduce_grad import Buckets, ReduceGrad
from fleet.optim.kinds import kind_of


class ShardedState(ReduceGrad):
    """ReduceGrad, and torch's ZeroRedundancyOptimizer over `group`: each worker updates its share and sends it."""

    name = "sharding stage 1"

    def __init__(
        self,
        module: nn.Module,
        num_workers: int,
        buckets: Buckets,
        group: dist.ProcessGroup | None,
    ) -> None:
        super().__init__(module, num_workers, buckets)
        self._group = group
        self.zero: ZeroRedundancyOptimizer | None = None
        self._users: Optimizer | None = None

    def take(self, optimizer: Optimizer) -> Optimizer:
        refuse_stepped(optimizer, self.name)
        accepted = inspect.signature(kind_of(optimizer).__init__).parameters
        defaults = {name: value for name, value in optimizer.defaults.items() if name in accepted}
        self._users = optimizer
        self.zero = ZeroRedundancyOptimizer(
            [dict(group) for group in optimizer.param_groups],
            optimizer_class=kind_of(optimizer),
            process_group=self._group,
            **defaults,
        )
        return self.zero

    def before_step(self) -> None:
        """Schedules and users change the groups of the user's optimizer; these are copies."""
        assert self.zero is not None
        assert self._users is not None
        for own, users in zip(self.zero.param_groups, self._users.param_groups, strict=True):
            own.update({name: value for name, value in users.items() if name != "params"})

    @contextmanager
    def join(self) -> Iterator[None]:
        raise self.refuse_join("each worker updates its share at every step")
        yield

    @property
    def local_optimizer(self) -> Any:
        """The optimizer of this worker's share."""
        assert self.zero is not None
        return self.zero.optim

    def state_owner(self, optimizer: Optimizer) -> Optimizer:  # noqa: ARG002
        own: Optimizer = self.local_optimizer
        return own

"""Several workers: `init_parallel_env`, `DataParallel`, and who is who."""

from __future__ import annotations

from typing import Any

from torch import nn

from fleet import api
from fleet.collective.model import DistributedModel
from fleet.errors import NotSupportedError, UsageError
from fleet.roles import Identity, discover
from fleet.strategy import DistributedStrategy
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.tensor import as_paddle

__all__ = [
    "DataParallel",
    "ParallelEnv",
    "get_rank",
    "get_world_size",
    "init_parallel_env",
]


def init_parallel_env() -> ParallelEnv:
    """Join the other workers, as `fleet.init(is_collective=True)` does; who was there before stays."""
    api.fleet.init(is_collective=True)
    return ParallelEnv()


class ParallelEnv:
    """This worker and the others, as the launcher has told; before `init_parallel_env` too."""

    def __init__(self) -> None:
        found = _identity()
        self.rank = self.local_rank = found.index
        """Index of this worker, from 0."""
        self.world_size = self.nranks = found.num_workers
        """Number of workers."""
        self.device_id = self.dev_id = current().index or 0
        """Index of the GPU of this worker; 0 on the CPU."""
        self.trainer_endpoints = [str(endpoint) for endpoint in found.worker_endpoints] or [""]
        """HOST:PORT of every worker, by index; one that is empty where nobody told."""
        known = self.rank < len(self.trainer_endpoints)
        self.current_endpoint = self.trainer_endpoints[self.rank] if known else ""
        """HOST:PORT of this worker; empty where nobody told."""


def get_rank() -> int:
    """Index of this worker, from 0."""
    return _identity().index


def get_world_size() -> int:
    """Number of workers."""
    return _identity().num_workers


class DataParallel(DistributedModel):
    """A layer trained together with the other workers: gradients come out as the mean. Joins them first if need be.

    `comm_buffer_size` is the size of a bucket of gradients in MB, 25 unless given, `last_comm_buffer_size` that of the
    last one, 1 unless given. A strategy has fields for them and for `find_unused_parameters`, so it is given alone.
    What `init_parallel_env` gave back may stand in its place, and says nothing.
    """

    def __init__(
        self,
        layers: nn.Module,
        strategy: Any = None,
        comm_buffer_size: int | None = None,
        last_comm_buffer_size: float | None = None,
        find_unused_parameters: bool | None = None,
        group: Any = None,
    ) -> None:
        if group is not None:
            raise NotSupportedError("DataParallel: group must be left out; every worker of the job takes part")
        buckets = (comm_buffer_size, last_comm_buffer_size, find_unused_parameters)
        if isinstance(strategy, ParallelEnv):
            strategy = None
        if strategy is None:
            strategy = _strategy(*buckets)
        elif not isinstance(strategy, DistributedStrategy):
            raise NotSupportedError("DataParallel: strategy must be a fleet.DistributedStrategy, or left out")
        elif buckets != (None, None, None):
            raise UsageError(
                "DataParallel: a strategy is given alone; set its fuse_grad_size_in_MB, last_comm_group_size_MB and "
                "find_unused_parameters"
            )
        if not api.fleet.is_collective():
            init_parallel_env()
        super().__init__(layers, strategy, get_world_size(), api.fleet.device)

    def parameters(self, include_sublayers: bool = True, *, recurse: bool = True) -> list[nn.Parameter]:  # type: ignore[override]
        """The layer's parameters, as a list."""
        return list(self.module.parameters(include_sublayers and recurse))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return as_paddle(super().forward(*inputs, **kwargs))


def _strategy(bucket_MB: int | None, last_MB: float | None, find_unused: bool | None) -> DistributedStrategy:  # noqa: N803
    strategy = DistributedStrategy()
    strategy.fuse_grad_size_in_MB = 25 if bucket_MB is None else bucket_MB
    strategy.last_comm_group_size_MB = 1.0 if last_MB is None else float(last_MB)
    strategy.find_unused_parameters = False if find_unused is None else find_unused
    return strategy


def _identity() -> Identity:
    return (api.fleet.role if api.fleet.is_initialized() else discover(True)).identity

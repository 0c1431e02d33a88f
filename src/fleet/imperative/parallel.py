"""Several workers: `init_parallel_env`, `DataParallel`, who is who, and collective calls on tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fleet import api
from fleet.collective.model import DistributedModel
from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet.imperative.place import current
from fleet.imperative.tensor import own
from fleet.roles import Identity, discover
from fleet.strategy import DistributedStrategy


def init_parallel_env() -> ParallelEnv:
    """Join the other workers, as `fleet.init(is_collective=True)` does; who was there before stays."""
    api.fleet.init(is_collective=True)
    return ParallelEnv()


class ParallelEnv:
    """This worker and the others, as the launcher has told; before `init_parallel_env` too."""

    def __init__(self) -> None:
        self._identity = _identity()

    @property
    def rank(self) -> int:
        """Index of this worker, from 0."""
        return self._identity.index

    @property
    def world_size(self) -> int:
        """Number of workers."""
        return self._identity.num_workers

    @property
    def device_id(self) -> int:
        """Index of the GPU of this worker; 0 on the CPU."""
        return current().index or 0

    @property
    def current_endpoint(self) -> str:
        """HOST:PORT of this worker; empty where nobody told."""
        endpoints = self.trainer_endpoints
        return endpoints[self.rank] if self.rank < len(endpoints) else ""

    @property
    def trainer_endpoints(self) -> list[str]:
        """HOST:PORT of every worker, by index."""
        return [str(endpoint) for endpoint in self._identity.worker_endpoints]

    local_rank = rank
    nranks = world_size
    dev_id = device_id


def get_rank() -> int:
    """Index of this worker, from 0."""
    return _identity().index


def get_world_size() -> int:
    """Number of workers."""
    return _identity().num_workers


class DataParallel(DistributedModel):
    """A layer trained together with the other workers: gradients come out as the mean. Joins them first if need be.

    `comm_buffer_size` is the size of a bucket of gradients in MB, `last_comm_buffer_size` that of the last one.
    """

    def __init__(
        self,
        layers: nn.Module,
        strategy: Any = None,
        comm_buffer_size: int = 25,
        last_comm_buffer_size: float = 1,
        find_unused_parameters: bool = False,
        group: Any = None,
    ) -> None:
        if group is not None:
            raise NotSupportedError("DataParallel: group must be left out; every worker of the job takes part")
        if strategy is not None and not isinstance(strategy, DistributedStrategy):
            raise NotSupportedError("DataParallel: strategy must be a fleet.DistributedStrategy, or left out")
        if not api.fleet.is_collective():
            init_parallel_env()
        if strategy is None:
            strategy = DistributedStrategy()
            strategy.fuse_grad_size_in_MB = comm_buffer_size
            strategy.last_comm_group_size_MB = float(last_comm_buffer_size)
            strategy.find_unused_parameters = find_unused_parameters
        super().__init__(layers, strategy, get_world_size(), api.fleet.device)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return own(super().forward(*inputs, **kwargs))


class ReduceOp:
    """What `all_reduce` and `reduce` do with the values of all workers."""

    SUM, MAX, MIN, PROD = dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT


def all_reduce(tensor: torch.Tensor, op: Any = ReduceOp.SUM, group: None = None, use_calc_stream: bool = True) -> None:  # noqa: ARG001
    """The sum over all workers, or another ReduceOp, in place."""
    _alone("all_reduce", group)
    dist.all_reduce(tensor.detach(), op)


def reduce(
    tensor: torch.Tensor,
    dst: int,
    op: Any = ReduceOp.SUM,
    group: None = None,
    use_calc_stream: bool = True,  # noqa: ARG001
) -> None:
    """The same for worker `dst` alone."""
    _alone("reduce", group)
    dist.reduce(tensor.detach(), dst, op)


def broadcast(tensor: torch.Tensor, src: int, group: None = None, use_calc_stream: bool = True) -> None:  # noqa: ARG001
    """The values of worker `src`, in place."""
    _alone("broadcast", group)
    dist.broadcast(tensor.detach(), src)


def all_gather(
    tensor_list: list[Any],
    tensor: torch.Tensor,
    group: None = None,
    use_calc_stream: bool = True,  # noqa: ARG001
) -> None:
    """The tensors of all workers, by index, put into an empty list."""
    _alone("all_gather", group)
    if tensor_list:
        raise UsageError(f"all_gather: tensor_list must be an empty list, got {len(tensor_list)} elements")
    found = [torch.empty_like(tensor.detach()) for _ in range(dist.get_world_size())]
    dist.all_gather(found, tensor.detach())
    tensor_list.extend(own(found))


def barrier(group: None = None) -> None:
    """Return when every worker has come here."""
    _alone("barrier", group)
    api.fleet.barrier_worker()


def _alone(what: str, group: None) -> None:
    if group is not None:
        raise NotSupportedError(f"{what}: group must be left out; every worker of the job takes part")
    if not dist.is_initialized():
        raise NotReadyError(f"{what} needs the other workers; call init_parallel_env() first")


def _identity() -> Identity:
    known = api.fleet._role_maker
    return (discover(True) if known is None else known).identity

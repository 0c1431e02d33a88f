"""Collective calls on tensors, of all workers or of a group of them, and tensors from one worker to another.

Every call is done when it returns, so that `use_calc_stream` says nothing and `wait` has nothing to wait for. `src` and
`dst` are indexes of workers in the job, also where a group is given. A worker that is not in the group does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from fleet import api
from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_paddle.imperative.tensor import as_paddle

__all__ = [
    "Group",
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "alltoall",
    "barrier",
    "broadcast",
    "get_group",
    "new_group",
    "recv",
    "reduce",
    "scatter",
    "send",
    "wait",
]


class ReduceOp:
    """What `all_reduce` and `reduce` do with the values of all workers."""

    SUM, MAX, MIN, PROD = dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT


@dataclass(frozen=True)
class Group:
    """Some workers of a job, that exchange tensors among themselves."""

    id: int
    """0 is all workers; the others are counted as they are made."""
    ranks: list[int]
    """The indexes of its workers in the job."""
    of_torch: Any
    """torch's group."""

    @property
    def nranks(self) -> int:
        """How many there are."""
        return len(self.ranks)

    @property
    def rank(self) -> int:
        """The place of this worker in it, -1 if it is none of them."""
        return self.get_group_rank(dist.get_rank())

    def is_member(self) -> bool:
        """Whether this worker is one of them."""
        return self.rank >= 0

    def get_group_rank(self, rank: int) -> int:
        """The place of a worker of the job in it, -1 if it is none of them."""
        return self.ranks.index(rank) if rank in self.ranks else -1


_groups: list[Group] = []


def new_group(ranks: Sequence[int] | None = None, backend: str | None = None) -> Group:
    """A group of these workers, or of all; every worker of the job calls it, in the same order."""
    _require("new_group")
    if backend not in (None, "nccl", "gloo"):
        raise NotSupportedError(f"new_group: backend must be left out, got {backend!r}; the device decides it")
    chosen = sorted(range(dist.get_world_size()) if ranks is None else ranks)
    if not chosen or len(set(chosen)) != len(chosen) or not 0 <= chosen[0] <= chosen[-1] < dist.get_world_size():
        raise UsageError(f"new_group: ranks must be different ones of {dist.get_world_size()} workers, got {ranks}")
    made = Group(len(_groups) + 1, chosen, dist.new_group(chosen))
    _groups.append(made)
    return made


def get_group(id: int = 0) -> Group:
    """The group of that number; 0 is all workers."""
    _require("get_group")
    if id == 0:
        return Group(0, list(range(dist.get_world_size())), dist.group.WORLD)
    if not 0 < id <= len(_groups):
        raise UsageError(f"get_group: there is no group {id}; new_group has made {len(_groups)}")
    return _groups[id - 1]


def all_reduce(
    tensor: torch.Tensor,
    op: Any = ReduceOp.SUM,
    group: Group | None = None,
    use_calc_stream: bool = True,  # noqa: ARG001
) -> None:
    """The sum over all workers, or another ReduceOp, in place."""
    if (own := _own("all_reduce", group)) is not None:
        dist.all_reduce(tensor.detach(), op, own.of_torch)


def reduce(
    tensor: torch.Tensor,
    dst: int,
    op: Any = ReduceOp.SUM,
    group: Group | None = None,
    use_calc_stream: bool = True,  # noqa: ARG001
) -> None:
    """The same for worker `dst` alone."""
    if (own := _own("reduce", group, dst)) is not None:
        dist.reduce(tensor.detach(), dst, op, own.of_torch)


def broadcast(
    tensor: torch.Tensor,
    src: int,
    group: Group | None = None,
    use_calc_stream: bool = True,  # noqa: ARG001
) -> None:
    """The values of worker `src`, in place."""
    if (own := _own("broadcast", group, src)) is not None:
        dist.broadcast(tensor.detach(), src, own.of_torch)


def all_gather(
    tensor_list: list[Any],
    tensor: torch.Tensor,
    group: Group | None = None,
    use_calc_stream: bool = True,  # noqa: ARG001
) -> None:
    """The tensors of all workers, by index, put into an empty list."""
    if (own := _own("all_gather", group)) is None:
        return
    _require_empty("all_gather", "tensor_list", tensor_list)
    found = [torch.empty_like(tensor.detach()) for _ in range(own.nranks)]
    dist.all_gather(found, tensor.detach().contiguous(), own.of_torch)
    tensor_list.extend(as_paddle(found))


def scatter(
    tensor: torch.Tensor,
    tensor_list: Sequence[torch.Tensor] | None = None,
    src: int = 0,
    group: Group | None = None,
    use_calc_stream: bool = True,  # noqa: ARG001
) -> None:
    """To each worker its tensor of the list that worker `src` has, in place."""
    if (own := _own("scatter", group, src)) is None:
        return
    parts = None
    if dist.get_rank() == src:
        parts = [one.detach().contiguous() for one in tensor_list or ()]
        if len(parts) != own.nranks:
            raise UsageError(f"scatter: tensor_list must have {own.nranks} tensors, one for each, got {len(parts)}")
    dist.scatter(tensor.detach(), parts, src, own.of_torch)


def alltoall(
    in_tensor_list: Sequence[torch.Tensor] | torch.Tensor,
    out_tensor_list: list[Any],
    group: Group | None = None,
    use_calc_stream: bool = True,  # noqa: ARG001
) -> None:
    """To each worker its tensor of the list, and from each its tensor for this one, put into an empty list."""
    if (own := _own("alltoall", group)) is None:
        return
    _require_empty("alltoall", "out_tensor_list", out_tensor_list)
    parts = torch.stack([one.detach().as_subclass(torch.Tensor) for one in in_tensor_list])
    if len(parts) != own.nranks:
        raise UsageError(f"alltoall: in_tensor_list must have {own.nranks} tensors, one for each, got {len(parts)}")
    found = torch.empty_like(parts)
    dist.all_to_all_single(found, parts, group=own.of_torch)
    out_tensor_list.extend(as_paddle(list(found.unbind())))


def send(tensor: torch.Tensor, dst: int = 0, group: Group | None = None, use_calc_stream: bool = True) -> None:  # noqa: ARG001
    """A tensor to worker `dst`, which calls `recv`."""
    if (own := _own("send", group, dst)) is not None:
        dist.send(tensor.detach().contiguous(), dst, own.of_torch)


def recv(tensor: torch.Tensor, src: int = 0, group: Group | None = None, use_calc_stream: bool = True) -> None:  # noqa: ARG001
    """What worker `src` sends, in place."""
    if (own := _own("recv", group, src)) is not None:
        dist.recv(tensor.detach(), src, own.of_torch)


def wait(tensor: torch.Tensor, group: Group | None = None, use_calc_stream: bool = True) -> None:  # noqa: ARG001
    """Return when the calls on a tensor are done: they are, when they return."""
    _own("wait", group)


def barrier(group: Group | None = None) -> None:
    """Return when every worker has come here, or every one of a group."""
    if (own := _own("barrier", group)) is None:
        return
    if group is None or own.id == 0:
        api.fleet.barrier_worker()
    else:
        dist.barrier(own.of_torch)


def _require(what: str) -> None:
    if not dist.is_initialized():
        raise NotReadyError(f"{what} needs the other workers; call init_parallel_env() first")


def _own(what: str, group: Group | None, other: int | None = None) -> Group | None:
    """The group of a call, that of all workers if there is none; None where this worker is not in it."""
    _require(what)
    if group is not None and not isinstance(group, Group):
        raise UsageError(f"{what}: group must be what new_group gave, or left out, got {group!r}")
    found = get_group() if group is None else group
    if not found.is_member():
        return None
    if other is not None and other not in found.ranks:
        raise UsageError(f"{what}: worker {other} is not in the group, which has {found.ranks}")
    return found


def _require_empty(what: str, name: str, given: list[Any]) -> None:
    if given:
        raise UsageError(f"{what}: {name} must be an empty list, got {len(given)} elements")

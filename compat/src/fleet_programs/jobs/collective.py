"""Collective operators: one call for all tensors of a step, over torch.distributed."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from fleet.collective.parts.reduced import reduced
from fleet.collective.world.worlds import all_gather
from fleet.errors import NotReadyError, UsageError
from fleet_programs.kernel.rows import Rows

if TYPE_CHECKING:
    from fleet_programs.definition.operator import Operator
    from fleet_programs.definition.registry import Kernel
    from fleet_programs.kernel.lowering import Lowering

BUCKET_BYTES = 32 << 20
"""Gradients travel in buckets of this size: large enough for the network, small enough to be copied meanwhile."""


def make_group(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """`gen_nccl_id`: all trainers meet, at the first one's endpoint, unless `fleet.init` has brought them together."""
    endpoints, index = op.attr("endpoints"), op.attr("trainer_id")

    def run() -> None:
        if dist.is_initialized():
            return
        from fleet.collective.world.group import start_process_group, stop_process_group
        from fleet.roles import UserDefinedCollectiveRoleMaker

        maker = UserDefinedCollectiveRoleMaker(current_id=index, worker_endpoints=endpoints)
        _, made = start_process_group(maker.identity)
        if made is not None:
            atexit.register(stop_process_group, made)

    return run


def make_broadcast(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """`c_broadcast`: everybody gets the tensors of one trainer."""
    root = op.attr("root")

    def run(*tensors: torch.Tensor) -> None:
        if _num_workers() == 1:
            return
        waiting = [dist.broadcast(tensor, root, async_op=True) for tensor in tensors]
        for work in waiting:
            assert work is not None
            work.wait()

    return run


def make_all_gather(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """`c_allgather`: the rows of all trainers, in their order."""
    count = op.attr("nranks")

    def run(x: torch.Tensor) -> torch.Tensor:
        if count != _num_workers():
            raise UsageError(
                f"c_allgather: nranks is {count}, and the job has {_num_workers()} trainers; give their number"
            )
        if count == 1:
            return x.clone()
        parts = [torch.empty_like(x) for _ in range(count)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    return run


def make_all_reduce(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """`c_allreduce_sum`: tensors are added over the trainers; rows are brought together."""
    is_single = len(op.input("X")) == 1

    def run(*values: torch.Tensor | Rows) -> Any:
        if _num_workers() == 1:
            return values[0] if is_single else values
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        with reduced.waiting(tensors):
            buckets = [_Bucket(part) for part in _buckets(tensors)]
            gathered = [_gather_rows(value) if isinstance(value, Rows) else None for value in values]
            sums = iter([tensor for bucket in buckets for tensor in bucket.finish()])
        results = [next(sums) if rows is None else rows for rows in gathered]
        return results[0] if is_single else results

    return run


def _num_workers() -> int:
    if not dist.is_initialized():
        raise NotReadyError(
            "the trainers have not met; run the startup program first: exe.run(default_startup_program())"
        )
    return dist.get_world_size()


def _buckets(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    buckets: list[list[torch.Tensor]] = []
    size = 0
    for tensor in tensors:
        is_full = size + tensor.nbytes > BUCKET_BYTES
        if not buckets or is_full or buckets[-1][0].dtype != tensor.dtype:
            buckets.append([])
            size = 0
        buckets[-1].append(tensor)
        size += tensor.nbytes
    return buckets


class _Bucket:
    """Some tensors on their way through one all-reduce."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self._shapes = [tensor.shape for tensor in tensors]
        self._flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        reduced.num_bytes += self._flat.nbytes
        self._work = dist.all_reduce(self._flat, async_op=True)

    def finish(self) -> list[torch.Tensor]:
        """The sums, as views of one buffer."""
        assert self._work is not None
        self._work.wait()
        parts = self._flat.split([shape.numel() for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]


def _gather_rows(rows: Rows) -> Rows:
    """Every trainer gets everybody's rows, in the order of the trainers."""
    size = dist.get_world_size()
    lengths = torch.zeros(size, dtype=torch.int64, device=rows.index.device)
    own = torch.tensor([len(rows.index)], dtype=torch.int64, device=rows.index.device)
    all_gather(lengths, own)
    counts = lengths.tolist()
    longest = max(counts)
    index = rows.index.new_zeros(longest)
    values = rows.values.new_zeros((longest, *rows.values.shape[1:]))
    index[: len(rows.index)] = rows.index
    values[: len(rows.values)] = rows.values
    all_index = index.new_empty(size * longest)
    all_values = values.new_empty((size * longest, *values.shape[1:]))
    all_gather(all_index, index)
    all_gather(all_values, values)
    kept = torch.cat([torch.arange(i * longest, i * longest + n) for i, n in enumerate(counts)]).to(index.device)
    return Rows(all_index[kept], all_values[kept], rows.height)

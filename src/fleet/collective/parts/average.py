"""Means of many tensors over the workers, in buckets that are on their way together."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from fleet.collective.parts.reduced import reduced
from fleet.observe.tracing.part import part


@part("all_reduce")
def mean_(
    tensors: Sequence[torch.Tensor], bucket_bytes: int, dtype: torch.dtype | None = None, weight: float | None = None
) -> None:
    """Replace each tensor by its mean over the workers, in place.

    `dtype`: what they are cast to on the way. `weight`: this worker's share of a weighted mean; the weights of all
    workers must add up to 1. Without it all count the same.
    """
    share = 1.0 / dist.get_world_size() if weight is None else weight
    pending = []
    with reduced.waiting(tensors):
        for tensor in tensors:
            if tensor.is_sparse:
                _mean_of_rows_(tensor, share)
        for bucket in _buckets([one for one in tensors if not one.is_sparse], max(bucket_bytes, 1)):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket]).mul_(share)
            if dtype is not None and flat.dtype.is_floating_point:
                flat = flat.to(dtype)
            reduced.num_bytes += flat.nbytes
            pending.append((bucket, flat, dist.all_reduce(flat, async_op=True)))
        _put_back(pending)


def _mean_of_rows_(tensor: torch.Tensor, share: float) -> None:
    """The same for one sparse tensor, which has the rows of all workers then; always in its own type."""
    summed = tensor.detach().coalesce() * share
    dist.all_reduce(summed)
    tensor.copy_(summed)


def broadcast_(tensors: Sequence[torch.Tensor], source: int, bucket_bytes: int = 32 << 20) -> None:
    """Replace each tensor by that of worker `source`, in place."""
    pending = []
    for bucket in _buckets(tensors, bucket_bytes):
        flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
        pending.append((bucket, flat, dist.broadcast(flat, source, async_op=True)))
    _put_back(pending)


def _put_back(pending: Iterable[tuple[list[torch.Tensor], torch.Tensor, Any]]) -> None:
    """Wait for each bucket and copy it to the tensors it was made of."""
    for bucket, flat, work in pending:
        work.wait()
        parts = flat.split([tensor.numel() for tensor in bucket])
        torch._foreach_copy_(bucket, [part.view_as(tensor) for part, tensor in zip(parts, bucket, strict=True)])


def _buckets(tensors: Sequence[torch.Tensor], size_bytes: int) -> Iterator[list[torch.Tensor]]:
    """Neighbours of one type and device, up to a size together."""
    bucket: list[torch.Tensor] = []
    held = 0
    for tensor in tensors:
        if bucket and (
            held + tensor.nbytes > size_bytes or (tensor.dtype, tensor.device) != (bucket[0].dtype, bucket[0].device)
        ):
            yield bucket
            bucket, held = [], 0
        bucket.append(tensor)
        held += tensor.nbytes
    if bucket:
        yield bucket

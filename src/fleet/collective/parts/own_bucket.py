"""Gradients laid out as DistributedDataParallel would, for those that it did not reduce itself."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from fleet.collective.parts.unsent import layout_of


class Bucket(Protocol):
    """What is needed of a `torch.distributed.GradBucket`."""

    def buffer(self) -> Tensor: ...
    def gradients(self) -> list[Tensor]: ...
    def parameters(self) -> list[Tensor]: ...


class OwnBucket(Bucket):
    """Copies of the gradients of some parameters, of one dtype and device, one after the other."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self._params = list(params)
        self._originals = [param.grad for param in params if param.grad is not None]
        first = self._originals[0]
        sizes = [param.numel() for param in params]
        self._buffer = torch.empty(sum(sizes), dtype=first.dtype, device=first.device)
        self._gradients = [
            part.as_strided(param.shape, layout_of(param), part.storage_offset())
            for part, param in zip(self._buffer.split(sizes), params, strict=True)
        ]
        torch._foreach_copy_(self._gradients, self._originals)

    def buffer(self) -> Tensor:
        return self._buffer

    def gradients(self) -> list[Tensor]:
        return self._gradients

    def parameters(self) -> list[Tensor]:
        return self._params

    def write_back(self) -> None:
        """Put what the buffer holds now into the gradients."""
        torch._foreach_copy_(self._originals, self._gradients)

"""Batch norm whose statistics are those of all workers' batches together, on the CPU too."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

AddUp = Callable[[torch.Tensor], object]
"""Replaces a tensor by its sum over the workers, in place."""


class OwnBatchNorm(nn.Module):
    """A batch norm that is not torch's: it does itself what it is told here."""

    is_synchronised: bool = False
    """Whether its statistics in training are those of all workers' batches together."""
    is_counting: bool = True
    """Whether a batch in training changes its running statistics."""


def synchronise(module: nn.Module, device: torch.device, add_up: AddUp | None = None) -> nn.Module:
    """Replace every batch norm of torch inside `module`, and tell the others; names, parameters and buffers stay.

    `add_up`: how workers that have no process group of torch's come together.
    """
    for norm in module.modules():
        if isinstance(norm, OwnBatchNorm):
            norm.is_synchronised = True
    if device.type == "cuda" and add_up is None:
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return converted
    for name, child in list(module.named_children()):
        setattr(module, name, synchronise(child, device, add_up))
    return _taken_over(module, add_up) if isinstance(module, _BatchNorm) else module


def is_synchronised(module: nn.Module) -> bool:
    """Whether a module is a batch norm that needs every worker's batch."""
    if isinstance(module, OwnBatchNorm):
        return module.is_synchronised
    return isinstance(module, nn.SyncBatchNorm | SyncBatchNorm)


def _taken_over(norm: _BatchNorm, add_up: AddUp | None) -> nn.Module:
    synced = SyncBatchNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    synced.__dict__.update(norm.__dict__)  # the same parameters and buffers, which an optimizer may know already
    synced.add_up = add_up
    return synced


class SyncBatchNorm(_BatchNorm):
    """torch's own needs a GPU; this one needs a process group. Statistics are float32, whatever the input is."""

    add_up: AddUp | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "add_up": None}  # connections cannot be copied

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"batch norm takes at least 2 dimensions, got {input.dim()}")

    def forward(self, input: torch.Tensor) -> Any:
        self._check_input_dim(input)
        if not self.training:
            return super().forward(input)
        with torch.autocast(input.device.type, enabled=False):
            return self._normalise(input.float()).to(input.dtype)

    def _normalise(self, values: torch.Tensor) -> torch.Tensor:
        output, mean, variance, total = over_all_workers(values, self.weight, self.bias, self.eps, self.add_up)
        if total == 1:
            raise ValueError("batch norm needs more than one value of each channel in a batch, got 1 on all workers")
        self._track(mean, variance, total)
        return output

    def _track(self, mean: torch.Tensor, variance: torch.Tensor, total: torch.Tensor) -> None:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_((variance * (total / (total - 1))).to(self.running_var.dtype), share)


def over_all_workers(
    values: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    epsilon: float,
    add_up: AddUp | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values [batch, channels, ...] normalised; and the mean, the biased variance and the number of all workers'."""
    dims = [dim for dim in range(values.dim()) if dim != 1]
    shape = [1, -1, *(1 for _ in dims[1:])]
    count = values.new_full((1,), values.numel() // values.shape[1])
    sums = _sum(torch.cat([torch.sum(values, dims), count]), add_up)
    total = sums[-1].detach()
    mean = sums[:-1] / total
    centred = values - mean.view(shape)
    # A second sum, of what is left: the difference of two large ones would lose a small variance.
    variance = _sum(torch.sum(centred * centred, dims), add_up) / total
    scale = torch.rsqrt(variance + epsilon)
    output = centred * (scale if weight is None else scale * weight).view(shape)
    return output if bias is None else output + bias.view(shape), mean.detach(), variance.detach(), total


def _sum(values: torch.Tensor, add_up: AddUp | None) -> torch.Tensor:
    total: torch.Tensor = _Sum.apply(values, add_up or dist.all_reduce)  # type: ignore[no-untyped-call]
    return total


class _Sum(torch.autograd.Function):
    """The sum over the workers; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, add_up: AddUp) -> torch.Tensor:
        ctx.add_up = add_up
        total = values.clone()
        add_up(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = gradient.contiguous().clone()
        ctx.add_up(total)
        return total, None

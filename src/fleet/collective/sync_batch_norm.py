"""Batch norm whose statistics are those of all workers' batches together, on the CPU too."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def synchronise(module: nn.Module, device: torch.device) -> nn.Module:
    """Replace every batch norm inside `module`; names, parameters and buffers stay."""
    if device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return converted
    for name, child in list(module.named_children()):
        setattr(module, name, synchronise(child, device))
    return _taken_over(module) if isinstance(module, _BatchNorm) else module


def _taken_over(norm: _BatchNorm) -> nn.Module:
    synced = SyncBatchNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    synced.__dict__.update(norm.__dict__)  # the same parameters and buffers, which an optimizer may know already
    return synced


class SyncBatchNorm(_BatchNorm):
    """torch's own needs a GPU; this one needs a process group."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"batch norm takes at least 2 dimensions, got {input.dim()}")

    def forward(self, input: torch.Tensor) -> Any:
        self._check_input_dim(input)
        if not self.training:
            return super().forward(input)
        dims = [dim for dim in range(input.dim()) if dim != 1]
        count = input.new_full((1,), input.numel() // input.size(1))
        sums = torch.cat([input.sum(dims), (input * input).sum(dims), count])
        sums = _Sum.apply(sums)  # type: ignore[no-untyped-call]
        total = sums[-1].detach()
        mean, square = sums[:-1].view(2, -1) / total
        variance = (square - mean * mean).clamp_min(0)
        self._track(mean.detach(), variance.detach(), total)
        shape = [1, -1, *(1 for _ in dims[1:])]
        scale = torch.rsqrt(variance + self.eps)
        if self.affine:
            scale = scale * self.weight
        output = (input - mean.view(shape)) * scale.view(shape)
        return output + self.bias.view(shape) if self.affine else output

    def _track(self, mean: torch.Tensor, variance: torch.Tensor, total: torch.Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance * (total / (total - 1)), share)


class _Sum(torch.autograd.Function):
    """The sum over the workers; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total

"""Normalisation as functions: over a batch, over an image, over neighbouring channels, and of vectors."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.imperative.nn.functional.window import back, plain, to_first
from fleet_paddle.imperative.tensor import Tensor, own

__all__ = [
    "batch_norm",
    "instance_norm",
    "local_response_norm",
    "normalize",
]

_FORMATS = ("NC", "NCL", "NLC", "NCHW", "NHWC", "NCDHW", "NDHWC")


def batch_norm(
    x: torch.Tensor,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Each channel with mean 0 and variance 1: those of the batch while training, else the running ones.

    While training the running ones keep the share `momentum`, and get the rest of the batch's mean and biased variance.
    `use_global_stats` says outright which of them are meant. A single value of each channel stays as it is.
    """
    of_batch = training if use_global_stats is None else not use_global_stats
    last = channels_are_last("batch_norm", data_format, x.dim())
    values = to_first(x, last)
    if not of_batch:
        return own(back(F.batch_norm(values, running_mean, running_var, weight, bias, False, 0.0, epsilon), last))
    count = values.numel() // values.shape[1]
    if count == 1:
        return own(x.clone())
    # torch gives the variance of a sample; what is kept is that of the batch.
    mean, variance = torch.zeros_like(running_mean), torch.zeros_like(running_var)
    made = F.batch_norm(values, mean, variance, weight, bias, True, 1.0, epsilon)
    remember(running_mean, running_var, mean, variance * ((count - 1) / count), momentum)
    return own(back(made, last))


@torch.no_grad()
def remember(
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    momentum: float,
) -> None:
    """Take a batch's statistics into the running ones."""
    running_mean.lerp_(mean.to(running_mean.dtype), 1 - momentum)
    running_var.lerp_(variance.to(running_var.dtype), 1 - momentum)


def channels_are_last(what: str, data_format: str, dims: int) -> bool:
    """Whether a tensor of `dims` dimensions has its channels last; with two there is one place for them."""
    if data_format not in _FORMATS:
        raise UsageError(f"{what}: data_format must be one of {', '.join(_FORMATS)}, got {data_format!r}")
    if dims < 2:
        raise UsageError(f"{what}: the input must have a batch and channels, got {dims} dimensions")
    return data_format != "NC" and data_format.endswith("C") and dims > 2


def instance_norm(
    x: torch.Tensor,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Each channel of each image with mean 0 and variance 1; nothing is kept, so `momentum` says nothing."""
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise NotSupportedError("instance_norm: statistics of the input alone are built; leave the running ones out")
    last = channels_are_last("instance_norm", data_format, x.dim())
    return own(back(F.instance_norm(to_first(x, last), None, None, weight, bias, True, 0.0, eps), last))


def local_response_norm(
    x: torch.Tensor,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """x divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta."""
    last = channels_are_last("local_response_norm", data_format, x.dim())
    return own(back(F.local_response_norm(to_first(plain(x), last).contiguous(), size, alpha, beta, k), last))


def normalize(x: torch.Tensor, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: str | None = None) -> Tensor:
    """x divided by its p-norm along a dimension, which counts as `epsilon` at least."""
    return own(F.normalize(plain(x), p, axis if x.dim() > 1 else 0, epsilon))

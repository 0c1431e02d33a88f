"""Zeros by chance, so that a network leans on no single value: `dropout` of values or of whole channels."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError
from fleet_paddle.imperative.nn.functional.window import is_last
from fleet_paddle.imperative.tensor import Tensor, fresh, own

__all__ = ["alpha_dropout", "dropout", "dropout2d", "dropout3d"]


def dropout(
    x: torch.Tensor,
    p: float = 0.5,
    axis: Any = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Tensor:
    """While training, each value is zero with chance `p`; those that stay grow, or with "downscale_in_infer" shrink
    in evaluation.

    With `axis`, a dimension or several, there is one chance for each place along those, whatever the others are.
    """
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise UsageError(f"dropout: mode must be upscale_in_train or downscale_in_infer, got {mode!r}")
    grows = mode == "upscale_in_train"
    if not training:
        return fresh(x if grows else x * (1 - p), x)
    if axis is None:
        made = F.dropout(x, p, True)
    else:
        kept = [one % x.dim() for one in ([axis] if isinstance(axis, int) else axis)]
        shape = [size if dim in kept else 1 for dim, size in enumerate(x.shape)]
        made = x * F.dropout(torch.ones(shape, dtype=x.dtype, device=x.device), p, True)
    return own(made if grows else made * (1 - p))


def dropout2d(
    x: torch.Tensor, p: float = 0.5, training: bool = True, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """While training, each channel of each image is zero with chance `p`; those that stay grow."""
    return dropout(x, p, [0, 3 if is_last("dropout2d", data_format, 2) else 1], training)


def dropout3d(
    x: torch.Tensor, p: float = 0.5, training: bool = True, data_format: str = "NCDHW", name: str | None = None
) -> Tensor:
    """While training, each channel of each volume is zero with chance `p`; those that stay grow."""
    return dropout(x, p, [0, 4 if is_last("dropout3d", data_format, 3) else 1], training)


def alpha_dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, name: str | None = None) -> Tensor:
    """While training, each value has selu's lowest with chance `p`; mean and variance stay what they were."""
    return fresh(F.alpha_dropout(x, p, training), x)

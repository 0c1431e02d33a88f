"""Tensors as the C++ core takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Floats = npt.NDArray[np.float32]

MEMORY: Any = {"dtype": torch.float32, "device": torch.device("cpu")}
"""What the core writes into, whatever class rows and gradients have and whatever is the default."""


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the core takes it: contiguous, without a gradient, nothing left for later, of torch's own class."""
    return _of_torch(tensor.detach()).resolve_neg().contiguous()


def _of_torch(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as a plain tensor, whose `numpy()` is its memory; that of a subclass may be a copy."""
    return tensor if type(tensor) is torch.Tensor else tensor.as_subclass(torch.Tensor)


def matrix(grad: torch.Tensor, height: int, width: int) -> Floats:
    """A gradient as a matrix with contiguous rows; columns of a wider matrix are not copied."""
    grad = _of_torch(grad.detach()).resolve_neg().reshape(height, width)
    return (grad if grad.stride(1) == 1 or width <= 1 else grad.contiguous()).numpy()

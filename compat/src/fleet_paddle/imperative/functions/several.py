"""Functions of any number of tensors."""

from __future__ import annotations

import torch

from fleet_paddle.imperative.tensor import Tensor, as_paddle


def einsum(equation: str, *operands: torch.Tensor) -> Tensor:
    """Products of elements, added up over letters that the result does not have: `einsum("ij,jk->ik", x, y)`."""
    return as_paddle(torch.einsum(equation, *operands))

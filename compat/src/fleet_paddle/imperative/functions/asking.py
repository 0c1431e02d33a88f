"""Questions about tensors: are they equal, what is their shape, are they any."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.imperative.tensor import Tensor, own

__all__ = ["allclose", "equal_all", "is_empty", "is_tensor", "isclose", "rank", "shape", "tolist"]


def equal_all(x: torch.Tensor, y: torch.Tensor, name: str | None = None) -> Tensor:
    """Whether both are equal, everywhere."""
    return own(torch.tensor(torch.equal(x, y), device=x.device))


def allclose(
    x: torch.Tensor,
    y: torch.Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Tensor:
    """Whether |x - y| <= atol + rtol * |y|, everywhere."""
    return own(torch.isclose(x, y, float(rtol), float(atol), equal_nan).all())


def isclose(
    x: torch.Tensor,
    y: torch.Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Tensor:
    """Where |x - y| <= atol + rtol * |y|."""
    return own(torch.isclose(x, y, float(rtol), float(atol), equal_nan))


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(x, torch.Tensor)


def is_empty(x: torch.Tensor, name: str | None = None) -> Tensor:
    """Whether it has no elements."""
    return own(torch.tensor(x.numel() == 0))


def rank(input: torch.Tensor) -> Tensor:
    """The number of dimensions."""
    return own(torch.tensor(input.dim(), dtype=torch.int32))


def shape(input: torch.Tensor) -> Tensor:
    """The sizes, as a tensor."""
    return own(torch.tensor(list(input.shape), dtype=torch.int32))


def tolist(x: torch.Tensor) -> Any:
    """The values as lists of Python's numbers."""
    return x.tolist()

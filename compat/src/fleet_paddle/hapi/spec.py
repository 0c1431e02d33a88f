"""`InputSpec`: the shape, type and name of something that a network will be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import canonical

__all__ = ["InputSpec"]


class InputSpec:
    """A description of an input; None or -1 is a size that may be any.

    >>> InputSpec([None, 784], "float32", "image")
    InputSpec(shape=(-1, 784), dtype=float32, name=image)
    """

    def __init__(self, shape: Sequence[int | None], dtype: Any = "float32", name: str | None = None) -> None:
        self.shape = tuple(-1 if one is None else int(one) for one in shape)
        self.dtype = canonical(dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, name: str | None = None) -> Self:
        """What describes this tensor."""
        return cls(tuple(tensor.shape), tensor.dtype, name or getattr(tensor, "name", None))

    @classmethod
    def from_numpy(cls, ndarray: np.ndarray[Any, Any], name: str | None = None) -> Self:
        """What describes this array."""
        return cls(ndarray.shape, ndarray.dtype, name)

    def batch(self, batch_size: int) -> Self:
        """Put a size before the others, in place."""
        if isinstance(batch_size, bool) or not isinstance(batch_size, int):
            raise UsageError(f"InputSpec.batch: batch_size must be a whole number, got {batch_size!r}")
        self.shape = (batch_size, *self.shape)
        return self

    def unbatch(self) -> Self:
        """Drop the first size, in place."""
        if not self.shape:
            raise UsageError("InputSpec.unbatch: there is no size to drop; the shape is []")
        self.shape = self.shape[1:]
        return self

    def example(self, batch: int = 1, other: int = 1) -> torch.Tensor:
        """Zeros of this shape; the first size is `batch` where it may be any, the others `other`."""
        sizes = [one if one >= 0 else (batch if place == 0 else other) for place, one in enumerate(self.shape)]
        return torch.zeros(sizes, dtype=getattr(torch, self.dtype))

    def __repr__(self) -> str:
        return f"InputSpec(shape={self.shape}, dtype={self.dtype}, name={self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.name))

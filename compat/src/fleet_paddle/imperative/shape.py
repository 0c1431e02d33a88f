"""The sizes of a tensor, and how many elements they make."""

from __future__ import annotations

from typing import Any

import numpy as np


class Shape(tuple[int, ...]):
    """Sizes: reads, compares and prints as a list, while torch takes it for the tuple that it is."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __getitem__(self, place: Any) -> Any:
        found = tuple.__getitem__(self, place)
        return Shape(found) if isinstance(place, slice) else found

    def __add__(self, other: Any) -> Any:
        return [*self, *other] if isinstance(other, list) else Shape((*self, *other))

    def __radd__(self, other: Any) -> Any:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))

    def numel(self) -> int:
        """The number of elements."""
        return int(np.prod(self, dtype=np.int64))


class Size(int):
    """The number of elements, which is what `x.size` means; `x.size()` and `x.size(0)` give sizes, as torch does."""

    shape: Shape

    def __call__(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

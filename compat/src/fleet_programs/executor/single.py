"""Arrays of one value, and arrays whose rows are such, that scripts take for numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Single(np.ndarray[Any, Any]):
    """An array that, where it holds one value, is a number as well: float(x), int(x), '%f' % x, f"{x:.3f}".

    So every array of one value was in the numpy that scripts were written for; today's only takes those of shape [].
    A column is of this class because its rows are: `'%f' % column[0]`. What is computed with it is as numpy has it: an
    array, or this class again where there is one value or a column.
    """

    def __float__(self) -> float:
        return float(self.item() if self.size == 1 else np.asarray(self))

    def __int__(self) -> int:
        return int(self.item() if self.size == 1 else np.asarray(self))

    def __format__(self, format_spec: str) -> str:
        return format(self.item() if self.size == 1 else np.asarray(self), format_spec) if format_spec else str(self)

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else as_single(np.asarray(array))

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def as_single(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array; if it holds one value and has a shape, or is a column, as a Single."""
    return array.view(Single) if array.ndim and (array.size == 1 or array.shape[-1] == 1) else array

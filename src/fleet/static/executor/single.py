"""Arrays of one value that scripts take for a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Single(np.ndarray[Any, Any]):
    """An array of one value, whatever its shape, that is a number as well: float(x), int(x), '%f' % x, f"{x:.3f}".

    So every array of one value was in the numpy that scripts were written for; today's only takes those of shape [].
    What is computed with it is as numpy has it: an array, or this class again where there is one value.
    """

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __format__(self, format_spec: str) -> str:
        return format(self.item(), format_spec) if format_spec else str(self)

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else as_single(np.asarray(array))

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def as_single(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array; if it holds one value and has a shape, as a Single."""
    return array.view(Single) if array.size == 1 and array.ndim else array

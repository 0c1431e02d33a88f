"""Functions that 2.1 and 2.2 added, each one of torch: of every element, of two, of a diagonal, of places."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet_paddle.programs.variables.computed import computed
from fleet_programs.definition.registry import Kernel

T = torch.Tensor

_ONE = {
    "acosh": "The inverse of `cosh`.",
    "asinh": "The inverse of `sinh`.",
    "atanh": "The inverse of `tanh`.",
    "deg2rad": "Degrees as radians.",
    "digamma": "The derivative of `lgamma`.",
    "erfinv": "The inverse of `erf`.",
    "expm1": "exp(x) - 1.",
    "lgamma": "The logarithm of the gamma function.",
    "neg": "-x.",
    "rad2deg": "Radians as degrees.",
    "trunc": "x without what is behind the point.",
}
_TWO = {
    "atan2": "The angle of the point (y, x).",
    "fmax": "The greater of two, or the one that is a number.",
    "fmin": "The smaller of two, or the one that is a number.",
    "inner": "Products of the last dimensions, added up.",
}
_WHOLE = {"gcd": "The greatest common divisor.", "lcm": "The least common multiple."}


def _said(name: str, doc: str, number: int) -> Kernel:
    """torch's function of so many tensors, with a sentence of our own."""
    function: Any = getattr(torch, name)

    def one(x: T) -> T:
        made: T = function(x)
        return made

    def two(x: T, y: T) -> T:
        made: T = function(x, y)
        return made

    chosen: Kernel = one if number == 1 else two
    chosen.__doc__ = doc
    return chosen


for _name, _doc in _ONE.items():
    computed(_name, f"{_name}(x, name)")(_said(_name, _doc, 1))
for _name, _doc in (_TWO | _WHOLE).items():
    computed(_name, f"{_name}(x, y, name)", inputs=("X", "Y"), wrt=() if _name in _WHOLE else ("X", "Y"))(
        _said(_name, _doc, 2)
    )


for _name, _doc in {"conj": "The complex conjugate.", "imag": "The imaginary part.", "real": "The real part."}.items():
    computed(_name, f"{_name}(x, name)")(_said(_name, _doc, 1))


@computed("outer", "outer(x, y, name)", inputs=("X", "Y"), wrt=("X", "Y"))
def _outer(x: T, y: T) -> T:
    """The product of each element of one with each of the other."""
    return torch.outer(x.reshape(-1), y.reshape(-1))


@computed("diagflat", "diagflat(x, offset=0, name)", {"offset": 0})
def _diagflat(x: T, offset: int) -> T:
    """A matrix with these values on its diagonal."""
    return torch.diagflat(x, offset)


@computed("diagonal", "diagonal(x, offset=0, axis1=0, axis2=1, name)", {"offset": 0, "axis1": 0, "axis2": 1})
def _diagonal(x: T, offset: int, axis1: int, axis2: int) -> T:
    """The diagonal of two dimensions."""
    return torch.diagonal(x, offset, axis1, axis2)


@computed("glu", "F.glu(x, axis=-1, name)", {"axis": -1})
def _glu(x: T, axis: int) -> T:
    """One half times the sigmoid of the other half."""
    return F.glu(x, axis)


@computed(
    "take_along_axis", "take_along_axis(arr, indices, axis)", {"axis": 0}, inputs=("Input", "Index"), wrt=("Input",)
)
def _taken(arr: T, indices: T, axis: int) -> T:
    """Elements from places along a dimension."""
    sizes = [max(one, other) for one, other in zip(arr.shape, indices.shape, strict=True)]
    sizes[axis] = indices.shape[axis]
    wide = [arr.shape[place] if place == axis % arr.dim() else size for place, size in enumerate(sizes)]
    return torch.gather(arr.expand(wide), axis, indices.expand(sizes))

"""Methods of variables that are functions: `x.mean()` is `table.mean(x)`; for `fleet_programs.expressions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fleet_paddle.imperative.functions import table
from fleet_paddle.programs.variables.subscripts import item, put
from fleet_paddle.rows.listing import functions
from fleet_programs import layers
from fleet_programs.program.variable import Variable

METHODS = {one.spelling.name for one in functions() if not one.spelling.home and one.is_method and one.of_variables}
"""Functions whose first argument is the variable."""


def find_method(variable: Variable, name: str) -> Any:
    """A method, bound to the variable; None if there is none."""
    if name in METHODS:
        return partial(getattr(table, name), variable)
    if name in _OWN:
        return partial(_OWN[name], variable)
    if name == "T":
        return layers.transpose(variable, list(reversed(range(variable.ndim))))
    if name == "type":
        return variable.kind
    if name == "desc":
        return VarDescription(variable)
    return None


class VarDescription:
    """`variable.desc`: the same variable, whose facts are asked for by calls."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable

    def name(self) -> str:
        """Its name."""
        return self._variable.name

    def type(self) -> str:
        """One of VarType: LOD_TENSOR, SELECTED_ROWS, ..."""
        return self._variable.kind

    def dtype(self) -> str:
        """Its dtype, which is equal to one of VarType."""
        return self._variable.dtype

    def shape(self) -> list[int]:
        """Its sizes."""
        return list(self._variable.shape)

    def set_shape(self, shape: Sequence[int]) -> None:
        """Other sizes, where a script knows better than the operator that made it; -1 is for the batch to decide."""
        self._variable.shape = tuple(int(size) for size in shape)
        self._variable.block.program.changed()

    def persistable(self) -> bool:
        """Whether its value is kept between steps."""
        return self._variable.persistable

    def lod_level(self) -> int:
        """1 for a ragged variable, else 0."""
        return self._variable.lod_level


def _detach(x: Variable) -> Variable:
    """A copy that no gradient flows through."""
    made = layers.assign(x)
    made.stop_gradient = True
    return made


def _dim(x: Variable) -> int:
    """The number of dimensions."""
    return x.ndim


def _text(x: Variable, throw_on_error: bool = True, with_details: bool = False) -> str:  # noqa: ARG001
    """What it is, in one line, which is all there is to say."""
    return str(x)


_OWN: dict[str, Callable[..., Any]] = {
    "__getitem__": item,
    "__setitem__": put,
    "detach": _detach,
    "dim": _dim,
    "ndimension": _dim,
    "to_string": _text,
}

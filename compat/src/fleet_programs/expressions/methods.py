"""Methods that another package gives to variables: `x.mean()` in a script that is written so.

A `Variable` has signs, an index and `astype`; functions are in `fleet_programs.layers`. A package with names of its
own provides what finds them, once, before its scripts run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fleet_programs.program.variable import Variable

_NEED_VALUES = frozenset({"backward", "gradient", "item", "numpy", "set_value", "tolist"})


class FindMethod(Protocol):
    """Finds a method of a variable by its name; None if it knows none."""

    def __call__(self, variable: Variable, name: str, /) -> Any: ...


_found_by: list[FindMethod] = []


def provide(find: FindMethod) -> None:
    """Let `find` be asked for attributes that a variable does not have."""
    if find not in _found_by:
        _found_by.append(find)


def found(variable: Variable, name: str) -> Any:
    """A method of another package, bound to the variable; None if there is none."""
    return next((method for find in _found_by if (method := find(variable, name)) is not None), None)


def method_of(variable: Variable, name: str) -> Any:
    """A method, bound to the variable; AttributeError that says what to do if there is none."""
    if (method := found(variable, name)) is not None:
        return method
    if name in _NEED_VALUES:
        raise AttributeError(
            f"variable {variable.name!r} has no {name}(): it has no value while a program is built; fetch it with "
            "exe.run(fetch_list=[...]), and let minimize() make gradients"
        )
    raise AttributeError(f"{type(variable).__name__!r} object has no attribute {name!r}")

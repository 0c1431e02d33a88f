"""Functions that take a tensor or a variable: `mean(x)`, `concat([a, b])`, `functional.relu(x)`.

For a tensor it is the function of `fleet.imperative`, for a variable that of `fleet.static.functions`; what both are
not given, such as the shape of `zeros`, is a tensor unless `enable_static()` was called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from fleet.either import mode
from fleet.errors import NotSupportedError
from fleet.static.variable import Variable

MAKERS = frozenset(
    {
        "arange",
        "create_parameter",
        "eye",
        "full",
        "linspace",
        "normal",
        "ones",
        "rand",
        "randint",
        "randn",
        "uniform",
        "zeros",
    }
)
"""Functions that are given no tensor, so that the mode decides."""


def either(name: str, tensors: str, variables: str) -> Any:
    """The function `name` of both modules in one; what is no function is that of `tensors`."""
    own = importlib.import_module(tensors)
    of_tensors = getattr(own, name)
    if isinstance(of_tensors, type | ModuleType) or not callable(of_tensors):
        return of_tensors
    of_variables = getattr(importlib.import_module(variables), name, None)
    return _both(name, of_tensors, of_variables)


def _both(name: str, of_tensors: Callable[..., Any], of_variables: Callable[..., Any] | None) -> Callable[..., Any]:
    @wraps(of_tensors)
    def call(*args: Any, **named: Any) -> Any:
        if not (_has_variable(args, named) or (name in MAKERS and mode.is_static())):
            return of_tensors(*args, **named)
        if of_variables is None:
            raise NotSupportedError(
                f"{name} takes tensors, and is not built for variables of a program; look for it in fleet.static.layers"
            )
        return of_variables(*args, **named)

    return call


def _has_variable(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    for value in (*args, *named.values()):
        first = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(first, Variable):
            return True
    return False

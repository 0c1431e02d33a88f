"""Functions that take a tensor or a variable: `mean(x)`, `concat([a, b])`, `functional.relu(x)`.

For a tensor it is the function of `imperative`, for a variable that of `programs.functions`; a call that is given
neither, such as `zeros(shape)`, makes a tensor unless `enable_static()` was called.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fleet_paddle.imperative.operands import by_operand
from fleet_paddle.rows.function import takes_both

MAKERS = frozenset(
    {
        "arange",
        "create_parameter",
        "empty",
        "eye",
        "full",
        "linspace",
        "normal",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "standard_normal",
        "to_tensor",
        "uniform",
        "zeros",
    }
)
"""Functions that are given no tensor, so that the mode decides."""


def either(name: str, tensors: str, variables: str) -> Any:
    """The function `name` of both modules in one; what is no function is that of `tensors`."""
    of_tensors = getattr(importlib.import_module(tensors), name)
    if isinstance(of_tensors, type | ModuleType) or not callable(of_tensors) or takes_both(of_tensors):
        return of_tensors
    return by_operand(name, of_tensors, variables, name in MAKERS)


def either_module(module: str, tensors: str, variables: str) -> Callable[[str], Any]:
    """`__getattr__` of a module that has every name of `tensors`, made by `either` when first used."""

    def get(name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        value = either(name, tensors, variables)
        vars(sys.modules[module])[name] = value
        return value

    return get

"""Functions that take a tensor or a variable: what a call is given decides which of two functions it is.

For a tensor it is one of this package, for a variable that of the same name in `fleet.static`. The second is looked for
when a variable comes, and costs nothing before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import wraps
from types import ModuleType
from typing import Any

import torch

from fleet_paddle.imperative.tensor import Parameter, Tensor
from fleet_paddle.programs.missing import not_built
from fleet_paddle.rows.function import takes_both
from fleet_paddle.variables import has_variable

_TENSORS = frozenset({Tensor, Parameter, torch.Tensor})


def by_operand(name: str, of_tensors: Callable[..., Any], home: str) -> Callable[..., Any]:
    """`of_tensors`, and for variables the function `name` of the module `home`."""

    @wraps(of_tensors)
    def call(*args: Any, **named: Any) -> Any:
        if args and type(args[0]) in _TENSORS:
            return of_tensors(*args, **named)
        if not has_variable((*args, *named.values())):
            return of_tensors(*args, **named)
        of_variables = getattr(importlib.import_module(home), name, None)
        if of_variables is None:
            raise not_built(name)
        return of_variables(*args, **named)

    return call


def all_by_operand(module: dict[str, Any], names: Iterable[str], home: str) -> None:
    """Let every function among the names of a module go by its operands; what is no function stays as it is."""
    for name in names:
        if callable(module[name]) and not isinstance(module[name], type | ModuleType) and not takes_both(module[name]):
            module[name] = by_operand(name, module[name], home)

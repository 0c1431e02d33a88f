"""Two spellings of one argument: `input`, `param_attr`, `act` in 1.x; `x`, `weight_attr`, `activation` in 2.0."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.expressions.callsite import prefix
from fleet_programs.expressions.spelling import Spelling

R = TypeVar("R")

_PAIRS = (
    ("input", "x"),
    ("param_attr", "weight_attr"),
    ("act", "activation"),
    ("dim", "axis"),
    ("keep_dim", "keepdim"),
    ("dropout_prob", "p"),
)


def renamed(line: str, layer: Callable[..., R]) -> Callable[..., R]:
    """The same layer with other arguments: a line of `fleet_programs.expressions.spelling`, `fc(x->input, size)`."""
    spelled = Spelling.parse(line)
    given = ", ".join(f"{one.attribute}={one.name}" for one in spelled.parameters)
    return spelled.function(f"return layer({given})", {"layer": layer}, layer.__doc__ or "", __name__)


def both_spellings(layer: Callable[..., R]) -> Callable[..., R]:
    """The same layer, each of whose arguments may be given by either of its names, but not by both."""
    shape = signature(layer)
    own = set(shape.parameters)
    renamed = {}
    for old, new in _PAIRS:
        if (old in own) != (new in own):
            renamed.update({new: old} if old in own else {old: new})

    @wraps(layer)
    def either(*args: Any, **kwargs: Any) -> R:
        placed = list(shape.parameters)[: len(args)]
        for other, name in renamed.items():
            if other not in kwargs:
                continue
            if name in kwargs or name in placed:
                raise UsageError(
                    f"{prefix()}{layer.__name__}: {name} and {other} are two spellings of one argument; give one"
                )
            kwargs[name] = kwargs.pop(other)
        try:
            shape.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(shape.parameters)
            raise UsageTypeError(f"{prefix()}{layer.__name__}: {error}; its arguments are {names}") from None
        return layer(*args, **kwargs)

    return either

"""Misspelt argument names: the error suggests the name that was probably meant, as errors about strategy fields do."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from fleet.errors import UsageTypeError

P = ParamSpec("P")
R = TypeVar("R")

# What other libraries call the same thing, where the letters alone would lead elsewhere.
ELSEWHERE = {
    "learning_rate": "lr",
    "epsilon": "eps",
    "beta1": "betas",
    "beta2": "betas",
    "rho": "alpha",
    "loc": "mean",
    "scale": "std",
    "stddev": "std",
}


def says_what_was_meant(made: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function of `fleet.ps`: an unknown argument raises a UsageTypeError that suggests a known one."""
    names = list(signature(made).parameters)
    called = f"{made.__module__.replace('fleet.ps.job.', 'fleet.')}.{made.__name__}"

    @wraps(made)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in names:
                raise UsageTypeError(f"{called} has no argument {name!r}; {_advice(name, names)}")
        return made(*args, **kwargs)

    return checked


def _advice(name: str, names: list[str]) -> str:
    near = [ELSEWHERE[name]] if ELSEWHERE.get(name) in names else get_close_matches(name, names, n=3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"it has {', '.join(names)}" if names else "it takes none"

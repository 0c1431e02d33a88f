"""Initialisers: the first value of a row, which depends on the table's seed and name and on the key alone.

>>> str(Uniform(-0.01, 0.01))
'uniform(high=0.01, low=-0.01)'
"""

from __future__ import annotations

# ruff: noqa: N802  (they read as nouns where a table is described)
from fleet.errors import UsageError
from fleet.ps.job.checks import checked, says_what_was_meant
from fleet.ps.job.named_spec import InitializerSpec
from fleet.strategy.check import Finite

ABOVE_ZERO = Finite(above=0)


@says_what_was_meant
def Constant(value: float = 0.0) -> InitializerSpec:
    """Every element is `value`."""
    return InitializerSpec("constant", (("value", checked("initializer constant", "value", value, Finite())),))


@says_what_was_meant
def Uniform(low: float, high: float) -> InitializerSpec:
    """Elements uniformly distributed between `low` and `high`."""
    low, high = (
        checked("initializer uniform", name, value, Finite()) for name, value in (("low", low), ("high", high))
    )
    if low >= high:
        raise UsageError(f"initializer uniform: low must be below high, got {low} and {high}; Constant gives one value")
    return InitializerSpec("uniform", (("low", low), ("high", high)))


@says_what_was_meant
def Normal(mean: float = 0.0, std: float = 1.0) -> InitializerSpec:
    """Normally distributed elements."""
    return _bell("normal", mean, std)


@says_what_was_meant
def TruncatedNormal(mean: float = 0.0, std: float = 1.0) -> InitializerSpec:
    """Normally distributed elements, none further than two `std` from `mean`."""
    return _bell("truncated_normal", mean, std)


def _bell(name: str, mean: float, std: float) -> InitializerSpec:
    owner = f"initializer {name}"
    return InitializerSpec(
        name, (("mean", checked(owner, "mean", mean, Finite())), ("std", checked(owner, "std", std, ABOVE_ZERO)))
    )

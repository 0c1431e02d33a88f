"""Regularizers as 2.0 spells them: `coeff`, which was `regularization_coeff` before and is taken by that name too."""
# ruff: noqa: N802  (named like the classes that they stand for)

from __future__ import annotations

from fleet.errors import UsageError
from fleet_programs.parameters import regularizer
from fleet_programs.program.variable import Penalty

__all__ = ["L1Decay", "L2Decay"]


def L1Decay(coeff: float = 0.0, *, regularization_coeff: float | None = None) -> Penalty:
    """coeff * sign(w) is added to the gradient."""
    return regularizer.L1Decay(_one("L1Decay", coeff, regularization_coeff))


def L2Decay(coeff: float = 0.0, *, regularization_coeff: float | None = None) -> Penalty:
    """coeff * w is added to the gradient, which is torch's weight_decay."""
    return regularizer.L2Decay(_one("L2Decay", coeff, regularization_coeff))


def _one(what: str, coeff: float, older: float | None) -> float:
    if older is not None and coeff != 0.0:
        raise UsageError(f"{what}: coeff={coeff} and regularization_coeff={older} are the same; give one of them")
    return coeff if older is None else older

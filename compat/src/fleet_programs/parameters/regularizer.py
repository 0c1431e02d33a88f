"""Regularizers: a pull of weights towards zero, which their update operator adds to the gradient.

A parameter's own (`ParamAttr(regularizer=...)`) is used in place of the optimizer's.
"""
# ruff: noqa: N802  (named like the classes that they stand for)

from __future__ import annotations

from fleet_programs.parameters.settings import number
from fleet_programs.program.variable import Penalty


def L1Decay(regularization_coeff: float = 0.0) -> Penalty:
    """coeff * sign(w) is added to the gradient."""
    return Penalty("l1", number("L1Decay", "regularization_coeff", regularization_coeff, least=0))


def L2Decay(regularization_coeff: float = 0.0) -> Penalty:
    """coeff * w is added to the gradient, which is torch's weight_decay."""
    return Penalty("l2", number("L2Decay", "regularization_coeff", regularization_coeff, least=0))

"""Gradient clips as 1.x adds them by hand."""

from __future__ import annotations

from fleet_programs.backward.backward import ParamsGrads
from fleet_programs.backward.clip import clipped
from fleet_programs.definition.operator import OPTIMIZE

__all__ = ["append_gradient_clip_ops"]


def append_gradient_clip_ops(param_grads: ParamsGrads) -> ParamsGrads:
    """Add what `set_gradient_clip` asked for behind these gradients; the pairs that updates should read."""
    if not param_grads:
        return []
    block = param_grads[0][0].block
    with block.program.adding(OPTIMIZE):
        return clipped(param_grads, block, None)

"""Layers that programs have no operators for say so when they are made."""

from __future__ import annotations

from fleet.errors import NotSupportedError
from fleet_paddle.imperative.nn import programs


def refuse_programs(layer: object) -> None:
    """NotSupportedError after `enable_static()`: this layer is for tensors."""
    if programs.are_meant():
        kind = type(layer).__name__
        raise NotSupportedError(
            f"{kind} is built for tensors, not for programs; call disable_static() before it is made"
        )

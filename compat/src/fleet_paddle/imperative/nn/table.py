"""Layers made from the definitions of operators; `table.pyi` beside this file has their signatures."""

from __future__ import annotations

from fleet_paddle.imperative.nn.from_rows import classes

_made = classes()
__all__ = sorted(_made)
globals().update(_made)

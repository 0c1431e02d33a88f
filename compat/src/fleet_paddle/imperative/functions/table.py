"""Functions made from the definitions of operators; `table.pyi` beside this file has their signatures."""

from __future__ import annotations

from fleet_paddle.imperative.functions.from_rows import functions

_made = functions("")
__all__ = sorted(_made)
globals().update(_made)

"""Functions made from rows, see `fleet_paddle.rows`; `table.pyi` beside this file has their signatures."""

from __future__ import annotations

from fleet_paddle.rows.listing import functions

_made = {one.spelling.name: one.compiled() for one in functions() if one.spelling.home == "F"}
__all__ = sorted(_made)
globals().update(_made)

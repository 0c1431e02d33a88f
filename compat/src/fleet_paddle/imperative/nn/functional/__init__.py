"""Functions that layers are made of, with Paddle's arguments; see `fleet_paddle.rows`."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.imperative.functions.table import tanh
from fleet_paddle.imperative.nn.functional import table
from fleet_paddle.imperative.nn.functional.table import *

__all__ = ["tanh"]
__all__ += table.__all__

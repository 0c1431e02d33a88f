"""Functions of variables with the names and arguments that version 2.0 gives functions of tensors.

They are layers of `fleet.static.layers` under other names: `sum(x, axis)` is `reduce_sum(x, dim)`.
"""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.functions.table import *
from fleet_paddle.programs.functions import arithmetic, composing, making, reducing, shaping
from fleet_paddle.programs.functions.arithmetic import *
from fleet_paddle.programs.functions.composing import *
from fleet_paddle.programs.functions.making import *
from fleet_paddle.programs.functions.reducing import *
from fleet_paddle.programs.functions.shaping import *

__all__: list[str] = []
__all__ += arithmetic.__all__
__all__ += composing.__all__
__all__ += making.__all__
__all__ += reducing.__all__
__all__ += shaping.__all__
__all__ += table.__all__

"""Functions of variables with the names and arguments that version 2.0 gives functions of tensors.

They are layers of `fleet.static.layers` under other names: `sum(x, axis)` is `reduce_sum(x, dim)`.
"""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet.static.functions import arithmetic, composing, making, reducing, shaping
from fleet.static.functions.arithmetic import *
from fleet.static.functions.composing import *
from fleet.static.functions.making import *
from fleet.static.functions.reducing import *
from fleet.static.functions.shaping import *

__all__: list[str] = []
__all__ += arithmetic.__all__
__all__ += composing.__all__
__all__ += making.__all__
__all__ += reducing.__all__
__all__ += shaping.__all__

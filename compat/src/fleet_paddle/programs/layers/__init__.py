"""Layers that only scripts of PaddlePaddle need, beside those of `fleet.static.layers`."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.programs.layers import (
    recurrent,
    sampled,
    tagging,
)
from fleet_paddle.programs.layers.recurrent import *
from fleet_paddle.programs.layers.sampled import *
from fleet_paddle.programs.layers.tagging import *

__all__: list[str] = []
__all__ += recurrent.__all__
__all__ += sampled.__all__
__all__ += tagging.__all__
__all__.sort()

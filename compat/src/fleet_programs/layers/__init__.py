"""Layers: functions that add operators to the default main program and return the variables that they make."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_programs.layers import (
    activation,
    arithmetic,
    arrays,
    attention,
    choosing,
    flow,
    io,
    learning_rate,
    lookup,
    loss,
    metric,
    nn,
    norm,
    observing,
    sequence,
    shaping,
    sparse,
    table,
    tensor,
)
from fleet_programs.layers.activation import *
from fleet_programs.layers.arithmetic import *
from fleet_programs.layers.arrays import *
from fleet_programs.layers.attention import *
from fleet_programs.layers.choosing import *
from fleet_programs.layers.flow import *
from fleet_programs.layers.images import conv, conv_transpose, pool
from fleet_programs.layers.images.conv import *
from fleet_programs.layers.images.conv_transpose import *
from fleet_programs.layers.images.pool import *
from fleet_programs.layers.io import *
from fleet_programs.layers.learning_rate import *
from fleet_programs.layers.lookup import *
from fleet_programs.layers.loss import *
from fleet_programs.layers.metric import *
from fleet_programs.layers.nn import *
from fleet_programs.layers.norm import *
from fleet_programs.layers.observing import *
from fleet_programs.layers.sequence import *
from fleet_programs.layers.shaping import *
from fleet_programs.layers.sparse import *
from fleet_programs.layers.table import *
from fleet_programs.layers.tensor import *

__all__: list[str] = []
__all__ += activation.__all__
__all__ += arithmetic.__all__
__all__ += arrays.__all__
__all__ += attention.__all__
__all__ += choosing.__all__
__all__ += conv.__all__
__all__ += conv_transpose.__all__
__all__ += lookup.__all__
__all__ += flow.__all__
__all__ += io.__all__
__all__ += learning_rate.__all__
__all__ += loss.__all__
__all__ += metric.__all__
__all__ += nn.__all__
__all__ += norm.__all__
__all__ += observing.__all__
__all__ += pool.__all__
__all__ += sequence.__all__
__all__ += shaping.__all__
__all__ += sparse.__all__
__all__ += table.__all__
__all__ += tensor.__all__
__all__.sort()

"""Layers: functions that add operators to the default main program and return the variables that they make."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet.static.layers import (
    activation,
    arithmetic,
    arrays,
    attention,
    choosing,
    conv,
    conv_transpose,
    flow,
    io,
    learning_rate,
    lookup,
    loss,
    metric,
    nn,
    norm,
    observing,
    pool,
    sequence,
    shaping,
    sparse,
    table,
    tensor,
)
from fleet.static.layers.activation import *
from fleet.static.layers.arithmetic import *
from fleet.static.layers.arrays import *
from fleet.static.layers.attention import *
from fleet.static.layers.choosing import *
from fleet.static.layers.conv import *
from fleet.static.layers.conv_transpose import *
from fleet.static.layers.flow import *
from fleet.static.layers.io import *
from fleet.static.layers.learning_rate import *
from fleet.static.layers.lookup import *
from fleet.static.layers.loss import *
from fleet.static.layers.metric import *
from fleet.static.layers.nn import *
from fleet.static.layers.norm import *
from fleet.static.layers.observing import *
from fleet.static.layers.pool import *
from fleet.static.layers.sequence import *
from fleet.static.layers.shaping import *
from fleet.static.layers.sparse import *
from fleet.static.layers.table import *
from fleet.static.layers.tensor import *

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

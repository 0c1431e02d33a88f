"""Layers that only scripts of PaddlePaddle need, beside those of `fleet_programs.layers`."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.programs.layers import (
    aligned,
    beams,
    cells,
    clicks,
    dense_lstm,
    dynamic_rnn,
    flow,
    functions,
    image,
    norms,
    pairing,
    pieces,
    projected,
    recurrent,
    sampled,
    sequence,
    sequence_rows,
    static_rnn,
    table,
    tagging,
)
from fleet_paddle.programs.layers.aligned import *
from fleet_paddle.programs.layers.beams import *
from fleet_paddle.programs.layers.cells import *
from fleet_paddle.programs.layers.clicks import *
from fleet_paddle.programs.layers.dense_lstm import *
from fleet_paddle.programs.layers.dynamic_rnn import *
from fleet_paddle.programs.layers.flow import *
from fleet_paddle.programs.layers.functions import *
from fleet_paddle.programs.layers.image import *
from fleet_paddle.programs.layers.norms import *
from fleet_paddle.programs.layers.pairing import *
from fleet_paddle.programs.layers.pieces import *
from fleet_paddle.programs.layers.projected import *
from fleet_paddle.programs.layers.recurrent import *
from fleet_paddle.programs.layers.sampled import *
from fleet_paddle.programs.layers.sequence import *
from fleet_paddle.programs.layers.sequence_rows import *
from fleet_paddle.programs.layers.static_rnn import *
from fleet_paddle.programs.layers.table import *
from fleet_paddle.programs.layers.tagging import *

__all__: list[str] = []
__all__ += beams.__all__
__all__ += aligned.__all__
__all__ += cells.__all__
__all__ += dense_lstm.__all__
__all__ += functions.__all__
__all__ += clicks.__all__
__all__ += dynamic_rnn.__all__
__all__ += flow.__all__
__all__ += image.__all__
__all__ += norms.__all__
__all__ += pairing.__all__
__all__ += pieces.__all__
__all__ += projected.__all__
__all__ += recurrent.__all__
__all__ += static_rnn.__all__
__all__ += sampled.__all__
__all__ += sequence.__all__
__all__ += sequence_rows.__all__
__all__ += table.__all__
__all__ += tagging.__all__
__all__.sort()

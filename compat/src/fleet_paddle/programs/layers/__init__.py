"""Layers that only scripts of PaddlePaddle need, beside those of `fleet_programs.layers`."""
# ruff: noqa: F403  (a name is listed once, where it is made)

from __future__ import annotations

from fleet_paddle.programs.layers import clicks, flow, functions, image, norms, pairing, pieces, sampled, table
from fleet_paddle.programs.layers.clicks import *
from fleet_paddle.programs.layers.flow import *
from fleet_paddle.programs.layers.functions import *
from fleet_paddle.programs.layers.image import *
from fleet_paddle.programs.layers.norms import *
from fleet_paddle.programs.layers.pairing import *
from fleet_paddle.programs.layers.pieces import *
from fleet_paddle.programs.layers.ragged import aligned, beams, sequence, sequence_rows, tagging
from fleet_paddle.programs.layers.ragged.aligned import *
from fleet_paddle.programs.layers.ragged.beams import *
from fleet_paddle.programs.layers.ragged.sequence import *
from fleet_paddle.programs.layers.ragged.sequence_rows import *
from fleet_paddle.programs.layers.ragged.tagging import *
from fleet_paddle.programs.layers.recurrent import cells, dense_lstm, dynamic_rnn, projected, recurrent, static_rnn
from fleet_paddle.programs.layers.recurrent.cells import *
from fleet_paddle.programs.layers.recurrent.dense_lstm import *
from fleet_paddle.programs.layers.recurrent.dynamic_rnn import *
from fleet_paddle.programs.layers.recurrent.projected import *
from fleet_paddle.programs.layers.recurrent.recurrent import *
from fleet_paddle.programs.layers.recurrent.static_rnn import *
from fleet_paddle.programs.layers.sampled import *
from fleet_paddle.programs.layers.table import *

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

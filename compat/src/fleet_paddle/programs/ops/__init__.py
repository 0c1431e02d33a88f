"""Operators that only scripts of PaddlePaddle need: one file for each family; importing this package defines them."""

from __future__ import annotations

from fleet_paddle.programs.ops.algebra import linalg as linalg
from fleet_paddle.programs.ops.algebra import matrices as matrices
from fleet_paddle.programs.ops.algebra import orthogonal as orthogonal
from fleet_paddle.programs.ops.algebra import spectral as spectral
from fleet_paddle.programs.ops.clicked import clicks as clicks
from fleet_paddle.programs.ops.clicked import data_norm as data_norm
from fleet_paddle.programs.ops.clicked import xxhash as xxhash
from fleet_paddle.programs.ops.images import image as image
from fleet_paddle.programs.ops.images import neighbours as neighbours
from fleet_paddle.programs.ops.images import pieces as pieces
from fleet_paddle.programs.ops.images import pixels as pixels
from fleet_paddle.programs.ops.losses import aligning as aligning
from fleet_paddle.programs.ops.losses import centres as centres
from fleet_paddle.programs.ops.losses import chunks as chunks
from fleet_paddle.programs.ops.losses import crf as crf
from fleet_paddle.programs.ops.losses import hierarchical as hierarchical
from fleet_paddle.programs.ops.losses import probability_loss as probability_loss
from fleet_paddle.programs.ops.losses import sampled as sampled
from fleet_paddle.programs.ops.losses import special_loss as special_loss
from fleet_paddle.programs.ops.ragged import belonging as belonging
from fleet_paddle.programs.ops.ragged import packing as packing
from fleet_paddle.programs.ops.ragged import ranked as ranked
from fleet_paddle.programs.ops.ragged import sequence as sequence
from fleet_paddle.programs.ops.ragged import sequence_rows as sequence_rows
from fleet_paddle.programs.ops.ragged import sequence_shape as sequence_shape
from fleet_paddle.programs.ops.recurrent import gates as gates
from fleet_paddle.programs.ops.recurrent import gru as gru
from fleet_paddle.programs.ops.recurrent import lstm as lstm
from fleet_paddle.programs.ops.recurrent import projected_lstm as projected_lstm
from fleet_paddle.programs.ops.recurrent import recurrent_units as recurrent_units
from fleet_paddle.programs.ops.recurrent import rnn as rnn
from fleet_paddle.programs.ops.searching import beam_search as beam_search
from fleet_paddle.programs.ops.searching import beams as beams
from fleet_paddle.programs.ops.searching import tree as tree
from fleet_paddle.programs.ops.training import adadelta as adadelta
from fleet_paddle.programs.ops.training import asserting as asserting
from fleet_paddle.programs.ops.training import averages as averages
from fleet_paddle.programs.ops.training import py_func as py_func
from fleet_paddle.programs.ops.values import drawing as drawing
from fleet_paddle.programs.ops.values import newer as newer
from fleet_paddle.programs.ops.values import old_functions as old_functions
from fleet_paddle.programs.ops.values import ordering as ordering
from fleet_paddle.programs.ops.values import pairing as pairing
from fleet_paddle.programs.ops.values import sized as sized
from fleet_paddle.programs.ops.values import subscript as subscript
from fleet_programs import operators as ops
from fleet_programs.definition.registry import defined

__all__ = ["OWN"]

_OF_FLEET = {one.type for one in ops.OWN}
OWN = [one for one in defined() if one.type not in _OF_FLEET]
"""The definitions of this package."""

"""The operators: one file for each family; importing this package defines them all."""

from __future__ import annotations

from fleet_programs.definition.registry import defined, definition, definitions
from fleet_programs.operators.common import making as making
from fleet_programs.operators.common import segments as segments
from fleet_programs.operators.common import sides as sides
from fleet_programs.operators.common import sizes as sizes
from fleet_programs.operators.common import unary as unary
from fleet_programs.operators.flow import branching as branching
from fleet_programs.operators.flow import looping as looping
from fleet_programs.operators.networks import attention as attention
from fleet_programs.operators.networks import batch_norm as batch_norm
from fleet_programs.operators.networks import conv as conv
from fleet_programs.operators.networks import dropout as dropout
from fleet_programs.operators.networks import embedding as embedding
from fleet_programs.operators.networks import fused as fused
from fleet_programs.operators.networks import loss as loss
from fleet_programs.operators.networks import loss_pairs as loss_pairs
from fleet_programs.operators.networks import metric as metric
from fleet_programs.operators.networks import norm as norm
from fleet_programs.operators.networks import pool as pool
from fleet_programs.operators.networks import sequence_pool as sequence_pool
from fleet_programs.operators.numbers import activation as activation
from fleet_programs.operators.numbers import arithmetic as arithmetic
from fleet_programs.operators.numbers import clip as clip
from fleet_programs.operators.numbers import compare as compare
from fleet_programs.operators.numbers import elementwise as elementwise
from fleet_programs.operators.numbers import linear as linear
from fleet_programs.operators.numbers import matmul as matmul
from fleet_programs.operators.numbers import pointwise as pointwise
from fleet_programs.operators.numbers import reduce as reduce
from fleet_programs.operators.numbers import softmax as softmax
from fleet_programs.operators.tensors import arrays as arrays
from fleet_programs.operators.tensors import basic as basic
from fleet_programs.operators.tensors import choosing as choosing
from fleet_programs.operators.tensors import expanding as expanding
from fleet_programs.operators.tensors import filling as filling
from fleet_programs.operators.tensors import indexing as indexing
from fleet_programs.operators.tensors import joining as joining
from fleet_programs.operators.tensors import keyed as keyed
from fleet_programs.operators.tensors import noise as noise
from fleet_programs.operators.tensors import printing as printing
from fleet_programs.operators.tensors import random as random
from fleet_programs.operators.tensors import shaping as shaping
from fleet_programs.operators.tensors import slicing as slicing
from fleet_programs.operators.training import amp as amp
from fleet_programs.operators.training import fused_updates as fused_updates
from fleet_programs.operators.training import remote as remote
from fleet_programs.operators.training import schedule as schedule
from fleet_programs.operators.training import update as update
from fleet_programs.operators.training import update_adam as update_adam
from fleet_programs.operators.training import update_by_rule as update_by_rule

__all__ = ["OWN", "definition", "definitions", "known"]

OWN = defined()
"""The definitions of this package itself; `extensions` bring those of other packages."""


def known() -> list[str]:
    """Every type of operator, sorted."""
    return [one.type for one in definitions()]

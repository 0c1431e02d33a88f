"""The operators of Fleet: one file for each family; importing this package defines them all."""

from __future__ import annotations

from fleet.static.ops import (
    activation as activation,
)
from fleet.static.ops import (
    amp as amp,
)
from fleet.static.ops import (
    arithmetic as arithmetic,
)
from fleet.static.ops import (
    arrays as arrays,
)
from fleet.static.ops import (
    attention as attention,
)
from fleet.static.ops import (
    basic as basic,
)
from fleet.static.ops import (
    batch_norm as batch_norm,
)
from fleet.static.ops import (
    branching as branching,
)
from fleet.static.ops import (
    choosing as choosing,
)
from fleet.static.ops import (
    clip as clip,
)
from fleet.static.ops import (
    compare as compare,
)
from fleet.static.ops import (
    conv as conv,
)
from fleet.static.ops import (
    dropout as dropout,
)
from fleet.static.ops import (
    elementwise as elementwise,
)
from fleet.static.ops import (
    embedding as embedding,
)
from fleet.static.ops import (
    expanding as expanding,
)
from fleet.static.ops import (
    filling as filling,
)
from fleet.static.ops import (
    fused as fused,
)
from fleet.static.ops import (
    fused_updates as fused_updates,
)
from fleet.static.ops import (
    indexing as indexing,
)
from fleet.static.ops import (
    joining as joining,
)
from fleet.static.ops import (
    keyed as keyed,
)
from fleet.static.ops import (
    linear as linear,
)
from fleet.static.ops import (
    looping as looping,
)
from fleet.static.ops import (
    loss as loss,
)
from fleet.static.ops import (
    loss_pairs as loss_pairs,
)
from fleet.static.ops import (
    making as making,
)
from fleet.static.ops import (
    matmul as matmul,
)
from fleet.static.ops import (
    metric as metric,
)
from fleet.static.ops import (
    noise as noise,
)
from fleet.static.ops import (
    norm as norm,
)
from fleet.static.ops import (
    pointwise as pointwise,
)
from fleet.static.ops import (
    pool as pool,
)
from fleet.static.ops import (
    printing as printing,
)
from fleet.static.ops import (
    random as random,
)
from fleet.static.ops import (
    reduce as reduce,
)
from fleet.static.ops import (
    remote as remote,
)
from fleet.static.ops import (
    schedule as schedule,
)
from fleet.static.ops import (
    segments as segments,
)
from fleet.static.ops import (
    sequence_pool as sequence_pool,
)
from fleet.static.ops import (
    shaping as shaping,
)
from fleet.static.ops import (
    sides as sides,
)
from fleet.static.ops import (
    sizes as sizes,
)
from fleet.static.ops import (
    slicing as slicing,
)
from fleet.static.ops import (
    softmax as softmax,
)
from fleet.static.ops import (
    unary as unary,
)
from fleet.static.ops import (
    update as update,
)
from fleet.static.ops import (
    update_adam as update_adam,
)
from fleet.static.ops import (
    update_by_rule as update_by_rule,
)
from fleet.static.registry import defined, definition, definitions

__all__ = ["OWN", "definition", "definitions", "known"]

OWN = defined()
"""The definitions of Fleet itself; `extensions` bring those of other packages."""


def known() -> list[str]:
    """Every type of operator, sorted."""
    return [one.type for one in definitions()]

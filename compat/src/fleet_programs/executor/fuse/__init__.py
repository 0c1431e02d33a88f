"""Patterns of operators that one kernel does faster: a list of passes over the operators of a program.

Only the Executor's own copy changes. A variable that is fetched or persistable is never fused away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fleet_programs.definition.operator import Operator
from fleet_programs.executor.fuse.fc import fuse_fc
from fleet_programs.executor.fuse.ops import Ops
from fleet_programs.executor.fuse.sgd import fuse_sgd
from fleet_programs.executor.fuse.softmax_loss import fuse_mean_loss, fuse_softmax_loss
from fleet_programs.executor.fuse.updates import fuse_updates

if TYPE_CHECKING:
    from fleet_programs.program.block import Block

PASSES: tuple[Callable[[Ops], list[Operator]], ...] = (
    fuse_fc,
    fuse_softmax_loss,
    fuse_mean_loss,
    fuse_sgd,
    fuse_updates,
)


def fuse(ops: Sequence[Operator], block: Block, fetches: Sequence[str], *, on_host: bool) -> list[Operator]:
    """The operators with every pattern replaced; `on_host`: they run on the CPU, and nothing else compiles them."""
    for one in PASSES:
        ops = one(Ops(ops, block, fetches, on_host=on_host))
    return list(ops)

"""What a program leaves out: operators that evaluation, or the way to some targets, does not need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fleet.errors import UsageError
from fleet_programs.definition.operator import OPTIMIZE, REMOTE, SCHEDULE, Operator
from fleet_programs.definition.registry import definition
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import compact
from fleet_programs.program.variable import Variable

if TYPE_CHECKING:
    from fleet_programs.program.program import Program


def settle(block: Block) -> None:
    """Let operators do what they do in evaluation; variables that nobody uses then go, except those that are fed."""
    for op in block.ops:
        known = definition(op.type)
        if "is_test" in known.attrs:
            op.attrs["is_test"] = True
            _keep_state(op)
        if known.blocks:
            forget_runs(op)
    block.drop_unused([name for name, var in block.vars.items() if var.is_data])


def forget_runs(op: Operator) -> None:
    """Let an operator keep nothing of the runs of its blocks: nobody asks for its gradient."""
    if op.outputs.pop("StepScopes", None):
        op.attrs["saved"] = []


def _keep_state(op: Operator) -> None:
    """Let an operator leave as it is what it may write besides its results, such as a mean over batches."""
    slots = definition(op.type).slots
    op.outputs = {
        slot: names
        for slot, names in op.outputs.items()
        if slots[slot] != "?" or not names or not op.in_place.issuperset(names)
    }


def leading_to(program: Program, targets: Sequence[str], feeds: Iterable[str]) -> Program:
    """A copy in which only what computes `targets` is left, given `feeds`: no updates, and nothing sent to servers.

    Statistics of batches and counters of schedules stay as they are too. It counts as the program itself: random
    numbers go on. UsageError without targets.
    """
    if not targets:
        raise UsageError(
            "use_prune=True runs what leads to fetch_list, which is empty: give it, or leave use_prune out"
        )
    other = program.clone()
    other.serial = program.serial
    block = other.global_block()
    given = {name for feed in feeds for name in (feed, *block.levels_of(block.var(feed)))}
    block.ops = [
        op
        for op in block.ops
        if op.role not in (OPTIMIZE, REMOTE, SCHEDULE)
        or not any(block.var(name).persistable for name in op.output_names)
    ]
    for op in (op for one in other.blocks for op in one.ops):
        _keep_state(op)
    keep_needed(block, targets, given)
    compact(other)
    return other


def keep_needed(block: Block, targets: Sequence[Variable | str], feeds: Iterable[str]) -> None:
    """Leave only what computes `targets`, given `feeds`."""
    needed = {target if isinstance(target, str) else target.name for target in targets}
    for name in needed:
        block.var(name)
    given = set(feeds)
    kept: list[Operator] = []
    for op in reversed(block.ops):
        if needed & (set(op.output_names) - given):
            kept.append(op)
            needed |= set(op.input_names) - given
    block.ops = kept[::-1]
    block.drop_unused(needed | given)

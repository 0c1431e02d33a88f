"""Which operators of a block a run needs; the others are left out."""

from __future__ import annotations

from collections.abc import Sequence

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import definition
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import must_run
from fleet_programs.program.pruning import forget_runs


def needed(block: Block, fetches: Sequence[str]) -> list[Operator]:
    """The operators that change something persistable, talk to others, or lead to a fetch."""
    wanted = set(fetches)
    kept: list[Operator] = []
    is_trained = block.program.is_trained
    for op in reversed(block.ops):
        known = definition(op.type)
        counts = is_trained or not known.is_metric  # evaluation counts what it is asked for
        lasting = counts and any(block.var(name).persistable for name in op.output_names)
        if lasting or must_run(op, block.program) or wanted & set(op.output_names):
            if known.blocks and not wanted.intersection(op.output("StepScopes")):
                op = op.copy()
                forget_runs(op)
            kept.append(op)
            wanted |= set(op.input_names)
    return kept[::-1]

"""`server_startup`: the initialisers of a startup program, cut to what one server holds.

A random value depends on the parameter's name and on the row alone; a block says of which parameter it is and which is
its first row, so its values are those of the whole parameter.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from fleet.errors import NotSupportedError
from fleet.strategy.mode import Mode
from fleet_programs.definition.kinds import Shape
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import definition
from fleet_programs.program.block import Block
from fleet_programs.program.fitting import complete
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.passes.server_program import ONE
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.share import Share, shares_of
from fleet_programs.transpiler.planning.updates import updates_of
from fleet_programs.transpiler.planning.verify import verified


@verified
def server_startup(startup: Program, program: Program, plan: Plan, server: int) -> Program:
    """The startup program of one server; `startup` and `program` are those of one process."""
    made = Program()
    made.random_seed = startup.random_seed
    block = made.global_block()
    updates = {update.name: update for update in updates_of(program)}
    rates = []
    for share in shares_of(plan.job, server):
        update = updates[share.parameter]
        whole = update.parameter.shape
        _copy(startup, block, share.parameter, share.name, share, whole)
        if plan.job.mode == Mode.GEO:
            continue
        for name in update.accumulators.values():
            kept = program.global_block().var(name).shape
            if kept == whole:
                _copy(startup, block, name, share.of(name), share, whole)
            else:  # a count, one for the block even where a process of its own counts rows
                _copy(startup, block, name, share.of(name), replace(share, shape=ONE, end=share.begin + 1), kept)
        rates.append(update.rate.variable)
    for name in dict.fromkeys(rates):
        _copy(startup, block, name, name, None, ())
    made.notes[SERVERS_NOTE] = plan.to_note()
    return made


def _copy(startup: Program, block: Block, name: str, new: str, share: Share | None, whole: Shape) -> None:
    """Copy what initialises a variable, under a new name and for one block of it."""
    source = startup.global_block()
    ops = [op for op in source.ops if name in op.output_names]
    if not ops:
        return  # a rate that a schedule computes, in the trainers
    known = source.var(name)
    is_cut = share is not None and share.shape != whole
    shape = share.shape if is_cut and share is not None else known.shape
    block.create_var(new, shape, known.dtype, persistable=True)
    for op in ops:
        copied = op.renamed({name: new}, {name: new})
        if share is not None and is_cut:
            _cut(copied, name, share, whole)
        complete(copied, block)
        block.ops.append(copied)
    block.program.changed()


def _cut(op: Operator, name: str, share: Share, whole: Shape) -> None:
    attrs = definition(op.type).attrs
    if op.inputs or "shape" not in attrs:
        raise NotSupportedError(
            f"{name!r} is initialised by {op.type}, of which a block cannot be made; keep parameters whole with "
            "slice_var_up=False"
        )
    op.attrs["shape"] = list(share.shape)
    if "values" in attrs:
        op.attrs["values"] = list(op.attr("values"))[share.begin : share.end]
    if "source" in attrs:
        op.attrs["source"] = op.attr("source") or name
        op.attrs["first_row"] = op.attr("first_row") + share.begin // prod(whole[1:])

"""`server_program`: what one server holds and does, as a program.

Block 0 listens; every other block is what happens to one block of a parameter when its gradients have come:

    sum over the trainers, scale by 1 / trainers     synchronous, two trainers or more
    the update operator of the parameter             except in geo mode, where trainers update and a `sum` adds

Rows of tables have no block: the tables' own rules change them.
"""

from __future__ import annotations

import logging

from fleet.strategy.mode import Mode
from fleet_programs.definition.operator import OPTIMIZE, REMOTE, Operator
from fleet_programs.expressions.names import GRAD
from fleet_programs.program.block import Block
from fleet_programs.program.fitting import complete
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.share import Share, shares_of
from fleet_programs.transpiler.planning.updates import ParameterUpdate, last_writer, updates_of
from fleet_programs.transpiler.planning.verify import verified

DELTA = "@DELTA"
ONE = (1,)

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs


@verified
def server_program(program: Program, plan: Plan, server: int) -> Program:
    """The main program of one server; `program` is the one that was trained in one process."""
    made = Program()
    made.random_seed = program.random_seed
    updates = {update.name: update for update in updates_of(program)}
    shares = shares_of(plan.job, server)
    optimize_blocks, grads = [], []
    for share in shares:
        block = made.create_block()
        optimize_blocks.append(block.index)
        add = _add_difference if plan.job.mode == Mode.GEO else _add_update
        grads.append(f"{add(block, share, updates[share.parameter], program, plan)}:{block.index}")
    if not shares:
        optimize_blocks.append(made.create_block().index)
        if not plan.tables:
            _log.warning("server %s holds nothing; start fewer servers", plan.endpoints[server])
    made.global_block().append_op(
        "listen_and_serv",
        {},
        {},
        {
            "endpoint": plan.endpoints[server],
            "Fanin": plan.job.num_workers,
            "sync_mode": plan.job.mode == Mode.SYNC,
            "pserver_id": server,
            "optimize_blocks": optimize_blocks,
            "grad_to_block_id": grads,
            "distributed_mode": plan.job.mode,
            "tables": plan.tables,
        },
        role=REMOTE,
    )
    made.notes[SERVERS_NOTE] = plan.to_note()
    return made


def _add_update(block: Block, share: Share, update: ParameterUpdate, program: Program, plan: Plan) -> str:
    outer = block.program.global_block()
    parameter = outer.create_parameter(share.name, share.shape, update.parameter.dtype)
    gradient = update.name + GRAD + share.suffix
    outer.create_var(gradient, share.shape, parameter.dtype)
    if plan.job.mode == Mode.SYNC and plan.job.num_workers > 1:
        _add_mean(block, gradient, parameter, plan.job.num_workers)
    source = program.global_block()
    renamed = {update.name: share.name, update.gradient: gradient}
    for name in update.accumulators.values():
        own = source.var(name)
        shape = share.shape if own.shape == update.parameter.shape else ONE  # a count, of rows here: one for the block
        renamed[name] = outer.create_var(share.of(name), shape, own.dtype, persistable=True).name
    outer.create_var(update.rate.variable, (1,), "float32", persistable=True)
    for op in (*_rate_factors(update, source), update.op):
        _append(block, op.renamed(renamed, renamed))
    return gradient


def _add_difference(block: Block, share: Share, update: ParameterUpdate, program: Program, plan: Plan) -> str:  # noqa: ARG001
    outer = block.program.global_block()
    parameter = outer.create_parameter(share.name, share.shape, update.parameter.dtype)
    difference = outer.create_var(update.name + DELTA + share.suffix, share.shape, parameter.dtype)
    block.append_op("sum", {"X": [parameter, difference]}, {"Out": parameter}, {}, role=OPTIMIZE)
    return difference.name


def _add_mean(block: Block, gradient: str, parameter: Variable, num_trainers: int) -> None:
    outer = block.program.global_block()
    parts = [f"{gradient}.trainer_{index}" for index in range(num_trainers)]
    for part in parts:
        outer.create_var(part, parameter.shape, parameter.dtype)
    block.append_op("sum", {"X": parts}, {"Out": gradient}, {}, role=OPTIMIZE)
    block.append_op("scale", {"X": gradient}, {"Out": gradient}, {"scale": 1.0 / num_trainers}, role=OPTIMIZE)


def _rate_factors(update: ParameterUpdate, block: Block) -> list[Operator]:
    """The operators between the learning rate and the one that the update reads, in their order."""
    found: list[Operator] = []
    name = update.op.input("LearningRate")[0]
    while name != update.rate.variable:
        op = last_writer(name, block)
        assert op is not None  # what `ParameterUpdate.rate` was found through
        found.insert(0, op)
        name = op.input("X")[0]
    return found


def _append(block: Block, op: Operator) -> None:
    outer = block.program.global_block()
    for name in op.output_names:
        if not block.has_var(name):
            outer.create_var(name, (1,), "float32")
    complete(op, block)
    block.ops.append(op)
    block.program.changed()

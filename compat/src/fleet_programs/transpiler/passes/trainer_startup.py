"""`trainer_startup`: a trainer initialises what it has, and takes the dense parameters from the servers."""

from __future__ import annotations

from collections.abc import Collection

from fleet_programs.definition.operator import REMOTE
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.passes.edit import remove
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.verify import verified


@verified
def trainer_startup(startup: Program, plan: Plan, on_servers: Collection[str]) -> Program:
    """The startup program of a trainer, without first values of the variables `on_servers`: accumulators and tables.

    Initialisers of dense parameters stay: they are the servers' as well, to the last bit, and give `recv` its tensors.
    """
    other = startup.clone()
    block = other.global_block()
    remove(block, [op for op in block.ops if op.outputs and all(name in on_servers for name in op.output_names)])
    where = {"endpoints": list(plan.endpoints), "trainer_id": plan.trainer_id}
    block.append_op("recv", {}, {"Out": plan.dense}, where, role=REMOTE)
    block.append_op("fetch_barrier", {}, {}, where, role=REMOTE)
    other.notes[SERVERS_NOTE] = plan.to_note()
    return other

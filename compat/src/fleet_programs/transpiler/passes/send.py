"""`send`: after the last update, gradients go to the servers and parameters come back.

    send, send_barrier, recv, fetch_barrier      synchronous
    send, recv                                   asynchronous, half-asynchronous, geo

All dense gradients are in one `send`, which is one request to each server and step; it takes the gradients of rows
along that `prefetch_grad` has collected. In geo mode updates stay, and `send` has the parameters after them.
"""

from __future__ import annotations

from fleet.strategy.mode import Mode
from fleet_programs.definition.operator import REMOTE
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.updates import is_update
from fleet_programs.transpiler.planning.verify import verified


@verified
def send(program: Program, plan: Plan) -> Program:
    """The program with its exchange of a step."""
    other = program.clone()
    block = other.global_block()
    updates = {op.input("Param")[0]: op for op in block.ops if is_update(op)}
    values = plan.dense if plan.job.mode == Mode.GEO else [updates[name].input("Grad")[0] for name in plan.dense]
    where = {"endpoints": list(plan.endpoints), "trainer_id": plan.trainer_id}
    # What comes after the last update, such as averages of parameters, sees the new parameters.
    index = 1 + max(
        (index for index, op in enumerate(block.ops) if is_update(op) or op.type == "prefetch_grad"), default=-1
    )
    is_sync = plan.job.mode == Mode.SYNC
    steps: list[tuple[str, dict[str, list[str]], dict[str, list[str]], dict[str, object]]] = [
        ("send", {"X": values, "LearningRate": plan.rate_variables}, {}, {"params": plan.dense, **where}),
        *([("send_barrier", {}, {}, where)] if is_sync else []),
        ("recv", {}, {"Out": plan.dense}, where),
        *([("fetch_barrier", {}, {}, where)] if is_sync else []),
    ]
    for offset, (type, inputs, outputs, attrs) in enumerate(steps):
        block.insert_op(index + offset, type, inputs, outputs, attrs, role=REMOTE)
    other.notes[SERVERS_NOTE] = plan.to_note()
    return other

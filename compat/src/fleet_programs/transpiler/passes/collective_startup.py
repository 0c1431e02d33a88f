"""`collective_startup`: trainers meet, and the first one's parameters become everybody's."""

from __future__ import annotations

from collections.abc import Sequence

from fleet_programs.definition.operator import REMOTE
from fleet_programs.program.notes import COLLECTIVE_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.verify import verified


@verified
def collective_startup(startup: Program, main: Program, endpoints: Sequence[str], trainer_id: int) -> Program:
    """The startup program of a trainer in a job without servers; `main` says which parameters there are."""
    other = startup.clone()
    block = other.global_block()
    attrs = {"endpoint": endpoints[trainer_id], "endpoints": list(endpoints), "trainer_id": trainer_id}
    block.append_op("gen_nccl_id", {}, {}, attrs, role=REMOTE)
    parameters = [var.name for var in main.all_parameters() if block.has_var(var.name)]
    if len(endpoints) > 1 and parameters:
        block.append_op("c_broadcast", {"X": parameters}, {"Out": parameters}, {"root": 0}, role=REMOTE)
    other.notes[COLLECTIVE_NOTE] = {"endpoints": list(endpoints), "trainer_id": trainer_id}
    return other

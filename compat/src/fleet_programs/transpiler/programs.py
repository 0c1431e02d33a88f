"""The passes put together: the programs of a trainer, of a server, and of a trainer without servers."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.errors import UsageError
from fleet.strategy.mode import Mode
from fleet_programs.program.notes import COLLECTIVE_NOTE, SERVERS_NOTE
from fleet_programs.program.program import Program
from fleet_programs.transpiler.passes.check_finite import check_finite
from fleet_programs.transpiler.passes.collective_startup import collective_startup
from fleet_programs.transpiler.passes.dense_gradients import dense_gradients
from fleet_programs.transpiler.passes.drop_updates import drop_updates
from fleet_programs.transpiler.passes.grad_allreduce import grad_allreduce
from fleet_programs.transpiler.passes.local_sgd import local_sgd, local_sgd_startup
from fleet_programs.transpiler.passes.prefetch import prefetch
from fleet_programs.transpiler.passes.send import send
from fleet_programs.transpiler.passes.server_program import server_program
from fleet_programs.transpiler.passes.server_startup import server_startup
from fleet_programs.transpiler.passes.trainer_startup import trainer_startup
from fleet_programs.transpiler.planning.plan import Plan
from fleet_programs.transpiler.planning.updates import LOOKUPS, updates_of

Pair = tuple[Program, Program]


def for_trainer(main: Program, startup: Program, plan: Plan) -> Pair:
    """Main and startup program of a trainer with servers."""
    cut = send(check_finite(prefetch(dense_gradients(main, plan), plan), plan), plan)
    if plan.job.mode != Mode.GEO:
        cut = drop_updates(cut)
    gone = set(main.global_block().vars) - set(cut.global_block().vars)
    return cut, trainer_startup(startup, plan, gone)


def for_server(main: Program, startup: Program, plan: Plan, server: int) -> Pair:
    """Main and startup program of a server."""
    return server_program(main, plan, server), server_startup(startup, main, plan, server)


def for_collective(
    main: Program,
    startup: Program,
    endpoints: Sequence[str],
    trainer_id: int,
    mode: str = "grad_allreduce",
    *,
    k_steps: int = 1,
    begin_step: int = 1,
) -> Pair:
    """Main and startup program of a trainer without servers; `mode` is grad_allreduce, local_sgd or none.

    With none, the trainers begin alike, and a later pass brings them together. `k_steps` and `begin_step` are for
    local_sgd.
    """
    for op in (op for block in main.blocks for op in block.ops):
        if op.type in LOOKUPS and op.attr("is_distributed"):
            raise UsageError(
                f"parameter {op.input('W')[0]!r} is distributed and needs servers; use mode pserver, or "
                "is_distributed=False"
            )
    begin = collective_startup(startup, main, endpoints, trainer_id)
    if mode == "local_sgd":
        cut = local_sgd(main, len(endpoints), k_steps, begin_step)
        begin = local_sgd_startup(begin, cut)
    elif mode == "none":
        cut = main.clone()
    else:
        cut = grad_allreduce(main, len(endpoints))
    cut.notes[COLLECTIVE_NOTE] = begin.notes[COLLECTIVE_NOTE]
    return cut, begin


def refuse_transpiled(program: Program) -> None:
    """UsageError if a program was cut before, or has no optimizer."""
    refuse_cut(program)
    updates_of(program)


def refuse_cut(program: Program) -> None:
    """UsageError if a program was cut before."""
    if SERVERS_NOTE in program.notes or COLLECTIVE_NOTE in program.notes:
        raise UsageError("the program has been transpiled already; transpile what layers and minimize() made, once")

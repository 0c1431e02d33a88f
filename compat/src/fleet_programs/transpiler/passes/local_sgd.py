"""`local_sgd`: trainers update by themselves, and after some steps take the mean of their parameters.

parameter = snapshot - mean over the trainers of (snapshot - parameter);  snapshot = parameter

They do so up to `begin_step` after every step, then after every `k_steps`; if that is 1, no condition is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet_programs.definition.operator import OPTIMIZE, REMOTE
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable
from fleet_programs.transpiler.passes.now_and_then import compared, constant, counted, divides, first_count, run_if
from fleet_programs.transpiler.planning.updates import updates_of
from fleet_programs.transpiler.planning.verify import verified

SNAPSHOT, DELTA, MEAN = "@SNAPSHOT", "@DELTA", "@DELTA@MEAN"


COUNT = "@LOCAL_SGD_STEP@"


@verified
def local_sgd(program: Program, num_trainers: int, k_steps: int = 1, begin_step: int = 1) -> Program:
    """The program of one of several trainers; `local_sgd_startup` gives snapshots their first values."""
    other = program.clone()
    block = other.global_block()
    parameters = [update.parameter for update in updates_of(other)]
    for parameter in parameters:
        block.create_var(parameter.name + SNAPSHOT, parameter.shape, parameter.dtype, persistable=True)
    if k_steps == 1:
        _average(block, parameters, num_trainers)
        return other
    due = _due(block, k_steps, begin_step)
    body = other.create_block(0)
    _average(body, parameters, num_trainers)
    run_if(block, due, body)
    return other


def _due(block: Block, k_steps: int, begin_step: int) -> str:
    """A bool: whether a step ends with an average."""
    counted(block, COUNT)
    begin = constant(block, "local_sgd_begin_step", begin_step)
    is_early = compared(block, "less_equal", COUNT, begin, "local_sgd_is_early")
    block.create_var("local_sgd_since", (1,), "int64", stop_gradient=True)
    block.append_op("elementwise_sub", {"X": COUNT, "Y": begin}, {"Out": "local_sgd_since"}, {}, role=OPTIMIZE)
    is_turn = divides(block, "local_sgd_since", k_steps, "local_sgd")
    return compared(block, "logical_or", is_early, is_turn, "local_sgd_averages")


def _average(block: Block, parameters: Sequence[Variable], num_trainers: int) -> None:
    for parameter in parameters:
        for suffix in (DELTA, MEAN):
            block.create_var(parameter.name + suffix, parameter.shape, parameter.dtype)
    with block.program.adding(OPTIMIZE):
        for parameter in parameters:
            name = parameter.name
            block.append_op("elementwise_sub", {"X": name + SNAPSHOT, "Y": name}, {"Out": name + DELTA}, {})
        deltas = [parameter.name + DELTA for parameter in parameters]
        block.append_op("c_allreduce_sum", {"X": deltas}, {"Out": deltas}, {}, role=REMOTE)
        for parameter in parameters:
            name = parameter.name
            block.append_op("scale", {"X": name + DELTA}, {"Out": name + MEAN}, {"scale": 1.0 / num_trainers})
            block.append_op("elementwise_sub", {"X": name + SNAPSHOT, "Y": name + MEAN}, {"Out": name}, {})
            block.append_op("assign", {"X": name}, {"Out": name + SNAPSHOT}, {})


@verified
def local_sgd_startup(startup: Program, main: Program) -> Program:
    """A startup program that ends with snapshots of the parameters; `main` is the trainer's, with snapshots."""
    other = startup.clone()
    block = other.global_block()
    for update in updates_of(main):
        name, parameter = update.name + SNAPSHOT, update.parameter
        block.create_var(name, parameter.shape, parameter.dtype, persistable=True)
        block.append_op("assign", {"X": update.name}, {"Out": name}, {})
    if main.global_block().has_var(COUNT):
        first_count(other, COUNT)
    return other

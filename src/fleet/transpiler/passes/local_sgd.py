"""`local_sgd`: trainers update by themselves, and after every step take the mean of their parameters.

parameter = snapshot - mean over the trainers of (snapshot - parameter);  snapshot = parameter
"""

from __future__ import annotations

from fleet.static.operator import OPTIMIZE, REMOTE
from fleet.static.program import Program
from fleet.transpiler.updates import updates_of
from fleet.transpiler.verify import verified

SNAPSHOT, DELTA, MEAN = "@SNAPSHOT", "@DELTA", "@DELTA@MEAN"


@verified
def local_sgd(program: Program, num_trainers: int) -> Program:
    """The program of one of several trainers; `local_sgd_startup` gives snapshots their first values."""
    other = program.clone()
    block = other.global_block()
    parameters = [update.parameter for update in updates_of(other)]
    for parameter in parameters:
        block.create_var(parameter.name + SNAPSHOT, parameter.shape, parameter.dtype, persistable=True)
        for suffix in (DELTA, MEAN):
            block.create_var(parameter.name + suffix, parameter.shape, parameter.dtype)
    with other.adding(OPTIMIZE):
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
    return other


@verified
def local_sgd_startup(startup: Program, main: Program) -> Program:
    """A startup program that ends with snapshots of the parameters; `main` is the trainer's, with snapshots."""
    other = startup.clone()
    block = other.global_block()
    for update in updates_of(main):
        name, parameter = update.name + SNAPSHOT, update.parameter
        block.create_var(name, parameter.shape, parameter.dtype, persistable=True)
        block.append_op("assign", {"X": update.name}, {"Out": name}, {})
    return other

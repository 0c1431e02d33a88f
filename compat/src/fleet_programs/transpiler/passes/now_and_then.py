"""What passes share that let a part of a step run every few steps only: a count of steps, and a block that may run.

{Out=n} = increment(X=n)
...
{Out=due} = equal(X=rest, Y=zero)
{Out=[w, ...]} = cond(Cond=due, X=[w, ...]) true_block=1
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet_programs.definition.operator import OPTIMIZE, Operator
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import has_value, taken, written
from fleet_programs.program.program import Program


def counted(block: Block, name: str) -> None:
    """Count the steps of a program from 1 in a variable that keeps its value; `first_count` gives it its first."""
    block.create_var(name, (1,), "int64", persistable=True, stop_gradient=True)
    block.append_op("increment", {"X": name}, {"Out": name}, {"step": 1.0}, role=OPTIMIZE)


def first_count(startup: Program, name: str) -> None:
    """The first value of a count of steps: 0, before the first."""
    block = startup.global_block()
    Constant(0.0)(block.create_var(name, (1,), "int64", persistable=True), block)


def constant(block: Block, name: str, value: int) -> str:
    """A whole number as a variable."""
    block.create_var(name, (1,), "int64", stop_gradient=True)
    attrs = {"shape": [1], "value": float(value), "dtype": "int64"}
    block.append_op("fill_constant", {}, {"Out": name}, attrs, role=OPTIMIZE)
    return name


def divides(block: Block, count: str, divisor: int, stem: str) -> str:
    """A bool: whether a count is a multiple of a number."""
    every, zero = constant(block, f"{stem}_k_steps", divisor), constant(block, f"{stem}_zero", 0)
    block.create_var(f"{stem}_rest", (1,), "int64", stop_gradient=True)
    block.append_op("elementwise_mod", {"X": count, "Y": every}, {"Out": f"{stem}_rest"}, {}, role=OPTIMIZE)
    return compared(block, "equal", f"{stem}_rest", zero, f"{stem}_due")


def compared(block: Block, type: str, one: str, other: str, out: str) -> str:
    """A bool of two variables."""
    block.create_var(out, (1,), "bool", stop_gradient=True)
    block.append_op(type, {"X": one, "Y": other}, {"Out": out}, {}, role=OPTIMIZE)
    return out


def run_if(block: Block, condition: str, body: Block) -> None:
    """Add the operator that runs a block if a condition holds, and leaves everything as it is otherwise."""
    writes = written(body)
    takes = list(dict.fromkeys([*taken(body), *(name for name in writes if has_value(name, block))]))
    block.append_op(
        "cond",
        {"Cond": condition, "X": [name for name in takes if name != condition]},
        {"Out": writes},
        {"true_block": body.index, "false_block": -1, "true_outs": writes, "false_outs": writes},
        role=OPTIMIZE,
    )


def move(ops: Sequence[Operator], block: Block, body: Block) -> None:
    """Move operators into a block, with the variables that only they make."""
    gone = {id(op) for op in ops}
    block.ops = [op for op in block.ops if id(op) not in gone]
    body.ops.extend(ops)
    for name in dict.fromkeys(name for op in ops for name in op.output_names):
        if name in block.vars and not block.vars[name].persistable:
            body.vars[name] = block.vars.pop(name)
            body.vars[name].block = body
    block.program.changed()

"""`gradient_merge`: gradients are added up over some steps, and the last of them makes the update.

    merged = merged + gradient                                        in every step
    if step % k_steps == 0: update by merged / k_steps; merged = 0    clips included

Several trainers add their merged gradients in the step that updates, so that the others cost no traffic.
"""

from __future__ import annotations

from fleet.errors import UsageError
from fleet_programs.definition.kinds import ROWS
from fleet_programs.definition.operator import OPTIMIZE, REMOTE, Operator
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program
from fleet_programs.transpiler.passes.now_and_then import counted, divides, first_count, move, run_if
from fleet_programs.transpiler.planning.updates import ParameterUpdate, updates_of
from fleet_programs.transpiler.planning.verify import verified

MERGED, MEAN = "@GradientMerge", "@GradientMerge@MEAN"
COUNT = "@GRADIENT_MERGE_STEP@"


@verified
def gradient_merge(program: Program, k_steps: int, avg: bool = True, num_trainers: int = 1) -> Program:
    """A program whose parameters change every `k_steps` runs; `gradient_merge_startup` gives sums their first value."""
    other = program.clone()
    block = other.global_block()
    updates = {update.raw: update for update in updates_of(other)}
    late = _after_gradients(block, set(updates))
    for name, update in updates.items():
        _merge(block, name, update)
    counted(block, COUNT)
    due = divides(block, COUNT, k_steps, "gradient_merge")
    body = other.create_block(0)
    factor = (1.0 / k_steps if avg else 1.0) / num_trainers
    sums = [name + MERGED for name in updates]
    if num_trainers > 1:
        body.append_op("c_allreduce_sum", {"X": sums}, {"Out": sums}, {}, role=REMOTE)
    for name, update in updates.items():
        body.create_var(name + MEAN, update.parameter.shape, update.parameter.dtype)
        body.append_op("scale", {"X": name + MERGED}, {"Out": name + MEAN}, {"scale": factor}, role=OPTIMIZE)
    move(late, block, body)
    for op in late:
        op.inputs = {
            slot: [name + MEAN if name in updates else name for name in names] for slot, names in op.inputs.items()
        }
    for name, update in updates.items():
        attrs = {"shape": list(update.parameter.shape), "value": 0.0, "dtype": update.parameter.dtype}
        body.append_op("fill_constant", {}, {"Out": name + MERGED}, attrs, role=OPTIMIZE)
    run_if(block, due, body)
    return other


def _merge(block: Block, name: str, update: ParameterUpdate) -> None:
    if block.var(name).kind == ROWS:
        raise UsageError(
            f"gradient merge: the gradient of {update.name!r} is sparse, and rows of several batches are not kept; "
            "give its embedding is_sparse=False"
        )
    block.create_var(
        name + MERGED, update.parameter.shape, update.parameter.dtype, persistable=True, stop_gradient=True
    )
    sums = {"X": [name + MERGED, name]}
    block.append_op("sum", sums, {"Out": name + MERGED}, {}, role=OPTIMIZE)


def _after_gradients(block: Block, gradients: set[str]) -> list[Operator]:
    """Clips and updates: what the optimizer does with gradients, in the order of the program."""
    reached, found = set(gradients), []
    for op in block.ops:
        if op.role == OPTIMIZE and reached & set(op.input_names):
            found.append(op)
            reached |= set(op.output_names)
    return found


@verified
def gradient_merge_startup(startup: Program, main: Program) -> Program:
    """A startup program that ends with sums of 0; `main` is the trainer's, with sums."""
    other = startup.clone()
    block = other.global_block()
    for var in main.global_block().vars.values():
        if var.name.endswith(MERGED):
            Constant(0.0)(block.create_var(var.name, var.shape, var.dtype, persistable=True), block)
    first_count(other, COUNT)
    return other

"""`grad_allreduce`: trainers add their gradients in every step, and each makes the same update.

The gradient of the loss is divided by the number of trainers, so that sums are means; then all gradients are added in
one operator, before they are clipped and used.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.errors import UsageError
from fleet_programs.definition.operator import BACKWARD, REMOTE, Operator
from fleet_programs.expressions.names import GRAD
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program
from fleet_programs.transpiler.planning.updates import updates_of
from fleet_programs.transpiler.planning.verify import verified

UNSCALED = "@UNSCALED"


@verified
def grad_allreduce(program: Program, num_trainers: int) -> Program:
    """The program of one of several trainers; with one trainer as it is."""
    other = program.clone()
    if num_trainers == 1:
        return other
    block = other.global_block()
    gradients = list(dict.fromkeys(update.raw for update in updates_of(other)))
    for op in _starts(gradients, block):
        _scale(op, block, num_trainers)
    written = set(gradients)
    # Where mixed precision looks at gradients, all trainers must see the same: they are added before.
    made = [
        index
        for index, op in enumerate(block.ops)
        if written & set(op.output_names) and op.type not in ("check_finite_and_unscale", "update_loss_scaling")
    ]
    index = 1 + max(made)
    block.insert_op(index, "c_allreduce_sum", {"X": gradients}, {"Out": gradients}, {}, role=REMOTE)
    return other


def _scale(op: Operator, block: Block, num_trainers: int) -> None:
    """Divide the gradient of a loss, which is where backward begins."""
    name = op.output("Out")[0]
    var = block.var(name)
    block.create_var(name + UNSCALED, var.shape, var.dtype)
    op.outputs = {"Out": [name + UNSCALED]}
    index = next(index for index, one in enumerate(block.ops) if one is op) + 1
    attrs = {"scale": 1.0 / num_trainers}
    block.insert_op(index, "scale", {"X": name + UNSCALED}, {"Out": name}, attrs, role=BACKWARD)


def _starts(gradients: Sequence[str], block: Block) -> list[Operator]:
    """Where the backward of some gradients begins; that of others, which `gradients()` may have added, stays."""
    wanted = set(gradients)
    found = []
    for op in reversed(block.ops):
        if op.role != BACKWARD or not wanted & set(op.output_names):
            continue
        if op.type == "fill_constant":
            found.append(op)
        for slot, names in op.inputs.items():
            if slot.endswith(GRAD) or op.type == "sum":
                wanted |= set(names)
    if not found:
        raise UsageError("the gradients of the program begin at no loss; call minimize() of an optimizer")
    return found

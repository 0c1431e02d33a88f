"""Blocks that operators run: the body of a loop, the branches of a condition, and the gradients of both.

An operator that runs a block lists everything that the block takes from around it in its inputs, and everything around
it that the block writes in its outputs. So whoever looks at a block needs to look at its operators alone: what they
read, what they write, who needs them. `check_bodies` holds programs to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fleet.errors import UsageError
from fleet_programs.definition.infer import site_of
from fleet_programs.definition.operator import REMOTE, Operator
from fleet_programs.definition.registry import definition
from fleet_programs.expressions import names
from fleet_programs.program.block import Block

if TYPE_CHECKING:
    from fleet_programs.program.program import Program
    from fleet_programs.program.variable import Variable


MAX_DEPTH = 32
"""Blocks within each other."""

NAMING = (
    *("saved", "out_grads", "inner", "grads", "outs", "given", "wrt", "by_rows"),
    *(f"{side}_{part}" for side in ("true", "false") for part in ("outs", "saved", "out_grads", "inner", "grads")),
)
"""Attributes that name variables of blocks, or such as are seen from there."""


def blocks_of(op: Operator) -> list[int]:
    """The blocks that an operator runs, by their numbers."""
    return [int(op.attr(name)) for name in definition(op.type).blocks if op.attr(name) >= 0]


def owned(program: Program) -> Iterator[tuple[int, Block, Operator]]:
    """Every block that an operator runs: its number, the operator's block, and the operator."""
    for block in program.blocks:
        for op in block.ops:
            for index in blocks_of(op):
                yield index, block, op


def taken(block: Block) -> list[str]:
    """The variables around a block that its operators read before they write them, each once."""
    made: set[str] = set()
    found: dict[str, None] = {}
    for op in block.ops:
        found.update(dict.fromkeys(name for name in op.input_names if name not in made and name not in block.vars))
        made.update(op.output_names)
    return list(found)


def written(block: Block) -> list[str]:
    """The variables around a block that its operators write, each once."""
    return list(dict.fromkeys(name for op in block.ops for name in op.output_names if name not in block.vars))


def has_value(name: str, block: Block) -> bool:
    """Whether a variable has a value where the next operator of a block will stand."""
    var = block.var(name)
    if var.persistable or var.is_data:
        return True
    around: Block | None = block
    while around is not None:
        if any(name in op.output_names for op in around.ops):
            return True
        around = around.program.blocks[around.parent] if around.parent >= 0 else None
    return False


def must_run(op: Operator, program: Program) -> bool:
    """Whether an operator, or one in a block that it runs, must run even if nobody reads what it writes."""
    if definition(op.type).has_effect or op.role == REMOTE:
        return True
    return any(must_run(inner, program) for index in blocks_of(op) for inner in program.blocks[index].ops)


def check_bodies(program: Program) -> None:
    """UsageError unless each block that an operator names is there, is its own, and takes and writes what it says."""
    seen: set[int] = set()
    depth = dict.fromkeys(range(len(program.blocks)), 0)
    for index, block, op in owned(program):
        where = f"{site_of(op)}{op.type}: block {index}"
        if not block.index < index < len(program.blocks):
            raise UsageError(
                f"{where} must be one after block {block.index}, which names it; there are {len(program.blocks)} blocks"
            )
        if index in seen:
            raise UsageError(f"{where} is named by another operator as well; give each operator blocks of its own")
        seen.add(index)
        depth[index] = depth[block.index] + 1
        if depth[index] > MAX_DEPTH:
            raise UsageError(f"{where} is inside more than {MAX_DEPTH} others")
        for name in _named(op):
            if not program.blocks[index].has_var(name) and not _is_elsewhere(op, name, program):
                raise UsageError(f"{where} has no variable {name!r}, which {op.type} asks it for")
        if is_gradient(op):
            continue
        body = program.blocks[index]
        if body.parent != block.index:
            raise UsageError(f"{where} must be inside block {block.index}, got parent={body.parent}")
        for name in taken(body):
            if name not in op.input_names:
                raise UsageError(f"{where} reads {name!r} from around it, which is no input of {op.type}")
        for name in written(body):
            if name not in op.output_names:
                raise UsageError(f"{where} writes {name!r} around it, which is no output of {op.type}")


def _named(op: Operator) -> list[str]:
    """The variables of its blocks that an operator names in its attributes."""
    return [
        name
        for attr in NAMING
        if attr in definition(op.type).attrs
        for name in op.attr(attr)
        if isinstance(name, str) and name
    ]


def _is_elsewhere(op: Operator, name: str, program: Program) -> bool:
    """Whether another of an operator's blocks has a variable, or the one outside of them."""
    return any(program.blocks[index].has_var(name) for index in blocks_of(op) if index < len(program.blocks))


def is_gradient(op: Operator) -> bool:
    """Whether what an operator runs is the gradient of another's block."""
    return op.type.endswith("_grad")


def compact(program: Program) -> None:
    """Leave out the blocks that nobody runs any more, and number the others anew."""
    if any(op.type == "listen_and_serv" for op in program.global_block().ops):
        return  # a server's program names its blocks in another way
    kept = {0}
    for index in range(len(program.blocks)):
        if index in kept:
            kept.update(inner for op in program.blocks[index].ops for inner in blocks_of(op))
    # A gradient's block is inside the block that it differentiates, and so needs that one too.
    if len(kept) == len(program.blocks):
        return
    numbers = {old: new for new, old in enumerate(sorted(kept))}
    for index in kept:
        for op in program.blocks[index].ops:
            for name in definition(op.type).blocks:
                if op.attr(name) >= 0:
                    op.attrs[name] = numbers[op.attr(name)]
    program.blocks = [program.blocks[index] for index in sorted(kept)]
    for block in program.blocks:
        block.index, block.parent = numbers[block.index], numbers.get(block.parent, -1)
    program.changed()


def carry_rows(body: Block) -> None:
    """Give the ragged variables around a loop that its body assigns to offsets that change with them.

    Variables share offsets: what is computed from a batch has the batch's. A loop that assigns to some of them, as a
    search that keeps an encoder's output beside its beams, must not change the others. So they share a copy, which the
    whole body reads, and which becomes what was assigned when the turn ends, after the last of them was.
    """
    around = body.program.blocks[body.parent]
    for shared, (new, assigned) in _assigned(body).items():
        own = around.create_var(names.generate(shared, body.has_var), [-1], "int64", stop_gradient=True)
        around.append_op("assign", {"X": shared}, {"Out": own})
        for block in body.program.blocks[body.index :]:  # blocks inside of it come after it
            _rename(block, shared, own.name)
        for var in assigned:
            var.lod = own.name
        body.append_op("assign", {"X": own.name if new == shared else new}, {"Out": own})


def _assigned(body: Block) -> dict[str, tuple[str, list[Variable]]]:
    """Offsets of variables around a body that are assigned to: the offsets of what is assigned, and the variables."""
    found: dict[str, tuple[str, list[Variable]]] = {}
    for op in body.ops:
        if op.type != "assign":
            continue
        source, target = body.var(op.input("X")[0]), body.var(op.output("Out")[0])
        if target.name in body.vars or target.lod is None or source.lod in (None, target.lod):
            continue
        if target.is_data:
            raise UsageError(
                f"{site_of(op)}assign: {target.name!r} is fed, and cannot get other rows in a loop; assign to a copy: "
                f"assign({target.name}) before the loop"
            )
        found.setdefault(target.lod, (str(source.lod), []))[1].append(target)
    return found


def _rename(block: Block, old: str, new: str) -> None:
    """Read other offsets throughout a block."""
    for op in block.ops:
        op.inputs = {slot: [new if name == old else name for name in given] for slot, given in op.inputs.items()}
    for var in block.vars.values():
        if var.lod == old:
            var.lod = new

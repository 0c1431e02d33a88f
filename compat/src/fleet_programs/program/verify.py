"""Whether a program holds together: what a pass must leave behind, whatever it changed.

Every operator has a definition and fits it; its variables are declared, and its outputs as what it makes of its inputs;
and what it reads is there by then: made by an operator before it, fed, received by a server, or kept from run to run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fleet.errors import UsageError
from fleet_programs.definition.infer import site_of
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import definition
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import check_bodies, is_gradient, owned
from fleet_programs.program.declared import check_declared
from fleet_programs.program.fitting import fit
from fleet_programs.program.program import Program


def verify(program: Program, fed: Collection[str] = ()) -> None:
    """UsageError that names the operator, its line in the script and the variable of what does not hold together.

    `fed` are variables that a run is given although they are not declared as data.
    """
    _check_types(program)
    check_bodies(program)
    owners = {index: op for index, _, op in owned(program)}
    for block in program.blocks:
        _check_variables(block)
        have = {*fed, *_received(program, block.index), *_given(owners.get(block.index), block)}
        for index, op in enumerate(block.ops):
            try:
                _check(op, block, have)
            except UsageError as error:
                raise _placed(error, op, block, index) from None
            have.update(op.output_names)


def _check_types(program: Program) -> None:
    """Each operator is one that there is: all that follows asks its definition."""
    for block in program.blocks:
        for index, op in enumerate(block.ops):
            try:
                definition(op.type)
            except UsageError as error:
                raise _placed(error, op, block, index) from None


def _placed(error: UsageError, op: Operator, block: Block, index: int) -> UsageError:
    """The error with its place in the program, and in the script."""
    site = "" if str(error).startswith(site_of(op)) else site_of(op)
    return UsageError(f"block {block.index}, operator {index}: {site}{error}")


def unmade(program: Program) -> set[str]:
    """The variables that a program reads and that nothing in it makes, feeds or keeps: a run must be given them."""
    made = {name for block in program.blocks for op in block.ops for name in op.output_names}
    return {
        name
        for block in program.blocks
        for op in block.ops
        for name in op.input_names
        if name not in made and block.has_var(name) and not _is_there(name, block)
    }


def _check(op: Operator, block: Block, have: Collection[str]) -> None:
    twin = op.copy()
    fit(twin)
    if _filled(op.inputs) != list(twin.inputs) or _filled(op.outputs) != list(twin.outputs):
        raise UsageError(
            f"{site_of(op)}{op.type}: its slots are {_filled(op.inputs)} and {_filled(op.outputs)}, and its kernel "
            f"takes them as {list(twin.inputs)} and {list(twin.outputs)}"
        )
    check_declared(op, block)
    for name in op.input_names:
        if name not in have and not _is_there(name, block):
            raise UsageError(f"{site_of(op)}{op.type}: {name!r} is read, but neither made before it, nor fed, nor kept")


def _filled(slots: dict[str, list[str]]) -> list[str]:
    return [slot for slot, names in slots.items() if names]


def _is_there(name: str, block: Block) -> bool:
    """Whether a variable has a value without any operator."""
    var = block.var(name)
    return var.persistable or var.is_data


def _check_variables(block: Block) -> None:
    for name, var in block.vars.items():
        if var.name != name:
            raise UsageError(f"block {block.index}: variable {var.name!r} stands under the name {name!r}")
        if var.lod is not None and not block.has_var(var.lod):
            raise UsageError(f"block {block.index}: variable {name!r} is ragged by {var.lod!r}, which is not declared")


def _given(owner: Operator | None, block: Block) -> Iterable[str]:
    """What a block has from the operator that runs it: its inputs, or what was kept of the block it differentiates."""
    if owner is None:
        return
    yield from owner.input_names
    if is_gradient(owner):
        around = block.parent
        while around >= 0:
            yield from block.program.blocks[around].vars
            around = block.program.blocks[around].parent
        yield from (name for name in block.vars if not any(name in op.output_names for op in block.ops))


def _received(program: Program, index: int) -> Iterable[str]:
    """What a server has from its trainers when it runs a block: one gradient, or one of each trainer."""
    for op in program.global_block().ops:
        if op.type != "listen_and_serv":
            continue
        num_trainers = op.attr("Fanin")
        for entry in op.attr("grad_to_block_id"):
            gradient, _, block = entry.rpartition(":")
            if int(block) != index:
                continue
            if op.attr("sync_mode") and num_trainers > 1:
                yield from (f"{gradient}.trainer_{trainer}" for trainer in range(num_trainers))
            else:
                yield gradient

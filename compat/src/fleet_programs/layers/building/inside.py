"""Blocks under construction: inside, layers add to a block of its own; then an operator that runs it is added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import carry_rows, has_value, taken, written
from fleet_programs.program.variable import Variable


@contextmanager
def new_block(layer: LayerBuilder) -> Iterator[Block]:
    """Inside, layers add to a new block; one whose building fails is taken out again."""
    program = layer.block.program
    count = len(program.blocks)
    block = program.create_block(layer.block.index)
    try:
        with program.inside(block):
            yield block
    except BaseException:
        del program.blocks[count:]
        program.changed()
        raise


def condition_of(layer: LayerBuilder, value: Any, what: str) -> Variable:
    """A variable of one bool; an error for others."""
    var = layer.variable(value, what)
    if var.dtype != "bool" or any(size not in (1, -1) for size in var.shape):
        raise layer.error(
            f"{what} {var.name!r} must be one bool, got {var.dtype} of shape {list(var.shape)}; compare with "
            "less_than() or the like, and reduce_all() several"
        )
    return var


@contextmanager
def loop(layer: LayerBuilder, condition: Variable) -> Iterator[Block]:
    """Inside, layers add to the body of a loop that runs as long as `condition` holds, which the body must write."""
    with new_block(layer) as body:
        yield body
        carry_rows(body)
    writes = written(body)
    if condition.name not in writes:
        del body.program.blocks[body.index :]
        raise layer.error(
            f"nothing in the loop writes its condition {condition.name!r}, so it would never end; write it there, as "
            f"with less_than(i, n, cond={condition.name})"
        )
    takes = [*taken(body), *(name for name in writes if has_value(name, layer.block))]
    inputs = [name for name in dict.fromkeys(takes) if name != condition.name]
    layer.op("while", {"Condition": condition, "X": inputs}, {"Out": writes}, {"sub_block": body.index})


@contextmanager
def branch(layer: LayerBuilder, condition: Variable) -> Iterator[Block]:
    """Inside, layers add to a block that runs if `condition` holds; it may write variables from around it."""
    with new_block(layer) as body:
        yield body
    choose(layer, condition, body, None, [], [], [])


def choose(
    layer: LayerBuilder,
    condition: Variable,
    true_block: Block,
    false_block: Block | None,
    outs: Sequence[Variable],
    true_outs: Sequence[str],
    false_outs: Sequence[str],
) -> None:
    """Add the operator that runs one of two blocks, or one or none."""
    blocks = [one for one in (true_block, false_block) if one is not None]
    writes = list(dict.fromkeys(name for block in blocks for name in written(block)))
    named = [name for name in (*true_outs, *false_outs) if not any(name in block.vars for block in blocks)]
    takes = [name for block in blocks for name in taken(block)]
    takes += [*named, *(name for name in writes if has_value(name, layer.block))]
    layer.op(
        "cond",
        {"Cond": condition, "X": list(dict.fromkeys(takes))},
        {"Out": [*(out.name for out in outs), *writes]},
        {
            "true_block": true_block.index,
            "false_block": -1 if false_block is None else false_block.index,
            "true_outs": [*true_outs, *writes],
            "false_outs": [*false_outs, *writes],
        },
    )

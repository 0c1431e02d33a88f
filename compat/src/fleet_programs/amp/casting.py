"""The casts of a forward pass: to half precision before operators that compute in it, and back before the others."""

from __future__ import annotations

from fleet_programs.amp.lists import AutoMixedPrecisionLists
from fleet_programs.definition.infer import Infer
from fleet_programs.definition.kinds import TENSOR
from fleet_programs.definition.operator import FORWARD, Operator
from fleet_programs.definition.registry import definition
from fleet_programs.program.block import Block
from fleet_programs.program.fitting import find_shapes

SINGLE = "float32"


def cast_forward(block: Block, lists: AutoMixedPrecisionLists, half: str) -> None:
    """Put casts into the forward operators of a block; what each makes is then declared as it comes out.

    Blocks of operators stay as they are, and so does what they read: they know it by its name.
    """
    casts: dict[tuple[str, str], str] = {}
    read_by_blocks = {name for op in block.ops if definition(op.type).blocks for name in op.input_names}
    place = 0
    while place < len(block.ops):
        op = block.ops[place]
        if op.role == FORWARD and op.type != "cast" and not definition(op.type).blocks:
            is_fixed = any(name in read_by_blocks or block.var(name).persistable for name in op.output_names)
            wanted = SINGLE if is_fixed else _wanted(op, block, lists, half)
            place += _cast_inputs(block, place, wanted, casts)
            find_shapes(Infer(op, block))
        for key in [key for key in casts if key[0] in op.output_names]:
            del casts[key]  # it is another value from here on
        place += 1


def _wanted(op: Operator, block: Block, lists: AutoMixedPrecisionLists, half: str) -> str:
    """The precision in which an operator computes."""
    if {*op.input_names, *op.output_names} & lists.black_varnames or definition(op.type).has_effect:
        return SINGLE
    if op.type in lists.white_list:
        return half
    follows = op.type in lists.gray_list and any(block.var(name).dtype == half for name in op.input_names)
    return half if follows else SINGLE


def _cast_inputs(block: Block, place: int, wanted: str, casts: dict[tuple[str, str], str]) -> int:
    """Casts before an operator, for those inputs that are of another precision; how many were added."""
    op = block.ops[place]
    other = {SINGLE} if wanted != SINGLE else {"float16", "bfloat16"}
    added = 0
    for slot, names in op.inputs.items():
        for index, name in enumerate(names):
            var = block.var(name)
            if var.dtype not in other or var.kind != TENSOR:
                continue
            made = casts.get((name, wanted))
            if made is None:
                made = casts[name, wanted] = f"{name}.cast_{'fp32' if wanted == SINGLE else _short(wanted)}"
                block.create_var(made, var.shape, wanted, stop_gradient=var.stop_gradient, lod=var.lod)
                attrs = {"in_dtype": var.dtype, "out_dtype": wanted}
                block.insert_op(place + added, "cast", {"X": name}, {"Out": made}, attrs, role=FORWARD)
                added += 1
            op.inputs[slot][index] = made
    return added


def _short(half: str) -> str:
    return "fp16" if half == "float16" else "bf16"

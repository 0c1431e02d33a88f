"""The casts of a forward pass: to half precision before operators that compute in it, and back before the others."""

from __future__ import annotations

from fleet.static.amp.lists import AutoMixedPrecisionLists
from fleet.static.block import Block
from fleet.static.fitting import find_shapes
from fleet.static.infer import Infer
from fleet.static.kinds import TENSOR
from fleet.static.operator import FORWARD, Operator
from fleet.static.registry import definition

SINGLE = "float32"


def cast_forward(block: Block, lists: AutoMixedPrecisionLists, half: str) -> None:
    """Put casts into the forward operators of a block; what each makes is then declared as it comes out."""
    casts: dict[tuple[str, str], str] = {}
    place = 0
    while place < len(block.ops):
        op = block.ops[place]
        if op.role == FORWARD and op.type != "cast":
            place += _cast_inputs(block, place, _wanted(op, block, lists, half), casts)
            find_shapes(Infer(op, block))
        for key in [key for key in casts if key[0] in op.output_names]:
            del casts[key]  # it is another value from here on
        place += 1


def _wanted(op: Operator, block: Block, lists: AutoMixedPrecisionLists, half: str) -> str:
    """The precision in which an operator computes."""
    names = {*op.input_names, *op.output_names}
    known = definition(op.type)
    if (
        names & lists.black_varnames
        or known.has_effect
        or known.blocks
        or any(_is_kept(n, block) for n in op.output_names)
    ):
        return SINGLE
    if op.type in lists.white_list:
        return half
    follows = op.type in lists.gray_list and any(block.var(name).dtype == half for name in op.input_names)
    return half if follows else SINGLE


def _is_kept(name: str, block: Block) -> bool:
    return block.var(name).persistable


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

"""The gradient of an operator with blocks: for each block another one, inside it, with the gradients of its operators.

The operator then keeps, of each run of a block, the variables that the block's gradient reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fleet_programs.backward.gradient_parts import Parts
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.kinds import ROWS, SCOPES
from fleet_programs.definition.operator import Operator
from fleet_programs.expressions import names as unique
from fleet_programs.expressions.names import GRAD
from fleet_programs.program.block import Block
from fleet_programs.program.bodies import taken


class Way(Protocol):
    """What is asked of the way back through the operators around; see `differentiation.Walk`."""

    block: Block
    parts: Parts
    live: set[str]

    def live_in(self, body: Block, also: Collection[str]) -> set[str]:
        """What needs a gradient in a block, if the variables `also` do."""

    def inside(self, body: Block, parts: Parts, live: set[str]) -> Any:
        """The way back through a block, as `back()` goes it."""

    def finish(self, index: int) -> None:
        """End the gradients of what an operator writes over."""


@dataclass
class _Gradient:
    """The gradient of one block."""

    block: Block
    out_grads: list[str]
    """Its variables for the gradients that come in; empty where the block's variable needs none."""
    found: dict[str, str]
    """By the variables that the block takes from around it: its variables for their gradients."""

    @property
    def saved(self) -> list[str]:
        return taken(self.block)

    def is_by_rows(self, name: str) -> bool:
        return self.block.var(self.found[name]).kind == ROWS


def differentiate_bodies(way: Way, index: int, op: Operator) -> None:
    """Add the gradient operator of a `while` or `cond`, and the blocks that it runs."""
    num_blocks = len(way.block.program.blocks)
    made = (_of_while if op.type == "while" else _of_cond)(way, op)
    if made is None:
        del way.block.program.blocks[num_blocks:]
        way.finish(index)
        return
    attrs, sides = made
    totals = [way.parts.total(name) for name in attrs["given"]]
    way.finish(index)
    scopes = _keep_runs(way.block, op, [name for side in sides for name in side.saved])
    by_rows = [
        name
        for name in attrs["wrt"]
        if (found := [side.is_by_rows(name) for side in sides if name in side.found]) and all(found)
    ]
    outputs = [way.parts.new(name) for name in attrs["wrt"]]
    inputs = {"StepScopes": [scopes], "Out@GRAD": totals}
    way.parts.append(f"{op.type}_grad", inputs, {"X@GRAD": outputs}, {**attrs, "by_rows": by_rows})


def _of_while(way: Way, op: Operator) -> tuple[dict[str, Any], list[_Gradient]] | None:
    body = way.block.program.blocks[op.attr("sub_block")]
    live: set[str] = set()
    also = {name for name in op.input_names if name in way.live}
    while not live or not also.issuperset(live.intersection(op.output("Out"))):
        also |= live.intersection(op.output("Out"))  # what one turn makes, the next one takes
        live = way.live_in(body, also)
    outs = [name for name in op.output("Out") if name in live]
    side = _gradient_of(way, body, live, outs)
    given = [name for name in outs if name in way.parts]
    wrt = [name for name in dict.fromkeys(op.input("X")) if name in way.live and (name in side.found or name in outs)]
    if not wrt or not given:
        return None
    attrs = {
        "sub_block": side.block.index,
        "outs": outs,
        "given": given,
        "wrt": wrt,
        "saved": side.saved,
        "out_grads": side.out_grads,
        "inner": list(side.found),
        "grads": list(side.found.values()),
    }
    return attrs, [side]


def _of_cond(way: Way, op: Operator) -> tuple[dict[str, Any], list[_Gradient]] | None:
    places = [place for place, name in enumerate(op.output("Out")) if name in way.parts]
    outs = [op.output("Out")[place] for place in places]
    also = {name for name in op.input_names if name in way.live}
    attrs: dict[str, Any] = {"outs": outs, "given": outs}
    sides, found = [], set()
    for which in ("true", "false"):
        number, own = op.attr(f"{which}_block"), [op.attr(f"{which}_outs")[place] for place in places]
        if number < 0:
            found |= set(own)
            continue
        body = way.block.program.blocks[number]
        side = _gradient_of(way, body, way.live_in(body, also), own)
        sides.append(side)
        found |= set(side.found)
        attrs |= {
            f"{which}_block": side.block.index,
            f"{which}_saved": side.saved,
            f"{which}_out_grads": side.out_grads,
            f"{which}_inner": list(side.found),
            f"{which}_grads": list(side.found.values()),
        }
    wrt = [name for name in dict.fromkeys(op.input("X")) if name in way.live and name in found]
    return ({**attrs, "wrt": wrt}, sides) if wrt else None


def _gradient_of(way: Way, body: Block, live: set[str], outs: Sequence[str]) -> _Gradient:
    """A block with the gradients of `body`, given those of its variables `outs`."""
    block = body.program.create_block(body.index)
    parts = Parts(block)
    out_grads = []
    for place, name in enumerate(outs):
        var = body.var(name)
        if name not in live or var.dtype not in FLOATS:
            out_grads.append("")
            continue
        made = block.create_var(f"{name}{GRAD}@OUT@{place}", var.shape, var.dtype, kind=var.kind, lod=var.lod)
        parts.begin(name, made.name)
        out_grads.append(made.name)
    way.inside(body, parts, live).back()
    around = [name for name in dict.fromkeys([*taken(body), *outs]) if name in parts and name not in body.vars]
    return _Gradient(block, out_grads, {name: parts.total(name) for name in around})


def _keep_runs(block: Block, op: Operator, saved: Sequence[str]) -> str:
    """Let an operator keep variables of its blocks' runs; the variable that has them."""
    if not op.output("StepScopes"):
        name = unique.generate(f"{op.type}_scopes", block.has_var)
        block.create_var(name, kind=SCOPES, stop_gradient=True)
        op.outputs["StepScopes"] = [name]
    op.attrs["saved"] = list(dict.fromkeys([*op.attr("saved"), *saved]))
    return op.output("StepScopes")[0]

"""Backwards through the operators of a block: each gives its gradient operator, as its definition says."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fleet_programs.backward.body_gradients import differentiate_bodies
from fleet_programs.backward.gradient_parts import Parts
from fleet_programs.backward.overwrites import Writers
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.kinds import SCOPES
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import definition
from fleet_programs.expressions.names import GRAD
from fleet_programs.program.block import Block
from fleet_programs.program.variable import Parameter, Variable


def is_trained(var: Variable) -> bool:
    """Whether a variable is a parameter that training changes."""
    return isinstance(var, Parameter) and var.trainable and not var.stop_gradient


def depending(block: Block, ops: Sequence[Operator], blocked: Collection[str], also: Collection[str]) -> set[str]:
    """Variables that need a gradient: trainable parameters, what is computed from them, and those asked for."""
    live = {name for name, var in block.vars.items() if is_trained(var) and name not in blocked} | set(also)
    for op in ops:
        known = definition(op.type)
        if known.grad is None and not known.blocks:
            continue
        if any(name in live for name in op.input_names):
            for name in op.output_names:
                var = block.var(name)
                if name not in blocked and not var.stop_gradient and var.dtype in FLOATS and var.kind != SCOPES:
                    live.add(name)
    return live


class Walk:
    """One way back through `ops` of a block; gradients are written where `parts` writes them."""

    def __init__(
        self, block: Block, ops: Sequence[Operator], parts: Parts, live: set[str], blocked: Collection[str]
    ) -> None:
        self.block, self.parts, self.live, self.blocked = block, parts, live, blocked
        self._ops = ops
        self._writers = Writers(block, ops)

    def live_in(self, body: Block, also: Collection[str]) -> set[str]:
        """What needs a gradient in a block that an operator runs, if the variables `also` do."""
        return depending(body, body.ops, self.blocked, also)

    def inside(self, body: Block, parts: Parts, live: set[str]) -> Walk:
        """The way back through such a block."""
        return Walk(body, list(body.ops), parts, live, self.blocked)

    def back(self) -> None:
        """Add the gradient operators of all that the gradients found so far depend on."""
        for index in reversed(range(len(self._ops))):
            op = self._ops[index]
            if not any(name in self.parts for name in op.output_names):
                continue
            if not any(name in self.live for name in op.input_names):
                self.finish(index)
            elif definition(op.type).blocks:
                differentiate_bodies(self, index, op)
            else:
                self._differentiate(index, op)

    def finish(self, index: int) -> None:
        """End the gradients of what an operator writes over: before it, the variables had other values."""
        for name in dict.fromkeys(self._ops[index].output_names):
            if name in self.parts and self._writers.has_earlier(index, name):
                self.parts.finish(name)

    def _differentiate(self, index: int, op: Operator) -> None:
        known = definition(op.type)
        wrt = {} if known.grad is None else {slot: list(op.input(slot)) for slot in known.grad.wrt}
        if known.grad is None or not any(name in self.live for names in wrt.values() for name in names):
            self.finish(index)
            return
        inputs: dict[str, list[str]] = {}
        for slot in known.grad.needs:
            is_input = bool(op.input(slot)) and (known.rebinds or known.in_place)
            names = op.input(slot) or op.output(slot)
            if names:
                inputs[slot] = [self._writers.as_of(index, name, before=is_input) for name in names]
        outs = known.grad.outs if known.grad.outs is not None else tuple(op.outputs)
        for slot in outs:
            if op.output(slot):
                inputs[slot + GRAD] = [self.parts.total_or_zeros(name) for name in op.output(slot)]
        self.finish(index)
        outputs: dict[str, list[str]] = {}
        for slot, names in wrt.items():
            if known.slots[slot] == "*":
                # The kernel gives a gradient for each; those nobody needs are written to names nobody reads.
                if any(name in self.live for name in names):
                    outputs[slot + GRAD] = [
                        self.parts.new(name) if name in self.live else f"{name}{GRAD}@UNUSED" for name in names
                    ]
            elif names and names[0] in self.live:
                outputs[slot + GRAD] = [self.parts.new(names[0])]
        self.parts.append(f"{op.type}_grad", inputs, outputs, op.attrs)

"""Update operators of a program: which parameter each trains, with which gradient and at which rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.errors import UsageError
from fleet.json_form import JsonForm
from fleet_programs.definition.operator import OPTIMIZE, Operator
from fleet_programs.program.block import Block
from fleet_programs.program.program import Program
from fleet_programs.program.variable import Variable

LOOKUPS = ("lookup_table", "lookup_table_v2")


@dataclass(frozen=True)
class Rate(JsonForm):
    """A learning rate: a variable of the trainer's program, and a factor on it."""

    variable: str
    factor: float = 1.0

    def __iter__(self) -> Iterator[Any]:
        """So that it unpacks: `name, factor = rate`."""
        return iter((self.variable, self.factor))


@dataclass(frozen=True)
class ParameterUpdate:
    """One parameter and how it is trained."""

    op: Operator
    parameter: Variable
    gradient: str
    """What the update reads."""
    raw: str
    """The gradient as backward left it, before any clip."""
    rate: Rate

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name

    @property
    def is_clipped(self) -> bool:
        """Whether a clip stands between backward and the update."""
        return self.gradient != self.raw

    @property
    def accumulators(self) -> dict[str, str]:
        """Slot to variable, of what the update keeps from step to step."""
        return {
            slot: names[0]
            for slot, names in self.op.inputs.items()
            if slot not in ("Param", "Grad", "LearningRate") and f"{slot}Out" in self.op.outputs
        }


def is_update(op: Operator) -> bool:
    """Whether an operator changes a parameter by a gradient."""
    return bool(op.output("ParamOut"))


def updates_of(program: Program) -> list[ParameterUpdate]:
    """Every update, in the order of the program; UsageError if there is none."""
    block = program.global_block()
    found = [_update(op, block) for op in block.ops if is_update(op)]
    if not found:
        raise UsageError("the program has no optimizer; call minimize() of one before transpile()")
    return found


def _update(op: Operator, block: Block) -> ParameterUpdate:
    name, gradient = op.input("Param")[0], op.input("Grad")[0]
    raw = gradient
    while (writer := last_writer(raw, block)) is not None and writer.role == OPTIMIZE and writer.input_names:
        place = writer.output_names.index(raw)
        raw = writer.input_names[place if len(writer.input_names) == len(writer.output_names) else 0]
    return ParameterUpdate(op, block.var(name), gradient, raw, _rate(op.input("LearningRate")[0], block))


def _rate(name: str, block: Block) -> Rate:
    """A rate that is another one times a factor is told as such: the factor belongs to the parameter."""
    factor = 1.0
    while (op := last_writer(name, block)) is not None and op.type == "scale" and op.role == OPTIMIZE:
        if op.attr("bias") != 0 or op.input("X") == op.output("Out"):
            break
        factor *= float(op.attr("scale"))
        name = op.input("X")[0]
    return Rate(name, factor)


def last_writer(name: str, block: Block) -> Operator | None:
    """The last operator that writes a variable."""
    return next((op for op in reversed(block.ops) if name in op.output_names), None)

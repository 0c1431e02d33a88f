"""Layers that watch a program run: Print, and a count of its runs."""

from __future__ import annotations

from typing import Any

from fleet_programs.definition.operator import SCHEDULE
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.program import default_main_program, default_startup_program
from fleet_programs.program.variable import Variable

__all__ = ["Print", "autoincreased_step_counter"]

STEP_COUNTER = "@STEP_COUNTER@"


def Print(  # noqa: N802 - as scripts call it
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """The same value, which every run prints: in the forward pass, its gradient in the backward pass, or both.

    `first_n` is how often, -1 for always; `summarize` how many elements, -1 for all.
    """
    layer = LayerBuilder("print")
    offsets = None if layer.variable(input).lod is None else layer.block.var(input.lod or "")
    attrs: dict[str, Any] = {
        "message": message or "",
        "first_n": int(first_n),
        "summarize": int(summarize),
        "print_tensor_name": bool(print_tensor_name),
        "print_tensor_type": bool(print_tensor_type),
        "print_tensor_shape": bool(print_tensor_shape),
        "print_tensor_lod": bool(print_tensor_lod),
        "print_phase": str(print_phase).lower(),
    }
    return layer.apply("print", {"In": input, "Offsets": offsets}, attrs, input.dtype)


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Variable:
    """A count that lasts, int64 [1]: `begin` in the first run, `step` more in each run after it.

    Those of one name are one count. Evaluation, a clone(for_test=True), finds it and does not count.
    """
    block, startup = default_main_program().global_block(), default_startup_program().global_block()
    name = counter_name or STEP_COUNTER
    if name in block.vars:
        return block.vars[name]
    counter = block.create_var(name, [1], "int64", persistable=True, stop_gradient=True)
    if name not in startup.vars:
        Constant(begin - step)(startup.create_var(name, [1], "int64", persistable=True), startup)
    block.insert_op(0, "increment", {"X": counter}, {"Out": counter}, {"step": float(step)}, role=SCHEDULE)
    return counter

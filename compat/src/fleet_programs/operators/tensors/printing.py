"""`print`: shows a value, and its gradient, when a program runs; the value goes on as it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.kernel.rows import Rows

PHASES = ("forward", "backward", "both")
_PARTS = ("print_tensor_name", "print_tensor_type", "print_tensor_shape", "print_tensor_lod")


def _infer(infer: Infer) -> None:
    if infer.attr("print_phase") not in PHASES:
        raise infer.fail(f"print_phase must be one of {', '.join(PHASES)}, got {infer.attr('print_phase')!r}")
    infer.like("Out", "In")


@register(
    "print",
    inputs=("In", "Offsets?"),
    attrs={"message": "", "first_n": -1, "summarize": 20, "print_phase": "both", **dict.fromkeys(_PARTS, True)},
    infer=_infer,
    grad=Grad(needs=("Offsets",), wrt=("In",)),
    has_effect=True,
)
def _print(op: Operator, lowering: Lowering) -> Kernel:
    show = _shower(op, lowering, op.input("In")[0], op.output("Out")[0], "forward")

    def shown(value: torch.Tensor, *offsets: torch.Tensor) -> torch.Tensor:
        show(value, offsets)
        return value.clone()

    return shown


@register_grad("print")
def _print_grad(op: Operator, lowering: Lowering) -> Kernel:
    show = _shower(op, lowering, op.output("In@GRAD")[0], op.input("Out@GRAD")[0], "backward")

    def shown(*given: Any) -> Any:
        show(given[-1], given[:-1])
        return given[-1]

    return shown


def _shower(
    op: Operator, lowering: Lowering, name: str, made: str, phase: str
) -> Callable[[Any, Sequence[torch.Tensor]], None]:
    """What prints a value, the first `first_n` times, however often the program is compiled for this scope."""
    if op.attr("print_phase") not in (phase, "both"):
        return lambda value, offsets: None  # noqa: ARG005
    times = lowering.scope.prints.setdefault((lowering.program.serial, made), itertools.count())
    message, most, summarize = op.attr("message"), op.attr("first_n"), op.attr("summarize")
    parts = {part: op.attr(part) for part in _PARTS}

    def show(value: Any, offsets: Sequence[torch.Tensor]) -> None:
        if most >= 0 and next(times) >= most:
            return
        tensor = value.to_dense() if isinstance(value, Rows) else value
        lines = [f"Variable: {name}"] if parts["print_tensor_name"] else []
        lines += [f"  - message: {message}"] if message else []
        if parts["print_tensor_lod"] and offsets:
            lines.append(f"  - lod: {[offsets[0].tolist()]}")
        lines += [f"  - shape: {list(tensor.shape)}"] if parts["print_tensor_shape"] else []
        lines += [f"  - dtype: {str(tensor.dtype).removeprefix('torch.')}"] if parts["print_tensor_type"] else []
        print("\n".join([*lines, f"  - data: {_data(tensor, summarize)}"]), flush=True)

    return show


def _data(tensor: torch.Tensor, most: int) -> str:
    """The first elements; all of them if `most` is below 0."""
    flat = tensor.detach().reshape(-1)
    chosen = flat if most < 0 else flat[:most]
    numbers = (chosen.float() if chosen.dtype is torch.bfloat16 else chosen).numpy(force=True)
    more = " ..." if len(chosen) < len(flat) else ""
    return f"[{' '.join(np.array2string(one, precision=6) for one in numbers)}{more}]"

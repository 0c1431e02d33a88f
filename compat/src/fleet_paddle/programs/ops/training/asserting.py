"""`assert`: a run ends where a condition does not hold, with the values that were asked for."""

from __future__ import annotations

import torch

from fleet.errors import UsageError
from fleet_programs.definition.infer import site_of
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering

T = torch.Tensor


def _infer(infer: Infer) -> None:
    infer.require_dtype("Cond", frozenset({"bool"}))


@register("assert", inputs=("Cond", "Data*"), outputs=(), attrs={"summarize": 20}, infer=_infer, has_effect=True)
def _assert(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    most, names = op.attr("summarize"), op.input("Data")

    def check(condition: T, *data: T) -> None:
        if bool(condition.all()):
            return
        flat = [one.reshape(-1) for one in data]
        shown = [(one if most < 0 else one[:most]).tolist() for one in flat]
        values = "".join(f", {name} = {value}" for name, value in zip(names, shown, strict=True))
        raise UsageError(f"{site_of(op)}Assert: {op.input('Cond')[0]!r} is not true{values}")

    return check

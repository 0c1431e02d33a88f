"""The limit on the norm of several gradients together; `clip` has those of one."""

from __future__ import annotations

from typing import Any

import torch

from fleet.static.dtypes import FLOATS
from fleet.static.executor.lowering import Lowering
from fleet.static.executor.rows import Rows
from fleet.static.operator import Operator
from fleet.static.registry import Infer, Kernel, register
from fleet.static.variable import ROWS

EPSILON = 1e-6
"""Added to the norm, as torch.nn.utils.clip_grad_norm_ does."""


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    if not infer.attr("max_global_norm") > 0:
        raise infer.fail(f"max_global_norm must be > 0, got {infer.attr('max_global_norm')}")
    if len(infer.op.output("Out")) != len(infer.op.input("X")):
        raise infer.fail(f"Out must be as many as X, got {len(infer.op.output('Out'))} for {len(infer.op.input('X'))}")
    for index, var in enumerate(infer.vars("X")):
        infer.set("Out", var.shape, var.dtype, index=index, kind=var.kind)


@register("clip_by_global_norm", inputs=("X*",), outputs=("Out*",), attrs={"max_global_norm": 1.0}, infer=_infer)
def _clip_by_global_norm(op: Operator, lowering: Lowering) -> Kernel:
    most = op.attr("max_global_norm")
    sparse = [index for index, name in enumerate(op.input("X")) if lowering.var(name).kind == ROWS]

    def clip(*given: Any) -> Any:
        gradients = list(given)
        for index in sparse:
            gradients[index] = gradients[index].merged()
        values = [one.values if isinstance(one, Rows) else one for one in gradients]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(values)))
        factor = (norm + EPSILON).reciprocal_().mul_(most).clamp_(max=1.0)  # stays on the device: nobody waits for it
        scaled: list[Any] = list(torch._foreach_mul(values, factor))
        for index in sparse:
            scaled[index] = Rows(gradients[index].index, scaled[index], gradients[index].height)
        return scaled[0] if len(scaled) == 1 else tuple(scaled)

    return clip

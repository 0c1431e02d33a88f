"""`expand_v2`: a variable as if copied along its dimensions of size 1, to a shape rather than so many times."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import integers, view


def _infer(infer: Infer) -> None:
    have, wanted = list(infer.shape("X")), list(infer.attr("shape"))
    missing = len(wanted) - len(have)
    if missing < 0:
        raise infer.fail(f"shape must have {len(have)} sizes or more for X of shape {have}, got {wanted}")
    out = []
    for place, (size, asked) in enumerate(zip([1] * missing + have, wanted, strict=True)):
        if asked == -1 and place < missing:
            raise infer.fail(f"shape {wanted} must give the size of dimension {place}, which X {have} lacks")
        if asked not in (-1, size) and size > 1:
            raise infer.fail(f"X of shape {have} cannot become {wanted}: only sizes of 1 are repeated")
        out.append(size if asked == -1 else asked)
    infer.set("Out", out, infer.dtype("X"))


_DOC = "As if copied along dimensions of size 1; -1 keeps a size."


def expanded(x: torch.Tensor, shape: Any) -> torch.Tensor:
    """What `expand` is on tensors; torch's own method, which a subclass may have another of."""
    return torch.Tensor.expand(x, integers(shape))


@register(
    "expand_v2",
    inputs=("X",),
    attrs={"shape": [1]},
    infer=_infer,
    grad=Grad(needs=("X",)),
    calls=[
        Calls(_DOC, v2="expand(x, shape, name)", torch=expanded),
        Calls(_DOC, v2="broadcast_to(x, shape, name)", torch=expanded),
    ],
)
def _expand(op: Operator, lowering: Lowering) -> Kernel:
    shape = list(op.attr("shape"))
    return view(lambda x: x.expand(shape), op, lowering)

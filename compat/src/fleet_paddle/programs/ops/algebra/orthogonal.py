"""`orthogonalize`: of a matrix of random numbers one whose rows or columns are at right angles."""

from __future__ import annotations

import torch

from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering


def _infer(infer: Infer) -> None:
    x = infer.var("X")
    if len(x.shape) < 2:
        raise infer.fail(f"X must have 2 dimensions or more, got shape {list(x.shape)}")
    infer.set("Out", x.shape, x.dtype)


@register("orthogonalize", inputs=("X",), outputs=("Out",), attrs={"gain": 1.0}, infer=_infer)
def _orthogonalize(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    gain = op.attr("gain")

    def orthogonalize(x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        is_wide = flat.shape[0] < flat.shape[1]
        q, r = torch.linalg.qr(flat.T if is_wide else flat)
        q = q * r.diagonal().sign()  # so that every such matrix is as likely as any other
        made: torch.Tensor = (q.T if is_wide else q) * gain
        return made.reshape(x.shape)

    return orthogonalize

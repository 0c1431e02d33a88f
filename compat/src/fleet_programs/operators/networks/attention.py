"""Attention: for each query the mean of the values, weighted by how well their keys fit it."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS, torch_dtype
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import same_dtype

_aten = torch.ops.aten
_ALIGNED = 16
"""Bytes of a head that the fused kernels of a GPU take a multiple of."""


def _infer(infer: Infer) -> None:
    for slot in ("Q", "K", "V"):
        infer.require_dtype(slot, FLOATS)
        infer.require_rank(slot, 4)
        same_dtype(infer, "Q", slot)
    q, k, v = (infer.var(slot) for slot in ("Q", "K", "V"))
    for what, one, other in (
        ("batch", (q.shape[0], k.shape[0]), (q.shape[0], v.shape[0])),
        ("number of heads", (q.shape[1], k.shape[1]), (q.shape[1], v.shape[1])),
        ("number of keys and of values", (k.shape[2], v.shape[2]), (k.shape[2], v.shape[2])),
        ("width of a head", (q.shape[3], k.shape[3]), (q.shape[3], v.shape[3])),
    ):
        if any(-1 not in pair and pair[0] != pair[1] for pair in (one, other)):
            shapes = ", ".join(f"{name} {list(var.shape)}" for name, var in (("Q", q), ("K", k), ("V", v)))
            raise infer.fail(f"the {what} must agree, got {shapes}; each is [batch, heads, length, width]")
    if q.shape[3] < 1:
        raise infer.fail(f"the width of a head must be known, got Q {q.name!r} of shape {list(q.shape)}")
    infer.like("Out", "Q")
    kept = q.dtype if q.dtype == "float64" else "float32"
    infer.set("LogSumExp", (*q.shape[:2], -1), kept)


@register(
    "scaled_dot_product_attention",
    inputs=("Q", "K", "V"),
    outputs=("Out", "LogSumExp"),
    attrs={"is_causal": False, "scale": 1.0},
    infer=_infer,
    grad=Grad(needs=("Q", "K", "V", "Out", "LogSumExp"), wrt=("Q", "K", "V"), outs=("Out",)),
)
def _attention(op: Operator, lowering: Lowering) -> Kernel:
    is_causal, scale = op.attr("is_causal"), op.attr("scale")
    if _on_cpu(lowering):
        fused = _aten._scaled_dot_product_flash_attention_for_cpu
        return lambda q, k, v: fused(q, k, v, 0.0, is_causal, scale=scale)
    if _is_fused(op, lowering):
        efficient = _aten._scaled_dot_product_efficient_attention
        return lambda q, k, v: efficient(q, k, v, None, True, 0.0, is_causal, scale=scale)[:2]

    def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        scores = _scores(q, k, is_causal, scale)
        sums = torch.logsumexp(scores, -1)
        return (torch.exp(scores - sums.unsqueeze(-1)) @ v.to(scores.dtype)).to(q.dtype), sums

    return plain


@register_grad("scaled_dot_product_attention")
def _attention_grad(op: Operator, lowering: Lowering) -> Kernel:
    wanted = [bool(op.output(f"{slot}@GRAD")) for slot in ("Q", "K", "V")]
    find = _gradients(op, lowering)

    def gradient(*given: torch.Tensor) -> Any:
        found = [one for one, want in zip(find(*given), wanted, strict=True) if want]
        return found[0] if len(found) == 1 else tuple(found)

    return gradient


def _gradients(op: Operator, lowering: Lowering) -> Kernel:
    """A function of q, k, v, out, sums and the gradient of out that finds those of q, k and v."""
    is_causal, scale = op.attr("is_causal"), op.attr("scale")
    if _on_cpu(lowering):
        fused = _aten._scaled_dot_product_flash_attention_for_cpu_backward
        return lambda q, k, v, out, sums, grad: fused(grad, q, k, v, out, sums, 0.0, is_causal, scale=scale)
    if not _is_fused(op, lowering):
        return lambda q, k, v, out, sums, grad: _plain_gradients(q, k, v, out, sums, grad, is_causal, scale)
    efficient = _aten._scaled_dot_product_efficient_attention_backward
    none = torch.zeros((), dtype=torch.int64, device=lowering.device)  # random numbers: nothing is dropped
    mask = [True, True, True, False]

    def of_gpu(*given: torch.Tensor) -> Any:
        q, k, v, out, sums, grad = given
        return efficient(grad, q, k, v, None, out, sums, none, none, 0.0, mask, is_causal, scale=scale)[:3]

    return of_gpu


def _on_cpu(lowering: Lowering) -> bool:
    return lowering.device.type == "cpu"


def _is_fused(op: Operator, lowering: Lowering) -> bool:
    """Whether a GPU has a kernel that never writes the scores down."""
    name = op.input("Q")[0]
    dtype = torch_dtype(lowering.dtype(name))
    return dtype is not torch.float64 and prod((lowering.shape(name)[3], dtype.itemsize)) % _ALIGNED == 0


def _scores(q: torch.Tensor, k: torch.Tensor, is_causal: bool, scale: float) -> torch.Tensor:
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    scores = (q @ k.mT).to(wide) * scale
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores


def _plain_gradients(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    sums: torch.Tensor,
    grad: torch.Tensor,
    is_causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weights = torch.exp(_scores(q, k, is_causal, scale) - sums.unsqueeze(-1))
    of_v = weights.to(grad.dtype).mT @ grad
    of_weights = (grad @ v.mT).to(weights.dtype) - (grad * out).to(weights.dtype).sum(-1, keepdim=True)
    of_scores = (weights * of_weights * scale).to(q.dtype)
    return of_scores @ k, of_scores.mT @ q, of_v

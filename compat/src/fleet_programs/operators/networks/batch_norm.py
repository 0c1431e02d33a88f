"""Batch normalisation: each channel with the mean and variance of the batch, or with those kept from training."""

from __future__ import annotations

from typing import Any

import torch

from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering

_aten = torch.ops.aten


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    x, layout = infer.var("X"), infer.attr("data_layout")
    if not 2 <= x.ndim <= 5:
        raise infer.fail(f"X {x.name!r} must have 2 to 5 dimensions, got shape {list(x.shape)}")
    if layout not in ("NCHW", "NHWC"):
        raise infer.fail(f"data_layout must be NCHW or NHWC, got {layout!r}")
    channels = x.shape[-1] if layout == "NHWC" else x.shape[1]
    for slot in ("Scale", "Bias", "Mean", "Variance"):
        if infer.shape(slot) != (channels,):
            raise infer.fail(
                f"{slot} must have shape [{channels}], as X {list(x.shape)} has, got {list(infer.shape(slot))}"
            )
    infer.like("Y", "X")
    for slot in ("SavedMean", "SavedVariance"):
        infer.set(slot, (channels,), infer.dtype("Scale"))


@register(
    "batch_norm",
    inputs=("X", "Scale", "Bias", "Mean", "Variance"),
    outputs=("Y", "MeanOut?", "VarianceOut?", "SavedMean", "SavedVariance"),
    attrs={"momentum": 0.9, "epsilon": 1e-5, "is_test": False, "use_global_stats": False, "data_layout": "NCHW"},
    infer=_infer,
    grad=Grad(
        needs=("X", "Scale", "SavedMean", "SavedVariance"),
        wrt=("X", "Scale", "Bias"),
        outs=("Y",),
    ),
)
def _batch_norm(op: Operator, lowering: Lowering) -> Kernel:
    epsilon, share = op.attr("epsilon"), 1.0 - op.attr("momentum")
    is_last, writes = _is_last(op, lowering, "X"), bool(op.output("MeanOut"))
    of_batch_in = _native if lowering.is_handed_on else _as_torch

    def kept(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
        given = x.movedim(-1, 1) if is_last else x
        y = _aten.native_batch_norm(given, scale, bias, mean, var, False, 0.0, epsilon)[0]
        return y.movedim(1, -1) if is_last else y, mean.clone(), torch.rsqrt(var + epsilon)

    def trained(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
        given = x.movedim(-1, 1) if is_last else x
        of_batch, var_of_batch = torch.zeros_like(mean), torch.zeros_like(var)
        y, saved_mean, inverse = of_batch_in(given, scale, bias, of_batch, var_of_batch, epsilon)
        if writes:
            # torch gives the unbiased variance; what is kept is the biased one.
            count = x.numel() // mean.numel()
            var_of_batch = var_of_batch.mul_((count - 1) / count) if count > 1 else var_of_batch.zero_()
            mean.lerp_(of_batch, share)
            var.lerp_(var_of_batch, share)
        return y.movedim(1, -1) if is_last else y, saved_mean, inverse

    return kept if _is_kept(op) else trained


@register_grad("batch_norm")
def _batch_norm_grad(op: Operator, lowering: Lowering) -> Kernel:
    is_last, epsilon = _is_last(op, lowering, "X"), op.attr("epsilon")
    wanted = [bool(op.output(f"{slot}@GRAD")) for slot in ("X", "Scale", "Bias")]
    find = _of_kept if _is_kept(op) else _of_batch

    def gradient(
        x: torch.Tensor, scale: torch.Tensor, mean: torch.Tensor, inverse: torch.Tensor, grad: torch.Tensor
    ) -> Any:
        if is_last:
            x, grad = x.movedim(-1, 1), grad.movedim(-1, 1)
        found = list(find(x, scale, mean, inverse, grad, epsilon, wanted))
        if is_last and wanted[0]:
            found[0] = found[0].movedim(1, -1)
        asked = [one for one, want in zip(found, wanted, strict=True) if want]
        return asked[0] if len(asked) == 1 else tuple(asked)

    return gradient


def _native(
    x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, epsilon: float
) -> Any:
    return _aten.native_batch_norm(x, scale, bias, mean, var, True, 1.0, epsilon)


def _as_torch(
    x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, epsilon: float
) -> Any:
    """By the library that torch's own layer takes, as cuDNN on a GPU, which is quicker where channels come last."""
    if x.device.type != "cuda":
        return _native(x, scale, bias, mean, var, epsilon)
    uses_cudnn = torch.backends.cudnn.enabled
    y, saved_mean, inverse, *noted = _aten._batch_norm_impl_index(
        x, scale, bias, mean, var, True, 1.0, epsilon, uses_cudnn
    )
    inverse.noted_for_backward = noted  # no variable of the program; without it the gradient is torch's own
    return y, saved_mean, inverse


def _of_batch(
    x: torch.Tensor,
    scale: torch.Tensor,
    mean: torch.Tensor,
    inverse: torch.Tensor,
    grad: torch.Tensor,
    epsilon: float,
    wanted: list[bool],
) -> Any:
    noted = getattr(inverse, "noted_for_backward", None)
    if noted is not None:
        reserve, library = noted
        return _aten._batch_norm_impl_index_backward(
            library, x, grad, scale, None, None, mean, inverse, True, epsilon, wanted, reserve
        )
    return _aten.native_batch_norm_backward(grad, x, scale, None, None, mean, inverse, True, epsilon, wanted)


def _of_kept(
    x: torch.Tensor,
    scale: torch.Tensor,
    mean: torch.Tensor,
    inverse: torch.Tensor,
    grad: torch.Tensor,
    epsilon: float,  # noqa: ARG001 - it is in `inverse`
    wanted: list[bool],  # noqa: ARG001 - rare enough to compute all three
) -> Any:
    shape = (1, -1, *[1] * (x.ndim - 2))
    others = [dim for dim in range(x.ndim) if dim != 1]
    centred = (x - mean.view(shape)) * inverse.view(shape)
    return grad * (scale * inverse).view(shape), (grad * centred).sum(others), grad.sum(others)


def _is_kept(op: Operator) -> bool:
    return bool(op.attr("is_test") or op.attr("use_global_stats"))


def _is_last(op: Operator, lowering: Lowering, slot: str) -> bool:
    return op.attr("data_layout") == "NHWC" and len(lowering.shape(op.input(slot)[0])) > 2

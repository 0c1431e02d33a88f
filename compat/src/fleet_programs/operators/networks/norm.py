"""Normalisation within an example: over a layer, over groups of channels, over a channel, to unit length."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.nn import functional

from fleet.errors import NotSupportedError
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, register, register_grad
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import axis_of, computes

_aten = torch.ops.aten


def _infer_layer_norm(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    x, axis = infer.var("X"), infer.attr("begin_norm_axis")
    if not 0 < axis < x.ndim:
        raise infer.fail(f"begin_norm_axis must be from 1 to {x.ndim - 1} for shape {list(x.shape)}, got {axis}")
    rest = x.shape[axis:]
    if any(size < 0 for size in rest):
        raise infer.fail(f"X {x.name!r} of shape {list(x.shape)} must have known sizes from dimension {axis} on")
    for slot in ("Scale", "Bias"):
        if infer.has(slot) and infer.shape(slot) != (prod(rest),):
            raise infer.fail(f"{slot} must have shape [{prod(rest)}], got {list(infer.shape(slot))}")
    infer.like("Y", "X")
    rows = -1 if any(size < 0 for size in x.shape[:axis]) else prod(x.shape[:axis])
    for slot in ("Mean", "Variance"):
        infer.set(slot, (rows,), x.dtype)


def _pair(op: Operator, given: tuple[torch.Tensor, ...], shape: Any) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Scale and Bias, of which each may have been left out."""
    left = list(given)
    scale = left.pop(0).view(shape) if op.input("Scale") else None
    bias = left.pop(0).view(shape) if op.input("Bias") else None
    return scale, bias


@register(
    "layer_norm",
    inputs=("X", "Scale?", "Bias?"),
    outputs=("Y", "Mean", "Variance"),
    attrs={"begin_norm_axis": 1, "epsilon": 1e-5},
    infer=_infer_layer_norm,
    grad=Grad(needs=("X", "Scale", "Bias", "Mean", "Variance"), wrt=("X", "Scale", "Bias"), outs=("Y",)),
)
def _layer_norm(op: Operator, lowering: Lowering) -> Kernel:
    shape, epsilon = list(lowering.shape(op.input("X")[0])[op.attr("begin_norm_axis") :]), op.attr("epsilon")

    def layer_norm(x: torch.Tensor, *given: torch.Tensor) -> Any:
        scale, bias = _pair(op, given, shape)
        y, mean, inverse = _aten.native_layer_norm(x, shape, scale, bias, epsilon)
        return y, mean.view(-1), inverse.view(-1)

    return layer_norm


@register_grad("layer_norm", as_autograd=True)
def _layer_norm_grad(op: Operator, lowering: Lowering) -> Kernel:
    axis = op.attr("begin_norm_axis")
    shape = list(lowering.shape(op.input("X")[0])[axis:])
    wanted = [bool(op.output(f"{slot}@GRAD")) for slot in ("X", "Scale", "Bias")]

    def gradient(x: torch.Tensor, *given: torch.Tensor) -> Any:
        mean, inverse, grad = given[-3:]
        scale, bias = _pair(op, given[:-3], shape)
        rows = (*x.shape[:axis], *[1] * len(shape))
        found = _aten.native_layer_norm_backward(
            grad.contiguous(), x, shape, mean.view(rows), inverse.view(rows), scale, bias, wanted
        )
        asked = [one if index == 0 else one.view(-1) for index, one in enumerate(found) if wanted[index]]
        return asked[0] if len(asked) == 1 else tuple(asked)

    return gradient


def _infer_channels(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    x = infer.var("X")
    if x.ndim < 3 or x.shape[1] < 1:
        raise infer.fail(f"X {x.name!r} must be [batch, channels, sizes...], got shape {list(x.shape)}")
    groups = infer.attr("groups") if infer.op.type == "group_norm" else 1
    if groups < 1 or x.shape[1] % groups:
        raise infer.fail(f"groups must divide the {x.shape[1]} channels of {x.name!r}, got {groups}")
    for slot in ("Scale", "Bias"):
        if infer.has(slot) and infer.shape(slot) != (x.shape[1],):
            raise infer.fail(f"{slot} must have shape [{x.shape[1]}], got {list(infer.shape(slot))}")
    infer.like("Y", "X")


_BY_CHANNEL = Grad(needs=("X", "Scale", "Bias"), wrt=("X", "Scale", "Bias"))


@register(
    "group_norm",
    inputs=("X", "Scale?", "Bias?"),
    outputs=("Y",),
    attrs={"groups": 1, "epsilon": 1e-5},
    infer=_infer_channels,
    grad=_BY_CHANNEL,
)
def _group_norm(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    groups, epsilon = op.attr("groups"), op.attr("epsilon")

    def group_norm(x: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()  # torch's gradient of the scale alone breaks down where channels lie last in memory
        if len(given) != 1:
            return functional.group_norm(x, groups, *_pair(op, given, (-1,)), epsilon)
        plain = functional.group_norm(
            x, groups, eps=epsilon
        )  # torch has no gradient of this with one and not the other
        one = given[0].view(1, -1, *[1] * (x.ndim - 2))
        return plain * one if op.input("Scale") else plain + one

    return group_norm


@register(
    "instance_norm",
    inputs=("X", "Scale?", "Bias?"),
    outputs=("Y",),
    attrs={"epsilon": 1e-5},
    infer=_infer_channels,
    grad=_BY_CHANNEL,
)
def _instance_norm(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    epsilon = op.attr("epsilon")

    def instance_norm(x: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        return functional.instance_norm(x, None, None, *_pair(op, given, (-1,)), True, 0.0, epsilon)

    return instance_norm


def _infer_norm(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    axis_of(infer, infer.attr("axis"), infer.var("X").ndim)
    infer.like("Out", "X")


_LENGTH = "l2_normalize(x, axis, epsilon=1e-12, name)"


@computes(
    "norm", _infer_norm, _LENGTH, attrs={"axis": -1, "epsilon": 1e-10}, grad=Grad(needs=("X",)), kind="l2_normalize"
)
def _of_length_one(x: torch.Tensor, axis: int, epsilon: float) -> torch.Tensor:
    """x divided by its length along `axis`."""
    return x * torch.rsqrt(x.square().sum(axis, keepdim=True) + epsilon)


def _to_lrn(given: dict[str, Any]) -> dict[str, Any]:
    if given["data_format"] != "NCHW":
        raise NotSupportedError(f"lrn: data_format must be 'NCHW', got {given['data_format']!r}; transpose the input")
    return {"n": int(given["n"]), **{name: float(given[name]) for name in ("k", "alpha", "beta")}}


def _infer_lrn(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 4)
    if infer.attr("n") < 1 or infer.attr("n") % 2 == 0:
        raise infer.fail(f"n must be odd and >= 1, got {infer.attr('n')}")
    infer.like("Out", "X")


_LRN = "lrn(input, n=5, k=1.0, alpha=0.0001, beta=0.75, name, data_format='NCHW')"
_LRN_ATTRS = {"n": 5, "k": 1.0, "alpha": 1e-4, "beta": 0.75}


@computes("lrn", _infer_lrn, _LRN, attrs=_LRN_ATTRS, grad=Grad(needs=("X",)), to_attrs=_to_lrn)
def _lrn(x: torch.Tensor, n: int, k: float, alpha: float, beta: float) -> torch.Tensor:
    """Each value divided by `(k + alpha * sum of squares) ** beta` of the `n` channels around it."""
    # torch takes the mean of n squares where the layer's formula has their sum.
    return functional.local_response_norm(x, n, alpha * n, beta, k)

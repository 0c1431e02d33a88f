"""Activations: functions of one variable, and `prelu`, which has a parameter.

Where Out is enough for the gradient, as it is for relu, X can be let go.
"""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Calls, Grad, Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import computes
from fleet_programs.operators.common.unary import infer_unary, unary

_aten = torch.ops.aten
activation = partial(unary, home="F.")

activation(
    "relu",
    torch.relu,
    "Out",
    lambda out, grad: _aten.threshold_backward(grad, out, 0),
    doc="max(x, 0), element by element.",
    layer="ReLU",
)
activation(
    "sigmoid",
    torch.sigmoid,
    "Out",
    lambda out, grad: _aten.sigmoid_backward(grad, out),
    doc="1 / (1 + exp(-x)), element by element.",
    layer="Sigmoid",
)
activation(
    "relu6",
    lambda x, threshold: x.clamp(0.0, threshold),
    "Out",
    lambda out, grad, threshold: _aten.hardtanh_backward(grad, out, 0.0, threshold),
    {"threshold": 6.0},
    doc="x, clamped between 0 and 6, or another `threshold` in 1.x.",
    v2="F.relu6(x, name)",
    layer="ReLU6",
    on_tensors=functional.relu6,
)

activation(
    "logsigmoid",
    functional.logsigmoid,
    doc="log(sigmoid(x)), element by element.",
    v2="F.log_sigmoid(x, name)",
    layer="LogSigmoid",
)
activation(
    "tanh_shrink",
    functional.tanhshrink,
    doc="x - tanh(x), element by element.",
    v2="F.tanhshrink(x, name)",
    layer="Tanhshrink",
)
activation(
    "softplus",
    functional.softplus,
    "X",
    lambda x, grad, beta, threshold: _aten.softplus_backward(grad, x, beta, threshold),
    {"beta": 1.0, "threshold": 20.0},
    doc="log(1 + exp(beta * x)) / beta, which is x where beta * x is above `threshold`; beta is 1 in 1.x.",
    v1="softplus(x, name)",
    layer="Softplus",
)
activation("softsign", functional.softsign, doc="x / (1 + |x|), element by element.", layer="Softsign")
activation(
    "leaky_relu",
    functional.leaky_relu,
    "X",
    lambda x, grad, alpha: _aten.leaky_relu_backward(grad, x, alpha, False),
    {"alpha": 0.02},
    doc="x where it is positive, a fraction of x (`alpha`, in 2.0 `negative_slope`) elsewhere.",
    v2="F.leaky_relu(x, negative_slope->alpha=0.01, name)",
    layer="LeakyReLU",
)
activation(
    "elu",
    functional.elu,
    attrs={"alpha": 1.0},
    doc="x where it is positive, alpha * (exp(x) - 1) elsewhere.",
    layer="ELU",
)
activation(
    "hard_sigmoid",
    lambda x, slope, offset: (x * slope + offset).clamp(0.0, 1.0),
    attrs={"slope": 0.2, "offset": 0.5},
    doc="slope * x + offset, clamped between 0 and 1.",
    v2="F.hardsigmoid(x, slope=1 / 6, offset=0.5, name)",
    layer="Hardsigmoid",
)
activation(
    "swish",
    lambda x, beta: x * torch.sigmoid(x * beta),
    attrs={"beta": 1.0},
    doc="x * sigmoid(beta * x); beta is 1 in 2.0.",
    v2="F.swish(x, name)",
    layer="Swish",
    on_tensors=functional.silu,
    also=Calls("x * sigmoid(x), element by element.", v2="F.silu(x, name)", torch=functional.silu, layer="Silu"),
)
activation(
    "hard_swish",
    lambda x, threshold, scale, offset: x * (x + offset).clamp(0.0, threshold) / scale,
    attrs={"threshold": 6.0, "scale": 6.0, "offset": 3.0},
    doc="x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3.",
    v2="F.hardswish(x, name)",
    layer="Hardswish",
    on_tensors=functional.hardswish,
)
activation(
    "softshrink",
    functional.softshrink,
    attrs={"lambda": 0.5},
    doc="x moved towards 0 by the threshold (1.x calls it `alpha`), and 0 where it is no further away than that.",
    v1="softshrink(x, alpha->lambda=0.5)",
    v2="F.softshrink(x, threshold->lambda=0.5, name)",
    layer="Softshrink",
)
activation(
    "hard_shrink",
    functional.hardshrink,
    attrs={"threshold": 0.5},
    doc="x, and 0 where it is no further than `threshold` from 0.",
    v1="hard_shrink(x, threshold=0.5)",
    v2="F.hardshrink(x, threshold=0.5, name)",
    layer="Hardshrink",
)
activation(
    "thresholded_relu",
    lambda x, threshold: functional.threshold(x, threshold, 0.0),
    attrs={"threshold": 1.0},
    doc="x where it is above `threshold`, 0 elsewhere.",
    v1="thresholded_relu(x, threshold=1.0)",
    layer="ThresholdedReLU",
)
_SELU = {"scale": 1.0507009873554805, "alpha": 1.6732632423543772}
activation(
    "selu",
    lambda x, scale, alpha: torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0.0))) * scale,
    attrs=_SELU,
    doc="scale * elu(x, alpha); the default values keep mean 0 and variance 1.",
    v1="selu(x, scale=None, alpha=None, name)",
    layer="SELU",
    on_tensors=lambda x, scale, alpha: functional.elu(x, alpha) * scale,
)
activation(
    "brelu",
    torch.clamp,
    attrs={"t_min": 0.0, "t_max": 24.0},
    doc="x, clamped between `t_min` and `t_max`.",
    v2="",
)
activation(
    "soft_relu",
    lambda x, threshold: functional.softplus(x.clamp(-threshold, threshold)),
    attrs={"threshold": 40.0},
    doc="log(1 + exp(x)) of x clamped between -threshold and threshold.",
    v2="",
)


def _gelu(x: torch.Tensor, approximate: bool) -> torch.Tensor:
    return functional.gelu(x, approximate="tanh" if approximate else "none")


def _gelu_grad(x: torch.Tensor, grad: torch.Tensor, approximate: bool) -> torch.Tensor:
    found: torch.Tensor = _aten.gelu_backward(grad, x, approximate="tanh" if approximate else "none")
    return found


activation(
    "gelu",
    _gelu,
    "X",
    _gelu_grad,
    {"approximate": False},
    doc="x times the probability that a standard normal variable is below x; `approximate` uses a tanh.",
    v1="gelu(x, approximate=False)",
    layer="GELU",
)


def _infer_prelu(infer: Infer) -> None:
    infer_unary(infer)
    x, alpha, mode = infer.var("X"), infer.var("Alpha"), infer.attr("mode")
    if mode not in ("all", "channel", "element"):
        raise infer.fail(f"mode must be all, channel or element, got {mode!r}")
    wanted = {"all": (1,), "channel": (x.shape[1],) if x.ndim > 1 else (1,), "element": x.shape[1:]}[mode]
    given = alpha.shape[1:] if mode == "element" else tuple(size for size in alpha.shape if size != 1) or (1,)
    if given != wanted:
        raise infer.fail(f"with mode {mode!r} Alpha must have shape {list(wanted)}, got {list(alpha.shape)}")


@register(
    "prelu",
    inputs=("X", "Alpha"),
    attrs={"mode": "all"},
    infer=_infer_prelu,
    grad=Grad(needs=("X", "Alpha"), wrt=("X", "Alpha")),
)
def _prelu(op: Operator, lowering: Lowering) -> Kernel:
    rank, mode = len(lowering.shape(op.input("X")[0])), op.attr("mode")

    def prelu(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        if mode == "element":
            slopes = alpha
        else:
            slopes = alpha.reshape(1, -1, *[1] * (rank - 2)) if mode == "channel" else alpha.reshape(())
        return torch.where(x > 0, x, x * slopes)

    return prelu


def _infer_maxout(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    shape, groups, axis = infer.shape("X"), infer.attr("groups"), infer.attr("axis")
    if len(shape) != 4 or axis not in (1, 3, -1):
        raise infer.fail(f"X must have 4 dimensions and axis be 1 or 3, got shape {list(shape)} and axis {axis}")
    axis %= 4
    if groups < 1 or shape[axis] % groups:
        raise infer.fail(f"groups must divide the {shape[axis]} channels of X, got {groups}")
    infer.set("Out", (*shape[:axis], shape[axis] // groups, *shape[axis + 1 :]), infer.dtype("X"))


@computes(
    "maxout",
    _infer_maxout,
    "maxout(x, groups, name, axis=1)",
    "F.maxout(x, groups, axis=1, name)",
    {"groups": 1, "axis": 1},
    grad=Grad(needs=("X",)),
    layer="Maxout",
)
def _largest_of_groups(x: torch.Tensor, groups: int, axis: int) -> torch.Tensor:
    """The largest of each `groups` neighbouring channels."""
    place = axis % x.dim()
    if x.size(place) % groups:
        raise UsageError(f"maxout: groups must divide the {x.size(place)} channels, got {groups}")
    return torch.amax(torch.unflatten(x, place, (-1, groups)), place + 1)

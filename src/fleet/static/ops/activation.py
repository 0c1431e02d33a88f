"""Activations and other functions of one variable, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from fleet.static.dtypes import FLOATS
from fleet.static.executor.lowering import Lowering
from fleet.static.operator import Operator
from fleet.static.registry import Grad, Infer, Kernel, register, register_grad

_aten = torch.ops.aten
Function = Callable[..., torch.Tensor]


def _infer(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.like("Out", "X")


def _unary(
    type: str,
    function: Function,
    needs: str = "X",
    gradient: Function | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> None:
    """Define an op: `function(x, *attrs)` and `gradient(x or out, out's gradient, *attrs)`; without one by autograd."""
    names = tuple(attrs or {})

    @register(type, inputs=("X",), attrs=attrs, infer=_infer, grad=Grad(needs=(needs,) if needs else ()))
    def _(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
        return _bound(function, op, names, 1)

    if gradient is not None:

        @register_grad(type)
        def _(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
            return _bound(gradient, op, names, 2 if needs else 1)


def _bound(function: Function, op: Operator, names: tuple[str, ...], num_tensors: int) -> Kernel:
    if not names:
        return function
    values = [op.attr(name) for name in names]
    if num_tensors == 1:
        return lambda x: function(x, *values)
    return lambda x, grad: function(x, grad, *values)


# Out is enough for these, so that X can be let go.
_unary("relu", torch.relu, "Out", lambda out, grad: _aten.threshold_backward(grad, out, 0))
_unary("tanh", torch.tanh, "Out", lambda out, grad: _aten.tanh_backward(grad, out))
_unary("sigmoid", torch.sigmoid, "Out", lambda out, grad: _aten.sigmoid_backward(grad, out))
_unary("exp", torch.exp, "Out", lambda out, grad: grad * out)
_unary("sqrt", torch.sqrt, "Out", lambda out, grad: grad / out * 0.5)
_unary("rsqrt", torch.rsqrt, "Out", lambda out, grad: grad * out.pow(3) * -0.5)
_unary("reciprocal", torch.reciprocal, "Out", lambda out, grad: grad * out.square().neg_())
_unary(
    "relu6",
    lambda x, threshold: x.clamp(0.0, threshold),
    "Out",
    lambda out, grad, threshold: _aten.hardtanh_backward(grad, out, 0.0, threshold),
    {"threshold": 6.0},
)

_unary("square", torch.square, "X", lambda x, grad: grad * x * 2)
_unary("log", torch.log, "X", lambda x, grad: grad / x)
_unary("log1p", torch.log1p, "X", lambda x, grad: grad / (x + 1))
_unary("abs", torch.abs, "X", lambda x, grad: grad * x.sign())
_unary("sin", torch.sin, "X", lambda x, grad: grad * x.cos())
_unary("cos", torch.cos, "X", lambda x, grad: grad * x.sin().neg_())
_unary("logsigmoid", functional.logsigmoid)
_unary("tanh_shrink", functional.tanhshrink)
_unary("softplus", functional.softplus, "X", lambda x, grad: _aten.softplus_backward(grad, x, 1, 20))
_unary("softsign", functional.softsign)
_unary(
    "leaky_relu",
    functional.leaky_relu,
    "X",
    lambda x, grad, alpha: _aten.leaky_relu_backward(grad, x, alpha, False),
    {"alpha": 0.02},
)
_unary("elu", functional.elu, attrs={"alpha": 1.0})
_unary("pow", torch.pow, "X", lambda x, grad, factor: grad * x.pow(factor - 1) * factor, {"factor": 1.0})
_unary("stanh", lambda x, a, b: torch.tanh(x * a) * b, attrs={"scale_a": 0.67, "scale_b": 1.7159})
_unary(
    "hard_sigmoid", lambda x, slope, offset: (x * slope + offset).clamp(0.0, 1.0), attrs={"slope": 0.2, "offset": 0.5}
)
_unary("swish", lambda x, beta: x * torch.sigmoid(x * beta), attrs={"beta": 1.0})
_unary("sinh", torch.sinh, "X", lambda x, grad: grad * x.cosh())
_unary("cosh", torch.cosh, "X", lambda x, grad: grad * x.sinh())
_unary("asin", torch.asin)
_unary("acos", torch.acos)
_unary("atan", torch.atan)
_unary("erf", torch.erf)
_unary("softshrink", functional.softshrink, attrs={"lambda": 0.5})
_unary("hard_shrink", functional.hardshrink, attrs={"threshold": 0.5})
_unary("thresholded_relu", lambda x, threshold: functional.threshold(x, threshold, 0.0), attrs={"threshold": 1.0})
_unary(
    "selu",
    lambda x, scale, alpha: torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0.0))) * scale,
    attrs={"scale": 1.0507009873554805, "alpha": 1.6732632423543772},
)
_unary("brelu", torch.clamp, attrs={"t_min": 0.0, "t_max": 24.0})
_unary("soft_relu", lambda x, threshold: functional.softplus(x.clamp(-threshold, threshold)), attrs={"threshold": 40.0})


def _gelu(x: torch.Tensor, approximate: bool) -> torch.Tensor:
    return functional.gelu(x, approximate="tanh" if approximate else "none")


def _gelu_grad(x: torch.Tensor, grad: torch.Tensor, approximate: bool) -> torch.Tensor:
    found: torch.Tensor = _aten.gelu_backward(grad, x, approximate="tanh" if approximate else "none")
    return found


_unary("gelu", _gelu, "X", _gelu_grad, {"approximate": False})


def round_away(x: torch.Tensor) -> torch.Tensor:
    """The nearest whole number; of two that are equally near, the one further from zero."""
    whole = torch.trunc(x)
    return whole + torch.sign(x) * ((x - whole).abs() >= 0.5)


# Steps: flat wherever they have a slope at all.
for _name, _step in (("floor", torch.floor), ("ceil", torch.ceil), ("round", round_away)):
    _unary(_name, _step, "", torch.zeros_like)


def _infer_prelu(infer: Infer) -> None:
    _infer(infer)
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


@register(
    "maxout", inputs=("X",), attrs={"groups": 1, "axis": 1}, infer=_infer_maxout, grad=Grad(needs=("X",), wrt=("X",))
)
def _maxout(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    groups, axis = op.attr("groups"), op.attr("axis") % 4
    return lambda x: x.unflatten(axis, (-1, groups)).amax(axis + 1)

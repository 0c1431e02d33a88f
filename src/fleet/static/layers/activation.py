"""Activations and other functions of one variable, as layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fleet.static.initializer import Constant
from fleet.static.layers.helper import Layer
from fleet.static.variable import Variable

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "brelu",
    "ceil",
    "cos",
    "cosh",
    "elu",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hard_shrink",
    "hard_sigmoid",
    "leaky_relu",
    "log",
    "log_softmax",
    "logsigmoid",
    "maxout",
    "pow",
    "prelu",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "sin",
    "sinh",
    "soft_relu",
    "softmax",
    "softplus",
    "softshrink",
    "softsign",
    "sqrt",
    "square",
    "stanh",
    "swish",
    "tanh",
    "tanh_shrink",
    "thresholded_relu",
]


class Activation(Protocol):
    """A layer without settings."""

    def __call__(self, x: Variable, name: str | None = None) -> Variable: ...


def _plain(type: str, what: str) -> Activation:
    def activation(x: Variable, name: str | None = None) -> Variable:
        return _add(type, x, None, name)

    activation.__name__ = activation.__qualname__ = type
    activation.__doc__ = f"{what}, element by element."
    return activation


def _add(type: str, x: Variable, attrs: Mapping[str, Any] | None, name: str | None, what: str = "x") -> Variable:
    layer = Layer(type, name)
    return layer.apply(type, {"X": layer.variable(x, what)}, attrs, x.dtype)


relu = _plain("relu", "max(x, 0)")
tanh = _plain("tanh", "The hyperbolic tangent")
sigmoid = _plain("sigmoid", "1 / (1 + exp(-x))")
logsigmoid = _plain("logsigmoid", "The logarithm of the sigmoid")
tanh_shrink = _plain("tanh_shrink", "x - tanh(x)")
softplus = _plain("softplus", "log(1 + exp(x))")
softsign = _plain("softsign", "x / (1 + |x|)")
exp = _plain("exp", "e to the power x")
log = _plain("log", "The natural logarithm")
sqrt = _plain("sqrt", "The square root")
rsqrt = _plain("rsqrt", "1 / sqrt(x)")
square = _plain("square", "x * x")
reciprocal = _plain("reciprocal", "1 / x")
abs = _plain("abs", "The size without the sign")
sin = _plain("sin", "The sine")
cos = _plain("cos", "The cosine")
asin = _plain("asin", "The angle whose sine is x")
acos = _plain("acos", "The angle whose cosine is x")
atan = _plain("atan", "The angle whose tangent is x")
sinh = _plain("sinh", "The hyperbolic sine")
cosh = _plain("cosh", "The hyperbolic cosine")
erf = _plain("erf", "The error function")
floor = _plain("floor", "The next whole number below")
ceil = _plain("ceil", "The next whole number above")
round = _plain("round", "The nearest whole number, the one further from zero of two that are as near")


def softmax(input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Variable:  # noqa: ARG001
    """Shares that sum to 1 along `axis`."""
    return _add("softmax", input, {"axis": axis}, name, "input")


def log_softmax(input: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """The logarithm of the softmax along `axis`."""
    return _add("log_softmax", input, {"axis": axis}, name, "input")


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """x above 0, `alpha` times x below."""
    return _add("leaky_relu", x, {"alpha": float(alpha)}, name)


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x above 0, `alpha * (exp(x) - 1)` below."""
    return _add("elu", x, {"alpha": float(alpha)}, name)


def gelu(x: Variable, approximate: bool = False) -> Variable:
    """x times the share of a normal distribution below x; `approximate` computes that with a tanh."""
    return _add("gelu", x, {"approximate": bool(approximate)}, None)


def selu(x: Variable, scale: float | None = None, alpha: float | None = None, name: str | None = None) -> Variable:
    """`scale` times x above 0, times `alpha * (exp(x) - 1)` below; the usual two keep mean 0 and variance 1."""
    given = {"scale": scale, "alpha": alpha}
    return _add("selu", x, {key: float(value) for key, value in given.items() if value is not None}, name)


def softshrink(x: Variable, alpha: float = 0.5) -> Variable:
    """x nearer to 0 by `alpha`, and 0 where it is not further away than that."""
    return _add("softshrink", x, {"lambda": float(alpha)}, None)


def hard_shrink(x: Variable, threshold: float = 0.5) -> Variable:
    """x, and 0 where it is not further than `threshold` from 0."""
    return _add("hard_shrink", x, {"threshold": float(threshold)}, None)


def thresholded_relu(x: Variable, threshold: float = 1.0) -> Variable:
    """x above `threshold`, 0 elsewhere."""
    return _add("thresholded_relu", x, {"threshold": float(threshold)}, None)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """x, kept between 0 and `threshold`."""
    return _add("relu6", x, {"threshold": float(threshold)}, name)


def pow(x: Variable, factor: float = 1.0, name: str | None = None) -> Variable:
    """x to the power `factor`."""
    return _add("pow", x, {"factor": float(factor)}, name)


def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """`scale_b * tanh(scale_a * x)`."""
    return _add("stanh", x, {"scale_a": float(scale_a), "scale_b": float(scale_b)}, name)


def hard_sigmoid(x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Variable:
    """`slope * x + offset`, kept between 0 and 1."""
    return _add("hard_sigmoid", x, {"slope": float(slope), "offset": float(offset)}, name)


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """`x * sigmoid(beta * x)`."""
    return _add("swish", x, {"beta": float(beta)}, name)


def brelu(x: Variable, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Variable:
    """x, kept between `t_min` and `t_max`."""
    return _add("brelu", x, {"t_min": float(t_min), "t_max": float(t_max)}, name)


def soft_relu(x: Variable, threshold: float = 40.0, name: str | None = None) -> Variable:
    """`log(1 + exp(x))` of an x kept between -`threshold` and `threshold`."""
    return _add("soft_relu", x, {"threshold": float(threshold)}, name)


def maxout(x: Variable, groups: int, name: str | None = None, axis: int = 1) -> Variable:
    """The greatest of each `groups` channels that follow each other."""
    return _add("maxout", x, {"groups": groups, "axis": axis}, name)


def prelu(x: Variable, mode: str, param_attr: Any = None, name: str | None = None) -> Variable:
    """x above 0, a trained factor times x below: one factor (`mode` "all"), one per channel, or one per element."""
    layer = Layer("prelu", name)
    layer.variable(x, "x")
    shapes = {"all": [1], "channel": [1, *x.shape[1:2], *[1] * (x.ndim - 2)], "element": [1, *x.shape[1:]]}
    if mode not in shapes:
        raise layer.error(f"mode must be all, channel or element, got {mode!r}")
    alpha = layer.parameter(param_attr, shapes[mode], x.dtype, default=Constant(0.25))
    if alpha is None:
        raise layer.error("param_attr must not be False; a trained factor is what prelu is")
    return layer.apply("prelu", {"X": x, "Alpha": alpha}, {"mode": mode}, x.dtype)

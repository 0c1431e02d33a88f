"""Layers made from the definitions of operators; `make docs` writes this stub."""

from typing import Any

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
    "hard_swish",
    "leaky_relu",
    "log",
    "log_softmax",
    "logsigmoid",
    "maxout",
    "pow",
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

def abs(x: Variable, name: str | None = None) -> Variable:
    """The absolute value."""

def acos(x: Variable, name: str | None = None) -> Variable:
    """The arccosine."""

def asin(x: Variable, name: str | None = None) -> Variable:
    """The arcsine."""

def atan(x: Variable, name: str | None = None) -> Variable:
    """The arctangent."""

def brelu(x: Variable, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Variable:
    """x, clamped between `t_min` and `t_max`."""

def ceil(x: Variable, name: str | None = None) -> Variable:
    """The smallest whole number that is not below x."""

def cos(x: Variable, name: str | None = None) -> Variable:
    """The cosine."""

def cosh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic cosine."""

def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""

def erf(x: Variable, name: str | None = None) -> Variable:
    """The error function."""

def exp(x: Variable, name: str | None = None) -> Variable:
    """e to the power x."""

def floor(x: Variable, name: str | None = None) -> Variable:
    """The largest whole number that is not above x."""

def gelu(x: Variable, approximate: bool = False) -> Variable:
    """x times the probability that a standard normal variable is below x; `approximate` uses a tanh."""

def hard_shrink(x: Variable, threshold: float = 0.5) -> Variable:
    """x, and 0 where it is no further than `threshold` from 0."""

def hard_sigmoid(x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Variable:
    """slope * x + offset, clamped between 0 and 1."""

def hard_swish(
    x: Variable, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None
) -> Variable:
    """x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3."""

def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """x where it is positive, a fraction of x (`alpha`, in 2.0 `negative_slope`) elsewhere."""

def log(x: Variable, name: str | None = None) -> Variable:
    """The natural logarithm."""

def log_softmax(input: Variable, axis: Any = -1, name: str | None = None) -> Variable:
    """The logarithm of the softmax along `axis`."""

def logsigmoid(x: Variable, name: str | None = None) -> Variable:
    """log(sigmoid(x)), element by element."""

def maxout(x: Variable, groups: Any, name: str | None = None, axis: Any = 1) -> Variable:
    """The largest of each `groups` neighbouring channels."""

def pow(x: Variable, factor: float = 1.0, name: str | None = None) -> Variable:
    """x to the power `factor`."""

def reciprocal(x: Variable, name: str | None = None) -> Variable:
    """1 / x."""

def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0), element by element."""

def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """x, clamped between 0 and 6, or another `threshold` in 1.x."""

def round(x: Variable, name: str | None = None) -> Variable:
    """The nearest whole number; a half goes away from zero."""

def rsqrt(x: Variable, name: str | None = None) -> Variable:
    """1 / sqrt(x)."""

def selu(x: Variable, scale: Any = None, alpha: Any = None, name: str | None = None) -> Variable:
    """scale * elu(x, alpha); the default values keep mean 0 and variance 1."""

def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """1 / (1 + exp(-x)), element by element."""

def sin(x: Variable, name: str | None = None) -> Variable:
    """The sine."""

def sinh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic sine."""

def soft_relu(x: Variable, threshold: float = 40.0, name: str | None = None) -> Variable:
    """log(1 + exp(x)) of x clamped between -threshold and threshold."""

def softmax(input: Variable, use_cudnn: bool = False, name: str | None = None, axis: Any = -1) -> Variable:
    """exp(x) divided by its sum along `axis`."""

def softplus(x: Variable, name: str | None = None) -> Variable:
    """log(1 + exp(beta * x)) / beta, which is x where beta * x is above `threshold`; beta is 1 in 1.x."""

def softshrink(x: Variable, alpha: float = 0.5) -> Variable:
    """x moved towards 0 by the threshold (1.x calls it `alpha`), and 0 where it is no further away than that."""

def softsign(x: Variable, name: str | None = None) -> Variable:
    """x / (1 + |x|), element by element."""

def sqrt(x: Variable, name: str | None = None) -> Variable:
    """The square root."""

def square(x: Variable, name: str | None = None) -> Variable:
    """x * x."""

def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """scale_b * tanh(scale_a * x), element by element."""

def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x * sigmoid(beta * x); beta is 1 in 2.0."""

def tanh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic tangent."""

def tanh_shrink(x: Variable, name: str | None = None) -> Variable:
    """x - tanh(x), element by element."""

def thresholded_relu(x: Variable, threshold: float = 1.0) -> Variable:
    """x where it is above `threshold`, 0 elsewhere."""

"""Made from rows; `make docs` writes this stub."""

from typing import Any, TypeVar

__all__ = [
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "maxout",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softshrink",
    "softsign",
    "swish",
    "tanhshrink",
    "thresholded_relu",
]

X = TypeVar("X")

def elu(x: X, alpha: float = 1.0, name: str | None = None) -> X:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""

def gelu(x: X, approximate: bool = False, name: str | None = None) -> X:
    """x times the probability that a standard normal variable is below x; `approximate` uses a tanh."""

def hardshrink(x: X, threshold: float = 0.5, name: str | None = None) -> X:
    """x, and 0 where it is no further than `threshold` from 0."""

def hardsigmoid(x: X, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> X:
    """slope * x + offset, clamped between 0 and 1."""

def hardswish(x: X, name: str | None = None) -> X:
    """x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3."""

def hardtanh(x: X, min: float = -1.0, max: float = 1.0, name: str | None = None) -> X:
    """x, clamped between `t_min` and `t_max`."""

def leaky_relu(x: X, negative_slope: float = 0.01, name: str | None = None) -> X:
    """x where it is positive, a fraction of x (`alpha`, in 2.0 `negative_slope`) elsewhere."""

def log_sigmoid(x: X, name: str | None = None) -> X:
    """log(sigmoid(x)), element by element."""

def log_softmax(x: X, axis: Any = -1, dtype: Any = None, name: str | None = None) -> X:
    """The logarithm of the softmax along `axis`."""

def maxout(x: X, groups: Any, axis: Any = 1, name: str | None = None) -> X:
    """The largest of each `groups` neighbouring channels."""

def relu(x: X, name: str | None = None) -> X:
    """max(x, 0), element by element."""

def relu6(x: X, name: str | None = None) -> X:
    """x, clamped between 0 and 6, or another `threshold` in 1.x."""

def selu(x: X, scale: Any = 1.0507009873554805, alpha: float = 1.6732632423543772, name: str | None = None) -> X:
    """scale * elu(x, alpha); the default values keep mean 0 and variance 1."""

def sigmoid(x: X, name: str | None = None) -> X:
    """1 / (1 + exp(-x)), element by element."""

def silu(x: X, name: str | None = None) -> X:
    """x * sigmoid(x), element by element."""

def softmax(x: X, axis: Any = -1, dtype: Any = None, name: str | None = None) -> X:
    """exp(x) divided by its sum along `axis`."""

def softplus(x: X, beta: float = 1.0, threshold: float = 20.0, name: str | None = None) -> X:
    """log(1 + exp(beta * x)) / beta, which is x where beta * x is above `threshold`; beta is 1 in 1.x."""

def softshrink(x: X, threshold: float = 0.5, name: str | None = None) -> X:
    """x moved towards 0 by the threshold (1.x calls it `alpha`), and 0 where it is no further away than that."""

def softsign(x: X, name: str | None = None) -> X:
    """x / (1 + |x|), element by element."""

def swish(x: X, name: str | None = None) -> X:
    """x * sigmoid(beta * x); beta is 1 in 2.0."""

def tanhshrink(x: X, name: str | None = None) -> X:
    """x - tanh(x), element by element."""

def thresholded_relu(x: X, threshold: float = 1.0, name: str | None = None) -> X:
    """x where it is above `threshold`, 0 elsewhere."""

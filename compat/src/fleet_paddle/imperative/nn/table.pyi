"""Made from rows; `make docs` writes this stub."""

from typing import Any

from fleet_paddle.imperative.nn.of_function import FunctionLayer

__all__ = [
    "ELU",
    "GELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Maxout",
    "ReLU",
    "ReLU6",
    "SELU",
    "Sigmoid",
    "Silu",
    "Softmax",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Swish",
    "Tanh",
    "Tanhshrink",
    "ThresholdedReLU",
]

class ELU(FunctionLayer):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None: ...

class GELU(FunctionLayer):
    """x times the probability that a standard normal variable is below x; `approximate` uses a tanh."""
    def __init__(self, approximate: bool = False, name: str | None = None) -> None: ...

class Hardshrink(FunctionLayer):
    """x, and 0 where it is no further than `threshold` from 0."""
    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None: ...

class Hardsigmoid(FunctionLayer):
    """slope * x + offset, clamped between 0 and 1."""
    def __init__(self, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> None: ...

class Hardswish(FunctionLayer):
    """x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3."""
    def __init__(self, name: str | None = None) -> None: ...

class Hardtanh(FunctionLayer):
    """x, clamped between `t_min` and `t_max`."""
    def __init__(self, min: float = -1.0, max: float = 1.0, name: str | None = None) -> None: ...

class LeakyReLU(FunctionLayer):
    """x where it is positive, a fraction of x (`alpha`, in 2.0 `negative_slope`) elsewhere."""
    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None: ...

class LogSigmoid(FunctionLayer):
    """log(sigmoid(x)), element by element."""
    def __init__(self, name: str | None = None) -> None: ...

class LogSoftmax(FunctionLayer):
    """The logarithm of the softmax along `axis`."""
    def __init__(self, axis: Any = -1, dtype: Any = None, name: str | None = None) -> None: ...

class Maxout(FunctionLayer):
    """The largest of each `groups` neighbouring channels."""
    def __init__(self, groups: Any, axis: Any = 1, name: str | None = None) -> None: ...

class ReLU(FunctionLayer):
    """max(x, 0), element by element."""
    def __init__(self, name: str | None = None) -> None: ...

class ReLU6(FunctionLayer):
    """x, clamped between 0 and 6, or another `threshold` in 1.x."""
    def __init__(self, name: str | None = None) -> None: ...

class SELU(FunctionLayer):
    """scale * elu(x, alpha); the default values keep mean 0 and variance 1."""
    def __init__(
        self, scale: Any = 1.0507009873554805, alpha: float = 1.6732632423543772, name: str | None = None
    ) -> None: ...

class Sigmoid(FunctionLayer):
    """1 / (1 + exp(-x)), element by element."""
    def __init__(self, name: str | None = None) -> None: ...

class Silu(FunctionLayer):
    """x * sigmoid(x), element by element."""
    def __init__(self, name: str | None = None) -> None: ...

class Softmax(FunctionLayer):
    """exp(x) divided by its sum along `axis`."""
    def __init__(self, axis: Any = -1, dtype: Any = None, name: str | None = None) -> None: ...

class Softplus(FunctionLayer):
    """log(1 + exp(beta * x)) / beta, which is x where beta * x is above `threshold`; beta is 1 in 1.x."""
    def __init__(self, beta: float = 1.0, threshold: float = 20.0, name: str | None = None) -> None: ...

class Softshrink(FunctionLayer):
    """x moved towards 0 by the threshold (1.x calls it `alpha`), and 0 where it is no further away than that."""
    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None: ...

class Softsign(FunctionLayer):
    """x / (1 + |x|), element by element."""
    def __init__(self, name: str | None = None) -> None: ...

class Swish(FunctionLayer):
    """x * sigmoid(beta * x); beta is 1 in 2.0."""
    def __init__(self, name: str | None = None) -> None: ...

class Tanh(FunctionLayer):
    """The hyperbolic tangent."""
    def __init__(self, name: str | None = None) -> None: ...

class Tanhshrink(FunctionLayer):
    """x - tanh(x), element by element."""
    def __init__(self, name: str | None = None) -> None: ...

class ThresholdedReLU(FunctionLayer):
    """x where it is above `threshold`, 0 elsewhere."""
    def __init__(self, threshold: float = 1.0, name: str | None = None) -> None: ...

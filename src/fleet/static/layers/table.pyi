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
    "clip",
    "clip_by_norm",
    "cos",
    "cosh",
    "cumsum",
    "elementwise_add",
    "elementwise_div",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "elu",
    "equal",
    "erf",
    "exp",
    "floor",
    "gelu",
    "greater_equal",
    "greater_than",
    "hard_shrink",
    "hard_sigmoid",
    "hard_swish",
    "has_inf",
    "has_nan",
    "isfinite",
    "leaky_relu",
    "less_equal",
    "less_than",
    "log",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsigmoid",
    "matmul",
    "maxout",
    "mean",
    "mul",
    "not_equal",
    "pow",
    "reciprocal",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "sign",
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

def clip(x: Variable, min: Any, max: Any, name: str | None = None) -> Variable:
    """Each element, clamped between `min` and `max`."""

def clip_by_norm(x: Variable, max_norm: Any, name: str | None = None) -> Variable:
    """x, scaled down so that its Euclidean norm is at most `max_norm`."""

def cos(x: Variable, name: str | None = None) -> Variable:
    """The cosine."""

def cosh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic cosine."""

def cumsum(x: Variable, axis: Any = None, exclusive: Any = None, reverse: Any = None) -> Variable:
    """The sum of all elements up to each along an axis; without itself if `exclusive`, from the end if `reverse`."""

def elementwise_add(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x + y; y is laid beside x from dimension `axis` of x on."""

def elementwise_div(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x / y, element by element."""

def elementwise_floordiv(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x / y, rounded down."""

def elementwise_max(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The larger of both."""

def elementwise_min(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The smaller of both."""

def elementwise_mod(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """The remainder of x / y, with the sign of y."""

def elementwise_mul(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x * y, element by element."""

def elementwise_pow(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x to the power y, element by element."""

def elementwise_sub(
    x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """x - y, element by element."""

def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""

def equal(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x == y, element by element; 1.x writes it to `cond` if given."""

def erf(x: Variable, name: str | None = None) -> Variable:
    """The error function."""

def exp(x: Variable, name: str | None = None) -> Variable:
    """e to the power x."""

def floor(x: Variable, name: str | None = None) -> Variable:
    """The largest whole number that is not above x."""

def gelu(x: Variable, approximate: bool = False) -> Variable:
    """x times the probability that a standard normal variable is below x; `approximate` uses a tanh."""

def greater_equal(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x >= y, element by element; 1.x writes it to `cond` if given."""

def greater_than(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x > y, element by element; 1.x writes it to `cond` if given."""

def hard_shrink(x: Variable, threshold: float = 0.5) -> Variable:
    """x, and 0 where it is no further than `threshold` from 0."""

def hard_sigmoid(x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Variable:
    """slope * x + offset, clamped between 0 and 1."""

def hard_swish(
    x: Variable, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None
) -> Variable:
    """x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3."""

def has_inf(x: Variable) -> Variable:
    """Whether an element is infinite."""

def has_nan(x: Variable) -> Variable:
    """Whether an element is NaN."""

def isfinite(x: Variable) -> Variable:
    """Whether all elements are neither infinite nor NaN."""

def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """x where it is positive, a fraction of x (`alpha`, in 2.0 `negative_slope`) elsewhere."""

def less_equal(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x <= y, element by element; 1.x writes it to `cond` if given."""

def less_than(x: Variable, y: Variable, force_cpu: Any = None, cond: Any = None) -> Variable:
    """x < y, element by element; 1.x writes it to `cond` if given."""

def log(x: Variable, name: str | None = None) -> Variable:
    """The natural logarithm."""

def log_softmax(input: Variable, axis: Any = -1, name: str | None = None) -> Variable:
    """The logarithm of the softmax along `axis`."""

def logical_and(x: Variable, y: Variable, out: Any = None, name: str | None = None) -> Variable:
    """Whether both are true, written to `out` if given."""

def logical_not(x: Variable, out: Any = None, name: str | None = None) -> Variable:
    """Whether it is false, written to `out` if given."""

def logical_or(x: Variable, y: Variable, out: Any = None, name: str | None = None) -> Variable:
    """Whether one is true, or both; written to `out` if given."""

def logical_xor(x: Variable, y: Variable, out: Any = None, name: str | None = None) -> Variable:
    """Whether one is true and not both; written to `out` if given."""

def logsigmoid(x: Variable, name: str | None = None) -> Variable:
    """log(sigmoid(x)), element by element."""

def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The product of matrices, or of batches of them; a vector is a row on the left and a column on the right."""

def maxout(x: Variable, groups: Any, name: str | None = None, axis: Any = 1) -> Variable:
    """The largest of each `groups` neighbouring channels."""

def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements."""

def mul(
    x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None
) -> Variable:
    """The product of two matrices, whose rows are the first `num_col_dims` dimensions of each and columns the rest."""

def not_equal(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x != y, element by element; 1.x writes it to `cond` if given."""

def pow(x: Variable, factor: float = 1.0, name: str | None = None) -> Variable:
    """x to the power `factor`."""

def reciprocal(x: Variable, name: str | None = None) -> Variable:
    """1 / x."""

def reduce_all(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """Whether all are true, over some dimensions or over all."""

def reduce_any(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """Whether one is true, over some dimensions or over all."""

def reduce_max(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The largest element over some dimensions, or over all; equal ones share the gradient."""

def reduce_mean(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The mean over some dimensions, or over all."""

def reduce_min(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The smallest element over some dimensions, or over all; equal ones share the gradient."""

def reduce_prod(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The product over some dimensions, or over all."""

def reduce_sum(input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The sum over some dimensions, or over all."""

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

def sign(x: Variable) -> Variable:
    """-1, 0 or 1 for each element."""

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

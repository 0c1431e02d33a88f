"""Made from rows; `make docs` writes this stub."""
# ruff: noqa: E501  (a line for each)
# fmt: off

from typing import Any, TypeVar

__all__ = ['abs', 'acos', 'add', 'all', 'any', 'asin', 'atan', 'bmm', 'ceil', 'clip', 'cos', 'cosh', 'divide', 'equal', 'erf', 'exp', 'floor', 'floor_divide', 'floor_mod', 'greater_equal', 'greater_than', 'isfinite', 'isinf', 'isnan', 'less_equal', 'less_than', 'log', 'log10', 'log1p', 'log2', 'logical_and', 'logical_not', 'logical_or', 'logical_xor', 'logsumexp', 'matmul', 'max', 'maximum', 'mean', 'min', 'minimum', 'mm', 'mod', 'multiply', 'norm', 'not_equal', 'numel', 'prod', 'reciprocal', 'remainder', 'round', 'rsqrt', 'sign', 'sin', 'sinh', 'sqrt', 'square', 'stanh', 'std', 'subtract', 'sum', 'tan', 'tanh', 'var']

X = TypeVar("X")

def abs(x: X, name: str | None = None) -> X:
    """The absolute value."""

def acos(x: X, name: str | None = None) -> X:
    """The arccosine."""

def add(x: X, y: X, name: str | None = None) -> X:
    """x + y; y is laid beside x from dimension `axis` of x on."""

def all(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """Whether all are true, over some dimensions or over all."""

def any(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """Whether one is true, over some dimensions or over all."""

def asin(x: X, name: str | None = None) -> X:
    """The arcsine."""

def atan(x: X, name: str | None = None) -> X:
    """The arctangent."""

def bmm(x: X, y: X, name: str | None = None) -> X:
    """The products of two batches of matrices."""

def ceil(x: X, name: str | None = None) -> X:
    """The smallest whole number that is not below x."""

def clip(x: X, min: Any = None, max: Any = None, name: str | None = None) -> X:
    """Each element, clamped between `min` and `max`."""

def cos(x: X, name: str | None = None) -> X:
    """The cosine."""

def cosh(x: X, name: str | None = None) -> X:
    """The hyperbolic cosine."""

def divide(x: X, y: X, name: str | None = None) -> X:
    """x / y, element by element."""

def equal(x: X, y: X, name: str | None = None) -> X:
    """x == y, element by element; 1.x writes it to `cond` if given."""

def erf(x: X, name: str | None = None) -> X:
    """The error function."""

def exp(x: X, name: str | None = None) -> X:
    """e to the power x."""

def floor(x: X, name: str | None = None) -> X:
    """The largest whole number that is not above x."""

def floor_divide(x: X, y: X, name: str | None = None) -> X:
    """x / y, rounded down."""

def floor_mod(x: X, y: X, name: str | None = None) -> X:
    """The remainder of x / y, with the sign of y."""

def greater_equal(x: X, y: X, name: str | None = None) -> X:
    """x >= y, element by element; 1.x writes it to `cond` if given."""

def greater_than(x: X, y: X, name: str | None = None) -> X:
    """x > y, element by element; 1.x writes it to `cond` if given."""

def isfinite(x: X, name: str | None = None) -> X:
    """Which elements are neither infinite nor NaN."""

def isinf(x: X, name: str | None = None) -> X:
    """Which elements are infinite."""

def isnan(x: X, name: str | None = None) -> X:
    """Which elements are NaN."""

def less_equal(x: X, y: X, name: str | None = None) -> X:
    """x <= y, element by element; 1.x writes it to `cond` if given."""

def less_than(x: X, y: X, name: str | None = None) -> X:
    """x < y, element by element; 1.x writes it to `cond` if given."""

def log(x: X, name: str | None = None) -> X:
    """The natural logarithm."""

def log10(x: X, name: str | None = None) -> X:
    """The logarithm to base 10."""

def log1p(x: X, name: str | None = None) -> X:
    """log(1 + x), exact where x is small."""

def log2(x: X, name: str | None = None) -> X:
    """The logarithm to base 2."""

def logical_and(x: X, y: X, out: Any = None, name: str | None = None) -> X:
    """Whether both are true, written to `out` if given."""

def logical_not(x: X, out: Any = None, name: str | None = None) -> X:
    """Whether it is false, written to `out` if given."""

def logical_or(x: X, y: X, out: Any = None, name: str | None = None) -> X:
    """Whether one is true, or both; written to `out` if given."""

def logical_xor(x: X, y: X, out: Any = None, name: str | None = None) -> X:
    """Whether one is true and not both; written to `out` if given."""

def logsumexp(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The logarithm of the sum of exp(x), over some dimensions or over all; no exp overflows."""

def matmul(x: X, y: X, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None) -> X:
    """The product of matrices, or of batches of them; a vector is a row on the left and a column on the right."""

def max(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The largest element over some dimensions, or over all; equal ones share the gradient."""

def maximum(x: X, y: X, axis: Any = -1, name: str | None = None) -> X:
    """The larger of both."""

def mean(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The mean over some dimensions, or over all."""

def min(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The smallest element over some dimensions, or over all; equal ones share the gradient."""

def minimum(x: X, y: X, axis: Any = -1, name: str | None = None) -> X:
    """The smaller of both."""

def mm(input: X, mat2: X, name: str | None = None) -> X:
    """The product of two matrices."""

def mod(x: X, y: X, name: str | None = None) -> X:
    """The remainder of x / y, with the sign of y."""

def multiply(x: X, y: X, axis: Any = -1, name: str | None = None) -> X:
    """x * y, element by element."""

def norm(x: X, p: Any = 'fro', axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The length of vectors, by default the Frobenius norm of all elements."""

def not_equal(x: X, y: X, name: str | None = None) -> X:
    """x != y, element by element; 1.x writes it to `cond` if given."""

def numel(x: X, name: str | None = None) -> X:
    """The number of elements."""

def prod(x: X, axis: Any = None, keepdim: bool = False, dtype: Any = None, name: str | None = None) -> X:
    """The product over some dimensions, or over all."""

def reciprocal(x: X, name: str | None = None) -> X:
    """1 / x."""

def remainder(x: X, y: X, name: str | None = None) -> X:
    """The remainder of x / y, with the sign of y."""

def round(x: X, name: str | None = None) -> X:
    """The nearest whole number; a half goes away from zero."""

def rsqrt(x: X, name: str | None = None) -> X:
    """1 / sqrt(x)."""

def sign(x: X, name: str | None = None) -> X:
    """-1, 0 or 1 for each element."""

def sin(x: X, name: str | None = None) -> X:
    """The sine."""

def sinh(x: X, name: str | None = None) -> X:
    """The hyperbolic sine."""

def sqrt(x: X, name: str | None = None) -> X:
    """The square root."""

def square(x: X, name: str | None = None) -> X:
    """x * x."""

def stanh(x: X, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> X:
    """scale_b * tanh(scale_a * x), element by element."""

def std(x: X, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> X:
    """The standard deviation: of a sample, or of all there is without `unbiased`."""

def subtract(x: X, y: X, name: str | None = None) -> X:
    """x - y, element by element."""

def sum(x: X, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The sum over some dimensions, or over all."""

def tan(x: X, name: str | None = None) -> X:
    """The tangent."""

def tanh(x: X, name: str | None = None) -> X:
    """The hyperbolic tangent."""

def var(x: X, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> X:
    """The variance: of a sample, or of all there is without `unbiased`."""

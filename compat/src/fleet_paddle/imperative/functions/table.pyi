"""Made from rows; `make docs` writes this stub."""
# ruff: noqa: E501  (a line for each)
# fmt: off

from typing import Any, TypeVar

from fleet_paddle.imperative.tensor import Tensor

__all__ = ['abs', 'acos', 'acosh', 'add', 'add_n', 'addmm', 'all', 'allclose', 'angle', 'any', 'arange', 'argmax', 'argmin', 'argsort', 'as_complex', 'as_real', 'asin', 'asinh', 'assign', 'atan', 'atan2', 'atanh', 'bernoulli', 'bincount', 'bitwise_and', 'bitwise_not', 'bitwise_or', 'bitwise_xor', 'bmm', 'broadcast_shape', 'broadcast_to', 'cast', 'ceil', 'cholesky', 'chunk', 'clip', 'clone', 'concat', 'conj', 'cos', 'cosh', 'crop', 'cross', 'cumprod', 'cumsum', 'deg2rad', 'diag', 'diagflat', 'diagonal', 'diff', 'digamma', 'dist', 'divide', 'dot', 'empty', 'empty_like', 'equal', 'equal_all', 'erf', 'erfinv', 'exp', 'expand', 'expand_as', 'expm1', 'eye', 'flatten', 'flatten_', 'flip', 'floor', 'floor_divide', 'floor_mod', 'fmax', 'fmin', 'full', 'full_like', 'gather', 'gather_nd', 'gcd', 'greater_equal', 'greater_than', 'histogram', 'imag', 'increment', 'index_sample', 'index_select', 'inner', 'inverse', 'is_complex', 'is_empty', 'is_floating_point', 'is_integer', 'is_tensor', 'isclose', 'isfinite', 'isinf', 'isnan', 'kron', 'kthvalue', 'lcm', 'lerp', 'less_equal', 'less_than', 'lgamma', 'linspace', 'log', 'log10', 'log1p', 'log2', 'logical_and', 'logical_not', 'logical_or', 'logical_xor', 'logsumexp', 'masked_select', 'matmul', 'max', 'maximum', 'mean', 'median', 'min', 'minimum', 'mm', 'mod', 'mode', 'moveaxis', 'multi_dot', 'multinomial', 'multiplex', 'multiply', 'mv', 'neg', 'nonzero', 'norm', 'normal', 'not_equal', 'numel', 'ones', 'ones_like', 'outer', 'pow', 'prod', 'put_along_axis', 'quantile', 'rad2deg', 'rand', 'randint', 'randn', 'randperm', 'rank', 'real', 'reciprocal', 'remainder', 'repeat_interleave', 'reshape', 'reshape_', 'roll', 'rot90', 'round', 'rsqrt', 'scale', 'scatter', 'scatter_', 'scatter_nd', 'scatter_nd_add', 'searchsorted', 'shape', 'shard_index', 'sign', 'sin', 'sinh', 'slice', 'sort', 'split', 'sqrt', 'square', 'squeeze', 'squeeze_', 'stack', 'standard_normal', 'stanh', 'std', 'strided_slice', 'subtract', 'sum', 't', 'take_along_axis', 'tan', 'tanh', 'tanh_', 'tensordot', 'tile', 'to_tensor', 'topk', 'trace', 'transpose', 'tril', 'triu', 'trunc', 'unbind', 'uniform', 'unique', 'unsqueeze', 'unsqueeze_', 'unstack', 'var', 'where', 'zeros', 'zeros_like']

X = TypeVar("X")

def abs(x: X, name: str | None = None) -> X:
    """The absolute value."""

def acos(x: X, name: str | None = None) -> X:
    """The arccosine."""

def acosh(x: X, name: str | None = None) -> X:
    """The inverse of `cosh`."""

def add(x: X, y: X, name: str | None = None) -> X:
    """x + y; y is laid beside x from dimension `axis` of x on."""

def add_n(inputs: Any, name: str | None = None) -> Any:
    """The sum of several variables of one shape."""

def addmm(input: X, x: X, y: X, beta: float = 1.0, alpha: float = 1.0, name: str | None = None) -> X:
    """beta * input + alpha * x @ y."""

def all(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """Whether all are true, over some dimensions or over all."""

def allclose(x: X, y: X, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, name: str | None = None) -> X:
    """Whether |x - y| <= atol + rtol * |y|, everywhere."""

def angle(x: X, name: str | None = None) -> X:
    """The angle of a complex number; of a real one 0 or pi."""

def any(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """Whether one is true, over some dimensions or over all."""

def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None) -> Tensor:
    """From `start`, or 0, up to but not including `end`."""

def argmax(x: X, axis: Any = None, keepdim: bool = False, dtype: Any = 'int64', name: str | None = None) -> X:
    """The place of the greatest value."""

def argmin(x: X, axis: Any = None, keepdim: bool = False, dtype: Any = 'int64', name: str | None = None) -> X:
    """The place of the least value."""

def argsort(x: X, axis: Any = -1, descending: bool = False, name: str | None = None) -> X:
    """The places of the values in order along a dimension."""

def as_complex(x: X, name: str | None = None) -> X:
    """Pairs of numbers as complex ones."""

def as_real(x: X, name: str | None = None) -> X:
    """Complex numbers as pairs."""

def asin(x: X, name: str | None = None) -> X:
    """The arcsine."""

def asinh(x: X, name: str | None = None) -> X:
    """The inverse of `sinh`."""

def assign(input: Any, output: Any = None) -> Any:
    """A copy of a tensor, through which gradients flow, or of an array; put into `output`, if there is one."""

def atan(x: X, name: str | None = None) -> X:
    """The arctangent."""

def atan2(x: X, y: X, name: str | None = None) -> X:
    """The angle of the point (y, x)."""

def atanh(x: X, name: str | None = None) -> X:
    """The inverse of `tanh`."""

def bernoulli(x: X, name: str | None = None) -> X:
    """1 with the probability that `x` gives, else 0."""

def bincount(x: X, weights: Any = None, minlength: int = 0, name: str | None = None) -> X:
    """How often each whole number is there, or the sum of its weights."""

def bitwise_and(x: X, y: X, out: Any = None, name: str | None = None) -> X:
    """Bits that both have."""

def bitwise_not(x: X, out: Any = None, name: str | None = None) -> X:
    """Bits that it does not have."""

def bitwise_or(x: X, y: X, out: Any = None, name: str | None = None) -> X:
    """Bits that either has."""

def bitwise_xor(x: X, y: X, out: Any = None, name: str | None = None) -> X:
    """Bits that one of them has."""

def bmm(x: X, y: X, name: str | None = None) -> X:
    """The products of two batches of matrices."""

def broadcast_shape(x_shape: Any, y_shape: Any) -> list[int]:
    """The shape that arithmetic of tensors of these two shapes gives."""

def broadcast_to(x: X, shape: Any, name: str | None = None) -> X:
    """As if copied along dimensions of size 1; -1 keeps a size."""

def cast(x: X, dtype: Any) -> X:
    """The values as another type."""

def ceil(x: X, name: str | None = None) -> X:
    """The smallest whole number that is not below x."""

def cholesky(x: X, upper: bool = False, name: str | None = None) -> X:
    """A triangular matrix whose product with its transpose is `x`."""

def chunk(x: Any, chunks: Any, axis: Any = 0, name: str | None = None) -> Any:
    """As many equal parts."""

def clip(x: X, min: Any = None, max: Any = None, name: str | None = None) -> X:
    """Each element, clamped between `min` and `max`."""

def clone(x: X, name: str | None = None) -> X:
    """A copy, through which gradients flow."""

def concat(x: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Several one after the other along a dimension; a tensor without dimensions counts as one of shape [1]."""

def conj(x: X, name: str | None = None) -> X:
    """The complex conjugate."""

def cos(x: X, name: str | None = None) -> X:
    """The cosine."""

def cosh(x: X, name: str | None = None) -> X:
    """The hyperbolic cosine."""

def crop(x: X, shape: Any = None, offsets: Any = None, name: str | None = None) -> X:
    """A part of `x`: of that shape, -1 being what is left, from the offsets on, 0 unless given."""

def cross(x: X, y: X, axis: Any = None, name: str | None = None) -> X:
    """The cross product along a dimension of size 3, the first such unless given."""

def cumprod(x: X, dim: Any = None, dtype: Any = None, name: str | None = None) -> X:
    """Products of all elements up to each."""

def cumsum(x: X, axis: Any = None, dtype: Any = None, name: str | None = None) -> X:
    """Sums of all up to each place: along a dimension, or of all in one row."""

def deg2rad(x: X, name: str | None = None) -> X:
    """Degrees as radians."""

def diag(x: X, offset: int = 0, padding_value: Any = 0, name: str | None = None) -> X:
    """A matrix with the diagonal `x`, and `padding_value` elsewhere; of a matrix, its diagonal."""

def diagflat(x: X, offset: int = 0, name: str | None = None) -> X:
    """A matrix with these values on its diagonal."""

def diagonal(x: X, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> X:
    """The diagonal of two dimensions."""

def diff(x: X, n: int = 1, axis: Any = -1, prepend: Any = None, append: Any = None, name: str | None = None) -> X:
    """Differences of neighbours, taken `n` times."""

def digamma(x: X, name: str | None = None) -> X:
    """The derivative of `lgamma`."""

def dist(x: X, y: X, p: Any = 2) -> X:
    """The `p`-norm of the difference."""

def divide(x: X, y: X, name: str | None = None) -> X:
    """x / y, element by element."""

def dot(x: X, y: X, name: str | None = None) -> X:
    """The sum of products of two vectors; of two matrices row by row."""

def empty(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Memory with whatever was there; a variable of zeros."""

def empty_like(x: X, dtype: Any = None, name: str | None = None) -> X:
    """Memory with whatever was there, in the shape and, unless given, the type of `x`; a variable of zeros."""

def equal(x: X, y: X, name: str | None = None) -> X:
    """x == y, element by element; 1.x writes it to `cond` if given."""

def equal_all(x: X, y: X, name: str | None = None) -> X:
    """Whether both are equal, everywhere."""

def erf(x: X, name: str | None = None) -> X:
    """The error function."""

def erfinv(x: X, name: str | None = None) -> X:
    """The inverse of `erf`."""

def exp(x: X, name: str | None = None) -> X:
    """e to the power x."""

def expand(x: X, shape: Any, name: str | None = None) -> X:
    """As if copied along dimensions of size 1; -1 keeps a size."""

def expand_as(x: X, y: X, name: str | None = None) -> X:
    """As if copied along dimensions of size 1, into the shape of `y`."""

def expm1(x: X, name: str | None = None) -> X:
    """exp(x) - 1."""

def eye(num_rows: Any, num_columns: Any = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones on the diagonal."""

def flatten(x: X, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> X:
    """The dimensions from one to another as one."""

def flatten_(x: X, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> X:
    """`flatten`, in place."""

def flip(x: X, axis: Any, name: str | None = None) -> X:
    """Back to front along some dimensions."""

def floor(x: X, name: str | None = None) -> X:
    """The largest whole number that is not above x."""

def floor_divide(x: X, y: X, name: str | None = None) -> X:
    """x / y, rounded down."""

def floor_mod(x: X, y: X, name: str | None = None) -> X:
    """The remainder of x / y, with the sign of y."""

def fmax(x: X, y: X, name: str | None = None) -> X:
    """The greater of two, or the one that is a number."""

def fmin(x: X, y: X, name: str | None = None) -> X:
    """The smaller of two, or the one that is a number."""

def full(shape: Any, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """One value everywhere."""

def full_like(x: X, fill_value: Any, dtype: Any = None, name: str | None = None) -> X:
    """One value everywhere, in the shape and, unless given, the type of `x`."""

def gather(x: X, index: Any, axis: Any = 0, name: str | None = None) -> X:
    """The entries along a dimension whose places `index` has."""

def gather_nd(x: X, index: X, name: str | None = None) -> X:
    """What is at each place; the last dimension of `index` counts along the first dimensions of the other."""

def gcd(x: X, y: X, name: str | None = None) -> X:
    """The greatest common divisor."""

def greater_equal(x: X, y: X, name: str | None = None) -> X:
    """x >= y, element by element; 1.x writes it to `cond` if given."""

def greater_than(x: X, y: X, name: str | None = None) -> X:
    """x > y, element by element; 1.x writes it to `cond` if given."""

def histogram(input: X, bins: int = 100, min: float = 0.0, max: float = 0.0, name: str | None = None) -> X:
    """How many values lie in each of `bins` equal parts of [min, max], or of the values' own range if both are 0."""

def imag(x: X, name: str | None = None) -> X:
    """The imaginary part."""

def increment(x: X, value: float = 1.0, name: str | None = None) -> X:
    """x + value, in place."""

def index_sample(x: X, index: Any) -> X:
    """Of each row the elements whose places the same row of `index` has."""

def index_select(x: X, index: Any, axis: Any = 0, name: str | None = None) -> X:
    """The entries along a dimension whose places `index` has."""

def inner(x: X, y: X, name: str | None = None) -> X:
    """Products of the last dimensions, added up."""

def inverse(x: X, name: str | None = None) -> X:
    """The inverse of a matrix, or of each of a batch."""

def is_complex(x: Any) -> Any:
    """Whether its elements are complex numbers."""

def is_empty(x: X, name: str | None = None) -> X:
    """Whether it has no elements."""

def is_floating_point(x: Any) -> Any:
    """Whether its elements are floats."""

def is_integer(x: Any) -> Any:
    """Whether its elements are whole numbers."""

def is_tensor(x: Any) -> bool:
    """Whether it is a tensor, or a variable of a program."""

def isclose(x: X, y: X, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, name: str | None = None) -> X:
    """Where |x - y| <= atol + rtol * |y|."""

def isfinite(x: X, name: str | None = None) -> X:
    """Which elements are neither infinite nor NaN."""

def isinf(x: X, name: str | None = None) -> X:
    """Which elements are infinite."""

def isnan(x: X, name: str | None = None) -> X:
    """Which elements are NaN."""

def kron(x: X, y: X, name: str | None = None) -> X:
    """The Kronecker product."""

def kthvalue(x: Any, k: Any, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The k-th smallest along a dimension, and where it is."""

def lcm(x: X, y: X, name: str | None = None) -> X:
    """The least common multiple."""

def lerp(x: X, y: X, weight: Any, name: str | None = None) -> X:
    """x + weight * (y - x)."""

def less_equal(x: X, y: X, name: str | None = None) -> X:
    """x <= y, element by element; 1.x writes it to `cond` if given."""

def less_than(x: X, y: X, name: str | None = None) -> X:
    """x < y, element by element; 1.x writes it to `cond` if given."""

def lgamma(x: X, name: str | None = None) -> X:
    """The logarithm of the gamma function."""

def linspace(start: Any, stop: Any, num: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """`num` numbers from `start` to `stop`, both included."""

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

def masked_select(x: X, mask: Any, name: str | None = None) -> X:
    """The elements where the mask is True, in one row."""

def matmul(x: X, y: X, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None) -> X:
    """The product of matrices, or of batches of them; a vector is a row on the left and a column on the right."""

def max(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The largest element over some dimensions, or over all; equal ones share the gradient."""

def maximum(x: X, y: X, axis: Any = -1, name: str | None = None) -> X:
    """The larger of both."""

def mean(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The mean over some dimensions, or over all."""

def median(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The value in the middle, or the mean of the two that are."""

def min(x: X, axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The smallest element over some dimensions, or over all; equal ones share the gradient."""

def minimum(x: X, y: X, axis: Any = -1, name: str | None = None) -> X:
    """The smaller of both."""

def mm(input: X, mat2: X, name: str | None = None) -> X:
    """The product of two matrices."""

def mod(x: X, y: X, name: str | None = None) -> X:
    """The remainder of x / y, with the sign of y."""

def mode(x: Any, axis: Any = -1, keepdim: bool = False, name: str | None = None) -> Any:
    """The most frequent value along a dimension, and where it is."""

def moveaxis(x: X, source: Any, destination: Any, name: str | None = None) -> X:
    """Dimensions at other places."""

def multi_dot(x: X, name: str | None = None) -> X:
    """The product of several matrices."""

def multinomial(x: X, num_samples: int = 1, replacement: bool = False, name: str | None = None) -> X:
    """Places drawn by the probabilities in each row; the same one comes twice only with `replacement`."""

def multiplex(inputs: Any, index: Any, name: str | None = None) -> Any:
    """Row i of that one which `index[i]` says."""

def multiply(x: X, y: X, axis: Any = -1, name: str | None = None) -> X:
    """x * y, element by element."""

def mv(x: X, vec: X, name: str | None = None) -> X:
    """A matrix times a vector."""

def neg(x: X, name: str | None = None) -> X:
    """-x."""

def nonzero(x: Any, as_tuple: bool = False) -> Any:
    """The places of elements that are not 0, a row each; with `as_tuple` a column for each dimension."""

def norm(x: X, p: Any = 'fro', axis: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The length of vectors, by default the Frobenius norm of all elements."""

def normal(mean: float = 0.0, std: float = 1.0, shape: Any = None, name: str | None = None) -> Tensor:
    """Normally distributed numbers; where the mean or the deviation is a tensor, one for each of its elements."""

def not_equal(x: X, y: X, name: str | None = None) -> X:
    """x != y, element by element; 1.x writes it to `cond` if given."""

def numel(x: X, name: str | None = None) -> X:
    """The number of elements."""

def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones."""

def ones_like(x: X, dtype: Any = None, name: str | None = None) -> X:
    """Ones in the shape of `x`."""

def outer(x: X, y: X, name: str | None = None) -> X:
    """The product of each element of one with each of the other."""

def pow(x: X, y: Any, name: str | None = None) -> X:
    """x to the power of y, which may be a number."""

def prod(x: X, axis: Any = None, keepdim: bool = False, dtype: Any = None, name: str | None = None) -> X:
    """The product over some dimensions, or over all."""

def put_along_axis(arr: X, indices: Any, values: Any, axis: Any, reduce: str = 'assign') -> X:
    """Values written, added or multiplied to places along a dimension."""

def quantile(x: X, q: Any, axis: Any = None, keepdim: bool = False) -> X:
    """The value that a part `q` of the elements is below."""

def rad2deg(x: X, name: str | None = None) -> X:
    """Radians as degrees."""

def rand(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Numbers spread evenly over [0, 1)."""

def randint(low: int = 0, high: Any = None, shape: Any = (1,), dtype: Any = None, name: str | None = None) -> Tensor:
    """Whole numbers from `low` up to but not including `high`; with one bound, from 0 up to it."""

def randn(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Normally distributed numbers of mean 0 and deviation 1."""

def randperm(n: Any, dtype: Any = 'int64', name: str | None = None) -> Tensor:
    """The numbers from 0 to n - 1, mixed."""

def rank(input: X) -> X:
    """The number of dimensions."""

def real(x: X, name: str | None = None) -> X:
    """The real part."""

def reciprocal(x: X, name: str | None = None) -> X:
    """1 / x."""

def remainder(x: X, y: X, name: str | None = None) -> X:
    """The remainder of x / y, with the sign of y."""

def repeat_interleave(x: X, repeats: Any, axis: Any = None, name: str | None = None) -> X:
    """Each element several times over."""

def reshape(x: X, shape: Any, name: str | None = None) -> X:
    """The same elements in another shape: 0 copies a size of `x`, one -1 is found from the others."""

def reshape_(x: X, shape: Any, name: str | None = None) -> X:
    """`reshape`, in place."""

def roll(x: X, shifts: Any, axis: Any = None, name: str | None = None) -> X:
    """The entries further by `shifts`, those from the end at the start; without `axis` as if in one row."""

def rot90(x: X, k: int = 1, axes: Any = (0, 1), name: str | None = None) -> X:
    """Turned by `k` right angles."""

def round(x: X, name: str | None = None) -> X:
    """The nearest whole number; a half goes away from zero."""

def rsqrt(x: X, name: str | None = None) -> X:
    """1 / sqrt(x)."""

def scale(x: X, scale: Any = 1.0, bias: float = 0.0, bias_after_scale: bool = True, act: str | None = None, name: str | None = None) -> X:
    """scale * x + bias, or scale * (x + bias); then `act`, the name of one of `nn.functional`."""

def scatter(x: X, index: X, updates: X, overwrite: bool = True, name: str | None = None) -> X:
    """Other rows at some places: those of `updates`, or without `overwrite` the sum of those for each."""

def scatter_(x: X, index: Any, updates: Any, overwrite: bool = True, name: str | None = None) -> X:
    """`scatter`, in place."""

def scatter_nd(index: X, updates: Any, shape: Any, name: str | None = None) -> X:
    """Zeros with `updates` added at places of several dimensions."""

def scatter_nd_add(x: X, index: Any, updates: Any, name: str | None = None) -> X:
    """`x` with `updates` added at places of several dimensions."""

def searchsorted(sorted_sequence: X, values: X, out_int32: bool = False, right: bool = False, name: str | None = None) -> X:
    """Where values would be put in so that the sequence stays sorted."""

def shape(input: X) -> X:
    """The sizes, int32; those of a variable in this batch."""

def shard_index(input: X, index_num: Any, nshards: Any, shard_id: Any, ignore_value: int = -1) -> X:
    """Ids as places in the part of `index_num` that shard `shard_id` has, `ignore_value` for those of other shards."""

def sign(x: X, name: str | None = None) -> X:
    """-1, 0 or 1 for each element."""

def sin(x: X, name: str | None = None) -> X:
    """The sine."""

def sinh(x: X, name: str | None = None) -> X:
    """The hyperbolic sine."""

def slice(input: X, axes: Any, starts: Any, ends: Any, name: str | None = None) -> X:
    """The elements from `starts` up to but without `ends` along `axes`; negative numbers count from the end."""

def sort(x: X, axis: Any = -1, descending: bool = False, name: str | None = None) -> X:
    """The values in order along a dimension; their places are `argsort`."""

def split(x: Any, num_or_sections: Any, axis: Any = 0, name: str | None = None) -> Any:
    """As many equal parts, or parts of these sizes, one of which may be -1 for the rest."""

def sqrt(x: X, name: str | None = None) -> X:
    """The square root."""

def square(x: X, name: str | None = None) -> X:
    """x * x."""

def squeeze(x: X, axis: Any = None, name: str | None = None) -> X:
    """Without some dimensions of size 1; without all of them if none are given."""

def squeeze_(x: X, axis: Any = None, name: str | None = None) -> X:
    """`squeeze`, in place."""

def stack(x: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Several of one shape side by side along a new dimension."""

def standard_normal(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Normally distributed numbers of mean 0 and deviation 1."""

def stanh(x: X, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> X:
    """scale_b * tanh(scale_a * x), element by element."""

def std(x: X, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> X:
    """The standard deviation: of a sample, or of all there is without `unbiased`."""

def strided_slice(x: X, axes: Any, starts: Any, ends: Any, strides: Any, name: str | None = None) -> X:
    """Every `strides`-th element from `starts` up to but without `ends` along `axes`; below 0 backwards."""

def subtract(x: X, y: X, name: str | None = None) -> X:
    """x - y, element by element."""

def sum(x: X, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> X:
    """The sum over some dimensions, or over all."""

def t(input: X, name: str | None = None) -> X:
    """A matrix with rows as columns; a vector stays."""

def take_along_axis(arr: X, indices: X, axis: Any) -> X:
    """Elements from places along a dimension."""

def tan(x: X, name: str | None = None) -> X:
    """The tangent."""

def tanh(x: X, name: str | None = None) -> X:
    """The hyperbolic tangent."""

def tanh_(x: X, name: str | None = None) -> X:
    """`tanh`, in place."""

def tensordot(x: X, y: X, axes: int = 2, name: str | None = None) -> X:
    """Products over some dimensions of both, added up."""

def tile(x: X, repeat_times: Any, name: str | None = None) -> X:
    """As many copies along each dimension; more numbers than dimensions make new ones."""

def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Tensor:
    """A tensor or variable of numbers, lists or an array; gradients flow to it only with `stop_gradient=False`."""

def topk(x: Any, k: Any, axis: Any = None, largest: bool = True, sorted: bool = True, name: str | None = None) -> Any:
    """The `k` greatest values along a dimension, the last unless given, and their places."""

def trace(x: X, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> X:
    """The sum of a diagonal."""

def transpose(x: X, perm: Any, name: str | None = None) -> X:
    """The dimensions in another order: dimension i of the result is `perm[i]` of `x`."""

def tril(x: X, diagonal: int = 0, name: str | None = None) -> X:
    """What is on and below a diagonal, zeros above."""

def triu(x: X, diagonal: int = 0, name: str | None = None) -> X:
    """What is on and above a diagonal, zeros below."""

def trunc(x: X, name: str | None = None) -> X:
    """x without what is behind the point."""

def unbind(input: Any, axis: Any = 0) -> Any:
    """The entries along a dimension."""

def uniform(shape: Any, dtype: Any = None, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None) -> Tensor:
    """Numbers spread evenly over [min, max); with a `seed` the same each time."""

def unique(x: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None, dtype: Any = 'int64', name: str | None = None) -> Any:
    """The distinct values in order; if asked for, where each is first, which each element is, how many of each."""

def unsqueeze(x: X, axis: Any, name: str | None = None) -> X:
    """With more dimensions of size 1, which are there in the result; tensors get one after the other."""

def unsqueeze_(x: X, axis: Any, name: str | None = None) -> X:
    """`unsqueeze`, in place."""

def unstack(x: Any, axis: Any = 0, num: Any = None) -> Any:
    """The entries along a dimension; `num` is how many there are, where a script says so."""

def var(x: X, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> X:
    """The variance: of a sample, or of all there is without `unbiased`."""

def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`x` where the condition holds, else `y`; with the condition alone, the places where it holds."""

def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros."""

def zeros_like(x: X, dtype: Any = None, name: str | None = None) -> X:
    """Zeros in the shape of `x`."""

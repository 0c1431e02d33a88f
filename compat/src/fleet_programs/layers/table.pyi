"""Layers made from the definitions of operators; `make docs` writes this stub."""
# ruff: noqa: E501, N803  (one line per layer, with scripts' names)
# fmt: off

from collections.abc import Sequence
from typing import Any

from fleet_programs.program.variable import Variable

__all__ = ['abs', 'acos', 'argmax', 'argmin', 'argsort', 'asin', 'atan', 'bpr_loss', 'brelu', 'ceil', 'clip', 'clip_by_norm', 'concat', 'cos', 'cos_sim', 'cosh', 'crop', 'cross_entropy', 'cumsum', 'elementwise_add', 'elementwise_div', 'elementwise_floordiv', 'elementwise_max', 'elementwise_min', 'elementwise_mod', 'elementwise_mul', 'elementwise_pow', 'elementwise_sub', 'elu', 'equal', 'erf', 'exp', 'expand', 'expand_as', 'fill_constant', 'fill_constant_batch_size_like', 'flatten', 'floor', 'gather', 'gather_nd', 'gaussian_random', 'gaussian_random_batch_size_like', 'gelu', 'greater_equal', 'greater_than', 'hard_shrink', 'hard_sigmoid', 'hard_swish', 'has_inf', 'has_nan', 'hinge_loss', 'huber_loss', 'isfinite', 'kldiv_loss', 'l2_normalize', 'leaky_relu', 'less_equal', 'less_than', 'linspace', 'log', 'log_loss', 'log_softmax', 'logical_and', 'logical_not', 'logical_or', 'logical_xor', 'logsigmoid', 'lrn', 'margin_rank_loss', 'matmul', 'maxout', 'mean', 'mul', 'multiplex', 'not_equal', 'one_hot', 'ones_like', 'pad', 'pow', 'randint', 'range', 'rank_loss', 'reciprocal', 'reduce_all', 'reduce_any', 'reduce_max', 'reduce_mean', 'reduce_min', 'reduce_prod', 'reduce_sum', 'relu', 'relu6', 'reshape', 'reverse', 'round', 'rsqrt', 'sampling_id', 'scale', 'scatter', 'selu', 'shape', 'shard_index', 'shuffle_batch', 'sigmoid', 'sigmoid_cross_entropy_with_logits', 'sign', 'sin', 'sinh', 'slice', 'smooth_l1', 'soft_relu', 'softmax', 'softplus', 'softshrink', 'softsign', 'sqrt', 'square', 'squeeze', 'stack', 'stanh', 'strided_slice', 'sum', 'sums', 'swish', 'tanh', 'tanh_shrink', 'thresholded_relu', 'topk', 'transpose', 'uniform_random', 'uniform_random_batch_size_like', 'unique', 'unique_with_counts', 'unsqueeze', 'zeros_like']

def abs(x: Variable, name: str | None = None) -> Variable:
    """The absolute value."""

def acos(x: Variable, name: str | None = None) -> Variable:
    """The arccosine."""

def argmax(x: Variable, axis: Any = 0) -> Variable:
    """The index of the largest element along an axis."""

def argmin(x: Variable, axis: Any = 0) -> Variable:
    """The index of the smallest element along an axis."""

def argsort(input: Variable, axis: Any = -1, descending: bool = False, name: str | None = None) -> tuple[Variable, Variable]:
    """(the elements in order along an axis, where each was)."""

def asin(x: Variable, name: str | None = None) -> Variable:
    """The arcsine."""

def atan(x: Variable, name: str | None = None) -> Variable:
    """The arctangent."""

def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """Bayesian personalised ranking: the mean of -log(sigmoid(score of the label - score of each other item))."""

def brelu(x: Variable, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Variable:
    """x, clamped between `t_min` and `t_max`."""

def ceil(x: Variable, name: str | None = None) -> Variable:
    """The smallest whole number that is not below x."""

def clip(x: Variable, min: Any, max: Any, name: str | None = None) -> Variable:
    """Each element, clamped between `min` and `max`."""

def clip_by_norm(x: Variable, max_norm: Any, name: str | None = None) -> Variable:
    """x, scaled down so that its Euclidean norm is at most `max_norm`."""

def concat(input: Sequence[Variable] | Variable, axis: Any = 0, name: str | None = None) -> Variable:
    """Several one after the other along a dimension; a tensor without dimensions counts as one of shape [1]."""

def cos(x: Variable, name: str | None = None) -> Variable:
    """The cosine."""

def cos_sim(X: Variable, Y: Variable) -> Variable:
    """The cosine between each row of X and that of Y, or the only one of Y; shape [rows, 1]."""

def cosh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic cosine."""

def crop(x: Variable, shape: Any, offsets: Any = None, name: str | None = None) -> Variable:
    """The part of `x` of this shape that begins at `offsets`; -1 takes the rest of a dimension."""

def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100) -> Variable:
    """-log of the probability that `input` gives to each row's label; 0 for rows labelled `ignore_index`.

    `input` are probabilities, as softmax gives them. With `soft_label` the label is a distribution over the classes.
    """

def cumsum(x: Variable, axis: Any = None, exclusive: Any = None, reverse: Any = None) -> Variable:
    """The sum of all elements up to each along an axis; without itself if `exclusive`, from the end if `reverse`."""

def elementwise_add(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x + y; y is laid beside x from dimension `axis` of x on."""

def elementwise_div(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x / y, element by element."""

def elementwise_floordiv(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x / y, rounded down."""

def elementwise_max(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The larger of both."""

def elementwise_min(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The smaller of both."""

def elementwise_mod(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The remainder of x / y, with the sign of y."""

def elementwise_mul(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x * y, element by element."""

def elementwise_pow(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x to the power y, element by element."""

def elementwise_sub(x: Variable, y: Variable, axis: Any = -1, act: str | None = None, name: str | None = None) -> Variable:
    """x - y, element by element."""

def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""

def equal(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x == y, element by element; 1.x writes it to `cond` if given."""

def erf(x: Variable, name: str | None = None) -> Variable:
    """The error function."""

def exp(x: Variable, name: str | None = None) -> Variable:
    """e to the power x."""

def expand(x: Variable, expand_times: Any, name: str | None = None) -> Variable:
    """x repeated along each dimension so many times."""

def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """`x` repeated until it has the shape of another variable."""

def fill_constant(shape: Any, dtype: Any, value: Any, force_cpu: bool = False, out: Any = None) -> Variable:
    """`value` everywhere, as `out` if given; sizes may be variables, such as `shape(x)[0]`."""

def fill_constant_batch_size_like(input: Variable, shape: Any, dtype: Any, value: Any, input_dim_idx: int = 0, output_dim_idx: int = 0, force_cpu: bool = False) -> Variable:
    """A constant of this shape, but of the size of a dimension of `input` (its batch) along one dimension."""

def flatten(x: Variable, axis: Any = 1, name: str | None = None) -> Variable:
    """A matrix of the first `axis` dimensions and of the rest."""

def floor(x: Variable, name: str | None = None) -> Variable:
    """The largest whole number that is not above x."""

def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """The rows of `input` at `index`; the gradients of a row that is taken twice are added."""

def gather_nd(input: Variable, index: Variable, name: str | None = None) -> Variable:
    """What is at each place; the last dimension of `index` counts along the first dimensions of the other."""

def gaussian_random(shape: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = 'float32', name: str | None = None) -> Variable:
    """Normally distributed."""

def gaussian_random_batch_size_like(input: Variable, shape: Any, input_dim_idx: int = 0, output_dim_idx: int = 0, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = 'float32') -> Variable:
    """`gaussian_random`, of the size of a dimension of `input` (its batch) along one dimension."""

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

def hard_swish(x: Variable, threshold: float = 6.0, scale: Any = 6.0, offset: float = 3.0, name: str | None = None) -> Variable:
    """x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3."""

def has_inf(x: Variable) -> Variable:
    """Whether an element is infinite."""

def has_nan(x: Variable) -> Variable:
    """Whether an element is NaN."""

def hinge_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """How much a score falls short of 1 on the side of its label, which is 0 or 1."""

def huber_loss(input: Variable, label: Variable, delta: Any) -> Variable:
    """Half the squared error, from `delta` on growing no faster than the error."""

def isfinite(x: Variable) -> Variable:
    """Whether all elements are neither infinite nor NaN."""

def kldiv_loss(x: Variable, target: Variable, reduction: str = 'mean', name: str | None = None) -> Variable:
    """The Kullback-Leibler divergence of `target` from exp(x); reduction none, mean, sum or batchmean."""

def l2_normalize(x: Variable, axis: Any, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """x divided by its length along `axis`."""

def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """x where it is positive, a fraction of x (`alpha`, in 2.0 `negative_slope`) elsewhere."""

def less_equal(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x <= y, element by element; 1.x writes it to `cond` if given."""

def less_than(x: Variable, y: Variable, force_cpu: Any = None, cond: Any = None) -> Variable:
    """x < y, element by element; 1.x writes it to `cond` if given."""

def linspace(start: Any, stop: Any, num: Any, dtype: Any) -> Variable:
    """`num` values at equal distances from `start` to `stop`."""

def log(x: Variable, name: str | None = None) -> Variable:
    """The natural logarithm."""

def log_loss(input: Variable, label: Variable, epsilon: float = 0.0001, name: str | None = None) -> Variable:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), for probabilities."""

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

def lrn(input: Variable, n: int = 5, k: float = 1.0, alpha: float = 0.0001, beta: float = 0.75, name: str | None = None, data_format: str = 'NCHW') -> Variable:
    """Each value divided by `(k + alpha * sum of squares) ** beta` of the `n` channels around it."""

def margin_rank_loss(label: Variable, left: Variable, right: Variable, margin: float = 0.1, name: str | None = None) -> Variable:
    """How much `label` (1 or -1) times (left - right) falls short of `margin`."""

def matmul(x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0, name: str | None = None) -> Variable:
    """The product of matrices, or of batches of them; a vector is a row on the left and a column on the right."""

def maxout(x: Variable, groups: Any, name: str | None = None, axis: Any = 1) -> Variable:
    """The largest of each `groups` neighbouring channels."""

def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements."""

def mul(x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None) -> Variable:
    """The product of two matrices, whose rows are the first `num_col_dims` dimensions of each and columns the rest."""

def multiplex(inputs: Sequence[Variable] | Variable, index: Variable) -> Variable:
    """Row i of that one which `index[i]` says."""

def not_equal(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x != y, element by element; 1.x writes it to `cond` if given."""

def one_hot(input: Variable, depth: Any, allow_out_of_range: bool = False) -> Variable:
    """For each class of [..., 1] a row of [..., depth] that is 1 there; zeros for one past `depth`, if allowed."""

def ones_like(x: Variable, out: Any = None) -> Variable:
    """1 everywhere, shaped as `x`."""

def pad(x: Variable, paddings: Any, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """x with `pad_value` around it: how many before and after, for each dimension."""

def pow(x: Variable, factor: float = 1.0, name: str | None = None) -> Variable:
    """x to the power `factor`."""

def randint(low: int = 0, high: Any = None, shape: Any = (1,), dtype: Any = 'int64', seed: int = 0, name: str | None = None) -> Variable:
    """Whole numbers from `low` to below `high`; from 0 to below `low` if that is the only one."""

def range(start: Any, end: Any, step: Any, dtype: Any) -> Variable:
    """start, start + step, ... up to but without `end`."""

def rank_loss(label: Variable, left: Variable, right: Variable, name: str | None = None) -> Variable:
    """RankNet's: the cross entropy of `left is before right` with the probability sigmoid(left - right)."""

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

def reshape(x: Variable, shape: Any, actual_shape: Any = None, act: str | None = None, inplace: bool = False, name: str | None = None) -> Variable:
    """The same elements in another shape: 0 copies a size of `x`, one -1 is found from the others."""

def reverse(x: Variable, axis: Any) -> Variable:
    """Back to front along some dimensions."""

def round(x: Variable, name: str | None = None) -> Variable:
    """The nearest whole number; a half goes away from zero."""

def rsqrt(x: Variable, name: str | None = None) -> Variable:
    """1 / sqrt(x)."""

def sampling_id(x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: Any = 'int64') -> Variable:
    """A class for each row of probabilities [rows, classes], drawn by them."""

def scale(x: Variable, scale: Any = 1.0, bias: float = 0.0, bias_after_scale: bool = True, act: str | None = None, name: str | None = None) -> Variable:
    """x * scale + bias, or (x + bias) * scale without `bias_after_scale`."""

def scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None, overwrite: bool = True) -> Variable:
    """Other rows at some places: those of `updates`, or without `overwrite` the sum of those for each."""

def selu(x: Variable, scale: Any = None, alpha: Any = None, name: str | None = None) -> Variable:
    """scale * elu(x, alpha); the default values keep mean 0 and variance 1."""

def shape(input: Variable) -> Variable:
    """The sizes, int32; those of a variable in this batch."""

def shard_index(input: Variable, index_num: Any, nshards: Any, shard_id: Any, ignore_value: int = -1) -> Variable:
    """Ids as places in the part of `index_num` that shard `shard_id` has, `ignore_value` for those of other shards."""

def shuffle_batch(x: Variable, seed: Any = None) -> Variable:
    """The rows of `x` (all dimensions but the last are one) in another order in every run; a `seed` begins them."""

def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """1 / (1 + exp(-x)), element by element."""

def sigmoid_cross_entropy_with_logits(x: Variable, label: Variable, ignore_index: int = -100, name: str | None = None, normalize: bool = False) -> Variable:
    """The cross entropy of sigmoid(x) with a probability, by element; 0 where the label is `ignore_index`.

    With `normalize` it is divided by the number of elements that are not ignored.
    """

def sign(x: Variable) -> Variable:
    """-1, 0 or 1 for each element."""

def sin(x: Variable, name: str | None = None) -> Variable:
    """The sine."""

def sinh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic sine."""

def slice(input: Variable, axes: Any, starts: Any, ends: Any) -> Variable:
    """The elements from `starts` up to but without `ends` along `axes`; negative numbers count from the end."""

def smooth_l1(x: Variable, y: Variable, inside_weight: Variable | None = None, outside_weight: Variable | None = None, sigma: Any = None) -> Variable:
    """For each row the sum of absolute errors, which are squared where they are below 1 / sigma^2.

    `inside_weight` scales the errors, `outside_weight` what becomes of them.
    """

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

def squeeze(input: Variable, axes: Any, name: str | None = None) -> Variable:
    """Without some dimensions of size 1; without all of them if none are given."""

def stack(x: Sequence[Variable] | Variable, axis: Any = 0) -> Variable:
    """Several of one shape side by side along a new dimension."""

def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """scale_b * tanh(scale_a * x), element by element."""

def strided_slice(input: Variable, axes: Any, starts: Any, ends: Any, strides: Any) -> Variable:
    """Every `strides`-th element from `starts` up to but without `ends` along `axes`; below 0 backwards."""

def sum(x: Sequence[Variable] | Variable) -> Variable:
    """The sum of several variables of one shape."""

def sums(input: Sequence[Variable] | Variable, out: Any = None) -> Variable:
    """The sum of several variables of one shape, as `out` if given."""

def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x * sigmoid(beta * x); beta is 1 in 2.0."""

def tanh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic tangent."""

def tanh_shrink(x: Variable, name: str | None = None) -> Variable:
    """x - tanh(x), element by element."""

def thresholded_relu(x: Variable, threshold: float = 1.0) -> Variable:
    """x where it is above `threshold`, 0 elsewhere."""

def topk(input: Variable, k: Any, name: str | None = None) -> tuple[Variable, Variable]:
    """(the `k` largest values along the last dimension, their indexes), largest first."""

def transpose(x: Variable, perm: Any, name: str | None = None) -> Variable:
    """The dimensions in another order: dimension i of the result is `perm[i]` of `x`."""

def uniform_random(shape: Any, dtype: Any = 'float32', min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None) -> Variable:
    """Spread evenly from `min` to `max`."""

def uniform_random_batch_size_like(input: Variable, shape: Any, dtype: Any = 'float32', input_dim_idx: int = 0, output_dim_idx: int = 0, min: float = -1.0, max: float = 1.0, seed: int = 0) -> Variable:
    """`uniform_random`, of the size of a dimension of `input` (its batch) along one dimension."""

def unique(x: Variable, dtype: Any = 'int32') -> tuple[Variable, Variable]:
    """(the distinct values of [n], in the order in which they come first; which of them each element is)."""

def unique_with_counts(x: Variable, dtype: Any = 'int32') -> tuple[Variable, Variable, Variable]:
    """`unique`, and how often each value is there."""

def unsqueeze(input: Variable, axes: Any, name: str | None = None) -> Variable:
    """With more dimensions of size 1, which are there in the result; tensors get one after the other."""

def zeros_like(x: Variable, out: Any = None) -> Variable:
    """0 everywhere, shaped as `x`."""

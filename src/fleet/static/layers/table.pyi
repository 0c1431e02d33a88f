"""Layers made from the definitions of operators; `make docs` writes this stub."""
# ruff: noqa: E501, N803  (one line for each layer; cos_sim's X and Y)
# fmt: off

from typing import Any

from fleet.static.variable import Variable

__all__ = ['abs', 'acos', 'asin', 'atan', 'bpr_loss', 'brelu', 'ceil', 'clip', 'clip_by_norm', 'continuous_value_model', 'cos', 'cos_sim', 'cosh', 'cross_entropy', 'cumsum', 'elementwise_add', 'elementwise_div', 'elementwise_floordiv', 'elementwise_max', 'elementwise_min', 'elementwise_mod', 'elementwise_mul', 'elementwise_pow', 'elementwise_sub', 'elu', 'equal', 'erf', 'exp', 'floor', 'gelu', 'greater_equal', 'greater_than', 'hard_shrink', 'hard_sigmoid', 'hard_swish', 'has_inf', 'has_nan', 'hash', 'hinge_loss', 'huber_loss', 'isfinite', 'kldiv_loss', 'l2_normalize', 'leaky_relu', 'less_equal', 'less_than', 'log', 'log_loss', 'log_softmax', 'logical_and', 'logical_not', 'logical_or', 'logical_xor', 'logsigmoid', 'lrn', 'margin_rank_loss', 'matmul', 'maxout', 'mean', 'mul', 'not_equal', 'pad2d', 'pad_constant_like', 'pixel_shuffle', 'pow', 'rank_loss', 'reciprocal', 'reduce_all', 'reduce_any', 'reduce_max', 'reduce_mean', 'reduce_min', 'reduce_prod', 'reduce_sum', 'relu', 'relu6', 'resize_bilinear', 'resize_linear', 'resize_nearest', 'resize_trilinear', 'round', 'rsqrt', 'scatter_nd_add', 'selu', 'sequence_enumerate', 'sequence_erase', 'sequence_mask', 'sequence_reshape', 'sequence_reverse', 'sequence_slice', 'sequence_softmax', 'sequence_unpad', 'shuffle_channel', 'sigmoid', 'sigmoid_cross_entropy_with_logits', 'sign', 'sin', 'sinh', 'smooth_l1', 'soft_relu', 'softmax', 'softplus', 'softshrink', 'softsign', 'space_to_depth', 'sqrt', 'square', 'stanh', 'swish', 'tanh', 'tanh_shrink', 'teacher_student_sigmoid_loss', 'thresholded_relu']

def abs(x: Variable, name: str | None = None) -> Variable:
    """The absolute value."""

def acos(x: Variable, name: str | None = None) -> Variable:
    """The arccosine."""

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

def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """Embeddings [rows, 2 + width] that begin with counts: log(shows + 1) and log of the ratio of clicks to shows.

    Without `use_cvm` the counts are left out. `cvm` is [rows, 2], the shows and clicks of this batch, which the first
    two columns get as their gradient; of a ragged `input` it has one row for each row.
    """

def cos(x: Variable, name: str | None = None) -> Variable:
    """The cosine."""

def cos_sim(X: Variable, Y: Variable) -> Variable:
    """The cosine between each row of X and that of Y, or the only one of Y; shape [rows, 1]."""

def cosh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic cosine."""

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

def hard_swish(x: Variable, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None) -> Variable:
    """x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3."""

def has_inf(x: Variable) -> Variable:
    """Whether an element is infinite."""

def has_nan(x: Variable) -> Variable:
    """Whether an element is NaN."""

def hash(input: Variable, hash_size: Any, num_hash: int = 1, name: str | None = None) -> Variable:
    """For each row of ids its xxHash with seeds 0, 1, ..., modulo `hash_size`: [rows, num_hash, 1]."""

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

def not_equal(x: Variable, y: Variable, cond: Any = None) -> Variable:
    """x != y, element by element; 1.x writes it to `cond` if given."""

def pad2d(input: Variable, paddings: Any = (0, 0, 0, 0), mode: str = 'constant', pad_value: float = 0.0, data_format: str = 'NCHW', name: str | None = None) -> Variable:
    """Images with so many more pixels above, below, left and right: `pad_value`, or the image again.

    `mode` is constant, reflect (as in a mirror on the outermost pixel) or edge (the outermost pixel).
    """

def pad_constant_like(x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """`y` with `pad_value` after it in each dimension, as large as `x`."""

def pixel_shuffle(x: Variable, upscale_factor: Any) -> Variable:
    """Channels become pixels: [n, c * r * r, h, w] to [n, c, h * r, w * r]."""

def pow(x: Variable, factor: float = 1.0, name: str | None = None) -> Variable:
    """x to the power `factor`."""

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

def resize_bilinear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True, align_mode: int = 1, data_format: str = 'NCHW') -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by the way called bilinear.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """

def resize_linear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True, align_mode: int = 1, data_format: str = 'NCW') -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by the way called linear.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """

def resize_nearest(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True, data_format: str = 'NCHW') -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by the way called nearest.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """

def resize_trilinear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Any = None, align_corners: bool = True, align_mode: int = 1, data_format: str = 'NCDHW') -> Variable:
    """Images of the size `out_shape`, or `scale` times as large, by the way called trilinear.

    With `align_corners` the pixels in the corners stay there; without it a pixel is at its centre (`align_mode` 0) or
    at its beginning (1).
    """

def round(x: Variable, name: str | None = None) -> Variable:
    """The nearest whole number; a half goes away from zero."""

def rsqrt(x: Variable, name: str | None = None) -> Variable:
    """1 / sqrt(x)."""

def scatter_nd_add(ref: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """`ref` with `updates` added at places; the last dimension of `index` counts along its first dimensions."""

def selu(x: Variable, scale: Any = None, alpha: Any = None, name: str | None = None) -> Variable:
    """scale * elu(x, alpha); the default values keep mean 0 and variance 1."""

def sequence_enumerate(input: Variable, win_size: Any, pad_value: int = 0, name: str | None = None) -> Variable:
    """For each id of a row itself and those after it, `win_size` in all; `pad_value` past the end of the row."""

def sequence_erase(input: Variable, tokens: Any, name: str | None = None) -> Variable:
    """Ids without those that `tokens` has; rows become shorter."""

def sequence_mask(x: Variable, maxlen: Any = None, dtype: Any = 'int64', name: str | None = None) -> Variable:
    """For each length a row of ones, as many as it says, and then zeros up to `maxlen` or the greatest length."""

def sequence_reshape(input: Variable, new_dim: Any) -> Variable:
    """Rows of another width: [values, width] becomes [values * width / new_dim, new_dim], row by row."""

def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """Each row from its end to its beginning."""

def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """Of row i the `length[i]` values from `offset[i]` on."""

def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Shares that sum to 1 within each row."""

def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """Padded rows cut to their lengths: ragged again."""

def shuffle_channel(x: Variable, group: Any, name: str | None = None) -> Variable:
    """The channels of `group` groups in turn."""

def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """1 / (1 + exp(-x)), element by element."""

def sigmoid_cross_entropy_with_logits(x: Variable, label: Variable, ignore_index: int = -100, name: str | None = None, normalize: bool = False) -> Variable:
    """The cross entropy of sigmoid(x) with a probability, element by element; 0 where the label is `ignore_index`.

    With `normalize` it is divided by the number of elements that are not ignored.
    """

def sign(x: Variable) -> Variable:
    """-1, 0 or 1 for each element."""

def sin(x: Variable, name: str | None = None) -> Variable:
    """The sine."""

def sinh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic sine."""

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

def space_to_depth(x: Variable, blocksize: Any, name: str | None = None) -> Variable:
    """Pixels become channels: [n, c, h * b, w * b] to [n, b * b * c, h, w]."""

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

def teacher_student_sigmoid_loss(input: Variable, label: Variable, soft_max_up_bound: float = 15.0, soft_max_lower_bound: float = -15.0) -> Variable:
    """The cross entropy of a click, and that of a teacher's probability where there is one.

    A `label` of -2 is no click, -1 a click, both without a teacher; with one it is the teacher's probability, plus 1
    for a click. Logits outside the bounds have no gradient.
    """

def thresholded_relu(x: Variable, threshold: float = 1.0) -> Variable:
    """x where it is above `threshold`, 0 elsewhere."""

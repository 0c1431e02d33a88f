"""Made from rows; `make docs` writes this stub."""
# ruff: noqa: E501  (a line for each)
# fmt: off

from typing import Any, TypeVar

__all__ = ['adaptive_avg_pool1d', 'adaptive_avg_pool2d', 'adaptive_avg_pool3d', 'adaptive_max_pool1d', 'adaptive_max_pool2d', 'adaptive_max_pool3d', 'affine_grid', 'alpha_dropout', 'avg_pool1d', 'avg_pool2d', 'avg_pool3d', 'batch_norm', 'bilinear', 'binary_cross_entropy', 'binary_cross_entropy_with_logits', 'celu', 'conv1d', 'conv1d_transpose', 'conv2d', 'conv2d_transpose', 'conv3d', 'conv3d_transpose', 'cosine_similarity', 'cross_entropy', 'ctc_loss', 'diag_embed', 'dice_loss', 'dropout', 'dropout2d', 'dropout3d', 'elu', 'elu_', 'embedding', 'gather_tree', 'gelu', 'glu', 'grid_sample', 'gumbel_softmax', 'hardshrink', 'hardsigmoid', 'hardswish', 'hardtanh', 'hsigmoid_loss', 'instance_norm', 'interpolate', 'kl_div', 'l1_loss', 'label_smooth', 'layer_norm', 'leaky_relu', 'linear', 'local_response_norm', 'log_loss', 'log_sigmoid', 'log_softmax', 'margin_ranking_loss', 'max_pool1d', 'max_pool2d', 'max_pool3d', 'maxout', 'mish', 'mse_loss', 'nll_loss', 'normalize', 'npair_loss', 'one_hot', 'pad', 'pixel_shuffle', 'prelu', 'relu', 'relu6', 'relu_', 'selu', 'sequence_mask', 'sigmoid', 'sigmoid_focal_loss', 'silu', 'smooth_l1_loss', 'softmax', 'softmax_', 'softmax_with_cross_entropy', 'softplus', 'softshrink', 'softsign', 'square_error_cost', 'swish', 'tanh_', 'tanhshrink', 'temporal_shift', 'thresholded_relu', 'unfold', 'upsample']

X = TypeVar("X")

def adaptive_avg_pool1d(x: X, output_size: Any, name: str | None = None) -> X:
    """The means of as many windows of sequences as `output_size` says; None is the size that it has."""

def adaptive_avg_pool2d(x: X, output_size: Any, data_format: str = 'NCHW', name: str | None = None) -> X:
    """The means of as many windows of images as `output_size` says; None is the size that it has."""

def adaptive_avg_pool3d(x: X, output_size: Any, data_format: str = 'NCDHW', name: str | None = None) -> X:
    """The means of as many windows of volumes as `output_size` says; None is the size that it has."""

def adaptive_max_pool1d(x: X, output_size: Any, return_mask: bool = False, name: str | None = None) -> X:
    """The greatest values of as many windows of sequences as `output_size` says; `return_mask` adds places."""

def adaptive_max_pool2d(x: X, output_size: Any, return_mask: bool = False, name: str | None = None) -> X:
    """The greatest values of as many windows of images as `output_size` says; `return_mask` adds places."""

def adaptive_max_pool3d(x: X, output_size: Any, return_mask: bool = False, name: str | None = None) -> X:
    """The greatest values of as many windows of volumes as `output_size` says; `return_mask` adds places."""

def affine_grid(theta: X, out_shape: Any, align_corners: bool = True, name: str | None = None) -> X:
    """Where each pixel of the output, [batch, channels, height, width], comes from, under affine maps [batch, 2, 3]."""

def alpha_dropout(x: X, p: Any = 0.5, training: bool = True, name: str | None = None) -> X:
    """While training, each value has selu's lowest with probability `p`; mean and variance stay what they were."""

def avg_pool1d(x: X, kernel_size: Any, stride: Any = None, padding: Any = 0, exclusive: bool = True, ceil_mode: bool = False, name: str | None = None) -> X:
    """The mean of each window of sequences; with `exclusive` zeros of the padding do not count."""

def avg_pool2d(x: X, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, exclusive: bool = True, divisor_override: Any = None, data_format: str = 'NCHW', name: str | None = None) -> X:
    """The mean of each window of images; with `exclusive` zeros of the padding do not count."""

def avg_pool3d(x: X, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, exclusive: bool = True, divisor_override: Any = None, data_format: str = 'NCDHW', name: str | None = None) -> X:
    """The mean of each window of volumes; with `exclusive` zeros of the padding do not count."""

def batch_norm(x: X, running_mean: X, running_var: X, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.9, epsilon: float = 1e-05, data_format: str = 'NCHW', use_global_stats: Any = None, name: str | None = None) -> X:
    """Each channel with mean 0 and variance 1: those of the batch while training, else the running ones.

    While training the running ones keep the share `momentum`, and get the rest of the batch's mean and biased variance.
    `use_global_stats` says outright which of them are meant. A single value of each channel stays as it is. A program
    that was built with `training` evaluates after `clone(for_test=True)`.
    """

def bilinear(x1: X, x2: X, weight: X, bias: X | None = None, name: str | None = None) -> X:
    """x1 times each matrix of weight, which is [out, in1, in2], times x2, plus bias."""

def binary_cross_entropy(input: X, label: X, weight: Any = None, reduction: str = 'mean', name: str | None = None) -> X:
    """The cross entropy of probabilities in [0, 1]."""

def binary_cross_entropy_with_logits(logit: X, label: X, weight: Any = None, reduction: str = 'mean', pos_weight: Any = None, name: str | None = None) -> X:
    """The cross entropy of sigmoid(logit) and label; `pos_weight` scales that of labels of 1."""

def celu(x: X, alpha: float = 1.0, name: str | None = None) -> X:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere."""

def conv1d(x: X, weight: X, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, data_format: str = 'NCL', name: str | None = None) -> X:
    """A convolution of sequences; the filter is [out_channels, in_channels / groups, sizes...]."""

def conv1d_transpose(x: X, weight: X, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1, output_size: Any = None, data_format: str = 'NCL', name: str | None = None) -> X:
    """A transposed convolution of sequences: the filter is [in_channels, out_channels / groups, sizes...].

    Several output sizes have the same input size: `output_padding` says how many more there are than the fewest, or
    `output_size` says how many there are.
    """

def conv2d(x: X, weight: X, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, data_format: str = 'NCHW', name: str | None = None) -> X:
    """A convolution of images; the filter is [out_channels, in_channels / groups, sizes...]."""

def conv2d_transpose(x: X, weight: X, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, dilation: Any = 1, groups: int = 1, output_size: Any = None, data_format: str = 'NCHW', name: str | None = None) -> X:
    """A transposed convolution of images: the filter is [in_channels, out_channels / groups, sizes...].

    Several output sizes have the same input size: `output_padding` says how many more there are than the fewest, or
    `output_size` says how many there are.
    """

def conv3d(x: X, weight: X, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, data_format: str = 'NCDHW', name: str | None = None) -> X:
    """A convolution of volumes; the filter is [out_channels, in_channels / groups, sizes...]."""

def conv3d_transpose(x: X, weight: X, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1, output_size: Any = None, data_format: str = 'NCDHW', name: str | None = None) -> X:
    """A transposed convolution of volumes: the filter is [in_channels, out_channels / groups, sizes...].

    Several output sizes have the same input size: `output_padding` says how many more there are than the fewest, or
    `output_size` says how many there are.
    """

def cosine_similarity(x1: X, x2: X, axis: Any = 1, eps: float = 1e-08) -> X:
    """The cosine of the angle between vectors; a product of lengths below `eps` counts as `eps`."""

def cross_entropy(input: X, label: X, weight: Any = None, ignore_index: int = -100, reduction: str = 'mean', soft_label: bool = False, axis: Any = -1, use_softmax: bool = True, name: str | None = None) -> X:
    """-log of the probability of each label, where `input` are scores, or probabilities without `use_softmax`.

    A label may have a size of 1 along `axis`, or lack that dimension. With `soft_label` it is a distribution over the
    classes. `weight` has a number for each class, and a mean is then the weighted one. Without a reduction the losses
    have the label's shape, with a size of 1 along `axis` where that is a distribution. The mean over labels that are
    all ignored is 0.
    """

def ctc_loss(log_probs: X, labels: X, input_lengths: X, label_lengths: X, blank: int = 0, reduction: str = 'mean', norm_by_times: bool = False) -> X:
    """-log of the probability that scores [time, batch, classes] spell the labels, repeats and blanks left out.

    The scores are what comes before softmax. The mean is that of losses divided by the lengths of their labels. With
    `norm_by_times` gradients are divided by the number of time steps, and the loss is the same.
    """

def diag_embed(input: X, offset: int = 0, dim1: int = -2, dim2: int = -1) -> X:
    """Matrices with the last dimension on a diagonal."""

def dice_loss(input: X, label: X, epsilon: float = 1e-05, name: str | None = None) -> X:
    """1 - twice the overlap of probabilities [batch, ..., classes] and labels [batch, ..., 1] over both sums."""

def dropout(x: X, p: Any = 0.5, axis: Any = None, training: bool = True, mode: str = 'upscale_in_train', name: str | None = None) -> X:
    """While training, each value is zero with probability `p`; those that stay grow.

    With the mode "downscale_in_infer" all shrink in evaluation instead. With `axis`, a dimension or several, values at
    one place along those are zero together. A program that was built with `training` evaluates after
    `clone(for_test=True)`.
    """

def dropout2d(x: X, p: Any = 0.5, training: bool = True, data_format: str = 'NCHW', name: str | None = None) -> X:
    """While training, each channel of each image is zero with probability `p`; those that stay grow."""

def dropout3d(x: X, p: Any = 0.5, training: bool = True, data_format: str = 'NCDHW', name: str | None = None) -> X:
    """While training, each channel of each volume is zero with probability `p`; those that stay grow."""

def elu(x: X, alpha: float = 1.0, name: str | None = None) -> X:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""

def elu_(x: X, alpha: float = 1.0, name: str | None = None) -> X:
    """`elu`, in place."""

def embedding(x: X, weight: X, padding_idx: Any = None, sparse: bool = False, name: str | None = None) -> X:
    """The rows of `weight` for the ids in `x`; that of `padding_idx` reads as zeros and is not trained."""

def gather_tree(ids: X, parents: X) -> X:
    """Whole ways of a beam search, [time, batch, beam], from each step's ids and the beams that they came from."""

def gelu(x: X, approximate: bool = False, name: str | None = None) -> X:
    """x times the probability that a standard normal variable is below x; `approximate` uses a tanh."""

def glu(x: X, axis: Any = -1, name: str | None = None) -> X:
    """One half times the sigmoid of the other half."""

def grid_sample(x: X, grid: X, mode: str = 'bilinear', padding_mode: str = 'zeros', align_corners: bool = True, name: str | None = None) -> X:
    """The image at the places that the grid, [batch, height, width, 2], names, from -1 to 1."""

def gumbel_softmax(x: X, temperature: float = 1.0, hard: bool = False, axis: Any = -1, name: str | None = None) -> X:
    """A softmax of scores and noise: a drawn class, through which gradients flow."""

def hardshrink(x: X, threshold: float = 0.5, name: str | None = None) -> X:
    """x, and 0 where it is no further than `threshold` from 0."""

def hardsigmoid(x: X, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> X:
    """slope * x + offset, clamped between 0 and 1."""

def hardswish(x: X, name: str | None = None) -> X:
    """x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3."""

def hardtanh(x: X, min: float = -1.0, max: float = 1.0, name: str | None = None) -> X:
    """x, clamped between `min` and `max`."""

def hsigmoid_loss(input: X, label: X, num_classes: Any, weight: Any, bias: Any = None, path_table: Any = None, path_code: Any = None, is_sparse: bool = False, name: str | None = None) -> X:
    """The cross entropy of every decision on the way to a class in a binary tree, [batch, 1].

    The tree is complete, or its ways are given: `path_table` has the nodes of each example's, -1 after its end, and
    `path_code` which side it takes there. With `is_sparse` the weight's gradient, of tensors, has only the rows that
    were passed.
    """

def instance_norm(x: X, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None, use_input_stats: bool = True, momentum: float = 0.9, eps: float = 1e-05, data_format: str = 'NCHW', name: str | None = None) -> X:
    """Each channel of each image with mean 0 and variance 1; nothing is kept, so `momentum` says nothing."""

def interpolate(x: X, size: Any = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool = False, align_mode: int = 0, data_format: str = 'NCHW', name: str | None = None) -> X:
    """Another size, or that many times the size: modes nearest, linear, bilinear, trilinear, bicubic and area."""

def kl_div(input: X, label: X, reduction: str = 'mean', name: str | None = None) -> X:
    """The divergence of `label` from exp(input); reduction mean, sum, none or batchmean."""

def l1_loss(input: X, label: X, reduction: str = 'mean', name: str | None = None) -> X:
    """The absolute error."""

def label_smooth(label: X, prior_dist: Any = None, epsilon: float = 0.1, name: str | None = None) -> X:
    """Of a distribution over classes the share `epsilon` goes to `prior_dist`, or to all classes alike."""

def layer_norm(x: X, normalized_shape: Any, weight: Any = None, bias: Any = None, epsilon: float = 1e-05, name: str | None = None) -> X:
    """Mean 0 and variance 1 over the last dimensions."""

def leaky_relu(x: X, negative_slope: float = 0.01, name: str | None = None) -> X:
    """x where it is positive, a fraction of x (`alpha`, in 2.0 `negative_slope`) elsewhere."""

def linear(x: X, weight: X, bias: Any = None, name: str | None = None) -> X:
    """x times weight, which is [in, out], plus bias."""

def local_response_norm(x: X, size: Any, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0, data_format: str = 'NCHW', name: str | None = None) -> X:
    """x divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta."""

def log_loss(input: X, label: X, epsilon: float = 0.0001, name: str | None = None) -> X:
    """The cross entropy of each probability, which is kept `epsilon` away from a logarithm of 0."""

def log_sigmoid(x: X, name: str | None = None) -> X:
    """log(sigmoid(x)), element by element."""

def log_softmax(x: X, axis: Any = -1, dtype: Any = None, name: str | None = None) -> X:
    """The logarithm of the softmax along `axis`."""

def margin_ranking_loss(input: X, other: X, label: X, margin: float = 0.0, reduction: str = 'mean', name: str | None = None) -> X:
    """By how much `input` fails to exceed `other` by the margin, where the label is 1; the reverse where it is -1."""

def max_pool1d(x: X, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False, ceil_mode: bool = False, name: str | None = None) -> X:
    """The greatest value of each window of sequences; with `return_mask` also where it was."""

def max_pool2d(x: X, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False, ceil_mode: bool = False, data_format: str = 'NCHW', name: str | None = None) -> X:
    """The greatest value of each window of images; with `return_mask` also where it was."""

def max_pool3d(x: X, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False, ceil_mode: bool = False, data_format: str = 'NCDHW', name: str | None = None) -> X:
    """The greatest value of each window of volumes; with `return_mask` also where it was."""

def maxout(x: X, groups: Any, axis: Any = 1, name: str | None = None) -> X:
    """The largest of each `groups` neighbouring channels."""

def mish(x: X, name: str | None = None) -> X:
    """x * tanh(softplus(x))."""

def mse_loss(input: X, label: X, reduction: str = 'mean', name: str | None = None) -> X:
    """The squared error: its mean, its sum, or all of it."""

def nll_loss(input: X, label: X, weight: Any = None, ignore_index: int = -100, reduction: str = 'mean', name: str | None = None) -> X:
    """-input at each label, where `input` are logarithms of probabilities."""

def normalize(x: X, p: Any = 2, axis: Any = 1, epsilon: float = 1e-12, name: str | None = None) -> X:
    """x divided by its p-norm along a dimension, which counts as `epsilon` at least."""

def npair_loss(anchor: X, positive: X, labels: X, l2_reg: float = 0.002) -> X:
    """The cross entropy of telling, for each anchor, which rows of `positive` have its label."""

def one_hot(x: X, num_classes: Any, name: str | None = None) -> X:
    """A 1 at the place of each label, as floats; the shape of the result is that of `x`, and [num_classes]."""

def pad(x: X, pad: Any, mode: str = 'constant', value: float = 0.0, data_format: str = 'NCHW', name: str | None = None) -> X:
    """More values on each side: two numbers for every dimension, from the first, if there are so many.

    Otherwise `x` has a batch, channels and one to three more dimensions, and the numbers are for those, the last first.
    Modes are constant, reflect, replicate and circular.
    """

def pixel_shuffle(x: X, upscale_factor: Any, data_format: str = 'NCHW', name: str | None = None) -> X:
    """Channels become pixels: fewer of those by the square of the factor, each side longer by it."""

def prelu(x: X, weight: X, name: str | None = None) -> X:
    """x where it is positive, weight * x elsewhere; the weight is one number, or one for each channel."""

def relu(x: X, name: str | None = None) -> X:
    """max(x, 0), element by element."""

def relu6(x: X, name: str | None = None) -> X:
    """x, clamped between 0 and 6, or another `threshold` in 1.x."""

def relu_(x: X, name: str | None = None) -> X:
    """`relu`, in place."""

def selu(x: X, scale: Any = 1.0507009873554805, alpha: float = 1.6732632423543772, name: str | None = None) -> X:
    """scale * elu(x, alpha); the default values keep mean 0 and variance 1."""

def sequence_mask(x: X, maxlen: Any = None, dtype: Any = 'int64', name: str | None = None) -> X:
    """1 for the places before each length, 0 from there on, up to `maxlen` or the greatest length."""

def sigmoid(x: X, name: str | None = None) -> X:
    """1 / (1 + exp(-x)), element by element."""

def sigmoid_focal_loss(logit: X, label: X, normalizer: X | None = None, alpha: float = 0.25, gamma: float = 2.0, reduction: str = 'sum', name: str | None = None) -> X:
    """The cross entropy of sigmoid(logit), less of it where the answer is sure and right; divided by `normalizer`."""

def silu(x: X, name: str | None = None) -> X:
    """x * sigmoid(x), element by element."""

def smooth_l1_loss(input: X, label: X, reduction: str = 'mean', delta: float = 1.0, name: str | None = None) -> X:
    """Half the squared error, from `delta` on growing no faster than the error."""

def softmax(x: X, axis: Any = -1, dtype: Any = None, name: str | None = None) -> X:
    """exp(x) divided by its sum along `axis`."""

def softmax_(x: X, axis: Any = -1, dtype: Any = None, name: str | None = None) -> X:
    """`softmax`, in place."""

def softmax_with_cross_entropy(logits: X, label: X, soft_label: bool = False, ignore_index: int = -100, numeric_stable_mode: bool = True, return_softmax: bool = False, axis: Any = -1) -> X:
    """The cross entropy of each row, of shape [rows, 1]; with `return_softmax` the probabilities too."""

def softplus(x: X, beta: float = 1.0, threshold: float = 20.0, name: str | None = None) -> X:
    """log(1 + exp(beta * x)) / beta, which is x where beta * x is above `threshold`; beta is 1 in 1.x."""

def softshrink(x: X, threshold: float = 0.5, name: str | None = None) -> X:
    """x moved towards 0 by the threshold (1.x calls it `alpha`), and 0 where it is no further away than that."""

def softsign(x: X, name: str | None = None) -> X:
    """x / (1 + |x|), element by element."""

def square_error_cost(input: X, label: X) -> X:
    """(input - label) squared, element by element."""

def swish(x: X, name: str | None = None) -> X:
    """x * sigmoid(beta * x); beta is 1 in 2.0."""

def tanh_(x: X, name: str | None = None) -> X:
    """`tanh`, in place."""

def tanhshrink(x: X, name: str | None = None) -> X:
    """x - tanh(x), element by element."""

def temporal_shift(x: X, seg_num: Any, shift_ratio: float = 0.25, name: str | None = None, data_format: str = 'NCHW') -> X:
    """Frames of `seg_num` each: a share of the channels comes from the frame before, as many from the one after."""

def thresholded_relu(x: X, threshold: float = 1.0, name: str | None = None) -> X:
    """x where it is above `threshold`, 0 elsewhere."""

def unfold(x: X, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None) -> X:
    """Every window of an image as a column; `paddings` is a number, two, or those of top, left, bottom and right."""

def upsample(x: X, size: Any = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool = False, align_mode: int = 0, data_format: str = 'NCHW', name: str | None = None) -> X:
    """The same as `interpolate`."""

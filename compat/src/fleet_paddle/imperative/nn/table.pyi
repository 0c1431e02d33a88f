"""Made from rows; `make docs` writes this stub."""
# ruff: noqa: E501, E702  (a line for each)
# fmt: off

from typing import Any

from fleet_paddle.imperative.nn.base.of_function import FunctionLayer

__all__ = ['AdaptiveAvgPool1D', 'AdaptiveAvgPool2D', 'AdaptiveAvgPool3D', 'AdaptiveMaxPool1D', 'AdaptiveMaxPool2D', 'AdaptiveMaxPool3D', 'AvgPool1D', 'AvgPool2D', 'AvgPool3D', 'BCELoss', 'BCEWithLogitsLoss', 'CELU', 'CosineSimilarity', 'CrossEntropyLoss', 'ELU', 'GELU', 'Hardshrink', 'Hardsigmoid', 'Hardswish', 'Hardtanh', 'KLDivLoss', 'L1Loss', 'LeakyReLU', 'LocalResponseNorm', 'LogSigmoid', 'LogSoftmax', 'MSELoss', 'MarginRankingLoss', 'MaxPool1D', 'MaxPool2D', 'MaxPool3D', 'Maxout', 'Mish', 'NLLLoss', 'PixelShuffle', 'ReLU', 'ReLU6', 'SELU', 'Sigmoid', 'Silu', 'SmoothL1Loss', 'Softmax', 'Softplus', 'Softshrink', 'Softsign', 'Swish', 'Tanh', 'Tanhshrink', 'ThresholdedReLU', 'Unfold', 'Upsample']

class AdaptiveAvgPool1D(FunctionLayer):
    """The means of as many windows of sequences as `output_size` says; None is the size that it has."""
    output_size: Any
    def __init__(self, output_size: Any, name: str | None = None) -> None: ...
class AdaptiveAvgPool2D(FunctionLayer):
    """The means of as many windows of images as `output_size` says; None is the size that it has."""
    output_size: Any; data_format: str
    def __init__(self, output_size: Any, data_format: str = 'NCHW', name: str | None = None) -> None: ...
class AdaptiveAvgPool3D(FunctionLayer):
    """The means of as many windows of volumes as `output_size` says; None is the size that it has."""
    output_size: Any; data_format: str
    def __init__(self, output_size: Any, data_format: str = 'NCDHW', name: str | None = None) -> None: ...
class AdaptiveMaxPool1D(FunctionLayer):
    """The greatest values of as many windows of sequences as `output_size` says; `return_mask` adds places."""
    output_size: Any; return_mask: bool
    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None: ...
class AdaptiveMaxPool2D(FunctionLayer):
    """The greatest values of as many windows of images as `output_size` says; `return_mask` adds places."""
    output_size: Any; return_mask: bool
    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None: ...
class AdaptiveMaxPool3D(FunctionLayer):
    """The greatest values of as many windows of volumes as `output_size` says; `return_mask` adds places."""
    output_size: Any; return_mask: bool
    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None: ...
class AvgPool1D(FunctionLayer):
    """The mean of each window of sequences; with `exclusive` zeros of the padding do not count."""
    kernel_size: Any; stride: Any; padding: Any; exclusive: bool; ceil_mode: bool
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, exclusive: bool = True, ceil_mode: bool = False, name: str | None = None) -> None: ...
class AvgPool2D(FunctionLayer):
    """The mean of each window of images; with `exclusive` zeros of the padding do not count."""
    kernel_size: Any; stride: Any; padding: Any; ceil_mode: bool; exclusive: bool; divisor_override: Any; data_format: str
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, exclusive: bool = True, divisor_override: Any = None, data_format: str = 'NCHW', name: str | None = None) -> None: ...
class AvgPool3D(FunctionLayer):
    """The mean of each window of volumes; with `exclusive` zeros of the padding do not count."""
    kernel_size: Any; stride: Any; padding: Any; ceil_mode: bool; exclusive: bool; divisor_override: Any; data_format: str
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, exclusive: bool = True, divisor_override: Any = None, data_format: str = 'NCDHW', name: str | None = None) -> None: ...
class BCELoss(FunctionLayer):
    """The cross entropy of probabilities in [0, 1]."""
    weight: Any; reduction: str
    def __init__(self, weight: Any = None, reduction: str = 'mean', name: str | None = None) -> None: ...
class BCEWithLogitsLoss(FunctionLayer):
    """The cross entropy of sigmoid(logit) and label; `pos_weight` scales that of labels of 1."""
    weight: Any; reduction: str; pos_weight: Any
    def __init__(self, weight: Any = None, reduction: str = 'mean', pos_weight: Any = None, name: str | None = None) -> None: ...
class CELU(FunctionLayer):
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere."""
    alpha: float
    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None: ...
class CosineSimilarity(FunctionLayer):
    """The cosine of the angle between vectors; a product of lengths below `eps` counts as `eps`."""
    axis: Any; eps: float
    def __init__(self, axis: Any = 1, eps: float = 1e-08) -> None: ...
class CrossEntropyLoss(FunctionLayer):
    """-log of the probability of each label, where `input` are scores, or probabilities without `use_softmax`.

    A label may have a size of 1 along `axis`, or lack that dimension. With `soft_label` it is a distribution over the
    classes. `weight` has a number for each class, and a mean is then the weighted one. Without a reduction the losses
    have the label's shape, with a size of 1 along `axis` where that is a distribution. The mean over labels that are
    all ignored is 0.
    """
    weight: Any; ignore_index: int; reduction: str; soft_label: bool; axis: Any; use_softmax: bool
    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = 'mean', soft_label: bool = False, axis: Any = -1, use_softmax: bool = True, name: str | None = None) -> None: ...
class ELU(FunctionLayer):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    alpha: float
    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None: ...
class GELU(FunctionLayer):
    """x times the probability that a standard normal variable is below x; `approximate` uses a tanh."""
    approximate: bool
    def __init__(self, approximate: bool = False, name: str | None = None) -> None: ...
class Hardshrink(FunctionLayer):
    """x, and 0 where it is no further than `threshold` from 0."""
    threshold: float
    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None: ...
class Hardsigmoid(FunctionLayer):
    """slope * x + offset, clamped between 0 and 1."""
    slope: float; offset: float
    def __init__(self, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> None: ...
class Hardswish(FunctionLayer):
    """x * min(max(0, x + offset), threshold) / scale; in 2.0 with 6, 6 and 3."""
    def __init__(self, name: str | None = None) -> None: ...
class Hardtanh(FunctionLayer):
    """x, clamped between `min` and `max`."""
    min: float; max: float
    def __init__(self, min: float = -1.0, max: float = 1.0, name: str | None = None) -> None: ...
class KLDivLoss(FunctionLayer):
    """The divergence of `label` from exp(input); reduction mean, sum, none or batchmean."""
    reduction: str
    def __init__(self, reduction: str = 'mean', name: str | None = None) -> None: ...
class L1Loss(FunctionLayer):
    """The absolute error."""
    reduction: str
    def __init__(self, reduction: str = 'mean', name: str | None = None) -> None: ...
class LeakyReLU(FunctionLayer):
    """x where it is positive, a fraction of x (`alpha`, in 2.0 `negative_slope`) elsewhere."""
    negative_slope: float
    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None: ...
class LocalResponseNorm(FunctionLayer):
    """x divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta."""
    size: Any; alpha: float; beta: float; k: float; data_format: str
    def __init__(self, size: Any, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0, data_format: str = 'NCHW', name: str | None = None) -> None: ...
class LogSigmoid(FunctionLayer):
    """log(sigmoid(x)), element by element."""
    def __init__(self, name: str | None = None) -> None: ...
class LogSoftmax(FunctionLayer):
    """The logarithm of the softmax along `axis`."""
    axis: Any; dtype: Any
    def __init__(self, axis: Any = -1, dtype: Any = None, name: str | None = None) -> None: ...
class MSELoss(FunctionLayer):
    """The squared error: its mean, its sum, or all of it."""
    reduction: str
    def __init__(self, reduction: str = 'mean', name: str | None = None) -> None: ...
class MarginRankingLoss(FunctionLayer):
    """By how much `input` fails to exceed `other` by the margin, where the label is 1; the reverse where it is -1."""
    margin: float; reduction: str
    def __init__(self, margin: float = 0.0, reduction: str = 'mean', name: str | None = None) -> None: ...
class MaxPool1D(FunctionLayer):
    """The greatest value of each window of sequences; with `return_mask` also where it was."""
    kernel_size: Any; stride: Any; padding: Any; return_mask: bool; ceil_mode: bool
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False, ceil_mode: bool = False, name: str | None = None) -> None: ...
class MaxPool2D(FunctionLayer):
    """The greatest value of each window of images; with `return_mask` also where it was."""
    kernel_size: Any; stride: Any; padding: Any; return_mask: bool; ceil_mode: bool; data_format: str
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False, ceil_mode: bool = False, data_format: str = 'NCHW', name: str | None = None) -> None: ...
class MaxPool3D(FunctionLayer):
    """The greatest value of each window of volumes; with `return_mask` also where it was."""
    kernel_size: Any; stride: Any; padding: Any; return_mask: bool; ceil_mode: bool; data_format: str
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False, ceil_mode: bool = False, data_format: str = 'NCDHW', name: str | None = None) -> None: ...
class Maxout(FunctionLayer):
    """The largest of each `groups` neighbouring channels."""
    groups: Any; axis: Any
    def __init__(self, groups: Any, axis: Any = 1, name: str | None = None) -> None: ...
class Mish(FunctionLayer):
    """x * tanh(softplus(x))."""
    def __init__(self, name: str | None = None) -> None: ...
class NLLLoss(FunctionLayer):
    """-input at each label, where `input` are logarithms of probabilities."""
    weight: Any; ignore_index: int; reduction: str
    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = 'mean', name: str | None = None) -> None: ...
class PixelShuffle(FunctionLayer):
    """Channels become pixels: fewer of those by the square of the factor, each side longer by it."""
    upscale_factor: Any; data_format: str
    def __init__(self, upscale_factor: Any, data_format: str = 'NCHW', name: str | None = None) -> None: ...
class ReLU(FunctionLayer):
    """max(x, 0), element by element."""
    def __init__(self, name: str | None = None) -> None: ...
class ReLU6(FunctionLayer):
    """x, clamped between 0 and 6, or another `threshold` in 1.x."""
    def __init__(self, name: str | None = None) -> None: ...
class SELU(FunctionLayer):
    """scale * elu(x, alpha); the default values keep mean 0 and variance 1."""
    scale: Any; alpha: float
    def __init__(self, scale: Any = 1.0507009873554805, alpha: float = 1.6732632423543772, name: str | None = None) -> None: ...
class Sigmoid(FunctionLayer):
    """1 / (1 + exp(-x)), element by element."""
    def __init__(self, name: str | None = None) -> None: ...
class Silu(FunctionLayer):
    """x * sigmoid(x), element by element."""
    def __init__(self, name: str | None = None) -> None: ...
class SmoothL1Loss(FunctionLayer):
    """Half the squared error, from `delta` on growing no faster than the error."""
    reduction: str; delta: float
    def __init__(self, reduction: str = 'mean', delta: float = 1.0, name: str | None = None) -> None: ...
class Softmax(FunctionLayer):
    """exp(x) divided by its sum along `axis`."""
    axis: Any; dtype: Any
    def __init__(self, axis: Any = -1, dtype: Any = None, name: str | None = None) -> None: ...
class Softplus(FunctionLayer):
    """log(1 + exp(beta * x)) / beta, which is x where beta * x is above `threshold`; beta is 1 in 1.x."""
    beta: float; threshold: float
    def __init__(self, beta: float = 1.0, threshold: float = 20.0, name: str | None = None) -> None: ...
class Softshrink(FunctionLayer):
    """x moved towards 0 by the threshold (1.x calls it `alpha`), and 0 where it is no further away than that."""
    threshold: float
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
    threshold: float
    def __init__(self, threshold: float = 1.0, name: str | None = None) -> None: ...
class Unfold(FunctionLayer):
    """Every window of an image as a column; `paddings` is a number, two, or those of top, left, bottom and right."""
    kernel_sizes: Any; strides: Any; paddings: Any; dilations: Any
    def __init__(self, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None) -> None: ...
class Upsample(FunctionLayer):
    """Another size, or that many times the size: modes nearest, linear, bilinear, trilinear, bicubic and area."""
    size: Any; scale_factor: Any; mode: str; align_corners: bool; align_mode: int; data_format: str
    def __init__(self, size: Any = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool = False, align_mode: int = 0, data_format: str = 'NCHW', name: str | None = None) -> None: ...

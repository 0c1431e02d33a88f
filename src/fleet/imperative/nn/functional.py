"""Functions that layers are made of, with Paddle's arguments; results are our tensors."""
# ruff: noqa: ARG001  (`name` names nothing here: a tensor is called what its script calls it)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import NotSupportedError, UsageError
from fleet.imperative.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    softmax_with_cross_entropy,
    square_error_cost,
)
from fleet.imperative.tensor import Tensor, own

Sizes = int | list[int] | tuple[int, ...]

__all__ = [
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv2d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "hardsigmoid",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmax_with_cross_entropy",
    "softplus",
    "softsign",
    "square_error_cost",
    "swish",
    "tanh",
    "tanhshrink",
]


def _simple(function: Callable[..., torch.Tensor]) -> Callable[..., Tensor]:
    def call(x: torch.Tensor, name: str | None = None) -> Any:
        return own(function(x))

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"`{function.__name__}` of each element."
    return call


relu = _simple(torch.relu)
relu6 = _simple(F.relu6)
tanh = _simple(torch.tanh)
sigmoid = _simple(torch.sigmoid)
softsign = _simple(F.softsign)
log_sigmoid = _simple(F.logsigmoid)
silu = _simple(F.silu)
swish = silu
tanhshrink = _simple(F.tanhshrink)


def hardsigmoid(x: torch.Tensor, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> Tensor:
    """slope * x + offset, kept between 0 and 1."""
    return own(torch.clamp(x * slope + offset, 0, 1))


def gelu(x: torch.Tensor, approximate: bool = False, name: str | None = None) -> Tensor:
    """x times the chance that a normal variable is below x."""
    return own(F.gelu(x, approximate="tanh" if approximate else "none"))


def elu(x: torch.Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """x above 0, alpha * (exp(x) - 1) below."""
    return own(F.elu(x, alpha))


def leaky_relu(x: torch.Tensor, negative_slope: float = 0.01, name: str | None = None) -> Tensor:
    """x above 0, negative_slope * x below."""
    return own(F.leaky_relu(x, negative_slope))


def softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20, name: str | None = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta."""
    return own(F.softplus(x, beta, threshold))


def softmax(x: torch.Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """exp(x) divided by its sum along a dimension."""
    return own(torch.softmax(x, axis, dtype=_dtype(dtype)))


def log_softmax(x: torch.Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """The logarithm of softmax."""
    return own(torch.log_softmax(x, axis, dtype=_dtype(dtype)))


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, name: str | None = None) -> Tensor:
    """x times weight, which is [in, out], plus bias."""
    if bias is not None and x.dim() == 2:
        return own(torch.addmm(bias, x, weight))
    return own(F.linear(x, weight.T, bias))


def embedding(
    x: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The rows of `weight` for the ids in `x`; that of `padding_idx` reads as it is and is not trained."""
    return own(F.embedding(x, weight, padding_idx, sparse=sparse))


def dropout(
    x: torch.Tensor,
    p: float = 0.5,
    axis: Any = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Tensor:
    """While training, each value is zero with chance `p`; those that stay grow, or with "downscale_in_infer" shrink
    in evaluation."""
    if axis is not None:
        raise NotSupportedError("dropout: axis is not built; leave it out, or multiply by a mask")
    if mode == "upscale_in_train":
        return own(F.dropout(x, p, training))
    if mode != "downscale_in_infer":
        raise UsageError(f"dropout: mode must be upscale_in_train or downscale_in_infer, got {mode!r}")
    return own(F.dropout(x, p, True) * (1 - p) if training else x * (1 - p))


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """A convolution of images."""
    _channels_first("conv2d", data_format)
    way = padding.lower() if isinstance(padding, str) else padding
    return own(F.conv2d(x, weight, bias, stride, way, dilation, groups))


def max_pool2d(
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The greatest value of each window; with `return_mask` also where it was."""
    _channels_first("max_pool2d", data_format)
    made: Any = F.max_pool2d(x, kernel_size, stride, padding, 1, ceil_mode, return_mask)  # type: ignore[call-overload]
    return own(made)


def avg_pool2d(
    x: torch.Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The mean of each window; with `exclusive` zeros of the padding do not count."""
    _channels_first("avg_pool2d", data_format)
    made = F.avg_pool2d(x, kernel_size, stride, padding, ceil_mode, not exclusive, divisor_override)
    return own(made)


def adaptive_avg_pool2d(
    x: torch.Tensor, output_size: Any, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """The means of as many windows as `output_size` says."""
    _channels_first("adaptive_avg_pool2d", data_format)
    return own(F.adaptive_avg_pool2d(x, output_size))


def layer_norm(
    x: torch.Tensor,
    normalized_shape: Sizes,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return own(F.layer_norm(x, shape, weight, bias, epsilon))


def one_hot(x: torch.Tensor, num_classes: int, name: str | None = None) -> Tensor:
    """A 1 at the place of each label, as floats."""
    return own(F.one_hot(x, num_classes).float())


def pad(x: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """More values on each side, those of the last dimension first."""
    return own(F.pad(x, list(pad), mode, value if mode == "constant" else None))


def _dtype(given: Any) -> torch.dtype | None:
    from fleet.imperative.creation import dtype_of

    return None if given is None else dtype_of(given)


def _channels_first(what: str, data_format: str) -> None:
    if data_format != "NCHW":
        raise NotSupportedError(f"{what}: data_format must be 'NCHW', got {data_format!r}; transpose the input")

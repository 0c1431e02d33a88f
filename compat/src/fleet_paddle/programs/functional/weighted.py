"""What layers with a weight do to variables: products, rows of a table, normalisation; and rows of the identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet.static import layers
from fleet.static.variable import Variable
from fleet_paddle.programs.composed import label_smooth as _label_smooth
from fleet_paddle.programs.functional.called import called

sequence_mask = layers.sequence_mask


def linear(x: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None) -> Variable:
    """x times weight, which is [in, out], plus bias."""
    layer = called("linear")
    given = layer.variable(x, "x"), layer.variable(weight, "weight")
    # One matrix of all rows, as a fully connected layer has it: what is fused, sent and served is the same then.
    product = (
        layers.mul(*given, x_num_col_dims=x.ndim - 1, name=name) if x.ndim > 1 else layers.matmul(*given, name=name)
    )
    if bias is None:
        return product
    return layer.apply("elementwise_add", {"X": product, "Y": bias}, {"axis": x.ndim - 1}, product.dtype)


def embedding(
    x: Variable, weight: Variable, padding_idx: int | None = None, sparse: bool = False, name: str | None = None
) -> Variable:
    """The rows of `weight` for the ids in `x`; that of `padding_idx` reads as zeros and is not trained."""
    layer = called("embedding", name)
    inputs = {"W": layer.variable(weight, "weight"), "Ids": layer.variable(x, "x")}
    rows = weight.shape[0]
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else rows + padding_idx
    if padding_idx is not None and not 0 <= padding < rows:
        raise layer.error(f"padding_idx must be from {-rows} to {rows - 1}, got {padding_idx}")
    attrs = {"is_sparse": bool(sparse), "is_distributed": False, "padding_idx": padding}
    return layer.apply("lookup_table_v2", inputs, attrs, weight.dtype)


def one_hot(x: Variable, num_classes: int, name: str | None = None) -> Variable:  # noqa: ARG001
    """A 1 at the place of each label, as floats; the shape of the result is that of `x`, and [num_classes]."""
    return one_hot_v2(x, num_classes)


def one_hot_v2(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """The same in the spelling of 1.x, where `layers.one_hot` wants a last size of 1 instead."""
    return layers.one_hot(layers.unsqueeze(input, [input.ndim]), depth, allow_out_of_range)


def label_smooth(
    label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, name: str | None = None
) -> Variable:
    """Labels as chances, `epsilon` of which is spread over all classes evenly, or as `prior_dist` has it."""
    return _label_smooth(label, prior_dist, epsilon, label.dtype, name)


def normalize(x: Variable, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """Vectors of length 1 along `axis`."""
    if p != 2:
        raise NotSupportedError(f"normalize: p must be 2 for a variable, got {p}")
    return layers.elementwise_div(x, _length(layers.reduce_sum(layers.square(x), axis, True), epsilon), name=name)


def cosine_similarity(x1: Variable, x2: Variable, axis: int = 1, eps: float = 1e-8) -> Variable:
    """The cosine of the angle between vectors along `axis`."""
    products = [layers.reduce_sum(one * other, axis) for one, other in ((x1, x2), (x1, x1), (x2, x2))]
    return products[0] / (_length(products[1], eps) * _length(products[2], eps))


def _length(square: Variable, least: float) -> Variable:
    """The square root, or `least` if that is more; limited before the root, which has no slope at 0."""
    return layers.sqrt(layers.clip(square, least**2, float("inf")))


def prelu(x: Variable, weight: Variable, name: str | None = None) -> Variable:
    """x above 0, below it times `weight`: one number, or one for each channel."""
    layer = called("prelu", name)
    inputs = {"X": layer.variable(x, "x"), "Alpha": layer.variable(weight, "weight")}
    return layer.apply("prelu", inputs, {"mode": "all" if weight.shape == (1,) else "channel"}, x.dtype)


def layer_norm(
    x: Variable,
    normalized_shape: int | Sequence[int],
    weight: Variable | None = None,
    bias: Variable | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Variable:
    """Mean 0 and variance 1 over the last dimensions."""
    layer = called("layer_norm", name)
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    if not 0 < len(sizes) < layer.variable(x, "x").ndim or list(x.shape[-len(sizes) :]) != sizes:
        raise layer.error(f"x {x.name!r} must end with the sizes {sizes} after others, got shape {list(x.shape)}")
    inputs = {"X": x}
    for slot, given in (("Scale", weight), ("Bias", bias)):
        if given is not None:
            inputs[slot] = given if given.ndim == 1 else layers.reshape(given, [-1])
    out, mean, variance = (layer.temporary(x.dtype, stop_gradient=bool(place)) for place in range(3))
    attrs = {"begin_norm_axis": x.ndim - len(sizes), "epsilon": float(epsilon)}
    layer.op("layer_norm", inputs, {"Y": out, "Mean": mean, "Variance": variance}, attrs)
    return out


def batch_norm(
    x: Variable,
    running_mean: Variable,
    running_var: Variable,
    weight: Variable | None = None,
    bias: Variable | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str | None = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Variable:
    """Mean 0 and variance 1 of each channel over the batch, or with the statistics kept unless `training`.

    They are kept by the operator: `momentum` of the old, the rest of the batch's. A program that was built with
    `training` evaluates after `clone(for_test=True)`.
    """
    layer = called("batch_norm", name)
    inputs: dict[str, Any] = {"X": layer.variable(x, "x")}
    channels = list(running_mean.shape)
    inputs["Scale"] = layers.ones(channels, x.dtype) if weight is None else weight
    inputs["Bias"] = layers.zeros(channels, x.dtype) if bias is None else bias
    inputs |= {"Mean": running_mean, "Variance": running_var}
    out, saved_mean, saved_variance = (layer.temporary(x.dtype, stop_gradient=bool(place)) for place in range(3))
    keeps = training and not use_global_stats
    kept = {"MeanOut": running_mean, "VarianceOut": running_var} if keeps else {}
    attrs = {
        "momentum": float(momentum),
        "epsilon": float(epsilon),
        "is_test": not training,
        "use_global_stats": bool(use_global_stats),
        "data_layout": "NHWC" if data_format in ("NHWC", "NLC", "NDHWC") else "NCHW",
    }
    layer.op("batch_norm", inputs, {"Y": out, **kept, "SavedMean": saved_mean, "SavedVariance": saved_variance}, attrs)
    return out

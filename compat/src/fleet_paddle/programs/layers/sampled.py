"""Losses over very many classes: noise-contrastive estimation, sampled softmax, a tree of yes-or-no choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["hsigmoid", "nce", "sampled_softmax_with_cross_entropy"]


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Variable:
    """Noise-contrastive estimation, [rows, 1]: whether a class is the label or was drawn, for `num_neg_samples` drawn.

    `input` is [rows, width], `label` [rows, labels]; the weight is [classes, width], the bias [classes, 1]. Classes are
    drawn evenly ("uniform"), small ones more often ("log_uniform"), or by probabilities `custom_dist` ("custom_dist").
    With `is_sparse` weight and bias get gradients of the rows that were looked at alone.
    """
    layer = LayerBuilder("nce", name)
    width = layer.variable(input).shape[-1]
    weight = layer.needed(param_attr, [num_total_classes, width], input.dtype)
    bias = layer.parameter(bias_attr, [num_total_classes, 1], input.dtype, is_bias=True)
    cost = layer.temporary(input.dtype)
    probabilities, classes = (
        layer.temporary(input.dtype, stop_gradient=True),
        layer.temporary("int64", stop_gradient=True),
    )
    layer.op(
        "nce",
        {
            "Input": input,
            "Label": layer.variable(label, "label"),
            "Weight": weight,
            "Bias": bias,
            "SampleWeight": sample_weight,
        },
        {"Cost": cost, "SampleLogits": probabilities, "SampleLabels": classes},
        {
            "num_total_classes": int(num_total_classes),
            "num_neg_samples": 10 if num_neg_samples is None else int(num_neg_samples),
            "sampler": sampler,
            "custom_dist": [float(one) for one in (custom_dist if custom_dist is not None else ())],
            "seed": int(seed),
            "is_sparse": bool(is_sparse),
        },
    )
    return cost


def sampled_softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Variable | None = None,
    customized_probabilities: Variable | None = None,
    seed: int = 0,
) -> Variable:
    """Softmax with cross entropy, [rows, 1], over the labels and `num_samples` distinct classes drawn for the batch.

    Small classes are drawn more often, and each logit is less the logarithm of its class's probability. A drawn class
    that is a label does not count (`remove_accidental_hits`). Classes and probabilities of one's own, [rows, num_true +
    num_samples], begin with the labels.
    """
    layer = LayerBuilder("sample_logits")
    own = (customized_samples is not None, customized_probabilities is not None)
    if own != (use_customized_samples, use_customized_samples):
        raise layer.error("use_customized_samples needs customized_samples and customized_probabilities, and they it")
    if layer.variable(label, "label").shape[-1] != num_true:
        raise layer.error(f"label {label.name!r} must be [rows, {num_true}], got shape {list(label.shape)}")
    drawn, classes = layer.temporary(layer.variable(logits, "logits").dtype), layer.temporary("int64", True)
    inputs = {
        "Logits": logits,
        "Labels": label,
        "CustomizedSamples": customized_samples,
        "CustomizedProbabilities": customized_probabilities,
    }
    attrs = {"num_samples": num_samples, "remove_accidental_hits": bool(remove_accidental_hits), "seed": int(seed)}
    layer.op("sample_logits", inputs, {"SampledLogits": drawn, "Samples": classes}, attrs)
    # The labels are the first columns; each has its share of the target.
    shares = layer.temporary(logits.dtype, stop_gradient=True)
    share = [1.0 / num_true] * num_true + [0.0] * num_samples
    layer.op("assign_value", {}, {"Out": shares}, {"shape": [1, len(share)], "dtype": logits.dtype, "values": share})
    target = layer.temporary(logits.dtype, stop_gradient=True)
    layer.op("expand_as", {"X": shares, "target_tensor": drawn}, {"Out": target})
    softmax, loss = layer.temporary(logits.dtype, stop_gradient=True), layer.temporary(logits.dtype)
    layer.op(
        "softmax_with_cross_entropy",
        {"Logits": drawn, "Label": target},
        {"Softmax": softmax, "Loss": loss},
        {"soft_label": True},
    )
    return loss


def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_custom: bool = False,
    is_sparse: bool = False,  # noqa: ARG001 - how a gradient is kept; the values are the same
) -> Variable:
    """The loss, [rows, 1], of the choices in a binary tree that lead to each row's label.

    The tree is a complete one with `num_classes` leaves, or with `is_custom` one of `num_classes` inner nodes:
    `path_table` has the nodes on the way to each row's label, filled up with -1, and `path_code` the choices there.
    The gradient of the weight is dense, with `is_sparse` too.
    """
    layer = LayerBuilder("hierarchical_sigmoid", name)
    if is_custom != (path_table is not None) or is_custom != (path_code is not None):
        raise layer.error("is_custom needs path_table and path_code, and they need it")
    nodes = num_classes if is_custom else num_classes - 1
    weight = layer.needed(param_attr, [nodes, layer.variable(input).shape[-1]], input.dtype)
    bias = layer.parameter(bias_attr, [nodes, 1], input.dtype, is_bias=True)
    inputs = {"X": input, "Label": layer.variable(label, "label"), "W": weight, "Bias": bias}
    inputs |= {"PathTable": path_table, "PathCode": path_code}
    return layer.apply("hierarchical_sigmoid", inputs, {"num_classes": int(num_classes)}, input.dtype)

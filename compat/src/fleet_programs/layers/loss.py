"""Losses. Those of rows have shape [rows, 1]; take `mean` of them for `minimize`."""

from __future__ import annotations

from typing import Any

from fleet.errors import NotSupportedError
from fleet_programs.definition.registry import may_equal
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.table import mean
from fleet_programs.operators.networks.loss import IGNORE
from fleet_programs.program.variable import Variable

__all__ = [
    "mse_loss",
    "softmax_with_cross_entropy",
    "square_error_cost",
]


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = IGNORE,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """The cross entropy of softmax(logits), in one stable step; with `return_softmax` (loss, softmax)."""
    layer = LayerBuilder("softmax_with_cross_entropy")
    if not numeric_stable_mode:
        raise NotSupportedError(
            "softmax_with_cross_entropy: numeric_stable_mode must be True; there is no other way here"
        )
    inputs = {"Logits": layer.variable(logits, "logits"), "Label": layer.variable(label, "label")}
    loss, softmax = layer.temporary(logits.dtype), layer.temporary(logits.dtype, stop_gradient=True)
    attrs = {"soft_label": bool(soft_label), "ignore_index": int(ignore_index), "axis": int(axis)}
    layer.op("softmax_with_cross_entropy", inputs, {"Softmax": softmax, "Loss": loss}, attrs)
    if not return_softmax:
        return loss
    # The op's own Softmax takes no gradient, so one that the user goes on with is computed apart.
    return loss, layer.apply("softmax", {"X": logits}, {"axis": int(axis)}, logits.dtype)


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label) squared, element by element."""
    layer = LayerBuilder("square_error_cost")
    inputs = {"X": layer.variable(input), "Y": layer.variable(label, "label")}
    if not may_equal(input.shape, label.shape):
        raise layer.error(
            f"input {input.name!r} has shape {list(input.shape)} and label {label.name!r} has {list(label.shape)}; "
            "make them equal"
        )
    difference = layer.apply("elementwise_sub", inputs, {}, input.dtype)
    return layer.apply("square", {"X": difference}, {}, input.dtype)


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of the squared errors."""
    return mean(square_error_cost(input, label))

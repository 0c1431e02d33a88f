"""Functions of 1.x that are a few layers together, or one of 2.0 under its old name."""

from __future__ import annotations

from fleet_paddle.programs.variables.computed import add
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["add_position_encoding", "affine_channel", "mean_iou", "mish", "triu", "unbind"]


def mish(x: Variable, threshold: float = 20, name: str | None = None) -> Variable:
    """x * tanh(softplus(x)), where softplus is x itself above `threshold`."""
    soft = layers.softplus(layers.clip(x, float("-inf"), float(threshold)))
    high = layers.relu(layers.scale(x, bias=-float(threshold)))
    return layers.elementwise_mul(x, layers.tanh(layers.elementwise_add(soft, high)), name=name)


def unbind(input: Variable, axis: int = 0) -> list[Variable]:
    """The entries along a dimension."""
    found: list[Variable] = layers.unstack(input, axis)
    return found


def triu(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """What is on and above a diagonal, zeros below."""
    made: Variable = add("triu", {"X": input}, {"diagonal": int(diagonal)}, name)
    return made


def add_position_encoding(input: Variable, alpha: float, beta: float, name: str | None = None) -> Variable:
    """alpha * input + beta * sines, then cosines, of each place, for [batch, places, width] of an even width."""
    made: Variable = add("add_position_encoding", {"X": input}, {"alpha": float(alpha), "beta": float(beta)}, name)
    return made


def affine_channel(
    x: Variable,
    scale: Variable | None = None,
    bias: Variable | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    act: str | None = None,
) -> Variable:
    """Each channel times its factor, plus its bias."""
    layer = LayerBuilder("affine_channel", name)
    if data_layout not in ("NCHW", "NHWC"):
        raise layer.error(f"data_layout must be NCHW or NHWC, got {data_layout!r}")
    axis = x.ndim - 1 if data_layout == "NHWC" else 1
    made = layer.variable(x, "x")
    if scale is not None:
        made = layers.elementwise_mul(made, scale, axis=axis)
    if bias is not None:
        made = layers.elementwise_add(made, bias, axis=axis)
    return layer.activate(made, act)


def mean_iou(input: Variable, label: Variable, num_classes: int) -> tuple[Variable, Variable, Variable]:
    """(the mean over classes of how much guesses and labels overlap, wrong ones of each class, right ones)."""
    made: tuple[Variable, Variable, Variable] = add(
        "mean_iou", {"Predictions": input, "Labels": label}, {"num_classes": int(num_classes)}
    )
    return made

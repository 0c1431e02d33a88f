"""Layers over pieces of images, centres of classes, and conditions that must hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.errors import NotSupportedError
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import new_offsets
from fleet_programs.layers.table import fill_constant
from fleet_programs.program.variable import Variable

__all__ = ["Assert", "center_loss", "im2sequence", "random_crop"]


def im2sequence(
    input: Variable,
    filter_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    input_image_size: Variable | None = None,
    out_stride: int | Sequence[int] = 1,
    name: str | None = None,
) -> Variable:
    """The windows of images, line by line, as ragged rows: one row for each image, one value for each window.

    `padding` is one number, two for height and width, or four: up, left, down, right.
    """
    layer = LayerBuilder("im2sequence", name)
    if input_image_size is not None or out_stride not in (1, [1, 1], (1, 1)):
        raise NotSupportedError(
            "im2sequence: images of several sizes in a batch are not built; leave input_image_size out"
        )
    kernels, strides, around = (
        _several(layer, *one)
        for one in (("filter_size", filter_size, (2,)), ("stride", stride, (2,)), ("padding", padding, (2, 4)))
    )
    out = layer.temporary(layer.variable(input).dtype)
    attrs = {"kernels": kernels, "strides": strides, "paddings": around * 2 if len(around) == 2 else around}
    layer.op("im2sequence", {"X": input}, {"Out": out, "OutOffsets": new_offsets(layer, out)}, attrs)
    return out


def random_crop(x: Variable, shape: Sequence[int], seed: int | None = None) -> Variable:
    """A piece of the given shape of each entry, at a random place of its own; the dimensions before `shape` stay."""
    layer = LayerBuilder("random_crop")
    if seed:
        raise NotSupportedError(f"random_crop: seed must be left out, got {seed}; set random_seed of the program")
    attrs = {"shape": [int(size) for size in shape]}
    return layer.apply("random_crop", {"X": layer.variable(x, "x")}, attrs, x.dtype)


def center_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    alpha: float | Variable,
    param_attr: Any,
    update_center: bool = True,
) -> Variable:
    """Half the squared distance of each row to the centre of its class, [rows, 1].

    Centres are a parameter, [num_classes, columns], that no optimizer trains: with `update_center`, each step moves the
    centre of a class by `alpha` of what its rows are away, added up and divided by their number and one more.
    """
    layer = LayerBuilder("center_loss")
    rate = alpha if isinstance(alpha, Variable) else fill_constant([1], "float32", float(alpha))
    centres = layer.needed(param_attr, [num_classes, layer.variable(input).shape[1]], input.dtype)
    centres.trainable, centres.stop_gradient = False, True
    away, loss = layer.temporary(input.dtype, stop_gradient=True), layer.temporary(input.dtype)
    layer.op(
        "center_loss",
        {"X": input, "Label": layer.variable(label, "label"), "Centers": centres, "CenterUpdateRate": rate},
        {"SampleCenterDiff": away, "Loss": loss, "CentersOut": centres},
        {"need_update": bool(update_center)},
    )
    return loss


def Assert(  # noqa: N802 - as scripts call it
    cond: Variable, data: Sequence[Variable] | None = None, summarize: int = 20, name: str | None = None
) -> None:
    """End a run with an error where `cond` is not true, with `summarize` numbers of each of `data`, -1 for all."""
    layer = LayerBuilder("assert", name)
    shown = [layer.variable(one, "data") for one in data or ()]
    layer.op("assert", {"Cond": layer.variable(cond, "cond"), "Data": shown}, {}, {"summarize": int(summarize)})


def _several(layer: LayerBuilder, what: str, given: int | Sequence[int], counts: tuple[int, ...]) -> list[int]:
    found = [given] * 2 if isinstance(given, int) else [int(one) for one in given]
    if len(found) not in counts or min(found) < (what != "padding"):
        raise layer.error(f"{what} must be a number or {' or '.join(map(str, counts))} of them, got {given!r}")
    return found

"""Layers of click models: normalised counts, shows and clicks beside embeddings, a teacher's loss, hashed ids."""

from __future__ import annotations

from typing import Any

from fleet.errors import NotSupportedError
from fleet_paddle.programs.ops.clicked.data_norm import KEPT
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.notes import leave_out_of_average
from fleet_programs.program.variable import Parameter, Variable

__all__ = ["data_norm"]

_FIRST = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4}


def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: dict[str, float] | None = None,
    data_layout: str = "NCHW",
    in_place: bool = False,  # noqa: ARG001 - values are let go where they were used last, whatever it says
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """The columns of [rows, columns] with mean 0 and variance 1 over all that training has seen.

    What it has seen is kept in `<name>.batch_size`, `.batch_sum` and `.batch_square_sum`, which begin as `param_attr`
    says ({"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4}) and stay as they are in evaluation. With
    `slot_dim` the columns are slots of that width whose first column counts shows: those without any stay 0 and do not
    count. `enable_scale_and_shift` adds a trained scale and bias, which begin at `param_attr`'s scale_w and bias.
    """
    layer = LayerBuilder("data_norm", name)
    first = {**_FIRST, "scale_w": 1.0, "bias": 0.0, **(param_attr or {})}
    if set(first) - {*_FIRST, "scale_w", "bias"}:
        raise layer.error(f"param_attr must be first values of {', '.join(_FIRST)}, got {param_attr}")
    if layer.variable(input).ndim != 2 or data_layout != "NCHW":
        raise layer.error(f"input must be [rows, columns], got {list(input.shape)} and layout {data_layout!r}")
    if sync_stats or moving_mean_name is not None or moving_variance_name is not None:
        raise NotSupportedError("data_norm: sync_stats, moving_mean_name and moving_variance_name must be left out")

    def parameter(suffix: str, value: float, trainable: bool) -> Parameter:
        attr = ParamAttr(f"{layer.name}.{suffix}", Constant(value), trainable=trainable)
        made = layer.parameter(attr, [input.shape[1]], input.dtype)
        assert made is not None
        return made

    kept = [
        parameter(suffix, first[start], False)
        for suffix, start in (
            ("batch_size", "batch_size"),
            ("batch_sum", "batch_sum"),
            ("batch_square_sum", "batch_square"),
        )
    ]
    if not do_model_average_for_mean_and_var:
        leave_out_of_average(layer.block.program.notes, *(one.name for one in kept))
    affine: dict[str, Any] = {}
    if enable_scale_and_shift:
        affine = {"Scale": parameter("scale_w", first["scale_w"], True), "Bias": parameter("bias", first["bias"], True)}
    out = layer.temporary(input.dtype)
    found = {slot: layer.temporary(input.dtype, stop_gradient=True) for slot in ("Means", "Scales")}
    layer.op(
        "data_norm",
        {"X": input, **dict(zip(KEPT, kept, strict=True)), **affine},
        {"Y": out, **found, **{f"{slot}Out": var for slot, var in zip(KEPT, kept, strict=True)}},
        {"epsilon": float(epsilon), "slot_dim": int(slot_dim), "summary_decay_rate": float(summary_decay_rate)},
    )
    return layer.activate(out, act)

"""What layers with parameters of their own and functions that are given them add alike: norms, a row of zeros."""

from __future__ import annotations

from collections.abc import Mapping

from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable


def add_batch_norm(
    layer: LayerBuilder,
    inputs: Mapping[str, Variable],
    momentum: float,
    epsilon: float,
    is_test: bool,
    use_global_stats: bool,
    data_layout: str,
) -> Variable:
    """Add the operator; mean and variance are kept unless it is for evaluation or uses the kept ones."""
    dtype = inputs["X"].dtype
    saved_mean, saved_variance, out = (layer.temporary(dtype, stop_gradient=place < 2) for place in range(3))
    kept = {} if is_test or use_global_stats else {"MeanOut": inputs["Mean"], "VarianceOut": inputs["Variance"]}
    attrs = {
        "momentum": float(momentum),
        "epsilon": float(epsilon),
        "is_test": bool(is_test),
        "use_global_stats": bool(use_global_stats),
        "data_layout": data_layout,
    }
    layer.op("batch_norm", inputs, {"Y": out, **kept, "SavedMean": saved_mean, "SavedVariance": saved_variance}, attrs)
    return out


def add_layer_norm(layer: LayerBuilder, inputs: Mapping[str, Variable | None], axis: int, epsilon: float) -> Variable:
    """Add the operator over the dimensions from `axis` on."""
    x = layer.variable(inputs["X"])
    mean, variance, out = (layer.temporary(x.dtype, stop_gradient=place < 2) for place in range(3))
    attrs = {"begin_norm_axis": axis, "epsilon": float(epsilon)}
    layer.op("layer_norm", inputs, {"Y": out, "Mean": mean, "Variance": variance}, attrs)
    return out


def padding_row(layer: LayerBuilder, given: int | None, rows: int) -> int:
    """The row that reads as zeros, -1 if none does; below 0 what is given counts from the end."""
    if given is None:
        return -1
    if not -rows <= given < rows:
        raise layer.error(f"padding_idx must be from {-rows} to {rows - 1}, got {given}")
    return given % rows

"""`dynamic_lstmp`: an LSTM along ragged rows whose state is a projection."""

from __future__ import annotations

from typing import Any

from fleet_paddle.programs.layers.ragged.order import check_input, order_of
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.program.variable import Variable

__all__ = ["dynamic_lstmp"]


def dynamic_lstmp(
    input: Variable,
    size: int,
    proj_size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    dtype: Any = None,
    name: str | None = None,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
) -> tuple[Variable, Variable]:
    """(projections [values, proj_size], cells [values, size / 4]) of an LSTM along each row of ragged `input`.

    As `dynamic_lstm`, but what a step takes from the one before is `proj_activation` of its hidden state times a weight
    [size / 4, proj_size]. `cell_clip` and `proj_clip` are limits on cells and projections.
    """
    layer = LayerBuilder("lstmp", name)
    check_input(layer, input, size, 4, dtype)
    width = size // 4
    weight = layer.needed(param_attr, [proj_size, size], input.dtype)
    project = layer.needed(param_attr, [width, proj_size], input.dtype)
    bias = layer.needed(bias_attr, [1, (7 if use_peepholes else 4) * width], input.dtype, is_bias=True)
    state, cell = layer.temporary(input.dtype), layer.temporary(input.dtype)
    ragged = {"Input": input, "Weight": weight, "ProjWeight": project, "Bias": bias}
    layer.op(
        "lstmp",
        {**ragged, **order_of(layer, input, is_reverse), "H0": h_0, "C0": c_0},
        {"Projection": state, "Cell": cell},
        {
            "use_peepholes": bool(use_peepholes),
            "cell_clip": float(cell_clip or 0.0),
            "proj_clip": float(proj_clip or 0.0),
            "gate_activation": gate_activation,
            "cell_activation": cell_activation,
            "candidate_activation": candidate_activation,
            "proj_activation": proj_activation,
        },
    )
    return state, cell

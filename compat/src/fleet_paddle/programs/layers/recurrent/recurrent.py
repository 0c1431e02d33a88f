"""Recurrent layers: over the rows of ragged input, and one step of them over dense rows."""

from __future__ import annotations

from typing import Any

from fleet_paddle.programs.layers.ragged.order import check_input, order_of
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.nn import fc
from fleet_programs.layers.table import concat
from fleet_programs.program.variable import Variable

__all__ = ["dynamic_gru", "dynamic_lstm", "gru_unit", "lstm_unit"]


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: Any = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """(hidden states, cells) of an LSTM along each row of ragged `input`, both [values, size / 4].

    `input` is [values, size]: an `fc` of the words, without a bias. The columns of it, of the weight [size / 4, size]
    and of the bias are those of candidate, input, forget and output gate; `use_peepholes` adds 3 * size / 4 weights
    from the cell to the gates at the end of the bias. `h_0` and `c_0` are [rows, size / 4], zeros if left out.
    """
    layer = LayerBuilder("lstm", name)
    check_input(layer, input, size, 4, dtype)
    width = size // 4
    weight = layer.needed(param_attr, [width, size], input.dtype)
    bias = layer.needed(bias_attr, [1, (7 if use_peepholes else 4) * width], input.dtype, is_bias=True)
    hidden, cell = layer.temporary(input.dtype), layer.temporary(input.dtype)
    gates = layer.temporary(input.dtype, stop_gradient=True)
    layer.op(
        "lstm",
        {"Input": input, "Weight": weight, "Bias": bias, **order_of(layer, input, is_reverse), "H0": h_0, "C0": c_0},
        {"Hidden": hidden, "Cell": cell, "BatchGate": gates},
        {
            "use_peepholes": bool(use_peepholes),
            "gate_activation": gate_activation,
            "cell_activation": cell_activation,
            "candidate_activation": candidate_activation,
        },
    )
    return hidden, cell


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
) -> Variable:
    """The hidden states, [values, size], of gated recurrent units along each row of ragged `input`.

    `input` is [values, 3 * size]: what the words give to update gate, reset gate and candidate. The weight is [size, 3
    * size] and holds [size, 2 * size] for the gates, then [size, size] for the candidate. A state is the one before, of
    which the update gate's share is replaced by the candidate; with `origin_mode` that share is kept.
    """
    layer = LayerBuilder("gru")
    check_input(layer, input, 3 * size, 3)
    weight = layer.needed(param_attr, [size, 3 * size], input.dtype)
    bias = layer.parameter(bias_attr, [1, 3 * size], input.dtype, is_bias=True)
    hidden, gates = layer.temporary(input.dtype), layer.temporary(input.dtype, stop_gradient=True)
    layer.op(
        "gru",
        {"Input": input, "Weight": weight, "Bias": bias, **order_of(layer, input, is_reverse), "H0": h_0},
        {"Hidden": hidden, "BatchGate": gates},
        {"gate_activation": gate_activation, "activation": candidate_activation, "origin_mode": bool(origin_mode)},
    )
    return hidden


def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = 0.0,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """(hidden state, cell) after one step of an LSTM; an `fc` of `x_t` and the state before makes the gates."""
    layer = LayerBuilder("lstm_unit", name)
    cell = layer.variable(cell_t_prev, "cell_t_prev")
    for what, var in (("x_t", x_t), ("hidden_t_prev", hidden_t_prev), ("cell_t_prev", cell)):
        if layer.variable(var, what).ndim != 2:
            raise layer.error(f"{what} {var.name!r} must be [rows, width], got shape {list(var.shape)}")
    gates = fc(concat([x_t, hidden_t_prev], 1), 4 * cell.shape[1], param_attr=param_attr, bias_attr=bias_attr)
    made, hidden = layer.temporary(cell.dtype), layer.temporary(cell.dtype)
    attrs = {"forget_bias": float(forget_bias)}
    layer.op("lstm_unit", {"X": gates, "C_prev": cell}, {"C": made, "H": hidden}, attrs)
    return hidden, made


def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """(hidden state, the one before times the reset gate, gates) after one step; `size` is 3 * width.

    `input` is [rows, size], `hidden` [rows, size / 3]; weight, bias and `origin_mode` are those of `dynamic_gru`.
    """
    layer = LayerBuilder("gru_unit")
    layer.variable(hidden, "hidden")
    if layer.variable(input).shape[-1] != size or size % 3:
        raise layer.error(f"size must be 3 * width and the last size of {list(input.shape)}, got {size}")
    weight = layer.needed(param_attr, [size // 3, size], input.dtype)
    bias = layer.parameter(bias_attr, [1, size], input.dtype, is_bias=True)
    made, reset, gates = (layer.temporary(input.dtype) for _ in range(3))
    layer.op(
        "gru_unit",
        {"Input": input, "HiddenPrev": hidden, "Weight": weight, "Bias": bias},
        {"Hidden": made, "ResetHiddenPrev": reset, "Gate": gates},
        {"gate_activation": gate_activation, "activation": activation, "origin_mode": bool(origin_mode)},
    )
    return made, reset, gates

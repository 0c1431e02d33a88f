"""One step of a recurrent network over dense rows: lstm_unit, gru_unit."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.programs.ops.recurrent.gates import ACTIVATIONS
from fleet_paddle.programs.ops.recurrent.gru import check_shapes, matrices
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.making import compared


def _infer_lstm(infer: Infer) -> None:
    infer.require_dtype("X", FLOATS)
    infer.require_rank("X", 2)
    x, cell = infer.var("X"), infer.var("C_prev")
    if cell.ndim != 2 or not may_equal(x.shape, (cell.shape[0], 4 * cell.shape[1])) or cell.dtype != x.dtype:
        raise infer.fail(
            f"X {x.name!r} must be {cell.dtype} [rows, 4 * width] for C_prev {cell.name!r} of shape "
            f"{list(cell.shape)}, got {x.dtype} {list(x.shape)}"
        )
    infer.like("C", "C_prev")
    infer.like("H", "C_prev")


@register(
    "lstm_unit",
    inputs=("X", "C_prev"),
    outputs=("C", "H"),
    attrs={"forget_bias": 0.0},
    infer=_infer_lstm,
    grad=Grad(needs=("X", "C_prev"), wrt=("X", "C_prev")),
)
def _lstm_unit(op: Operator, lowering: Lowering) -> Kernel:
    """The columns of X are those of input, forget and output gate, then of the candidate."""
    bias = op.attr("forget_bias")

    def step(x: torch.Tensor, cell: torch.Tensor) -> Any:
        enter, forget, leave, chosen = x.chunk(4, 1)
        made = torch.sigmoid(forget + bias) * cell + torch.sigmoid(enter) * torch.tanh(chosen)
        return made, torch.sigmoid(leave) * torch.tanh(made)

    return compared(step, op, lowering, num_dims=1)


def _infer_gru(infer: Infer) -> None:
    width, x = check_shapes(infer, "HiddenPrev"), infer.var("Input")
    infer.set("Hidden", (x.shape[0], width), x.dtype)  # a state for each row of a step, ragged or not
    infer.set("ResetHiddenPrev", (x.shape[0], width), x.dtype)
    infer.set("Gate", (x.shape[0], 3 * width), x.dtype)


@register(
    "gru_unit",
    inputs=("Input", "HiddenPrev", "Weight", "Bias?"),
    outputs=("Hidden", "ResetHiddenPrev", "Gate"),
    attrs={"gate_activation": "sigmoid", "activation": "tanh", "origin_mode": False},
    infer=_infer_gru,
    grad=Grad(
        needs=("Input", "HiddenPrev", "Weight", "Bias"),
        wrt=("Input", "HiddenPrev", "Weight", "Bias"),
    ),
)
def _gru_unit(op: Operator, lowering: Lowering) -> Kernel:
    gate, candidate = (ACTIVATIONS[op.attr(name)].apply for name in ("gate_activation", "activation"))
    is_origin = op.attr("origin_mode")

    def step(x: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> Any:
        width = len(weight)
        of_gates, of_candidate = matrices(weight)
        whole = x + bias[0] if bias else x
        both = gate(torch.addmm(whole[:, : 2 * width], hidden, of_gates))
        update, reset = both.split(width, 1)
        kept = hidden * reset
        chosen = candidate(torch.addmm(whole[:, 2 * width :], kept, of_candidate))
        made = torch.lerp(chosen, hidden, update) if is_origin else torch.lerp(hidden, chosen, update)
        return made, kept, torch.cat([both, chosen], 1)

    return compared(step, op, lowering, "Input", "HiddenPrev", num_dims=1)

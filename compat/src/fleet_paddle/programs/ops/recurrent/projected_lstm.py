"""`lstmp`: long short-term memory over ragged rows whose state is a projection of what the cell gives.

Input and Bias are those of `lstm`; Weight is [projection, 4 * width] and ProjWeight [width, projection]. The gradient
is autograd's, which runs the steps once more: few programs have this layer.
"""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.programs.ops.ragged.packing import ORDER, begun, require_order, spans, unpacked
from fleet_paddle.programs.ops.recurrent.gates import ACTIVATIONS, require_activations
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering

T = torch.Tensor

_ACTIVATIONS = ("gate_activation", "cell_activation", "candidate_activation", "proj_activation")
_INPUTS = ("Input", "Weight", "ProjWeight", "Bias", *ORDER, "H0?", "C0?")


def _infer(infer: Infer) -> None:
    infer.require_dtype("Input", FLOATS)
    infer.require_rank("ProjWeight", 2)
    require_order(infer)
    require_activations(infer, *_ACTIVATIONS)
    x, (width, size) = infer.var("Input"), infer.shape("ProjWeight")
    wanted = {"Input": (-1, 4 * width), "Weight": (size, 4 * width)}
    wanted["Bias"] = (1, (7 if infer.attr("use_peepholes") else 4) * width)
    wanted |= {slot: (-1, columns) for slot, columns in (("H0", size), ("C0", width)) if infer.has(slot)}
    for slot, shape in wanted.items():
        if not may_equal(infer.shape(slot), shape):
            raise infer.fail(f"{slot} must be {list(shape)}, got {list(infer.shape(slot))}; ProjWeight says the sizes")
    infer.set("Projection", (x.shape[0], size), x.dtype, lod=x.lod)
    infer.set("Cell", (x.shape[0], width), x.dtype, lod=x.lod)


@register(
    "lstmp",
    inputs=_INPUTS,
    outputs=("Projection", "Cell"),
    attrs={
        "use_peepholes": True,
        "cell_clip": 0.0,
        "proj_clip": 0.0,
        "gate_activation": "sigmoid",
        "cell_activation": "tanh",
        "candidate_activation": "tanh",
        "proj_activation": "tanh",
    },
    infer=_infer,
    grad=Grad(
        needs=tuple(one.rstrip("?") for one in _INPUTS), wrt=("Input", "Weight", "ProjWeight", "Bias", "H0", "C0")
    ),
)
def _lstmp(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    gate, squash, candidate, activate = (ACTIVATIONS[op.attr(name)].apply for name in _ACTIVATIONS)
    has_h0, has_c0 = bool(op.input("H0")), bool(op.input("C0"))
    peeps, cell_clip, proj_clip = op.attr("use_peepholes"), op.attr("cell_clip"), op.attr("proj_clip")

    def lstmp(x: T, weight: T, project: T, bias: T, order: T, sizes: T, rank: T, *first: T) -> Any:
        width, size = project.shape
        state = begun(first[0] if has_h0 else None, rank, size, x)
        cell = begun(first[-1] if has_c0 else None, rank, width, x)
        gates = x.index_select(0, order) + bias[:, : 4 * width]
        to_input, to_forget, to_output = bias[0, 4 * width :].view(3, width) if peeps else bias.new_zeros(3, 1)
        states, cells = [], []
        for begin, end in spans(sizes):
            state, cell = state[: end - begin], cell[: end - begin]
            chosen, enter, forget, leave = (gates[begin:end] + state @ weight).split(width, 1)
            kept = gate(forget + cell * to_forget) * cell
            cell = _within(kept + candidate(chosen) * gate(enter + cell * to_input), cell_clip)
            hidden = gate(leave + cell * to_output) * squash(cell)
            state = _within(activate(hidden @ project), proj_clip)
            states.append(state)
            cells.append(cell)
        if not states:
            return x.new_zeros(0, size), x.new_zeros(0, width)
        return unpacked(torch.cat(states), order), unpacked(torch.cat(cells), order)

    return lstmp


def _within(values: T, limit: float) -> T:
    return values.clamp(-limit, limit) if limit > 0 else values

"""`lstm`: long short-term memory over the rows of a ragged batch, one batched step for each time.

The input holds what the values of the rows give to the gates: [values, 4 * width], for candidate, input, forget and
output gate, which is also the order in Weight [width, 4 * width] and Bias. Peepholes, from the cell to the input,
forget and output gate, are at the end of Bias: [1, 7 * width].
"""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.programs.ops.ragged.packing import ORDER, begun, previous, require_order, spans, unpacked
from fleet_paddle.programs.ops.recurrent.gates import ACTIVATIONS, require_activations
from fleet_programs.definition.dtypes import FLOATS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, may_equal, register, register_grad
from fleet_programs.kernel.lowering import Lowering

_ACTIVATIONS = ("gate_activation", "cell_activation", "candidate_activation")


def _infer(infer: Infer) -> None:
    infer.require_dtype("Input", FLOATS)
    infer.require_rank("Input", 2)
    infer.require_rank("Weight", 2)
    require_order(infer)
    require_activations(infer, *_ACTIVATIONS)
    x, width = infer.var("Input"), infer.shape("Weight")[0]
    wanted = {"Input": (-1, 4 * width), "Weight": (width, 4 * width)}
    wanted["Bias"] = (1, (7 if infer.attr("use_peepholes") else 4) * width)
    wanted |= {slot: (-1, width) for slot in ("H0", "C0") if infer.has(slot)}
    for slot, shape in wanted.items():
        var = infer.var(slot)
        if not may_equal(var.shape, shape) or var.dtype != x.dtype:
            raise infer.fail(
                f"{slot} {var.name!r} must be {x.dtype} {list(shape)}, got {var.dtype} {list(var.shape)}; the width is "
                f"the first size of Weight, {width}"
            )
    for slot in ("Hidden", "Cell"):
        infer.set(slot, (x.shape[0], width), x.dtype, lod=x.lod)
    infer.set("BatchGate", (x.shape[0], 4 * width), x.dtype)


_INPUTS = ("Input", "Weight", "Bias", *ORDER, "H0?", "C0?")


@register(
    "lstm",
    inputs=_INPUTS,
    outputs=("Hidden", "Cell", "BatchGate"),
    attrs={
        "use_peepholes": True,
        "gate_activation": "sigmoid",
        "cell_activation": "tanh",
        "candidate_activation": "tanh",
    },
    infer=_infer,
    grad=Grad(
        needs=("Weight", "Bias", *ORDER, "H0", "C0", "Hidden", "Cell", "BatchGate"),
        wrt=("Input", "Weight", "Bias", "H0", "C0"),
        outs=("Hidden", "Cell"),
    ),
)
def _lstm(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    gate, squash, candidate = (ACTIVATIONS[op.attr(name)].apply for name in _ACTIVATIONS)
    has_h0, has_c0, peeps = bool(op.input("H0")), bool(op.input("C0")), op.attr("use_peepholes")

    def lstm(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        order: torch.Tensor,
        sizes: torch.Tensor,
        rank: torch.Tensor,
        *first: torch.Tensor,
    ) -> Any:
        width = len(weight)
        hidden = begun(first[0] if has_h0 else None, rank, width, x)
        cell = begun(first[-1] if has_c0 else None, rank, width, x)
        gates = x.index_select(0, order).add_(bias[:, : 4 * width])
        to_input, to_forget, to_output = bias[0, 4 * width :].view(-1, width) if peeps else (None, None, None)
        hiddens, cells = x.new_empty(len(x), width), x.new_empty(len(x), width)
        for begin, end in spans(sizes):
            hidden, cell = hidden[: end - begin], cell[: end - begin]
            now = gates[begin:end].addmm_(hidden, weight)
            if to_input is not None and to_forget is not None and to_output is not None:
                now[:, width : 2 * width].addcmul_(cell, to_input)
                now[:, 2 * width : 3 * width].addcmul_(cell, to_forget)
            now[:, :width] = candidate(now[:, :width])
            now[:, width : 3 * width] = gate(now[:, width : 3 * width])
            cell = now[:, 2 * width : 3 * width] * cell
            cell.addcmul_(now[:, :width], now[:, width : 2 * width])
            if to_output is not None:
                now[:, 3 * width :].addcmul_(cell, to_output)
            now[:, 3 * width :] = gate(now[:, 3 * width :])
            hidden = now[:, 3 * width :] * squash(cell)
            hiddens[begin:end], cells[begin:end] = hidden, cell
        return unpacked(hiddens, order), unpacked(cells, order), gates

    return lstm


@register_grad("lstm")
def _lstm_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """Back through time with the gates of the forward pass; products of weights are made for all times at once."""
    gate, squash, candidate = (ACTIVATIONS[op.attr(name)] for name in _ACTIVATIONS)
    has_h0, has_c0, peeps = bool(op.input("H0")), bool(op.input("C0")), op.attr("use_peepholes")
    wanted = [bool(op.output(f"{slot}@GRAD")) for slot in ("Input", "Weight", "Bias", "H0", "C0")]

    def gradient(*given: torch.Tensor) -> Any:
        weight, bias, order, sizes, rank, *first, hidden, cell, gates, to_hidden, to_cell = given
        width, times = len(weight), spans(sizes)
        hiddens, cells = hidden.index_select(0, order), cell.index_select(0, order)
        began = begun(first[0] if has_h0 else None, rank, width, hiddens)
        before = previous(cells, begun(first[-1] if has_c0 else None, rank, width, cells), times)
        to_input, to_forget, to_output = bias[0, 4 * width :].view(-1, width) if peeps else (None, None, None)
        chosen, enter, forget, leave = gates.split(width, 1)
        squashed = squash.apply(cells)
        slope_out = squashed * gate.slope(leave)
        slope_cell = leave * squash.slope(squashed)
        # What one unit of the cell's gradient gives to candidate, input and forget gate.
        slopes = torch.cat(
            [enter * candidate.slope(chosen), chosen * gate.slope(enter), before * gate.slope(forget)], 1
        ).view(-1, 3, width)
        grads = torch.empty_like(gates)
        by_hidden, by_cell = to_hidden.index_select(0, order), to_cell.index_select(0, order)
        d_hidden, d_cell = torch.zeros_like(began), torch.zeros_like(began)
        for begin, end in reversed(times):
            now = grads[begin:end]
            of_hidden = by_hidden[begin:end].add_(d_hidden[: end - begin])
            of_cell = by_cell[begin:end].add_(d_cell[: end - begin]).addcmul_(of_hidden, slope_cell[begin:end])
            torch.mul(of_hidden, slope_out[begin:end], out=now[:, 3 * width :])
            if to_output is not None:
                of_cell.addcmul_(now[:, 3 * width :], to_output)
            torch.mul(of_cell.unsqueeze(1), slopes[begin:end], out=now[:, : 3 * width].view(-1, 3, width))
            torch.mul(of_cell, forget[begin:end], out=d_cell[: end - begin])
            if to_input is not None and to_forget is not None:
                d_cell[: end - begin].addcmul_(now[:, width : 2 * width], to_input)
                d_cell[: end - begin].addcmul_(now[:, 2 * width : 3 * width], to_forget)
            torch.mm(now, weight.t(), out=d_hidden[: end - begin])
        found: list[torch.Tensor] = []
        if wanted[0]:
            found.append(unpacked(grads, order))
        if wanted[1]:
            found.append(previous(hiddens, began, times).t().mm(grads))
        if wanted[2]:
            sums = [grads.sum(0)]
            if peeps:
                both = grads[:, width : 3 * width].view(-1, 2, width) * before.unsqueeze(1)
                sums += [both.sum(0).view(-1), (grads[:, 3 * width :] * cells).sum(0)]
            found.append(torch.cat(sums).view(1, -1))
        found += [unpacked(one, rank) for one, is_wanted in ((d_hidden, wanted[3]), (d_cell, wanted[4])) if is_wanted]
        return found[0] if len(found) == 1 else tuple(found)

    return gradient

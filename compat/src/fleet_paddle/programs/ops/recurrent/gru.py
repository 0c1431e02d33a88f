"""`gru`: gated recurrent units over the rows of a ragged batch, one batched step for each time.

The input holds what the values of the rows give to update gate, reset gate and candidate: [values, 3 * width]. Weight
is [width, 3 * width] and holds two matrices one after the other: [width, 2 * width] for both gates, then [width, width]
for the candidate.
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

_ACTIVATIONS = ("gate_activation", "activation")


def check_shapes(infer: Infer, *states: str) -> int:
    """Fail unless Input, Weight, Bias and states fit each other; the width."""
    infer.require_dtype("Input", FLOATS)
    infer.require_rank("Input", 2)
    infer.require_rank("Weight", 2)
    require_activations(infer, *_ACTIVATIONS)
    x, width = infer.var("Input"), infer.shape("Weight")[0]
    wanted = {"Input": (-1, 3 * width), "Weight": (width, 3 * width), "Bias": (1, 3 * width)}
    wanted |= dict.fromkeys(states, (-1, width))
    for slot, shape in wanted.items():
        if not infer.has(slot):
            continue
        var = infer.var(slot)
        if not may_equal(var.shape, shape) or var.dtype != x.dtype:
            raise infer.fail(
                f"{slot} {var.name!r} must be {x.dtype} {list(shape)}, got {var.dtype} {list(var.shape)}; the width is "
                f"the first size of Weight, {width}"
            )
    return width


def matrices(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights of both gates and of the candidate."""
    width, flat = len(weight), weight.reshape(-1)
    return flat[: 2 * width * width].view(width, -1), flat[2 * width * width :].view(width, width)


def _infer(infer: Infer) -> None:
    require_order(infer)
    width, x = check_shapes(infer, "H0"), infer.var("Input")
    infer.set("Hidden", (x.shape[0], width), x.dtype, lod=x.lod)
    infer.set("BatchGate", (x.shape[0], 3 * width), x.dtype)


@register(
    "gru",
    inputs=("Input", "Weight", *ORDER, "Bias?", "H0?"),
    outputs=("Hidden", "BatchGate"),
    attrs={"gate_activation": "sigmoid", "activation": "tanh", "origin_mode": False},
    infer=_infer,
    grad=Grad(
        needs=("Weight", *ORDER, "H0", "Hidden", "BatchGate"), wrt=("Input", "Weight", "Bias", "H0"), outs=("Hidden",)
    ),
)
def _gru(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    gate, candidate = (ACTIVATIONS[op.attr(name)].apply for name in _ACTIVATIONS)
    has_bias, has_h0, is_origin = bool(op.input("Bias")), bool(op.input("H0")), op.attr("origin_mode")

    def gru(
        x: torch.Tensor,
        weight: torch.Tensor,
        order: torch.Tensor,
        sizes: torch.Tensor,
        rank: torch.Tensor,
        *more: torch.Tensor,
    ) -> Any:
        width = len(weight)
        of_gates, of_candidate = matrices(weight)
        hidden = begun(more[-1] if has_h0 else None, rank, width, x)
        gates = x.index_select(0, order)
        if has_bias:
            gates.add_(more[0])
        hiddens = x.new_empty(len(x), width)
        for begin, end in spans(sizes):
            hidden, now = hidden[: end - begin], gates[begin:end]
            now[:, : 2 * width] = both = gate(torch.addmm(now[:, : 2 * width], hidden, of_gates))
            update, reset = both.split(width, 1)
            now[:, 2 * width :] = chosen = candidate(torch.addmm(now[:, 2 * width :], hidden * reset, of_candidate))
            hidden = torch.lerp(chosen, hidden, update) if is_origin else torch.lerp(hidden, chosen, update)
            hiddens[begin:end] = hidden
        return unpacked(hiddens, order), gates

    return gru


@register_grad("gru")
def _gru_grad(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """Back through time with the gates of the forward pass; products of weights are made for all times at once."""
    gate, candidate = (ACTIVATIONS[op.attr(name)] for name in _ACTIVATIONS)
    has_h0, is_origin = bool(op.input("H0")), op.attr("origin_mode")
    wanted = [bool(op.output(f"{slot}@GRAD")) for slot in ("Input", "Weight", "Bias", "H0")]

    def gradient(*given: torch.Tensor) -> Any:
        weight, order, sizes, rank, *first, hidden, gates, to_hidden = given
        width, times = len(weight), spans(sizes)
        of_gates, of_candidate = matrices(weight)
        began = begun(first[0] if has_h0 else None, rank, width, hidden)
        before = previous(hidden.index_select(0, order), began, times)
        update, reset, chosen = gates.split(width, 1)
        taken, kept = (1 - update, update) if is_origin else (update, 1 - update)
        slope_update = (before - chosen if is_origin else chosen - before) * gate.slope(update)
        slope_chosen = taken * candidate.slope(chosen)
        slope_reset = before * gate.slope(reset)
        grads = torch.empty_like(gates)
        by_hidden = to_hidden.index_select(0, order)
        d_hidden = torch.zeros_like(began)
        for begin, end in reversed(times):
            now = grads[begin:end]
            of_hidden = by_hidden[begin:end].add_(d_hidden[: end - begin])
            torch.mul(of_hidden, slope_update[begin:end], out=now[:, :width])
            torch.mul(of_hidden, slope_chosen[begin:end], out=now[:, 2 * width :])
            of_reset = now[:, 2 * width :].mm(of_candidate.t())
            torch.mul(of_reset, slope_reset[begin:end], out=now[:, width : 2 * width])
            back = d_hidden[: end - begin]
            torch.mul(of_hidden, kept[begin:end], out=back)
            back.addcmul_(of_reset, reset[begin:end]).addmm_(now[:, : 2 * width], of_gates.t())
        found: list[torch.Tensor] = []
        if wanted[0]:
            found.append(unpacked(grads, order))
        if wanted[1]:
            d_gates = before.t().mm(grads[:, : 2 * width])
            d_candidate = (before * reset).t().mm(grads[:, 2 * width :])
            found.append(torch.cat([d_gates.view(-1), d_candidate.view(-1)]).view(width, -1))
        if wanted[2]:
            found.append(grads.sum(0, keepdim=True))
        if wanted[3]:
            found.append(unpacked(d_hidden, rank))
        return found[0] if len(found) == 1 else tuple(found)

    return gradient

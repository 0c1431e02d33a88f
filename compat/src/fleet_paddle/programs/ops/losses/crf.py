"""A conditional random field along the rows of a ragged batch: the loss of tags, and the best tags.

Transition is [tags + 2, tags]: what a row gets for its first tag, for its last, and for each pair of tags (from, to).
"""

from __future__ import annotations

import torch

from fleet_paddle.programs.ops.ragged.packing import ORDER, previous, require_order, spans, unpacked
from fleet_programs.definition.dtypes import FLOATS, INTEGERS
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Grad, Infer, Kernel, may_equal, register
from fleet_programs.kernel.lowering import Lowering

_ENDS = 2
"""Rows of Transition before those of pairs."""


def _check(infer: Infer) -> None:
    infer.require_dtype("Emission", FLOATS)
    infer.require_rank("Emission", 2)
    require_order(infer)
    scores, label = infer.var("Emission"), infer.op.input("Label")
    if infer.shape("Transition") != (scores.shape[1] + _ENDS, scores.shape[1]):
        raise infer.fail(
            f"Transition must have shape {[scores.shape[1] + _ENDS, scores.shape[1]]} for Emission {scores.name!r} of "
            f"shape {list(scores.shape)}, got {list(infer.shape('Transition'))}"
        )
    if label:
        infer.require_dtype("Label", INTEGERS)
        tags = infer.var("Label")
        if tags.shape[1:] not in ((), (1,)) or not may_equal(tags.shape[:1], scores.shape[:1]):
            raise infer.fail(f"Label {tags.name!r} must be one tag for each value, got shape {list(tags.shape)}")


def _infer_loss(infer: Infer) -> None:
    _check(infer)
    infer.set("LogLikelihood", (-1, 1), infer.dtype("Emission"))


@register(
    "linear_chain_crf",
    inputs=("Emission", "Transition", "Label", *ORDER),
    outputs=("LogLikelihood",),
    infer=_infer_loss,
    grad=Grad(needs=("Emission", "Transition", "Label", *ORDER), wrt=("Emission", "Transition")),
)
def _linear_chain_crf(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """The logarithm of the sum over all tags, less the score of the right ones; 0 for an empty row."""

    def loss(
        emission: torch.Tensor,
        transition: torch.Tensor,
        label: torch.Tensor,
        order: torch.Tensor,
        sizes: torch.Tensor,
        rank: torch.Tensor,
    ) -> torch.Tensor:
        times = spans(sizes)
        if not times:
            return emission.new_zeros(len(rank), 1) + emission.sum() + transition[:0].sum()
        first, last, pairs = transition[0], transition[1], transition[_ENDS:]
        scores = emission.index_select(0, order)
        tags = label.reshape(-1).long().index_select(0, order)
        count = times[0][1]
        totals = scores[:count] + first
        ends, rows = tags[:count].clone(), [torch.arange(count, device=tags.device)]
        for begin, end in times[1:]:
            now = (totals[: end - begin].unsqueeze(2) + pairs).logsumexp(1) + scores[begin:end]
            totals = torch.cat([now, totals[end - begin :]])
            ends[: end - begin] = tags[begin:end]
            rows.append(rows[0][: end - begin])
        before = previous(tags, tags[:count], times)
        steps = scores.gather(1, tags.unsqueeze(1)).squeeze(1)
        steps = steps + torch.cat([first[tags[:count]], pairs[before[count:], tags[count:]]])
        right = last[ends].index_add(0, torch.cat(rows), steps)
        found = (totals + last).logsumexp(1) - right
        return found.new_zeros(len(rank)).index_copy(0, rank[:count], found).unsqueeze(1)

    return loss


def _infer_decoding(infer: Infer) -> None:
    _check(infer)
    scores = infer.var("Emission")
    infer.set("ViterbiPath", (scores.shape[0], 1), "int64", lod=scores.lod)


@register(
    "crf_decoding",
    inputs=("Emission", "Transition", *ORDER, "Label?"),
    outputs=("ViterbiPath",),
    infer=_infer_decoding,
)
def _crf_decoding(op: Operator, lowering: Lowering) -> Kernel:  # noqa: ARG001
    """The tags with the highest score; with Label 1 where they are right, and 0 elsewhere."""

    def decode(
        emission: torch.Tensor,
        transition: torch.Tensor,
        order: torch.Tensor,
        sizes: torch.Tensor,
        rank: torch.Tensor,  # noqa: ARG001
        *label: torch.Tensor,
    ) -> torch.Tensor:
        times = spans(sizes)
        path = torch.empty(len(emission), dtype=torch.int64, device=emission.device)
        if times:
            first, last, pairs = transition[0], transition[1], transition[_ENDS:]
            scores = emission.index_select(0, order)
            chosen: list[torch.Tensor | None] = [None]
            totals = scores[: times[0][1]] + first
            for begin, end in times[1:]:
                best, came = (totals[: end - begin].unsqueeze(2) + pairs).max(1)
                totals[: end - begin] = best + scores[begin:end]
                chosen.append(came)
            tags = (totals + last).argmax(1)
            for (begin, end), back in zip(reversed(times), reversed(chosen), strict=True):
                path[begin:end] = tags[: end - begin]
                if back is not None:
                    tags[: end - begin] = back.gather(1, tags[: end - begin].unsqueeze(1)).squeeze(1)
            path = unpacked(path, order)
        found = path.unsqueeze(1)
        return (found == label[0].view(-1, 1)).long() if label else found

    return decode

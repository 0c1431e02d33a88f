"""One step of a beam search over ragged rows, and whole sentences of all its steps.

Rows are the prefixes that live, grouped by the sentence that they translate. A step leaves each sentence the best
continuations; they are the rows of the next step, in as many groups as there were prefixes, which are in groups again.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from fleet.errors import UsageError
from fleet_programs.definition.dtypes import INTEGERS
from fleet_programs.definition.kinds import ARRAY
from fleet_programs.definition.operator import Operator
from fleet_programs.definition.registry import Infer, Kernel, register
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.operators.common.segments import require_offsets


class Candidate(NamedTuple):
    """One continuation. Of two with the same score the one of the later prefix is better."""

    score: float
    prefix: int
    id: int


def _infer_search(infer: Infer) -> None:
    require_offsets(infer, "Sentences")
    infer.require_dtype("pre_ids", INTEGERS)
    if infer.attr("beam_size") < 1:
        raise infer.fail(f"beam_size must be >= 1, got {infer.attr('beam_size')}")
    groups, offsets = (infer.op.output(slot)[0] for slot in ("OutGroups", "OutOffsets"))
    infer.set("OutGroups", [-1], "int64")
    infer.set("OutOffsets", [-1], "int64", lod=groups)
    infer.set("selected_ids", [-1, 1], "int64", lod=offsets)
    infer.set("selected_scores", [-1, 1], infer.dtype("scores"), lod=offsets)
    infer.set("parent_idx", [-1], "int32")


@register(
    "beam_search",
    inputs=("pre_ids", "pre_scores", "ids?", "scores", "Sentences"),
    outputs=("selected_ids", "selected_scores", "parent_idx", "OutOffsets", "OutGroups"),
    attrs={"beam_size": 1, "end_id": 0, "is_accumulated": True},
    infer=_infer_search,
)
def _beam_search(op: Operator, lowering: Lowering) -> Kernel:
    has_ids, end_id = bool(op.input("ids")), op.attr("end_id")
    choose = partial(_best, end_id, op.attr("beam_size"), op.attr("is_accumulated"))

    def search(pre_ids: torch.Tensor, pre_scores: torch.Tensor, *given: torch.Tensor) -> Any:
        ids = given[0].tolist() if has_ids else None
        scores, sentences = given[-2], given[-1].tolist()
        last, so_far = pre_ids.reshape(-1).tolist(), pre_scores.reshape(-1).tolist()
        kept: list[list[Candidate]] = [[] for _ in last]
        rows = scores.tolist()
        for begin, end in pairwise(sentences):
            best = choose(range(begin, end), last, so_far, ids, rows)
            if all(one.id == last[one.prefix] == end_id for one in best):
                continue  # every way had ended before this step
            for one in best:
                kept[one.prefix].append(one)
        made = [one for several in kept for one in several]
        offsets = torch.tensor([0, *(len(several) for several in kept)]).cumsum(0)
        return tuple(
            value.to(lowering.device)
            for value in (
                torch.tensor([[one.id] for one in made], dtype=torch.int64).reshape(-1, 1),
                torch.tensor([[one.score] for one in made], dtype=scores.dtype).reshape(-1, 1),
                torch.tensor([one.prefix for one in made], dtype=torch.int32),
                offsets,
                given[-1].clone(),
            )
        )

    return search


def _best(
    end_id: int,
    beam_size: int,
    is_accumulated: bool,
    prefixes: range,
    last: list[int],
    so_far: list[float],
    ids: list[list[int]] | None,
    scores: list[list[float]],
) -> list[Candidate]:
    """The best continuations of one sentence, the best first. A prefix that has ended goes on as it is."""
    found = []
    for prefix in prefixes:
        if last[prefix] == end_id:
            found.append(Candidate(so_far[prefix], prefix, last[prefix]))
            continue
        for place, score in enumerate(scores[prefix]):
            if not is_accumulated:
                score = so_far[prefix] + (math.log(score) if score > 0 else -math.inf)
            found.append(Candidate(score, prefix, place if ids is None else ids[prefix][place]))
    found.sort(key=lambda one: (one.score, one.prefix), reverse=True)
    return found[:beam_size]


def _infer_decode(infer: Infer) -> None:
    for slot in ("Ids", "Scores", "Offsets", "Groups"):
        if infer.var(slot).kind != ARRAY:
            raise infer.fail(
                f"{slot} {infer.var(slot).name!r} must be an array; array_write() what beam_search() gives"
            )
    groups, offsets = (infer.op.output(slot)[0] for slot in ("OutGroups", "OutOffsets"))
    infer.set("OutGroups", [-1], "int64")
    infer.set("OutOffsets", [-1], "int64", lod=groups)
    infer.set("SentenceIds", [-1], "int64", lod=offsets)
    infer.set("SentenceScores", [-1], infer.dtype("Scores"), lod=offsets)


Step = tuple[list[int], list[float], list[int], list[int]]
"""Ids, scores, where the continuations of each prefix begin, and where the prefixes of each sentence do."""


@register(
    "beam_search_decode",
    inputs=("Ids", "Scores", "Offsets", "Groups"),
    outputs=("SentenceIds", "SentenceScores", "OutOffsets", "OutGroups"),
    attrs={"beam_size": 1, "end_id": 0},
    infer=_infer_decode,
    takes_arrays=True,
)
def _beam_search_decode(op: Operator, lowering: Lowering) -> Kernel:
    def decode(*arrays: list[Any]) -> Any:
        if not arrays[0] or any(one is None for one in arrays[0]):
            raise UsageError("beam_search_decode: the array of ids must have something at every place from 0 on")
        steps: list[Step] = [
            tuple(one.reshape(-1).tolist() for one in several) for several in zip(*arrays, strict=True)
        ]
        found = [_sentences(steps, number, op.attr("end_id")) for number in range(len(steps[0][3]) - 1)]
        ways = [way for several in found for way in several]
        score_type = arrays[1][0].dtype
        return tuple(
            value.to(lowering.device)
            for value in (
                torch.tensor([id for way in ways for id, _ in way], dtype=torch.int64),
                torch.tensor([score for way in ways for _, score in way], dtype=score_type),
                torch.tensor([0, *map(len, ways)]).cumsum(0),
                torch.tensor([0, *map(len, found)]).cumsum(0),
            )
        )

    return decode


def _sentences(steps: list[Step], number: int, end_id: int) -> list[list[tuple[int, float]]]:
    """The translations of one sentence, the best first: (id, score up to it) of each step, the end once."""
    ways: list[list[tuple[int, float]]] = []
    places: list[int] = []
    for ids, scores, begins, groups in reversed(steps):
        first, last = groups[number], groups[number + 1]
        if not places:  # the last step, or the last before the sentence was done
            places = list(range(begins[first], begins[last]))
            ways = [[] for _ in places]
        owner = {place: prefix for prefix in range(first, last) for place in range(begins[prefix], begins[prefix + 1])}
        for way, place in zip(ways, places, strict=True):
            if ids[place] != end_id or not way:
                way.append((ids[place], scores[place]))
        places = [owner[place] for place in places]
    ways.sort(key=lambda way: -way[0][1])
    return [way[::-1] for way in ways]

"""Beam search over ragged rows, written as a loop: one step of it, and the sentences that all steps have found."""

from __future__ import annotations

from fleet_programs import layers
from fleet_programs.expressions.names import LOD
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.layers.building.ragged import new_offsets
from fleet_programs.program.variable import Variable

__all__ = ["beam_search", "beam_search_decode"]


def beam_search(
    pre_ids: Variable,
    pre_scores: Variable,
    ids: Variable | None,
    scores: Variable,
    beam_size: int,
    end_id: int,
    level: int = 0,
    is_accumulated: bool = True,
    name: str | None = None,
    return_parent_idx: bool = False,
) -> tuple[Variable, ...]:
    """(ids, scores) of the `beam_size` best continuations of each sentence; with `return_parent_idx` their prefixes.

    A row of `ids` and `scores` has some continuations of one prefix, whose last id and score are in `pre_ids` and
    `pre_scores`; the rows of `scores` are in groups, one for each sentence. Scores are sums of logarithms; without
    `is_accumulated` they are probabilities of the next id. A sentence whose prefixes had all ended is left out.
    """
    layer = LayerBuilder("beam_search", name)
    ragged = [one for one in (scores, ids, pre_scores, pre_ids) if one is not None and one.lod is not None]
    if not ragged:
        raise layer.error(
            f"scores {scores.name!r} must have the rows of its sentences; give it those of pre_ids: lod_reset"
        )
    levels = layer.block.levels_of(ragged[0])
    if not 0 <= level < len(levels):
        raise layer.error(f"level must be from 0 to {len(levels) - 1}, the levels of {ragged[0].name!r}, got {level}")
    sentences = layer.block.var(levels[0])
    if level == 0 and len(levels) == 2:  # groups of rows; which rows they have
        sentences = layers.gather(sentences, layer.block.var(levels[1]))
    found, sums = layer.temporary("int64", stop_gradient=True), layer.temporary(scores.dtype, stop_gradient=True)
    parents = layer.temporary("int32", stop_gradient=True)
    offsets = new_offsets(layer, found)
    outputs = {
        "selected_ids": found,
        "selected_scores": sums,
        "parent_idx": parents,
        "OutOffsets": offsets,
        "OutGroups": layer.block.create_var(offsets.name + LOD, [-1], "int64", stop_gradient=True),
    }
    inputs = {"pre_ids": pre_ids, "pre_scores": pre_scores, "ids": ids, "scores": scores, "Sentences": sentences}
    attrs = {"beam_size": int(beam_size), "end_id": int(end_id), "is_accumulated": bool(is_accumulated)}
    layer.op("beam_search", inputs, outputs, attrs)
    return (found, sums, parents) if return_parent_idx else (found, sums)


def beam_search_decode(
    ids: Variable, scores: Variable, beam_size: int, end_id: int, name: str | None = None
) -> tuple[Variable, Variable]:
    """(ids, scores) of whole sentences from the arrays that hold those of each step, the best of a sentence first.

    Both have two levels of rows: the found sentences, in groups for each of the given ones.
    """
    layer = LayerBuilder("beam_search_decode", name)
    levels = layer.block.levels_of(layer.variable(ids, "ids"))
    if len(levels) != 2:
        raise layer.error(
            f"ids {ids.name!r} must hold ids with two levels of rows, got {len(levels)}; begin the array with "
            "data(..., lod_level=2)"
        )
    found, sums = layer.temporary("int64", stop_gradient=True), layer.temporary(scores.dtype, stop_gradient=True)
    offsets = new_offsets(layer, found)
    outputs = {
        "SentenceIds": found,
        "SentenceScores": sums,
        "OutOffsets": offsets,
        "OutGroups": layer.block.create_var(offsets.name + LOD, [-1], "int64", stop_gradient=True),
    }
    inputs = {"Ids": ids, "Scores": layer.variable(scores, "scores"), "Offsets": levels[0], "Groups": levels[1]}
    layer.op("beam_search_decode", inputs, outputs, {"beam_size": int(beam_size), "end_id": int(end_id)})
    return found, sums

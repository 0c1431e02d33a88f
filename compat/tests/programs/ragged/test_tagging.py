"""A conditional random field against all tags that a row can have, and chunks against a walk along the rows."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from fleet_paddle.programs.layers.ragged import tagging
from fleet_programs.layers.io import fed
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.program.program import Program
from program_support.programs import building
from program_support.static_ops import check, feed_variable, normal

OFFSETS = np.array([0, 2, 2, 5, 6])
TAGS = 3
SCORES, LABEL = normal(6, TAGS), np.array([[0], [2], [1], [1], [0], [2]])


def score(emission: torch.Tensor, transition: torch.Tensor, tags: Any) -> torch.Tensor:
    total = transition[0, tags[0]] + transition[1, tags[-1]]
    for place, tag in enumerate(tags):
        total = total + emission[place, tag]
    for one, other in pairwise(tags):
        total = total + transition[2 + one, other]
    return total


def scores(emission: torch.Tensor, transition: torch.Tensor) -> dict[Any, torch.Tensor]:
    return {tags: score(emission, transition, tags) for tags in product(range(TAGS), repeat=len(emission))}


def loss_of(emission: torch.Tensor, label: torch.Tensor, transition: torch.Tensor) -> torch.Tensor:
    rows = []
    for begin, end in pairwise(OFFSETS):
        if begin == end:
            rows.append(emission.new_zeros(1))
            continue
        every = scores(emission[begin:end], transition)
        right = every[tuple(label[begin:end, 0].tolist())]
        rows.append((torch.stack(list(every.values())).logsumexp(0) - right).view(1))
    return torch.stack(rows)


def test_linear_chain_crf() -> None:
    built = check(tagging.linear_chain_crf, {"input": (SCORES, OFFSETS), "label": (LABEL, OFFSETS)}, loss_of)
    assert Program.parse_from_string(str(built.main)).to_json() == built.main.to_json()


def padded(values: Any) -> Any:
    out = np.zeros((4, 4, values.shape[1]), values.dtype)
    for row, (begin, end) in enumerate(pairwise(OFFSETS)):
        out[row, : end - begin] = values[begin:end]
    return out


def test_padded_rows_with_lengths() -> None:
    inside = torch.from_numpy(np.arange(4) < np.diff(OFFSETS)[:, None])
    check(
        lambda input, label, length: tagging.linear_chain_crf(input, label, length=length),
        {"input": padded(SCORES), "label": padded(LABEL), "length": np.diff(OFFSETS)},
        lambda x, label, _, w: loss_of(x[inside], label[inside], w),
    )


def test_no_values_at_all() -> None:
    empty = np.array([0, 0, 0])
    check(
        tagging.linear_chain_crf,
        {"input": (normal(0, 2), empty), "label": (np.zeros((0, 1), np.int64), empty)},
        lambda x, _, w: x.sum() * 0 + w.sum() * 0 + w.new_zeros(2, 1),
    )


def test_crf_decoding() -> None:
    with building() as built:
        x = feed_variable("x", (SCORES, OFFSETS))
        label = feed_variable("label", (LABEL, OFFSETS))
        tagging.linear_chain_crf(x, label, ParamAttr("crf"))
        path = tagging.crf_decoding(x, ParamAttr("crf"))
        right = tagging.crf_decoding(x, ParamAttr("crf"), label)
        whole = tagging.crf_decoding(
            fed("padded", [-1, 4, TAGS], "float64"), ParamAttr("crf"), length=fed("length", [-1], "int64")
        )
    built.start()
    transition = torch.from_numpy(normal(TAGS + 2, TAGS))
    built.scope.tensors["crf"] = transition
    feeds = {"x": (SCORES, OFFSETS), "label": (LABEL, OFFSETS), "padded": padded(SCORES), "length": np.diff(OFFSETS)}
    found, hits, filled = built.run(feeds, path, right, whole)
    expected: list[int] = []
    for begin, end in pairwise(OFFSETS):
        every = scores(torch.from_numpy(SCORES[begin:end]), transition) if begin < end else {(): torch.zeros(())}
        expected += max(every, key=lambda tags: float(every[tags]))
    assert found[:, 0].tolist() == expected
    assert hits.tolist() == (found == LABEL).astype(int).tolist()
    assert filled.tolist() == padded(found)[:, :, 0].tolist()
    empty = {"x": (normal(0, TAGS), np.array([0, 0]))}
    assert built.run(empty, path)[0].shape == (0, 1)


ROLES = {"plain": "I", "IOB": "BI", "IOE": "IE", "IOBES": "BIES"}


def walked(tags: Any, scheme: str, types: int) -> set[tuple[int, int, int]]:
    """Chunks of the rows: (begin, end, type)."""
    roles, found = ROLES[scheme], set()
    for begin, end in pairwise(OFFSETS):
        start, before = -1, (types, "")
        for place in range(begin, end):
            kind, role = divmod(int(tags[place, 0]), len(roles))
            now = (min(kind, types), roles[role])
            is_new = now[0] != before[0] or now[1] in "BS" or before[1] in ("E", "S")
            if start >= 0 and is_new:
                found.add((start, place, before[0]))
                start = -1
            if now[0] < types and (is_new or start < 0):
                start = place
            before = now
        if start >= 0:
            found.add((start, end, before[0]))
    return found


@pytest.mark.parametrize("scheme", ROLES)
@pytest.mark.parametrize("excluded", [None, [1]])
def test_chunk_eval(scheme: str, excluded: list[int] | None) -> None:
    rng = np.random.default_rng(2)
    with building() as built:
        found, label = (feed_variable(name, (LABEL, OFFSETS)) for name in ("found", "label"))
        outs = tagging.chunk_eval(found, label, scheme, 2, excluded)
    for _ in range(8):
        most = 2 * len(ROLES[scheme]) + 1
        tags = [rng.integers(0, most, (6, 1)) for _ in range(2)]
        got = [one[0] for one in built.run({"found": (tags[0], OFFSETS), "label": (tags[1], OFFSETS)}, *outs)]
        mine, right = ({one for one in walked(t, scheme, 2) if one[2] not in (excluded or ())} for t in tags)
        both = len(mine & right)
        assert got[3:] == [len(mine), len(right), both]
        assert got[0] == pytest.approx(both / len(mine) if mine else 0)
        assert got[2] == pytest.approx(2 * both / (len(mine) + len(right)) if both else 0)


def test_bad_arguments() -> None:
    with building():
        x, label = feed_variable("x", (SCORES, OFFSETS)), feed_variable("label", (LABEL, OFFSETS))
        with pytest.raises(UsageError, match="input 'flat' must be ragged"):
            tagging.linear_chain_crf(fed("flat", [-1, 3]), label)
        with pytest.raises(UsageError, match="Label 'x' must be int"):
            tagging.linear_chain_crf(x, x)
        with pytest.raises(UsageError, match="chunk_scheme must be one of plain, IOB, IOE, IOBES"):
            tagging.chunk_eval(label, label, "BIO", 2)

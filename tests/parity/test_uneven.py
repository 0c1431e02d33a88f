"""Workers with less data than others stop earlier; steps go on as the mean over those that are left."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.runtime.saved import saving
from support.parity.around import BATCH, RULES, Batch, batches, worst_error
from support.parity.beside_servers import Member, Recipe, run
from support.parity.plain import train_plain
from support.parity.saved import Arrays, differences, saved

COUNTS = {"the last worker first": [30, 20], "worker 0 first": [5, 5, 30, 12], "one never trains": [20, 0]}


def present(batch: Batch, step: int, counts: list[int]) -> Batch:
    """The shares of the workers that still have data, as one batch."""
    size = BATCH // len(counts)
    left = [worker for worker, count in enumerate(counts) if step < count]
    assert left == list(range(left[0], left[-1] + 1)), "they must be neighbours"
    return batch.part(left[0] * size, (left[-1] + 1) * size)


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("rule", ["momentum", "adam"])
def test_the_others_finish(rule: str, counts: list[int], tmp_path: Path) -> None:
    data = batches(max(counts))
    expected, _ = train_plain(RULES[rule], [present(batch, step, counts) for step, batch in enumerate(data)])
    on_one: Arrays = {}
    for num_servers in (1, 3):
        folder = tmp_path / str(num_servers)

        def work(member: Member, folder: Path = folder) -> list[float]:
            own = counts[member.index]
            losses = member.train([batch.share(member.index, len(counts)) for batch in data[:own]])
            if own == max(counts):
                saving.save(member.worker, folder)
            return losses

        curves = run(len(counts), num_servers, Recipe(RULES[rule]), work)
        for step, wanted in enumerate(expected):
            there = [losses[step] for losses in curves if step < len(losses)]
            assert worst_error([sum(there) / len(there)], [wanted]) < 1e-5, f"step {step}"
        on_one = on_one or saved(folder)
        assert differences(saved(folder), on_one) == []

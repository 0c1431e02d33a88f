"""fleet_programs.InMemoryDataset.global_shuffle between two real workers, in one job."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.collective.collective_job import run_cases
from support.data.slots import write

pytestmark = pytest.mark.timeout(300)
SIZES = [60, 50, 41]
TOTAL = sum(SIZES)


def test_records_go_to_one_worker_each(tmp_path: Path) -> None:
    write(tmp_path, SIZES)
    cases = ["every_record_once", "a_worker_with_nothing", "lines_of_one_id_meet", "different_slots"]
    got = run_cases("program_support.shuffle_cases", cases, 2, tmp_path)

    workers = got["every_record_once"]
    assert [worker["before"] for worker in workers] == [list(range(110)), list(range(110, TOTAL))]
    for one, other in zip(*(worker["orders"] for worker in workers), strict=True):
        assert sorted(one + other) == list(range(TOTAL)), "nothing lost, nothing doubled"
        for part in (one, other):
            assert 40 < sum(number < 110 for number in part) < 70, "about half of worker 0's, on either"
            assert part != sorted(part)
    default, seeded, again = workers[0]["orders"]
    assert seeded == again != default
    assert [worker["sizes"] for worker in workers] == [[len(worker["orders"][0]), TOTAL, TOTAL] for worker in workers]

    parts = got["a_worker_with_nothing"]
    assert sorted(parts[0] + parts[1]) == list(range(TOTAL))
    assert min(map(len, parts)) > 40

    pairs = got["lines_of_one_id_meet"]
    assert sorted(pairs[0] + pairs[1]) == [[number, number] for number in range(40)]
    assert all(pairs)

    for worker in got["different_slots"]:
        assert worker["error"] == "UsageError"
        assert worker["says"] == "workers 0 and 1 have different slots (label); give all the same use_var"

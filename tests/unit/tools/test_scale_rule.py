"""`fleetrun --scale`: how many workers keep servers as busy as the rule says."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import UsageError
from fleet.jobfiles import figures, whole
from fleet.jobfiles.scaling import ScaleNotes
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.planning.mistakes import refuse_mistakes
from fleet_tools.watching.scale_rule import WorkersRule

RULE = "workers to keep servers at 50% of a core, every 10s"
JOB = Options("train.py", server_num=2, worker_num=8, worker_range=Nodes(1, 8), durable="kept", scale=RULE)


def decided(rule: WorkersRule, share: float, num: int) -> int | None:
    """What becomes of ten seconds with two servers that are so busy."""
    assert rule.decide(100.0, {1: 5.0, 2: 7.0}, num) is None
    assert rule.decide(105.0, {1: 5.0 + 5 * share, 2: 7.0 + 5 * share}, num) is None, "too soon"
    return rule.decide(110.0, {1: 5.0 + 9 * share, 2: 7.0 + 11 * share}, num)


@pytest.mark.parametrize(
    ("share", "num", "wanted"),
    [
        (0.25, 2, 4),
        (0.3, 3, 5),
        (0.01, 2, 4),  # at most twice as many
        (0.7, 7, 5),
        (5.0, 7, 4),  # at least half
        (0.46, 4, None),  # near enough
        (0.54, 4, None),
        (0.2, 8, None),  # there may be no more
        (0.9, 1, None),  # and no fewer
        (0.0, 2, None),  # nobody trains: that says nothing
    ],
)
def test_workers_are_as_many_as_keep_servers_that_busy(share: float, num: int, wanted: int | None) -> None:
    assert decided(WorkersRule(JOB), share, num) == wanted


def test_a_decision_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "fleetrun"):
        decided(WorkersRule(JOB), 0.25, 2)
        decided(WorkersRule(JOB), 0.5, 2)
    assert [record.getMessage() for record in caplog.records] == [
        "--scale: servers were at 25% of a core for 10 s, and are to be at 50%: 4 workers instead of 2"
    ]


def test_it_looks_anew_after_each_decision_and_each_change() -> None:
    rule = WorkersRule(JOB)
    assert decided(rule, 0.25, 2) == 4
    assert rule.decide(121.0, {1: 8.0, 2: 8.0}, 2) is None, "the same figures do not count again"
    assert rule.decide(130.0, {1: 8.0, 2: 8.0}, 3) is None, "a worker has come"
    assert rule.decide(131.5, {1: 8.0, 3: 0.0}, 3) is None, "a server was started again"
    assert rule.decide(142.0, {1: 20.0, 3: 9.0}, 3) == 2


class Running:
    """A worker."""

    is_running = True
    plan = type("Plan", (), {"role": "worker"})

    def __init__(self, back_at: float | None) -> None:
        self.back_at = back_at


def test_it_asks_as_fleetrun_scale_does_and_waits_for_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = replace(JOB, durable=str(tmp_path / "kept"), log_dir=str(tmp_path / "log"))
    rule, notes = WorkersRule(job), ScaleNotes(tmp_path / "kept")
    clock = 0.0
    monkeypatch.setattr("fleet_tools.watching.scale_rule.time.monotonic", lambda: clock)

    def look(*workers: Any) -> int:
        nonlocal clock
        clock += 6.0
        processes = [{"role": "server", "pid": 1, "cpu": clock / 4}, {"role": "worker", "pid": 2, "cpu": 1.0}]
        whole.put(tmp_path / "log" / figures.FOLDER / "fleetrun.0.json", {"processes": processes}, is_new=False)
        rule.look(workers)
        wish = notes.wanted()
        return 0 if wish is None else wish.workers

    one, starting = Running(1.0), Running(None)
    assert [look(one), look(one), look(one, starting), look(one), look(one), look(one)] == [0, 0, 0, 0, 0, 2]
    assert [look(one, one) for _ in range(4)] == [2] * 4
    notes.done(1)
    assert [look(one, one) for _ in range(3)] == [2, 2, 4]


def test_wishes_at_the_same_time_are_told_apart(tmp_path: Path) -> None:
    def wish(workers: int) -> int:
        return ScaleNotes(tmp_path).wish(workers)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(wish, range(40))) == list(range(1, 41))


@pytest.mark.parametrize("text", ["", "workers", f"{RULE} and more", "workers to keep servers at 0% of a core"])
def test_another_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match='--scale .*: write "workers to keep servers at 70% of a core"'):
        WorkersRule(replace(JOB, scale=text))


def test_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--scale 'workers .*: there is one number of workers; give A:B"):
        refuse_mistakes(replace(JOB, worker_range=None))
    monkeypatch.setenv("FLEET_METRICS", "0")
    with pytest.raises(UsageError, match="FLEET_METRICS=0 says that there are none"):
        WorkersRule(JOB)

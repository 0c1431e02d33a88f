"""Who is started again in its place, when, and what is said of it; that it happens is seen in tests/fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from fleet.job import lives, restart_policy
from fleet.job.comebacks import Comeback, summary
from fleet.job.lives import Lives
from fleet.launch.processes.child import Child


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in (lives, restart_policy):
            monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: self.now, monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Dead:
    """A child that has ended, as far as `Lives` asks."""

    def __init__(self, role: str, status: int, started_at: float, exited_at: float, pid: int) -> None:
        self.plan = SimpleNamespace(role=role, index=1, name=f"{role} 1")
        self.role, self.name = role, self.plan.name
        self.was_refused = False
        self.status, self.started_at, self.exited_at, self.pid = status, started_at, exited_at, pid


def dead(clock: Clock, status: int, role: str = "server", lived_s: float = 1.0, pid: int = 1) -> Child:
    clock.now += lived_s
    return cast(Child, Dead(role, status, clock.now - lived_s, clock.now, pid))


def test_where_a_job_is_not_durable_nobody_is_started_again(clock: Clock) -> None:
    found: Lives[Child] = Lives(None)
    assert not found.died(dead(clock, -9))
    assert not found.take_due()


def test_deaths_are_counted_within_ten_minutes(clock: Clock) -> None:
    found: Lives[Child] = Lives(2)
    assert found.died(dead(clock, -9, lived_s=1))
    assert found.died(dead(clock, -9, lived_s=300))
    assert found.died(dead(clock, -9, lived_s=301)), "the first is forgotten"
    child = dead(clock, -9, lived_s=1)
    assert not found.died(child)
    assert found.given_up[child].startswith("server 1 is not started again: it has died 3 times within 10 minutes")


def test_errors_that_take_minutes_come_to_an_end(clock: Clock) -> None:
    found: Lives[Child] = Lives(3)
    for status, lived_s in ((1, 290.0), (1, 290.0), (1, 700.0), (1, 290.0), (1, 290.0), (1, 290.0)):
        assert found.died(dead(clock, status, "worker", lived_s)), "one that lived long begins a new count"
    child = dead(clock, 1, "worker", 290.0)
    assert not found.died(child)
    assert found.given_up[child] == (
        "worker 1 is not started again: 4 times in a row it has ended with an error within 10 minutes of its start "
        "(--max_restart 3)"
    )


def test_processes_are_counted_each_by_itself(clock: Clock) -> None:
    found: Lives[Child] = Lives(1)
    assert found.died(dead(clock, -9, "server"))
    assert found.died(dead(clock, -9, "worker"))


def test_a_death_that_fleetrun_has_caused_is_not_counted(clock: Clock) -> None:
    found: Lives[Child] = Lives(0)
    found.excuse(7)
    assert found.died(dead(clock, -9, pid=7))
    assert not found.died(dead(clock, -9, pid=7)), "an id may be used again"


def test_a_worker_pauses_after_an_error_and_not_after_a_signal(clock: Clock) -> None:
    found: Lives[Child] = Lives(10)
    for status, pause_s in ((-9, 0.0), (1, 1.0), (1, 2.0), (-9, 0.0), (1, 1.0)):
        child = dead(clock, status, "worker")
        assert found.died(child)
        assert found.look() == pytest.approx(pause_s)
        if pause_s:
            assert not found.take_due()
        clock.now += pause_s
        assert found.take_due() == [child]


def test_errors_in_a_row_count_if_they_come_early(clock: Clock) -> None:
    found: Lives[Child] = Lives(10)
    for lived_s in (1.0, 1.0, 40.0, 29.0, 29.0):
        assert found.died(dead(clock, 1, "worker", lived_s=lived_s))
    assert not found.died(dead(clock, 1, "worker", lived_s=29.0))


def test_only_a_server_that_refuses_its_journal_ends_the_job_at_once(clock: Clock) -> None:
    found: Lives[Child] = Lives(10)
    assert found.died(dead(clock, 2, "worker"))
    assert not found.died(dead(clock, 2, "server"))


def test_the_restarts_in_one_line() -> None:
    def one(name: str, took_s: float | None) -> Comeback:
        return Comeback(name, "was killed by SIGKILL", 2, 10.0, None if took_s is None else 10.0 + took_s)

    assert summary([]) is None
    assert summary([one("server 1", 1.94)]) == "1 restart: server 1 back after 1.9 s"
    many = [*(one("server 1", 1.0 + n) for n in range(5)), one("worker 0", 2.0), one("worker 0", None)]
    assert summary(many) == (
        "7 restarts: server 1 5 times, back after 1.0 s to 5.0 s, worker 0 back after 2.0 s (1 time not back)"
    )
    assert summary([one("worker 3", None)] * 2) == "2 restarts: worker 3 2 times, not back"


def test_a_worker_that_was_refused_is_not_started_again(clock: Clock) -> None:
    found: Lives[Child] = Lives(10)
    for status, is_started_again in ((1, False), (-9, True)):
        child = cast(Dead, dead(clock, status, "worker"))
        child.was_refused = True
        assert found.died(cast(Child, child)) is is_started_again
    assert list(found.given_up.values()) == ["worker 1 is not started again: it would meet the same"]

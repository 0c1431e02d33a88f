"""How many machines a job may have, who sits where, and what stays of a round that was."""

from __future__ import annotations

import signal
import socket
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from fleet.errors import UsageError
from fleet.launch.arguments.options import Nodes, Options
from fleet.launch.meet.guest import Guest
from fleet.launch.meet.job_token import own_token
from fleet.launch.meet.seats import choose, seat
from fleet.launch.processes.guard import watched
from fleet.launch.rounds import job as job_module
from fleet.launch.rounds.job import Job


@pytest.mark.parametrize("text", ["1", "2", "1:2", "2:16"])
def test_nodes_print_as_they_were_written(text: str) -> None:
    assert str(Nodes.parse(text)) == text


def test_a_range_of_one_number_is_that_number() -> None:
    assert Nodes.parse("3:3") == Nodes.parse("3")
    assert not Nodes.parse("3:3").is_range


@pytest.mark.parametrize("text", ["", ":", "1:", ":2", "1:2:3", "-1", "1.5", "two", "0", "0:2", "3:2", "\uff11"])
def test_what_is_no_number_of_machines_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--nnodes"):
        Nodes.parse(text)


@pytest.fixture
def guests() -> list[Guest]:
    """Four who came in this order and asked for these ranks."""
    with socket.socket() as unused:
        return [Guest(unused, "", rank, None, own_token({})) for rank in (None, 2, None, 2)]


def test_those_who_came_first_take_part_and_no_rank_is_given_twice(guests: list[Guest]) -> None:
    assert choose(guests, 4) == guests[:3]
    assert choose(guests[1:], 4) == guests[1:3]
    assert choose(guests, 2) == guests[:2]


def test_the_order_is_by_rank_then_by_arrival_and_has_no_gaps(guests: list[Guest]) -> None:
    assert seat(guests[:3], 3) == [guests[0], guests[2], guests[1]]
    assert seat(guests[1:3], 4) == [guests[2], guests[1]]
    assert seat([guests[1]], 4) == [guests[1]]


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_signal_right_after_the_others_have_begun_is_told_to_them(
    monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    told: list[Any] = []
    job = Job(Options("train.py"), "a job", watchman=None)  # type: ignore[arg-type]
    team: Any = SimpleNamespace(has_begun=has_begun, address="10.0.0.2", failed=told.append)

    def interrupted(*_: object) -> NoReturn:
        job._on_signal(signal.SIGTERM, None)
        raise AssertionError

    monkeypatch.setattr(job, "_team", team)
    monkeypatch.setattr(job_module, "prepare", interrupted)
    with ExitStack() as holds, pytest.raises(SystemExit) as caught:
        job._meet(holds)
    assert caught.value.code == 143
    words = [(one.what, one.code, one.is_final) for one in told]
    assert words == [("fleetrun was stopped by SIGTERM on 10.0.0.2", 143, True)] * has_begun


def test_a_process_id_that_comes_again_in_a_later_round_is_watched() -> None:
    assert watched(b"11\n12\n-11\n-12\n13\n12\n") == {12, 13}

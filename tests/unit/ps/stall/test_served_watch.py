"""What ends a job with servers, and what does not: the watch of one worker, beside a server 0 that comes and goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import NoReturn

import pytest

from fleet.errors import CommunicationError
from fleet.observe.stall.words import Findings, StallOutcome
from fleet.observe.waits.waiting import Awaited, LongWait
from fleet.ps.server.service import Service
from fleet.ps.stall.remote_board import RemoteBoard
from fleet.ps.stall.report import Limits, OverdueWait, WorkerState
from fleet.ps.stall.watch import NUM_MISSES, ServedWatch
from fleet.ps.wire.transport import Answer, LocalTransport, Transport

LIMITS = Limits(60.0)
DURABLE = Limits(60.0, 300.0)


class Ended(Exception):  # noqa: N818 - what a process does at the end
    """A watch has ended its job."""


class Watched(ServedWatch):
    """A watch that is moved by hand, and ends nothing."""

    def _end(self, outcome: StallOutcome) -> NoReturn:
        raise Ended(outcome.text)

    def look(self) -> None:
        """What it does every few seconds."""
        self._stopping.set()
        self._watch()


class Host:
    """Server 0, which may be away, and what its workers reach."""

    def __init__(self) -> None:
        self.service: Service | None = Service()

    def connect(self) -> Transport:
        if self.service is None:
            raise CommunicationError("it is away")
        return LocalTransport(self.service)

    def watch(self, worker: int, limits: Limits, reach: Callable[[str], Transport] | None = None) -> Watched:
        board = RemoteBoard(self.connect, worker, 2)
        watch = Watched(board, worker, 2, limits, reach or (lambda _: self.connect()))
        watch._answer_s = 0.0
        return watch


@pytest.fixture
def waiting() -> Iterator[LongWait]:
    """A wait for worker 1 that has taken longer than it may."""
    with LongWait("worker 0") as wait:
        wait.tell(Awaited("worker 1 to come to barrier", (1,)))
        wait.sign_at -= 70.0
        yield wait


def lose(watch: Watched, host: Host) -> None:
    host.service = None
    watch._mailbox.close()


@pytest.mark.usefixtures("waiting")
def test_a_server_0_that_is_away_for_a_moment_ends_no_job() -> None:
    host = Host()
    watch = host.watch(0, LIMITS)
    lose(watch, host)
    for _ in range(NUM_MISSES - 1):
        watch.look()
    with pytest.raises(Ended, match="server 0, where all meet, does not answer"):
        watch.look()


@pytest.mark.usefixtures("waiting")
def test_the_server_0_of_a_durable_job_has_time_to_come_back() -> None:
    host = Host()
    watch = host.watch(0, DURABLE)
    lose(watch, host)
    for _ in range(2 * NUM_MISSES):
        watch.look()
    watch._board_since -= DURABLE.return_s
    with pytest.raises(Ended):
        watch.look()


def test_a_call_on_the_board_of_the_next_server_0_is_answered_by_those_who_come_later() -> None:
    host = Host()
    watch = host.watch(1, DURABLE)
    watch.look()
    host.service = Service()
    watch._mailbox.close()
    other = RemoteBoard(host.connect, 0, 2)
    other.put("call/0", json.dumps(["alarm", OverdueWait(0, "worker 1 to come", (1,), "", 70.0).to_json()]))
    other.put("newest", "0")
    other.put("outcome/0", "")  # as if it had been called off by now
    watch.look()
    assert other.get("state/0/1") is not None


def test_a_former_life_that_has_left_does_not_speak_for_this_one() -> None:
    host = Host()
    board = RemoteBoard(host.connect, 1, 2)
    board.put("left/1", "left")
    host.watch(1, DURABLE).look()
    assert host.watch(0, DURABLE)._by_worker("left", [1]) == {}


def test_a_server_that_misses_one_question_is_asked_again(waiting: LongWait) -> None:
    host, away = Host(), Host()
    lives = iter([away, host])

    class Silent(LocalTransport):
        def call(self, *_: object, **__: object) -> Answer:
            answer: Answer = Future()
            answer.set_exception(CommunicationError("it is away"))
            return answer

    def reach(_: str) -> Transport:
        return Silent(Service()) if next(lives) is away else host.connect()

    waiting.awaited = Awaited("server left:6170 to answer Load", server="left:6170")
    watch = host.watch(0, LIMITS, reach)
    watch.look()
    assert watch._is_too_long(waiting)
    watch.look()
    assert not watch._is_too_long(waiting)  # it is there, and has a limit of its own


@pytest.mark.parametrize("has_come", [True, False])
def test_one_that_comes_while_all_are_asked_is_no_stall(waiting: LongWait, has_come: bool) -> None:
    watch = Host().watch(0, LIMITS)
    stall = OverdueWait(0, waiting.awaited.what, (1,), "", 70.0)
    states = {0: WorkerState(0, "left", 10), 1: WorkerState(1, "left", 11)}
    if has_come:
        waiting.end()
    assert (watch._outcome(Findings(stall, states)) is None) is has_come

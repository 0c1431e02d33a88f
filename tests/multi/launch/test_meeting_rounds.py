"""Launchers that meet more than once, in threads over loopback: after failures, with newcomers, without the lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from fleet.errors import CommunicationError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet import host as meeting_point
from fleet.launch.meet.job_token import JobToken, own_token
from fleet.launch.meet.messages import AllDone, JobOverError, NodeFailed, Offer, Regroup
from fleet.launch.meet.team import Round, Team
from fleet.net import Endpoint, Hold
from support.processes import wait_until

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def short_last_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting_point, "LAST_CALL_S", 0.3)


class Launcher:
    """A launcher without processes: its team, and the round it is in."""

    def __init__(self, meet: Callable[[], Round], team: Team, pool: ThreadPoolExecutor) -> None:
        self._meet = meet
        self._pool = pool
        self.team = team
        self.next: Future[Round]
        self.round: Round

    @property
    def host(self) -> meeting_point.Host:
        """Of the first machine, which has the meeting point."""
        link = self.arrive().team._link
        assert link is not None
        assert link.host is not None
        return link.host

    def come(self) -> Launcher:
        """Go to the meeting point and wait there, in the background."""
        self.next = self._pool.submit(self._meet)
        return self

    def begin(self) -> Round:
        """Wait until the round begins."""
        self.round = self.next.result(timeout=PATIENCE_S)
        return self.round

    def arrive(self) -> Launcher:
        """Wait until the meeting point has welcomed it."""
        wait_until(lambda: self.team._link is not None, PATIENCE_S, "the welcome")
        return self

    def hears(self) -> object:
        return self.round.news.get(timeout=PATIENCE_S)

    def fails(self, is_final: bool = False) -> None:
        self.team.failed(NodeFailed("worker 0 failed", 42, time.time(), is_final))


class Machines:
    """Makes launchers that meet at one point."""

    def __init__(self, resources: ExitStack) -> None:
        self._resources = resources
        self._pool = resources.enter_context(ThreadPoolExecutor(8))
        self.point = resources.enter_context(Hold.any_port(plain=True)).endpoint

    def add(
        self, name: int, nodes: Nodes, max_restart: int = 1, rank: int | None = None, token: JobToken | None = None
    ) -> Launcher:
        team = Team(token or own_token({}), max_restart)
        self._resources.callback(team.close)
        offer = Offer("127.0.0.1", (), (Endpoint("127.0.0.1", 2000 + name),), None, "the same")
        launcher = Launcher(lambda: team.meet(self.point, nodes, rank, lambda _: offer), team, self._pool)
        launcher.come()
        if name == 0:
            self._wait_for_host()
        return launcher

    def _wait_for_host(self) -> None:
        while True:
            try:
                socket.create_connection((self.point.host, self.point.port)).close()
            except ConnectionRefusedError:
                continue
            return


@pytest.fixture
def machines() -> Iterator[Machines]:
    with ExitStack() as resources:
        yield Machines(resources)


def ports(launcher: Launcher) -> list[int]:
    return [worker.port - 2000 for offer in launcher.round.offers for worker in offer.workers]


@pytest.mark.parametrize("token", [None, JobToken("open-sesame", is_given=True)])
def test_a_failure_brings_everybody_to_the_next_round_until_restarts_are_used_up(
    machines: Machines, token: JobToken | None
) -> None:
    both = [machines.add(number, Nodes(2, 2), max_restart=1, token=token) for number in (0, 1)]
    tokens = []
    for restart, culprit in ((0, both[1]), (1, both[0])):
        for launcher in both:
            assert (launcher.begin().restart, launcher.round.num_failures) == (restart, restart)
        assert [ports(launcher) for launcher in both] == [[0, 1], [0, 1]]
        tokens += [launcher.team.token for launcher in both]
        culprit.fails()
        heard = next(launcher for launcher in both if launcher is not culprit).hears()
        assert isinstance(heard, NodeFailed)
        assert (heard.what, heard.code) == ("worker 0 failed", 42)
        for launcher in both:
            launcher.come()
    for launcher in both:
        with pytest.raises(JobOverError, match="has failed 2 times and --max_restart is 1") as caught:
            launcher.begin()
        assert caught.value.code is None
    assert len(set(tokens)) == 1


def test_both_fail_at_once_and_it_counts_once(machines: Machines) -> None:
    both = [machines.add(number, Nodes(2, 2), max_restart=1) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
    for launcher in both:
        launcher.fails()
    for launcher in both:
        launcher.come()
    assert [launcher.begin().num_failures for launcher in both] == [1, 1]
    assert all(launcher.round.news.empty() for launcher in both)  # what is about the last round stays there


def test_a_range_begins_after_the_last_call_and_shrinks_when_a_machine_is_gone(machines: Machines) -> None:
    three = [machines.add(number, Nodes(2, 4)) for number in range(3)]
    assert [launcher.begin().num_nodes for launcher in three] == [3, 3, 3]
    lost = next(launcher for launcher in three[1:] if launcher.round.node_index == 1)
    lost.team.close()
    left = [launcher for launcher in three if launcher is not lost]
    for launcher in left:
        heard = launcher.hears()
        assert isinstance(heard, NodeFailed)
        assert heard.what.startswith("machine 1 (127.0.0.1) is gone")
        launcher.come()
    assert [launcher.begin().node_index for launcher in left] == [0, 1]
    assert {launcher.round.num_nodes for launcher in left} == {2}


def test_too_few_are_waited_for_until_the_deadline(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    both = [machines.add(number, Nodes(2, 3)) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
    monkeypatch.setattr(both[0].host, "_timeout_s", 0.5)
    both[1].team.close()
    both[0].hears()
    with pytest.raises(CommunicationError, match="waited for 1 of at least 2 machines") as caught:
        both[0].come().begin()
    assert caught.value.code == 1  # type: ignore[attr-defined]


def test_at_the_deadline_a_job_begins_with_those_who_are_there(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a last call then, be it that a machine has just come or just come back."""
    monkeypatch.setattr(meeting_point, "LAST_CALL_S", 60.0)
    both = [machines.add(number, Nodes(1, 3)) for number in (0, 1)]
    host = both[0].host
    wait_until(lambda: [guest.is_waiting for guest in host._guests] == [True, True], PATIENCE_S, "both to come")
    monkeypatch.setattr(host, "_timeout_s", 0.5)  # of the next round
    monkeypatch.setattr(host, "_deadline", 0.0)  # of this one
    assert {launcher.begin().num_nodes for launcher in both} == {2}
    both[0].fails()
    assert isinstance(both[1].hears(), NodeFailed)
    both[0].come()
    with pytest.raises(TimeoutError):
        both[0].next.result(timeout=1.0)  # past the deadline, and one still stops its workers
    both[1].come()
    for launcher in both:
        assert (launcher.begin().restart, launcher.round.num_nodes) == (1, 2)


@pytest.mark.parametrize("age_s", ["1" + "0" * 400, "1e999", "-5", '"long"', "null"])
def test_odd_words_of_a_machine_do_not_hide_its_failure(machines: Machines, age_s: str) -> None:
    both = [machines.add(number, Nodes(2, 2)) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
        assert launcher.team.has_begun
    link = both[1].team._link
    assert link is not None
    words = f'{{"say": "failed", "what": "worker 1 failed", "code": 1e9, "age_s": {age_s}}}\n'
    link._line.socket.sendall(words.encode())
    heard = both[0].hears()
    assert isinstance(heard, NodeFailed)
    assert (heard.what, heard.code) == ("worker 1 failed", 1)
    assert heard.began_at == pytest.approx(time.time(), abs=10)
    for launcher in both:
        launcher.come()
    assert [launcher.begin().restart for launcher in both] == [1, 1]


def test_a_machine_that_comes_late_is_taken_in_and_that_is_no_failure(machines: Machines) -> None:
    host = machines.add(0, Nodes(1, 2), max_restart=0)
    assert host.begin().num_nodes == 1
    late = machines.add(1, Nodes(1, 2), max_restart=0)
    assert host.hears() == Regroup("a machine has come (127.0.0.1)")
    host.come()
    for launcher in (host, late):
        assert (launcher.begin().restart, launcher.round.num_failures, launcher.round.num_nodes) == (1, 0, 2)
        launcher.team.done()
    assert [launcher.hears() for launcher in (host, late)] == [AllDone(), AllDone()]


def test_what_fails_while_everybody_stops_for_a_newcomer_is_not_counted(machines: Machines) -> None:
    host = machines.add(0, Nodes(1, 2), max_restart=0)
    host.begin()
    late = machines.add(1, Nodes(1, 2), max_restart=0)
    assert isinstance(host.hears(), Regroup)
    host.fails()
    assert [launcher.begin().num_failures for launcher in (host.come(), late)] == [0, 0]


def test_a_spare_waits_and_takes_the_place_of_one_that_is_gone(machines: Machines) -> None:
    both = [machines.add(number, Nodes(2, 2)) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
    spare = machines.add(2, Nodes(2, 2)).arrive()
    both[1].team.close()
    both[0].hears()
    both[0].come().begin()
    assert spare.begin().node_index == 1
    assert ports(both[0]) == ports(spare) == [0, 2]


def test_a_spare_is_not_preferred_to_a_machine_that_takes_its_time(machines: Machines) -> None:
    both = [machines.add(number, Nodes(2, 2)) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
    spare = machines.add(2, Nodes(2, 2)).arrive()
    both[0].fails()
    assert isinstance(both[1].hears(), NodeFailed)
    both[0].come()
    with pytest.raises(TimeoutError):
        both[0].next.result(timeout=0.5)  # longer than the last call: the other stops its workers
    both[1].come()
    for launcher in both:
        assert launcher.begin().restart == 1
        assert ports(launcher) == [0, 1]
        launcher.team.done()
    with pytest.raises(JobOverError, match="this machine was not needed") as caught:
        spare.begin()
    assert caught.value.code == 0


def test_a_machine_with_a_rank_may_come_again_while_its_old_self_is_thought_alive(machines: Machines) -> None:
    both = [machines.add(number, Nodes(2, 2), rank=number) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
    again = machines.add(3, Nodes(2, 2), rank=1).arrive()
    both[1].team.close()
    both[0].hears()
    both[0].come().begin()
    assert again.begin().node_index == 1


def test_nobody_is_taken_in_once_a_machine_has_finished(machines: Machines) -> None:
    both = [machines.add(number, Nodes(1, 3)) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
    both[0].team.done()
    late = machines.add(2, Nodes(1, 3)).arrive()
    both[1].team.done()
    assert [launcher.hears() for launcher in both] == [AllDone(), AllDone()]
    with pytest.raises(JobOverError, match="was not needed"):
        late.begin()


@pytest.mark.parametrize("is_meeting", [False, True])
def test_a_user_who_stops_one_machine_ends_the_job(machines: Machines, is_meeting: bool) -> None:
    both = [machines.add(number, Nodes(2, 2), max_restart=5) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
    if is_meeting:
        both[0].fails()
        both[1].hears()
        both[0].come()
    both[1].fails(is_final=True)
    if not is_meeting:
        heard = both[0].hears()
        assert isinstance(heard, NodeFailed)
        assert heard.is_final
        both[0].come()
    with pytest.raises(JobOverError, match="the job was ended: worker 0 failed") as caught:
        both[0].begin()
    assert caught.value.code == 42


def test_the_end_of_the_meeting_point_is_the_end_of_the_job(machines: Machines) -> None:
    both = [machines.add(number, Nodes(1, 2), max_restart=5) for number in (0, 1)]
    for launcher in both:
        launcher.begin()
    both[0].team.close()
    heard = both[1].hears()
    assert isinstance(heard, NodeFailed)
    assert "machine 0 (127.0.0.1) is gone" in heard.what
    with pytest.raises(JobOverError):
        both[1].come().begin()


def test_guests_learn_that_the_host_was_stopped_before_the_first_round(machines: Machines) -> None:
    host = machines.add(0, Nodes(3, 3)).arrive()
    guest = machines.add(1, Nodes(3, 3)).arrive()
    host.team.close()
    with pytest.raises(JobOverError, match=f"{machines.point} ended: fleetrun was stopped at the meeting point"):
        guest.begin()
    with pytest.raises(JobOverError):
        host.begin()

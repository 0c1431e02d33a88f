"""Launchers whose connection is broken come back, over loopback in threads: what they hear, and who else cannot."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from fleet.launch.arguments.options import Nodes
from fleet.launch.meet import guests
from fleet.launch.meet import link as launcher_link
from fleet.launch.meet.guest import Guest
from fleet.launch.meet.job_token import JobToken, new_nonce, own_token
from fleet.launch.meet.line import PROTOCOL
from fleet.launch.meet.messages import AllDone, JobOverError, NodeFailed, Offer
from fleet.launch.meet.team import Round, Team
from fleet.net import Endpoint, Hold
from support.processes import wait_for_listener, wait_until

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 60.0
SESAME = JobToken("open-sesame", is_given=True)
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


class Network:
    """What lies between a guest and the meeting point: it passes on what is said, breaks, and is mended."""

    def __init__(self, target: Endpoint) -> None:
        self._target = (target.host, target.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint(*self._listener.getsockname())
        self.heard = bytearray()
        """What went to the meeting point."""
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._is_broken = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def break_down(self) -> None:
        """Both sides lose their connections, and new ones lead nowhere."""
        with self._lock:
            self._is_broken = True
            self._reset()

    def mend(self) -> None:
        with self._lock:
            self._is_broken = False
            self._reset()

    def close(self) -> None:
        self.break_down()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self._reset()

    def _reset(self) -> None:
        for end in self._ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # wakes its thread, and says nothing to the other side
            end.close()
        self._ends.clear()

    def _accept(self) -> None:
        while True:
            try:
                guest, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._ends.append(guest)
                if self._is_broken:
                    continue
                host = socket.create_connection(self._target)
                self._ends.append(host)
            for source, sink, heard in ((guest, host, self.heard), (host, guest, bytearray())):
                thread = threading.Thread(target=self._forward, args=(source, sink, heard))
                self._threads.append(thread)
                thread.start()

    def _forward(self, source: socket.socket, sink: socket.socket, heard: bytearray) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                heard += chunk
                sink.sendall(chunk)
            with self._lock:
                if not self._is_broken and sink in self._ends:
                    sink.shutdown(socket.SHUT_WR)


class Machines:
    """A host and a guest, which is far away."""

    def __init__(self, resources: ExitStack, token: JobToken | None = None, max_restart: int = 1) -> None:
        self._pool = resources.enter_context(ThreadPoolExecutor(4))
        self.point = resources.enter_context(Hold.any_port(plain=True)).endpoint
        self.teams = [Team(token or own_token({}), max_restart) for _ in range(2)]
        self._points = [self.point]
        self._next = [self._meet(0)]
        wait_for_listener(self.point.host, self.point.port, PATIENCE_S)
        self.network = Network(self.point)
        resources.callback(self.network.close)
        for team in self.teams:
            resources.callback(team.close)
        self._points.append(self.network.endpoint)
        self._next.append(self._meet(1))
        self.rounds: list[Round] = []
        self.begin()

    def _meet(self, number: int) -> Future[Round]:
        offer = Offer("127.0.0.1", (), (Endpoint("127.0.0.1", 2000 + number),), None, "the same")
        team, point = self.teams[number], self._points[number]
        return self._pool.submit(lambda: team.meet(point, Nodes(2, 2), number, lambda _: offer))

    def begin(self) -> None:
        self.rounds = [future.result(timeout=PATIENCE_S) for future in self._next]

    def come(self, number: int) -> None:
        self._next[number : number + 1] = [self._meet(number)]

    def over(self, number: int) -> JobOverError:
        with pytest.raises(JobOverError) as caught:
            self._next[number].result(timeout=PATIENCE_S)
        return caught.value

    def hears(self, number: int) -> Any:
        return self.rounds[number].news.get(timeout=PATIENCE_S)

    def fails(self, number: int) -> None:
        self.teams[number].failed(NodeFailed(f"worker {number} failed", 42, time.time()))

    @property
    def guest(self) -> Guest:
        """The second machine, as the meeting point sees it."""
        link = self.teams[0]._link
        assert link is not None
        assert link.host is not None
        (guest,) = [guest for guest in link.host._guests if guest is not link.host._own]
        return guest

    def is_away(self) -> bool:
        return self.guest.connection is None


@pytest.fixture(autouse=True)
def slow_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset says that a launcher has ended or that something came between; here it is the latter."""
    monkeypatch.setattr(guests, "SLIP_S", 60.0)
    monkeypatch.setattr(launcher_link, "SLIP_S", 60.0)
    monkeypatch.setattr(launcher_link, "_TRY_S", 0.3)
    monkeypatch.setenv("FLEET_INIT_TIMEOUT_S", "60")


@pytest.fixture
def resources() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("token", [None, SESAME])
@pytest.mark.parametrize("culprit", [0, 1])
def test_a_failure_that_is_told_while_the_network_is_broken_is_heard_once(
    resources: ExitStack, token: JobToken | None, culprit: int
) -> None:
    machines = Machines(resources, token)
    machines.network.break_down()
    wait_until(machines.is_away, PATIENCE_S, "the meeting point to notice")
    machines.fails(culprit)
    machines.come(culprit)
    machines.network.mend()
    heard = machines.hears(1 - culprit)
    assert isinstance(heard, NodeFailed)
    assert (heard.what, heard.code) == (f"worker {culprit} failed", 42)
    machines.come(1 - culprit)
    former = machines.rounds
    machines.begin()
    assert [(one.restart, one.num_failures) for one in machines.rounds] == [(1, 1), (1, 1)]
    assert all(one.news.empty() for one in (*former, *machines.rounds))
    assert b"sesame" not in machines.network.heard


def test_the_end_is_heard_though_the_network_breaks_all_the_time(resources: ExitStack) -> None:
    machines = Machines(resources)
    for _ in range(5):
        machines.network.break_down()
        machines.network.mend()
    machines.teams[1].done()
    machines.network.break_down()
    machines.teams[0].done()
    machines.network.mend()
    assert [machines.hears(number) for number in range(2)] == [AllDone(), AllDone()]
    assert all(one.news.empty() for one in machines.rounds)


def test_a_message_that_a_signal_swallowed_comes_with_a_new_connection(resources: ExitStack) -> None:
    machines = Machines(resources)
    link = machines.teams[1]._link
    assert link is not None
    link._conversation.say({"say": "nothing that matters"})  # and then the signal came
    machines.fails(1)
    assert machines.hears(0).what == "worker 1 failed"
    wait_until(lambda: not link._conversation.has_unheard, PATIENCE_S, "the acknowledgement")


@pytest.mark.parametrize("leaver", [0, 1])
def test_who_leaves_stays_until_the_other_has_heard_it(resources: ExitStack, leaver: int) -> None:
    machines = Machines(resources, max_restart=0)
    machines.network.break_down()
    wait_until(machines.is_away, PATIENCE_S, "the meeting point to notice")
    machines.fails(leaver)
    with ThreadPoolExecutor(1) as pool:
        leaving = pool.submit(machines.teams[leaver].close)
        with pytest.raises(TimeoutError):
            leaving.result(timeout=0.5)
        machines.network.mend()
        heard = machines.hears(1 - leaver)
        leaving.result(timeout=PATIENCE_S)
    assert isinstance(heard, NodeFailed)
    assert heard.what == f"worker {leaver} failed"


def test_who_is_in_a_hurry_does_not_wait_for_a_machine_out_of_reach(
    resources: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (guests, launcher_link):
        monkeypatch.setattr(module, "FAREWELL_S", 0.2)
    machines = Machines(resources, max_restart=0)
    machines.network.break_down()
    wait_until(machines.is_away, PATIENCE_S, "the meeting point to notice")
    began = time.monotonic()
    for team in machines.teams:
        team.failed(NodeFailed("stopped", 143, time.time(), is_final=True))
        team.close(lambda: True)
    assert time.monotonic() - began < 30


class Stranger:
    """Says to the meeting point that it is back."""

    def __init__(self, point: Endpoint, name: str) -> None:
        self.nonce = new_nonce()
        with socket.create_connection((point.host, point.port)) as self._socket:
            self._file = self._socket.makefile("rwb")
            self.said = {"protocol": PROTOCOL, "back": name, "nonce": self.nonce}
            self.answer = self.say(self.said)

    def say(self, message: dict[str, Any]) -> dict[str, Any]:
        self._file.write(json.dumps(message).encode() + b"\n")
        self._file.flush()
        line = self._file.readline()
        return json.loads(line) if line else {}

    def close(self) -> None:
        self._file.close()


@pytest.mark.parametrize("token", [None, SESAME])
def test_nobody_else_can_come_back(resources: ExitStack, token: JobToken | None) -> None:
    machines = Machines(resources, token)
    guest = machines.guest

    def knock(name: str) -> Stranger:
        stranger = Stranger(machines.point, name)
        resources.callback(stranger.close)
        return stranger

    def prove(stranger: Stranger, key: JobToken, **said: Any) -> dict[str, Any]:
        session = guest.name + stranger.answer["challenge"] + stranger.nonce
        proof = key.seal("return", session, said)
        return stranger.say({"protocol": PROTOCOL, **said, "proof": proof})

    num_said = guest.conversation.num_said
    assert knock(new_nonce()).answer["error"] == "the job does not count on this machine any more"
    wrong = prove(knock(guest.name), JobToken(new_nonce(), is_given=True), heard=num_said, restart=0)
    assert wrong["error"] == "this machine did not prove that it is the one that was here before"
    for restart in (-1, 1, None):
        elsewhere = prove(knock(guest.name), guest.key, heard=num_said, restart=restart)
        assert elsewhere["error"] == "this machine is in another round of the job"
    assert prove(knock(guest.name), guest.key, heard=num_said + 1, restart=0) == {}  # it has heard what was never said
    machines.fails(1)  # over the connection that was there all the time
    assert machines.hears(0).what == "worker 1 failed"


def test_what_was_overheard_brings_nobody_back(resources: ExitStack) -> None:
    machines = Machines(resources, SESAME)
    machines.network.break_down()
    machines.network.mend()
    wait_until(lambda: b"back" in machines.network.heard and not machines.is_away(), PATIENCE_S, "the return")
    lines = [json.loads(line) for line in bytes(machines.network.heard).splitlines()]
    proof = next(line for line in lines if "proof" in line and "restart" in line)
    stranger = Stranger(machines.point, machines.guest.name)
    resources.callback(stranger.close)
    assert "did not prove" in stranger.say(proof)["error"]


def test_the_next_job_at_an_address_waits_for_the_end_of_the_one_before(resources: ExitStack) -> None:
    machines = Machines(resources, max_restart=0)
    others = [Team(own_token({}), 0) for _ in range(2)]
    pool = resources.enter_context(ThreadPoolExecutor(2))
    for other in others:
        resources.callback(other.close)
    offer = Offer("127.0.0.1", (), (), None, "another job")
    met = [pool.submit(other.meet, machines.point, Nodes(2, 2), None, lambda _: offer) for other in others]
    with pytest.raises(TimeoutError):
        met[0].result(timeout=0.5)
    for team in machines.teams:
        team.done()
    assert [machines.hears(number) for number in range(2)] == [AllDone(), AllDone()]
    for team in machines.teams[::-1]:
        team.close()
    assert {one.result(timeout=PATIENCE_S).num_nodes for one in met} == {2}

"""Launchers that meet with a token, with none, and with different ones; what travels, and what an impostor gets."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

from fleet.errors import EndpointError, UsageError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet import lobby
from fleet.launch.meet.job_token import JobToken, new_nonce, own_token
from fleet.launch.meet.line import PROTOCOL
from fleet.launch.meet.messages import JobOverError, Offer
from fleet.launch.meet.team import Round, Team
from fleet.net import Endpoint, Hold
from support.processes import wait_for_listener

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 60.0
SESAME = JobToken("open-sesame", is_given=True)


def offer(name: int) -> Offer:
    return Offer("127.0.0.1", (Endpoint("127.0.0.1", 1000 + name),), (), None, "--nnodes 2")


Joined = tuple[Team, Round]


class Launchers:
    """Threads that meet."""

    def __init__(self, resources: ExitStack) -> None:
        self._resources = resources
        self._pool = resources.enter_context(ThreadPoolExecutor(8))

    def join(self, point: Endpoint, rank: int, token: JobToken, of: int = 2, max_restart: int = 0) -> Future[Joined]:
        team = Team(token, max_restart)
        self._resources.callback(team.close)
        return self.meet(team, point, rank, of)

    def meet(self, team: Team, point: Endpoint, rank: int, of: int = 2) -> Future[Joined]:
        return self._pool.submit(lambda: (team, team.meet(point, Nodes(of, of), rank, lambda _: offer(rank))))

    def host(self, token: JobToken, of: int = 2, max_restart: int = 0) -> tuple[Endpoint, Future[Joined]]:
        """A launcher that listens already, and where."""
        point = self._resources.enter_context(Hold.any_port(plain=True)).endpoint
        host = self.join(point, 0, token, of, max_restart)
        wait_for_listener(point.host, point.port, PATIENCE_S)
        return point, host


@pytest.fixture
def launchers() -> Iterator[Launchers]:
    with ExitStack() as resources:
        yield Launchers(resources)


@contextmanager
def tapped(point: Endpoint) -> Iterator[tuple[Endpoint, bytearray]]:
    """Another address of `point`, and everything that is said over it."""
    heard = bytearray()

    def forward(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                heard.extend(chunk)
                sink.sendall(chunk)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as ends:
        threads: list[threading.Thread] = []

        def relay() -> None:
            guest = ends.enter_context(listener.accept()[0])
            host = ends.enter_context(socket.create_connection((point.host, point.port)))
            threads.extend(
                threading.Thread(target=forward, args=pair, daemon=True) for pair in ((guest, host), (host, guest))
            )
            for thread in threads:
                thread.start()

        accepting = threading.Thread(target=relay, daemon=True)
        accepting.start()
        yield Endpoint(*listener.getsockname()), heard
        accepting.join()
    for thread in threads:
        thread.join()


def test_a_given_token_admits_and_never_travels(launchers: Launchers) -> None:
    point, host = launchers.host(SESAME)
    with tapped(point) as (tap, heard):
        guest = launchers.join(tap, 1, SESAME)
        (here, ours), (there, theirs) = host.result(timeout=PATIENCE_S), guest.result(timeout=PATIENCE_S)
        assert b"welcome" in heard
        assert b"sesame" not in heard
        for team in (here, there):
            team.close()
    assert [here.token, there.token] == [SESAME, SESAME]
    assert ours.offers == theirs.offers == (offer(0), offer(1))


def test_without_a_given_token_everybody_gets_the_host_s(launchers: Launchers) -> None:
    made = [own_token({}) for _ in range(3)]
    point, host = launchers.host(made[0], of=3)
    joined = [host, *(launchers.join(point, rank, made[rank], of=3) for rank in (1, 2))]
    assert [future.result(timeout=PATIENCE_S)[0].token for future in joined] == [made[0]] * 3


@pytest.mark.parametrize(
    ("at_host", "at_guest", "complaint"),
    [
        (SESAME, JobToken("open-barley", is_given=True), "FLEET_JOB_TOKEN is not the one of the meeting point"),
        (SESAME, own_token({}), "FLEET_JOB_TOKEN is set on the meeting point but not on this machine"),
        (own_token({}), SESAME, "FLEET_JOB_TOKEN is set on this machine but not on the meeting point"),
    ],
)
def test_a_machine_with_another_token_is_told_and_the_host_waits_on(
    launchers: Launchers, at_host: JobToken, at_guest: JobToken, complaint: str
) -> None:
    point, host = launchers.host(at_host)
    with pytest.raises(UsageError) as caught:
        launchers.join(point, 1, at_guest).result(timeout=PATIENCE_S)
    assert f"the meeting point {point} refused this machine: {complaint}; " in f"{caught.value}; "
    assert not any(token.value in str(caught.value) for token in (at_host, at_guest))
    right = launchers.join(point, 1, at_host)
    assert host.result(timeout=PATIENCE_S)[1].offers == right.result(timeout=PATIENCE_S)[1].offers


def test_what_was_overheard_opens_nothing(launchers: Launchers) -> None:
    """A stranger says again, word for word, what a guest of an earlier job with the same token said."""
    point, host = launchers.host(SESAME)
    with tapped(point) as (tap, heard):
        guest = launchers.join(tap, 1, SESAME)
        for team, _ in (host.result(timeout=PATIENCE_S), guest.result(timeout=PATIENCE_S)):
            team.close()
    lines = [json.loads(line) for line in bytes(heard).splitlines()]
    hello = next(line for line in lines if "nnodes" in line)
    proof = next(line for line in lines if "proof" in line and "offers" not in line)
    point, host = launchers.host(SESAME)
    with socket.create_connection((point.host, point.port)) as stranger, stranger.makefile("rwb") as file:
        for message, answer in ((hello, b"challenge"), (proof, b"is not the one of the meeting point")):
            file.write(json.dumps(message).encode() + b"\n")
            file.flush()
            assert answer in file.readline()
    launchers.join(point, 1, SESAME).result(timeout=PATIENCE_S)
    host.result(timeout=PATIENCE_S)


@pytest.mark.parametrize(
    "noise", [b"\n", b"{}\n", b"x" * 100, json.dumps({"protocol": PROTOCOL}).encode() + b"\n", b"[" * 5000 + b"\n"]
)
@pytest.mark.parametrize("after_hello", [False, True])
def test_strangers_do_no_harm_where_a_token_is_given(launchers: Launchers, noise: bytes, after_hello: bool) -> None:
    point, host = launchers.host(SESAME)
    hello = {"protocol": PROTOCOL, "nnodes": "2", "rank": 1, "offer": offer(1).to_json(), "nonce": new_nonce()}
    with socket.create_connection((point.host, point.port)) as stranger:
        if after_hello:
            stranger.sendall(json.dumps(hello).encode() + b"\n")
            assert b"challenge" in stranger.recv(1000)
        stranger.sendall(noise)
        guest = launchers.join(point, 1, SESAME)
        assert guest.result(timeout=PATIENCE_S)[0].token == host.result(timeout=PATIENCE_S)[0].token


def test_a_stranger_learns_nothing_of_the_job(launchers: Launchers) -> None:
    point, host = launchers.host(SESAME)
    hello = {"protocol": PROTOCOL, "nnodes": "7", "rank": 0, "offer": offer(1).to_json()}
    for nonce in ({}, {"nonce": new_nonce()}):
        with socket.create_connection((point.host, point.port)) as stranger:
            stranger.sendall(json.dumps(hello | nonce).encode() + b"\n")
            heard = stranger.recv(1000)
        assert not any(word in heard for word in (b"machines,", b"rank", b"nnodes", b"127.0.0.1"))
    launchers.join(point, 1, SESAME).result(timeout=PATIENCE_S)
    host.result(timeout=PATIENCE_S)


@pytest.mark.parametrize("asks", [False, True])
def test_an_impostor_at_the_meeting_point_is_not_believed(launchers: Launchers, asks: bool) -> None:
    """It says whatever a host says, and sends the workers to servers of its own, but it does not know the token."""
    messages: list[dict[str, object]] = [
        {"say": "welcome"},
        {"say": "begin", "rank": 1, "host": 0, "restart": 0, "failures": 0, "why": "", "token": own_token({}).value},
    ]
    messages[-1]["offers"] = [offer(0).to_json(), offer(1).to_json()]
    if asks:
        messages.insert(0, {"say": "prove", "challenge": new_nonce()})
        messages[-1]["proof"] = new_nonce()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        guest = launchers.join(Endpoint(*listener.getsockname()), 1, SESAME)
        connection, _ = listener.accept()
        with connection:
            for message in messages:
                connection.sendall(json.dumps({"protocol": PROTOCOL, **message}).encode() + b"\n")
            with pytest.raises(EndpointError, match="did not prove that it knows FLEET_JOB_TOKEN"):
                guest.result(timeout=PATIENCE_S)


@pytest.mark.parametrize("is_proven", [False, True])
def test_only_the_host_can_say_that_all_went_well(launchers: Launchers, is_proven: bool) -> None:
    """A spare machine is told that it was not needed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        guest = launchers.join(Endpoint(*listener.getsockname()), 1, SESAME)
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as file:
            session = new_nonce() + json.loads(file.readline())["nonce"]
            over: dict[str, object] = {"protocol": PROTOCOL, "say": "over", "reason": "finished", "code": 0}
            proof = SESAME.seal("host", session, over) if is_proven else new_nonce()
            prove = {"say": "prove", "challenge": session[: len(session) // 2]}
            for message in (prove, {"say": "welcome"}, {**over, "proof": proof}):
                connection.sendall(json.dumps({"protocol": PROTOCOL, **message}).encode() + b"\n")
            with pytest.raises(JobOverError) as caught:
                guest.result(timeout=PATIENCE_S)
    assert caught.value.code == (0 if is_proven else 1)


def test_a_visitor_that_never_proves_does_not_count(launchers: Launchers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no machine and keeps no rank, however long it may take."""
    monkeypatch.setattr(lobby, "_HELLO_S", 1000.0)
    point, host = launchers.host(SESAME)
    hello = {"protocol": PROTOCOL, "nnodes": "2", "rank": 1, "offer": offer(1).to_json(), "nonce": new_nonce()}
    with socket.create_connection((point.host, point.port)) as silent:
        silent.sendall(json.dumps(hello).encode() + b"\n")
        assert b"challenge" in silent.recv(1000)
        launchers.join(point, 1, SESAME).result(timeout=PATIENCE_S)
    host.result(timeout=PATIENCE_S)

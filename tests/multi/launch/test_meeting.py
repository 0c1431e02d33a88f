"""Launchers meeting over loopback, in threads: the list they agree on, and what strangers on the port can do."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.errors import CommunicationError, EndpointError, UsageError
from fleet.launch.arguments.options import Nodes
from fleet.launch.meet import lobby
from fleet.launch.meet.job_token import own_token
from fleet.launch.meet.line import PROTOCOL
from fleet.launch.meet.messages import AllDone, NodeFailed, Offer
from fleet.launch.meet.team import Round, Team
from fleet.net import Endpoint, Hold
from support.processes import wait_for_listener

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 60.0
TERMS = "--nnodes 3"
TOKEN = own_token({})


def offer(name: int, terms: str = TERMS) -> Offer:
    return Offer("127.0.0.1", (Endpoint("127.0.0.1", 1000 + name),), (Endpoint("127.0.0.1", 2000 + name),), None, terms)


@contextmanager
def launchers(count: int) -> Iterator[tuple[ThreadPoolExecutor, ExitStack, Endpoint]]:
    with ExitStack() as resources, ThreadPoolExecutor(count) as pool:
        yield pool, resources, resources.enter_context(Hold.any_port(plain=True)).endpoint


Joined = tuple[Team, Round]


def join(
    pool: ThreadPoolExecutor,
    resources: ExitStack,
    point: Endpoint,
    name: int,
    rank: int | None = None,
    of: int = 3,
    terms: str = TERMS,
) -> Future[Joined]:
    team = Team(TOKEN, 0)
    resources.callback(team.close)
    return pool.submit(lambda: (team, team.meet(point, Nodes(of, of), rank, lambda _: offer(name, terms))))


def rounds(joined: list[Future[Joined]]) -> list[Round]:
    return [future.result(timeout=PATIENCE_S)[1] for future in joined]


def wait_for_host(point: Endpoint) -> None:
    wait_for_listener(point.host, point.port, PATIENCE_S)


def test_everybody_gets_the_same_list_in_the_order_of_ranks() -> None:
    with launchers(3) as (pool, resources, point):
        joined = [join(pool, resources, point, 7, 0)]
        wait_for_host(point)
        joined += [join(pool, resources, point, 5, 2), join(pool, resources, point, 6, None)]
        met = rounds(joined)
    assert [one.node_index for one in met] == [0, 2, 1]
    assert {one.offers for one in met} == {(offer(7), offer(6), offer(5))}
    assert {(one.restart, one.num_failures, one.num_nodes) for one in met} == {(0, 0, 3)}


def test_done_is_said_when_all_are_and_failure_at_once() -> None:
    for how in ("done", "failed by a guest", "failed by the host"):
        with launchers(3) as (pool, resources, point):
            joined = [join(pool, resources, point, 0, 0)]
            wait_for_host(point)
            joined += [join(pool, resources, point, rank, rank) for rank in (1, 2)]
            teams = [future.result(timeout=PATIENCE_S)[0] for future in joined]
            queues = [one.news for one in rounds(joined)]
            if how == "done":
                for team in teams[:2]:
                    team.done()
                assert all(queue.empty() for queue in queues)
                teams[2].done()
                assert [queue.get(timeout=PATIENCE_S) for queue in queues] == [AllDone()] * 3
            else:
                culprit = 1 if how == "failed by a guest" else 0
                failure = NodeFailed("worker 9 failed", 42, time.time() - 100)
                teams[culprit].failed(failure)
                others = [queue for number, queue in enumerate(queues) if number != culprit]
                for queue in others:
                    heard = queue.get(timeout=PATIENCE_S)
                    assert isinstance(heard, NodeFailed)
                    assert (heard.what, heard.code) == (failure.what, failure.code)
                    assert heard.began_at == pytest.approx(failure.began_at, abs=5)


@pytest.mark.parametrize(
    ("rank", "of", "terms", "complaint"),
    [
        (1, 4, TERMS, "expects 4 machines, the meeting point 3"),
        (1, 3, "other arguments", "started with other arguments, the meeting point with --nnodes 3"),
        (0, 3, TERMS, "--rank 0 is taken by 127.0.0.1"),
        (3, 3, TERMS, "--rank 3 does not fit 3 machines"),
    ],
)
def test_a_machine_that_does_not_fit_is_told_and_the_others_wait_on(
    rank: int, of: int, terms: str, complaint: str
) -> None:
    with launchers(4) as (pool, resources, point):
        joined = [join(pool, resources, point, 0, 0)]
        wait_for_host(point)
        misfit = join(pool, resources, point, 9, rank, of, terms)
        with pytest.raises(UsageError) as caught:
            misfit.result(timeout=PATIENCE_S)
        assert complaint in str(caught.value)
        joined += [join(pool, resources, point, number, number) for number in (1, 2)]
        assert len({one.offers for one in rounds(joined)}) == 1


OFFER = {"host": "a", "servers": [], "workers": ["a"], "master": 0}
HELLO = {"protocol": PROTOCOL, "nnodes": "2", "rank": 1, "offer": OFFER}
BYTES = st.binary(max_size=200)
NEARLY = st.sampled_from([b"GET / HTTP/1.1\r\n\r\n", b"\n", b"[]\n", b"null\n", b"{}\n"])
WRONG_FIELDS = st.dictionaries(
    st.sampled_from(list(HELLO)), st.none() | st.integers() | st.text() | st.lists(st.text())
).map(lambda fields: json.dumps({**HELLO, **fields}).encode() + b"\n")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.lists(BYTES | NEARLY | WRONG_FIELDS, min_size=1, max_size=5))
def test_strangers_at_the_meeting_point_do_no_harm(noise: list[bytes]) -> None:
    with launchers(2) as (pool, resources, point):
        host = join(pool, resources, point, 0, 0, of=2)
        wait_for_host(point)
        for data in noise:
            with socket.create_connection((point.host, point.port)) as stranger:
                stranger.sendall(data)
        guest = join(pool, resources, point, 1, 1, of=2)
        assert {one.offers for one in rounds([host, guest])} == {(offer(0), offer(1))}


def test_a_program_that_is_not_fleetrun_at_the_meeting_point() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as resources, ThreadPoolExecutor(1) as pool:
        point = Endpoint(*listener.getsockname())
        guest = join(pool, resources, point, 1, 1, of=2)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(EndpointError, match="is not a fleetrun"):
            guest.result(timeout=PATIENCE_S)


def test_who_was_sent_away_by_a_crowded_door_comes_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as resources, ThreadPoolExecutor(1) as pool:
        guest = join(pool, resources, Endpoint(*listener.getsockname()), 1, 1, of=2)
        listener.accept()[0].close()
        connection, _ = listener.accept()
        with connection:
            over = {"say": "over", "reason": "so it was heard", "code": 3}
            for message in ({"say": "welcome"}, over):
                connection.sendall(json.dumps({"protocol": PROTOCOL, **message}).encode() + b"\n")
            with pytest.raises(CommunicationError, match="so it was heard"):
                guest.result(timeout=PATIENCE_S)


def test_a_machine_that_leaves_before_the_start_may_come_again() -> None:
    hello = {"protocol": PROTOCOL, "nnodes": "3", "rank": 1, "offer": offer(1).to_json()}
    with launchers(3) as (pool, resources, point):
        joined = [join(pool, resources, point, 0, 0)]
        wait_for_host(point)
        with socket.create_connection((point.host, point.port)) as first_try:
            first_try.sendall(json.dumps(hello).encode() + b"\n")
            assert b"welcome" in first_try.recv(1000)
        joined += [join(pool, resources, point, rank, rank) for rank in (1, 2)]
        assert {one.offers for one in rounds(joined)} == {(offer(0), offer(1), offer(2))}


def test_guests_learn_why_a_meeting_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with launchers(2) as (pool, resources, point):
        monkeypatch.setenv("FLEET_INIT_TIMEOUT_S", "1")
        host = join(pool, resources, point, 0, 0)
        wait_for_host(point)
        guest = join(pool, resources, point, 1, 1)
        reason = f"waited for 1 of 3 machines at {point}"
        for joined, message in ((host, reason), (guest, f"the meeting at {point} ended: {reason}")):
            with pytest.raises(CommunicationError) as caught:
                joined.result(timeout=PATIENCE_S)
            assert str(caught.value).startswith(message)
            assert "127.0.0.1 is loopback on this machine" in str(caught.value)


@pytest.mark.parametrize("address", ["::1", "127.0.0.1"])
def test_machines_can_meet_at_either_family_of_addresses(address: str) -> None:
    with ExitStack() as resources, ThreadPoolExecutor(2) as pool:
        point = resources.enter_context(Hold.any_port(address, plain=True)).endpoint
        joined = [join(pool, resources, point, number, None, of=2) for number in range(2)]
        assert len({one.offers for one in rounds(joined)}) == 1


def test_a_visitor_that_trickles_does_not_hold_the_host_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lobby, "_HELLO_S", 1000.0)
    with launchers(2) as (pool, resources, point):
        host = join(pool, resources, point, 0, 0, of=2)
        wait_for_host(point)
        with socket.create_connection((point.host, point.port)) as slow:
            slow.sendall(b"{")
            guest = join(pool, resources, point, 1, 1, of=2)
            both = [joined.result(timeout=PATIENCE_S)[1].offers for joined in (host, guest)]
            assert both[0] == both[1]

"""What callers may ask of a server: memory, folders, connections and tries; more is refused."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import Message

from fleet import env
from fleet.errors import CommunicationError, UsageError, VariableError
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import KeptTensor
from fleet.ps.proto import ps_pb2
from fleet.ps.server import grpc_server, roots, strangers
from fleet.ps.server.service import Service
from fleet.ps.wire import budget, callers
from fleet.ps.wire.budget import MessageBudget, OverBudgetError
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.messages import Tensors
from support.plane import raw_http2
from support.plane.fuzz_requests import JOB, NUM_DENSE
from support.plane.toy_service import ToyService
from support.processes import wait_until
from support.serving.serving import REAL, TOKEN, TOY, reached, server_process, serving

LIMIT_S = 60.0
MEGABYTE = np.zeros(1 << 20, np.uint8)


# Memory.


@pytest.mark.parametrize(
    ("text", "value"), [("8G", 8 << 30), ("500m", 500 << 20), ("1.5K", 1536), ("1000", 1000), ("2T", 2 << 40)]
)
def test_a_budget_is_a_number_with_a_unit(text: str, value: int) -> None:
    assert env.FLEET_MEMORY_BUDGET.get({"FLEET_MEMORY_BUDGET": text}) == value


@pytest.mark.parametrize("text", ["G", "8X", "-1G", "0", "nan", "inf", "1e400", "8 GB"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(VariableError, match="FLEET_MEMORY_BUDGET must be a number of bytes > 0, such as 500M or 8G"):
        env.FLEET_MEMORY_BUDGET.get({"FLEET_MEMORY_BUDGET": text})


def test_the_budget_is_most_of_what_the_machine_or_the_container_has(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       1000 kB\nMemFree: 1 kB\n")
    assert budget.memory_bytes(tmp_path) == 1000 << 10
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    for text, expected in (("max\n", 1000 << 10), ("4096\n", 4096)):
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(text)
        assert budget.memory_bytes(tmp_path) == expected
    assert 0 < budget.budget_bytes() < budget.memory_bytes()


def test_a_declaration_beyond_the_budget_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_MEMORY_BUDGET", "1M")
    size = 100_000  # Adam keeps two more of each: 1.2 MB
    dense = DenseSpec(JOB.dense.groups, (("w", (size,)),), (DenseBlock("w", 0, size, 0, 0),))
    kept = replace(JOB, kept=(KeptTensor("mask", "int64", (1 << 17,), 0),))
    for job in (replace(JOB, dense=dense), kept):
        header = ps_pb2.DeclareRequest.Header(caller=ps_pb2.Caller(worker=0, incarnation=1), job=job.to_json())
        with pytest.raises(UsageError, match=r"it takes 1\.\d+ MiB, of 1 MiB that this server may use \(FLEET_MEMORY"):
            Service().handle("Declare", header, ())
    header.job = JOB.to_json()
    Service().handle("Declare", header, ())


def test_a_message_finds_room_or_is_told_to_come_again() -> None:
    room = MessageBudget(10 << 20)
    with room.account() as first:
        first.hold(100 << 20)  # alone, whatever its size
        first.hold(1)
        with ThreadPoolExecutor(1) as pool:

            def second() -> None:
                with room.account() as account:
                    account.take(budget.SMALL_BYTES)
                    account.take(2 << 20)

            with pytest.raises(OverBudgetError, match=r"no room for a message of 2 MiB beside 100 MiB under way"):
                pool.submit(second).result()
            first.let_go()  # as when it waits for others
            pool.submit(second).result()
    assert room.held_bytes == 0
    assert room.num_refused == 1


def test_a_call_that_waits_leaves_its_room_to_those_it_waits_for() -> None:
    room, changed = MessageBudget(1 << 20), threading.Condition()
    with room.account() as account, callers.answering(callers.Caller(account=account)), changed:
        account.hold(5 << 20)
        assert not callers.wait_for(changed, lambda: False, 0.01)
        assert room.held_bytes == 0
        callers.reserve(3 << 20)
        assert room.held_bytes == 3 << 20
    assert room.held_bytes == 0


def test_many_large_messages_at_once_all_arrive_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker is refused while others are being taken in, comes again, and is served in the end."""
    monkeypatch.setenv("FLEET_MEMORY_BUDGET", "80M")  # 20 MB for messages, and 24 callers bring 8 MB each
    tensor = np.arange(1 << 20, dtype=np.float64)
    most = [0]

    class Watching(ToyService):
        def _push(self, _header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
            most[0] = max(most[0], limits[0].held_bytes)
            return super()._push(_header, tensors)

    limits: list[MessageBudget] = []
    made = MessageBudget

    def remembered() -> MessageBudget:
        limits.append(made())
        return limits[-1]

    monkeypatch.setattr(grpc_server, "MessageBudget", remembered)
    with serving(Watching()) as server, ExitStack() as stack:
        transports = [stack.enter_context(reached(server.endpoint)) for _ in range(24)]
        with ThreadPoolExecutor(24) as pool:
            header = ps_pb2.PushRequest.Header()
            answers = list(
                pool.map(
                    lambda one: ServerCall(one, "Push", header, [tensor], LIMIT_S, LIMIT_S).result()[1][0], transports
                )
            )
        for answer in answers:
            np.testing.assert_array_equal(np.frombuffer(answer, np.float64), tensor)
    assert limits[0].limit_bytes == 20 << 20
    assert 8 << 20 < most[0] <= 20 << 20
    assert limits[0].held_bytes == 0


def test_the_memory_of_a_server_stays_within_its_budget() -> None:
    """16 callers bring 32 MB each, and wait: the server takes in one, and the others when that is done."""
    tensor = np.zeros(4 << 20, np.float64)

    def peak_bytes(pid: int) -> int:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        assert found
        return int(found[1]) << 10

    with server_process(TOY, environ={"FLEET_MEMORY_BUDGET": "64M"}) as server, ExitStack() as stack:
        before = peak_bytes(server.process.pid)
        transports = [stack.enter_context(reached(server.endpoint)) for _ in range(16)]
        for one in transports:  # on a busy machine to connect may take more than one try
            ServerCall(one, "Stats", ps_pb2.StatsRequest.Header(), (), LIMIT_S, LIMIT_S).result()
        header = ps_pb2.PullRequest.Header(version=1, timeout_ms=int(LIMIT_S * 1000))
        waiting = [one.call("Pull", header, [tensor], LIMIT_S) for one in transports]
        wait_until(lambda: sum(call.done() for call in waiting) == 15, LIMIT_S, "15 of them to be refused")
        transports[0].call("Push", ps_pb2.PushRequest.Header(), (), LIMIT_S).result(LIMIT_S)
        errors = [call.exception(LIMIT_S) for call in waiting]
        for error in filter(None, errors):
            assert isinstance(error, CommunicationError)
            assert error.retryable
            assert "no room for a message of 32 MiB beside 32 MiB under way, of 16 MiB" in str(error)
        assert sum(error is None for error in errors) == 1
        assert peak_bytes(server.process.pid) - before < 300 << 20
        for one in transports[:3]:  # whoever comes again is served
            assert len(ServerCall(one, "Pull", header, [tensor], LIMIT_S, LIMIT_S).result()[1][0]) == tensor.nbytes


# Folders.


def test_a_folder_inside_the_roots_is_allowed_by_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "deep", outside):
        folder.mkdir(parents=True)
    (inside / "link").symlink_to(outside)
    (tmp_path / "way_in").symlink_to(inside)
    roots.confine(str(outside))  # nobody has set any
    monkeypatch.setenv("FLEET_ROOTS", f"{tmp_path}/elsewhere:{tmp_path}/way_in")
    for good in (inside, inside / "deep", inside / "deep/../deep", inside / "new", tmp_path / "way_in/deep"):
        roots.confine(str(good))
    for bad in ("/", "", "\0", outside, inside / "..", inside / "link", inside / "link/new", f"{inside}side"):
        with pytest.raises(UsageError, match=r"^the folder .* is outside of what this server may write and read, .*"):
            roots.confine(str(bad))
    monkeypatch.setenv("FLEET_ROOTS", "relative")
    with pytest.raises(VariableError, match="FLEET_ROOTS must be absolute folders, separated by colons"):
        roots.confine("/")


def test_a_server_saves_and_loads_inside_its_roots_only(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    with server_process((*REAL, "--root", str(inside))) as server, reached(server.endpoint) as transport:
        caller = ps_pb2.Caller(worker=0, incarnation=1)
        declare = ps_pb2.DeclareRequest.Header(caller=caller, job=replace(JOB, num_workers=1).to_json())
        transport.call("Declare", declare, (), LIMIT_S).result(LIMIT_S)
        start = ps_pb2.StartRequest.Header(caller=caller)
        transport.call("Start", start, [np.zeros(NUM_DENSE, np.float32)], LIMIT_S).result(LIMIT_S)
        for folder in (outside, inside / "..", inside / "link"):
            for method, header in (("Save", ps_pb2.SaveRequest.Header), ("Load", ps_pb2.LoadRequest.Header)):
                with pytest.raises(UsageError, match=rf"{folder}.* is outside of .*{inside}; .*--root"):
                    transport.call(method, header(caller=caller, folder=str(folder)), (), LIMIT_S).result(LIMIT_S)
        saved = ps_pb2.SaveRequest.Header(caller=caller, folder=str(inside))
        transport.call("Save", saved, (), LIMIT_S).result(LIMIT_S)
    assert list(outside.iterdir()) == []
    assert len(list(inside.iterdir())) > 1


def test_a_root_that_is_no_folder_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--root .*missing: there is no such folder"):
        roots.set_roots([str(tmp_path), str(tmp_path / "missing")])
    assert "FLEET_ROOTS" not in os.environ


# Connections and tries.


def test_a_server_takes_so_many_connections_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "MAX_CONNECTIONS", 8)
    with serving(ToyService()) as server, reached(server.endpoint) as transport, ExitStack() as stack:
        transport.call("Push", ps_pb2.PushRequest.Header(), (), LIMIT_S).result(LIMIT_S)
        said = []
        for _ in range(20):
            raw = stack.enter_context(raw_http2.connection(server.endpoint))
            raw.sendall(raw_http2.settings())
            try:
                said.append(raw.recv(9))
            except ConnectionError:
                said.append(b"")
        assert sum(map(bool, said)) == 7  # one is the transport's
        transport.call("Push", ps_pb2.PushRequest.Header(), [MEGABYTE], LIMIT_S).result(LIMIT_S)


@pytest.mark.parametrize(
    ("peer", "address"),
    [("ipv4:10.0.0.1:4711", "10.0.0.1"), ("ipv6:%5B::1%5D:4711", "[::1]"), ("unix:", "unix:"), ("", "")],
)
def test_the_address_of_a_peer(peer: str, address: str) -> None:
    assert strangers.address_of(peer) == address


def test_who_tries_again_and_again_is_slowed_down_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(strangers, "MOST_PAUSES", 2)
    caplog.set_level(logging.WARNING, "fleet")
    door = strangers.Strangers(pause_s=LIMIT_S)
    for _ in range(strangers.FREE_TRIES):
        door.refused("ipv4:10.0.0.7:1", "another token")
    waiting = [threading.Thread(target=door.refused, args=(f"ipv4:10.0.0.7:{n}", "no token")) for n in (2, 3)]
    for thread in waiting:
        thread.start()
    began = time.monotonic()
    door.refused("ipv4:10.0.0.8:1", "no token")  # another address
    while door._pauses.acquire(blocking=False):
        door._pauses.release()
        assert time.monotonic() - began < LIMIT_S
    door.refused("ipv4:10.0.0.7:4", "no token")  # no more threads for it
    assert all(thread.is_alive() for thread in waiting)
    door.close()
    for thread in waiting:
        thread.join(LIMIT_S)
    assert door.num_refused == strangers.FREE_TRIES + 4
    assert sorted(record.getMessage() for record in caplog.records) == [
        "refused 10 calls from 10.0.0.7 within a minute; what follows is slowed down",
        "refused a call from 10.0.0.7, which has another token",
        "refused a call from 10.0.0.8, which has no token",
    ]


def test_addresses_are_not_remembered_without_end() -> None:
    door = strangers.Strangers()
    for number in range(2 * strangers.MOST_ADDRESSES):
        door.refused(f"ipv4:10.0.{number // 256}.{number % 256}:1", "no token")
    assert len(door._addresses) == strangers.MOST_ADDRESSES


def test_guessing_tokens_is_slow_and_training_beside_it_is_not() -> None:
    with serving(ToyService()) as server, ExitStack() as stack:
        friend, stranger = (stack.enter_context(reached(server.endpoint, token)) for token in (TOKEN, "wrong"))
        began = time.monotonic()
        for number in range(strangers.FREE_TRIES + 2):
            header = ps_pb2.PushRequest.Header()
            with pytest.raises(CommunicationError, match="this process has another token"):
                stranger.call("Push", header, (), LIMIT_S).result(LIMIT_S)
            if number == strangers.FREE_TRIES:
                assert time.monotonic() - began >= strangers.PAUSE_S
            friend.call("Push", header, (), LIMIT_S).result(LIMIT_S)
        assert server.refused() == {"token": strangers.FREE_TRIES + 2, "memory": 0}

"""What a process under chaos does to its own calls and files."""

from __future__ import annotations

import errno
import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import CommunicationError
from fleet.jobfiles.process_files import ProcessFiles
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import calls, faults
from fleet.ps.wire.calls import ServerCall
from fleet.ps.wire.transport import Answer, LocalTransport, Transport
from fleet_tools.chaos.faults import DiskFaults
from fleet_tools.chaos.faulty_transport import FaultyTransport
from fleet_tools.chaos.notes import ChaosNotes
from fleet_tools.chaos.spec import CallFault, DiskFull, TornWrite, When

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors


class Counting:
    """A server that counts what reaches it."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        self.lock = threading.Lock()

    def handle(self, method: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:  # noqa: ARG002
        with self.lock:
            self.reached[method] += 1
        if method == "Stats":
            return ps_pb2.StatsReply.Header(stats=json.dumps({"pushes": self.reached["Push"]})), ()
        return ps_pb2.PushReply.Header(), ()


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChaosNotes:
    monkeypatch.setenv("FLEET_CHAOS", "kill server every 5s")
    monkeypatch.setenv("FLEET_NOTE_FILE", str(tmp_path / "workerlog.0.note"))
    return ChaosNotes.of(ProcessFiles(tmp_path / "workerlog.0.note"))


def push(sequence: int = 1) -> Any:
    return ps_pb2.PushRequest.Header(caller=ps_pb2.Caller(worker=0, incarnation=7), sequence=sequence)


def faulty(service: Counting, *given: CallFault, seed: int = 1) -> FaultyTransport:
    return FaultyTransport(LocalTransport(service), 1, given, random.Random(seed))


def test_a_call_that_is_dropped_is_worth_another_try(notes: ChaosNotes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "FIRST_PAUSE_S", 0.0001)
    service = Counting()
    transport = faulty(service, CallFault("drop", 0.5))
    num_calls = 200
    for sequence in range(num_calls):
        ServerCall(transport, "Push", push(sequence), (), 10.0, 10.0).result()
    events = notes.read_events()
    dropped = Counter(event["how"] for event in events)
    assert set(dropped) == {"dropped before it was sent", "done, and its answer dropped"}
    assert all(60 < count < 150 for count in dropped.values())
    assert service.reached["Push"] == num_calls + dropped["done, and its answer dropped"]
    # Each is acknowledged once, however often it was done.
    acks = notes.read_acks()
    assert [(ack.server, ack.incarnation, ack.sequence) for ack in acks] == [(1, 7, one) for one in range(num_calls)]


def test_the_same_seed_drops_the_same_calls(notes: ChaosNotes) -> None:
    def lost(seed: int) -> list[bool]:
        transport = faulty(Counting(), CallFault("drop", 0.3), seed=seed)
        answers = [transport.call("Pull", push(), (), 1.0) for _ in range(50)]
        return [answer.exception() is not None for answer in answers]

    assert lost(5) == lost(5) != lost(6)
    assert notes.read_events()


def test_an_error_says_that_chaos_did_it(notes: ChaosNotes) -> None:
    error = faulty(Counting(), CallFault("drop", 1.0)).call("Push", push(), (), 1.0).exception()
    assert isinstance(error, CommunicationError)
    assert error.retryable
    assert str(error).startswith("server in this process: Push was d")
    assert str(error).endswith("(by --chaos)")


def test_a_repeated_call_comes_twice_and_is_answered_once(notes: ChaosNotes) -> None:
    service = Counting()
    transport = faulty(service, CallFault("repeat", 1.0))
    transport.call("Push", push(), (), 1.0).result(5)
    deadline = time.monotonic() + 30
    while service.reached["Push"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    transport.close()
    assert len(notes.read_acks()) == 1
    assert [event["event"] for event in notes.read_events()] == ["repeat"]


def test_a_delayed_call_comes_later(notes: ChaosNotes) -> None:
    service = Counting()
    transport = faulty(service, CallFault("delay", 1.0, 0.1))
    began = time.monotonic()
    answer = transport.call("Push", push(), (), 1.0)
    assert not answer.done()
    assert not service.reached
    answer.result(30)
    assert time.monotonic() - began >= 0.1
    assert [event["event"] for event in notes.read_events()] == ["delay"]


def test_closing_ends_calls_that_are_delayed(notes: ChaosNotes) -> None:
    service = Counting()
    transport = faulty(service, CallFault("delay", 1.0, 60.0))
    answer = transport.call("Push", push(), (), 1.0)
    transport.close()
    with pytest.raises(CommunicationError, match="the connection was closed"):
        answer.result(0)
    assert not service.reached


def test_whoever_leaves_notes_the_pushes_of_its_server(notes: ChaosNotes) -> None:
    service = Counting()
    transport = faulty(service)
    for sequence in range(3):
        transport.call("Push", push(sequence), (), 1.0).result()
    header = ps_pb2.LeaveRequest.Header(caller=ps_pb2.Caller(worker=0, incarnation=7))
    transport.call("Leave", header, (), 1.0).result()
    assert service.reached == {"Push": 3, "Stats": 1, "Leave": 1}
    (event,) = notes.read_events()
    assert (event["event"], event["server"], event["count"]) == ("pushes", 1, 3)


def test_a_server_that_is_gone_looks_so_to_whoever_leaves(notes: ChaosNotes) -> None:
    class Gone(Transport):
        endpoint = "10.0.0.1:1"

        def call(self, method: str, header: Message, tensors: Tensors, timeout_s: float) -> Answer:  # noqa: ARG002
            answer: Answer = Future()
            answer.set_exception(CommunicationError(f"no {method}"))
            return answer

        def close(self) -> None:
            pass

    header = ps_pb2.LeaveRequest.Header(caller=ps_pb2.Caller(worker=0, incarnation=7))
    with pytest.raises(CommunicationError, match="no Stats"):
        FaultyTransport(Gone(), 0, (), random.Random(1)).call("Leave", header, (), 1.0).result(0)
    assert notes.read_events() == []


def test_a_declaration_is_noted(notes: ChaosNotes) -> None:
    faulty(Counting()).call("Declare", push(), (), 1.0).result()
    assert [(event["event"], event["server"]) for event in notes.read_events()] == [("declared", 1)]


def test_without_chaos_transports_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEET_CHAOS", raising=False)
    made = [LocalTransport(Counting())]
    assert faults.with_faults(made) is made
    assert faults.of_writes() is None


def test_a_disk_is_full_for_a_while(notes: ChaosNotes) -> None:
    full = DiskFull(10, 5)
    now = time.time()
    DiskFaults([full], now, random.Random(1))(100)
    DiskFaults([full], now - 60, random.Random(1))(100)
    assert notes.read_events() == []
    disk = DiskFaults([full], now - 11, random.Random(1))
    for _ in range(3):
        with pytest.raises(OSError, match=r"No space left on device \(by --chaos, disk-full at 10s for 5s\)") as caught:
            disk(100)
        assert caught.value.errno == errno.ENOSPC
    assert [event["event"] for event in notes.read_events()] == ["disk-full"]


def test_a_write_is_torn_once_also_over_several_lives(notes: ChaosNotes) -> None:
    torn = TornWrite(When(10, False))
    now = time.time()
    assert DiskFaults([torn], now, random.Random(1))(100) is None
    written = DiskFaults([torn], now - 11, random.Random(1))(100)
    assert written is not None
    assert 0 <= written < 100
    next_life = DiskFaults([torn], now - 12, random.Random(1))
    assert next_life(100) is None
    (event,) = notes.read_events()
    assert (event["event"], event["written"], event["size"]) == ("torn-write", written, 100)


def test_writes_are_torn_again_when_it_is_time_again(notes: ChaosNotes) -> None:
    torn = TornWrite(When(10, True))
    now = time.time()
    disk = DiskFaults([torn], now - 25, random.Random(1))
    assert disk(100) is not None  # the first two are one, for nobody wrote
    assert disk(100) is None
    assert DiskFaults([torn], now - 31, random.Random(1))(100) is not None

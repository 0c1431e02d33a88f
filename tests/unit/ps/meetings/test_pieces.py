"""The work queue: each piece goes to one worker, however often takes are sent, and whoever is started again."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.api import Fleet
from fleet.data.queue import LocalPieces, PieceSource, ServerPieces, StorePieces, piece_source
from fleet.errors import CommunicationError, NotReadyError, NotSupportedError, UsageError
from fleet.ps.durable import durability
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.initializers import Constant
from fleet.ps.job.rules import SGD
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.journal.files import snapshots_in
from fleet.ps.meetings import pieces
from fleet.ps.meetings.pace import Pace
from fleet.ps.meetings.pieces import Extent, Key, PieceQueues
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.calling.client import Client
from support.durable.server_state import everything
from support.parity.training import in_threads, joined, served, strategy
from support.processes import wait_until

pytestmark = pytest.mark.timeout(60)
NUM_WORKERS = 3
JOB = JobSpec(NUM_WORKERS, 1, "async", tables=(TableSpec("ads", 1, SGD(), Constant(0.0), AlwaysEntry()),))
KEY = Key("files/0", 0, 0)


def client(service: Service, worker: int) -> Client:
    made = Client([LocalTransport(service)], worker, JOB)
    made.declare()
    return made


def source(service: Service, worker: int) -> ServerPieces:
    """A life of a worker."""
    made = client(service, worker)
    return ServerPieces(lambda: made, "files/0")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(journal=(tmp_path / "server-0", "OS"))
    yield made
    made.close()


def read_all(one: PieceSource, epoch: int = 0) -> list[int]:
    return list(iter(lambda: one.take(epoch), None))


class Lives:
    """Workers that train on the pieces they take, die, and go on at the position that they had stored."""

    def __init__(self, service: Service, first: int, total: int, extra: list[int]) -> None:
        self.begin = first, total, extra
        self._service = service
        self.done: list[int] = []
        self._stored = dict.fromkeys(range(NUM_WORKERS), 0)
        """How many takes lie behind the stored position of each."""
        self._pending: dict[int, list[int]] = {worker: [] for worker in range(NUM_WORKERS)}
        self._sources: dict[int, ServerPieces] = {}
        for worker in range(NUM_WORKERS):
            self.die(worker)

    def die(self, worker: int) -> None:
        """What was taken since the position was stored is not done; the next life takes it again."""
        self._pending[worker] = []
        self._sources[worker] = source(self._service, worker)
        self._sources[worker].begin(0, *self.begin, self._stored[worker])

    def take(self, worker: int) -> bool:
        piece = self._sources[worker].take(0)
        if piece is not None:
            self._pending[worker].append(piece)
        return piece is not None

    def push(self, worker: int) -> None:
        """The position is stored with what came of the pieces before it."""
        self.done += self._pending[worker]
        self._stored[worker] += len(self._pending[worker])
        self._pending[worker] = []

    def repeat(self, worker: int) -> None:
        """An answer was lost: the last take is sent again, and gets the same piece."""
        own = self._sources[worker].own(0)
        if own:
            again = self._sources[worker]._ask(0, self._sources[worker]._readings[0], len(own))
            assert again.pieces == own[-1:]

    def finish(self) -> None:
        for worker in range(NUM_WORKERS):
            while self.take(worker):
                self.push(worker)


@settings(max_examples=60, deadline=None)
@given(
    first=st.integers(0, 5),
    num=st.integers(0, 8),
    extra=st.sets(st.integers(0, 4)),
    events=st.lists(st.tuples(st.sampled_from(["take", "push", "die", "repeat"]), st.integers(0, 2)), max_size=40),
)
def test_every_piece_is_done_once_whatever_happens(
    first: int, num: int, extra: set[int], events: list[tuple[str, int]]
) -> None:
    before = sorted(one for one in extra if one < first)
    service = Service()
    lives = Lives(service, first, first + num, before)
    for name, worker in events:
        getattr(lives, name)(worker)
    for worker in range(NUM_WORKERS):
        lives.push(worker)
    lives.finish()
    assert sorted(lives.done) == [*before, *range(first, first + num)]
    service.close()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 1), st.integers(0, 3), st.integers(1, 5)),
        max_size=60,
    )
)
def test_a_snapshot_has_all_that_a_queue_knows(takes: list[tuple[int, int, int, int, int]]) -> None:
    queues, copy = PieceQueues(), PieceQueues()
    for worker, epoch, again, number, total in takes:
        asked = worker, Key("q", epoch, again), number, Extent(0, total)
        outcomes = []
        copy.restore(json.loads(json.dumps(queues.to_json())))
        for one in (queues, copy):
            try:
                found = (one.change(*asked) if one.changes(*asked) else one.answer(*asked)).pieces
                outcomes.append(str(found))
            except (CommunicationError, NotReadyError, UsageError) as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
        assert queues.to_json() == copy.to_json()


def test_threads_of_all_workers_take_each_piece_once(service: Service) -> None:
    sources = [source(service, worker) for worker in range(NUM_WORKERS)]
    for one in sources:
        one.begin(0, 0, 300, [])

    def take(one: ServerPieces) -> list[int]:
        found = in_threads(lambda: read_all(one), lambda: read_all(one))  # a reader may have several threads
        assert sorted(found[0] + found[1]) == sorted(one.own(0))
        return one.own(0)

    taken = in_threads(*(partial(take, one) for one in sources))
    assert sorted(piece for own in taken for piece in own) == list(range(300))


@pytest.mark.parametrize("snapshot_bytes", [0, 1 << 30])
def test_a_recovered_server_goes_on_handing_out(
    snapshot_bytes: int, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_BYTES", snapshot_bytes)
    sources = [source(service, worker) for worker in range(NUM_WORKERS)]
    for one in sources:
        one.begin(0, 3, 12, [0, 2])
    for one in sources:
        assert None not in (one.take(0), one.take(0))
    assert service.core.durability is not None
    if not snapshot_bytes:
        service.core.durability._next_at = 0
        sources[0].take(0)
        wait_until(lambda: bool(snapshots_in(tmp_path / "server-0")), 30, "a snapshot")
    with service.core.durability.snapshotting:
        copy = shutil.copytree(tmp_path / "server-0", tmp_path / "died", ignore=shutil.ignore_patterns("lock"))
    other = Service(journal=(Path(copy), "OS"))
    try:
        assert everything(other)["pieces"] == everything(service)["pieces"]
        again = source(other, 1)  # its next life, which had stored nothing
        again.begin(0, 3, 12, [0, 2], 0)
        assert [again.take(0), again.take(0)] == sources[1].own(0)
        taken = [*sources[0].own(0), *sources[2].own(0), *sources[1].own(0), *read_all(again)]
        assert sorted(taken) == [0, 2, *range(3, 12)]
    finally:
        other.close()


def test_a_take_is_in_the_journal_before_it_is_answered(service: Service) -> None:
    one = source(service, 0)
    one.begin(0, 0, 2, [])
    one.take(0)
    assert service.core.durability is not None
    last = service.core.durability.counts()["record"]
    one.take(0)
    assert service.core.durability.counts()["record"] == last + 1
    one._ask(0, one._readings[0], 2)  # the same again, and one that there is no piece for, change nothing
    assert one.take(0) is None
    assert service.core.durability.counts()["record"] == last + 1


def test_a_former_life_is_handed_nothing(service: Service) -> None:
    former = source(service, 0)
    former.begin(0, 0, 4, [])
    assert former.take(0) == 0
    assert source(service, 1).own is not None
    present = source(service, 0)
    present.begin(0, 0, 4, [], 1)
    with pytest.raises(CommunicationError, match="worker 0 asked for a piece of epoch 0: worker 0 was started again"):
        former.take(0)
    assert read_all(present) == [1, 2, 3]


def test_going_back_hands_everything_out_again(service: Service) -> None:
    for one in (source(service, 0), LocalPieces(), StorePieces(dist.HashStore(), "files/0")):
        for _ in range(2):
            one.begin(1, 0, 3, [])
            assert read_all(one, 1) == [0, 1, 2]
        assert one.own(1) == [0, 1, 2]
        assert one.take(1) is None


def test_a_next_life_does_not_know_of_a_script_that_went_back(service: Service) -> None:
    former = source(service, 0)
    for _ in range(2):
        former.begin(0, 0, 3, [])
        former.take(0)
    with pytest.raises(UsageError, match="epoch to which its script had gone back"):
        source(service, 0).begin(0, 0, 3, [], 1)


def test_old_epochs_are_forgotten(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECES_KEPT", 3 * pieces.NUM_EPOCHS - 1)
    slow, fast = source(service, 0), source(service, 1)
    unfinished = source(service, 2)
    for one in (slow, fast, unfinished):
        one.begin(0, 0, 3, [])
    assert slow.take(0) == 0
    unfinished.take(0)
    for epoch in range(50):
        if epoch:
            fast.begin(epoch, 0, 3, [])
        if epoch != 7:
            read_all(fast, epoch)
    assert [key.epoch for key in service.state.pieces._epochs] == [46, 47, 48, 49]
    assert slow.take(0) is None  # it is only told that there is nothing more
    slow.begin(1, 0, 3, [])
    assert slow.take(1) is None
    with pytest.raises(CommunicationError, match="epoch 7 of the queue 'files/0'"):  # some of it nobody has taken
        slow.begin(7, 0, 3, [])
    with pytest.raises(CommunicationError, match="which the others have left far behind"):
        source(service, 0).begin(0, 0, 3, [], 1)
    with pytest.raises(NotReadyError, match="epoch 0 of a queue was not begun, or is long over"):
        fast.take(0)


def test_queues_of_many_readers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "NUM_KEPT", 8)
    monkeypatch.setattr(pieces, "NUM_FORGOTTEN", 20)
    queues = PieceQueues()
    for number in range(pieces.NUM_FORGOTTEN + 2 * pieces.NUM_KEPT):
        queues.change(0, Key(f"files/{number}", 0, 0), 0, Extent(0, 1))
    assert (len(queues._epochs), len(queues._forgotten)) == (pieces.NUM_KEPT, pieces.NUM_FORGOTTEN)


def ask(service: Service, number: int = 0, queue: str = "q", **fields: Any) -> Any:
    caller = ps_pb2.Caller(worker=0, incarnation=1)
    header = ps_pb2.TakeRequest.Header(caller=caller, queue=queue, number=number, **fields)
    return service.handle("Take", header, ())[0]


def test_what_cannot_be_handed_out_is_refused(service: Service) -> None:
    client(service, 0)
    record = service.core.durability.counts()["record"] if service.core.durability else 0
    with pytest.raises(UsageError, match="up to 10000000; got 7 and 3"):
        ask(service, first=7, total=3)
    with pytest.raises(UsageError, match="up to 10000000; got 0 and 20000000"):
        ask(service, total=20_000_000)
    for extra in ([3], [1, 0], [1, 1]):
        with pytest.raises(UsageError, match="lie before its first, each once, in ascending order"):
            ask(service, first=2, total=4, extra=extra)
    with pytest.raises(UsageError, match="1 to 200 letters, got 0"):
        ask(service, queue="", total=3)
    with pytest.raises(NotReadyError, match="epoch 0 of the queue 'q', which nobody has begun"):
        ask(service, 1)
    with pytest.raises(NotReadyError, match="which nobody has begun"):
        ask(service, 0)
    assert service.core.durability is not None
    assert service.core.durability.counts()["record"] == record
    ask(service, total=3)
    with pytest.raises(CommunicationError, match="worker 0 asks for take 3 of epoch 0 of the queue 'q', but has"):
        ask(service, 3)
    client(service, 1)
    with pytest.raises(UsageError, match=r"worker 0 begins .* with pieces 0 to 3, another .* with pieces 0 to 2;"):
        ask(service, total=4)


def test_another_server_hands_out_nothing() -> None:
    made = Service()
    job = JobSpec(NUM_WORKERS, 2, "async", tables=JOB.tables)
    caller = ps_pb2.Caller(worker=0, incarnation=1)
    made.handle("Declare", ps_pb2.DeclareRequest.Header(caller=caller, job=job.to_json(), server_index=1), ())
    with pytest.raises(UsageError, match="server 0 hands out pieces, and this is server 1"):
        ask(made, total=3)
    made.close()


def test_one_process_counts_by_itself() -> None:
    here = Fleet()
    here.init()
    one = piece_source(here, "files/0")
    assert isinstance(one, LocalPieces)
    one.begin(2, 3, 5, [1], 1)
    assert read_all(one, 2) == [3, 4]
    assert one.own(2) == [1, 3, 4]
    one.begin(3, 0, 0, [])
    assert one.take(3) is None
    with pytest.raises(CommunicationError, match="has 4 pieces of epoch 4 behind it, but it was handed 2"):
        one.begin(4, 0, 2, [], 4)
    here.shutdown()


def test_workers_of_a_collective_job_count_in_its_store() -> None:
    store = dist.HashStore()
    sources = [StorePieces(store, "files/0") for _ in range(2)]
    for one in sources:
        one.begin(0, 2, 40, [0])
    barrier = threading.Barrier(2)

    def take(one: StorePieces) -> list[int]:
        barrier.wait(30)
        return read_all(one)

    first, second = in_threads(*(partial(take, one) for one in sources))
    assert sorted(first + second) == [0, *range(2, 40)]
    with pytest.raises(NotSupportedError, match="not started again alone; load a checkpoint"):
        sources[0].begin(1, 0, 3, [], 1)


def test_a_worker_that_has_not_joined_is_told() -> None:
    here = Fleet()
    here.init()
    with pytest.raises(NotReadyError, match=r"fleet.data.files\(queue=True\) needs the servers; call fleet.init"):
        ServerPieces(lambda: here.worker_client("fleet.data.files(queue=True)"), "q").begin(0, 0, 2, [])
    here.shutdown()


def test_what_is_small_is_remembered_however_far_others_are(service: Service) -> None:
    """A worker that was away for long finds what it had."""
    former, other = source(service, 0), source(service, 1)
    former.begin(0, 0, 3, [])
    assert (former.take(0), former.take(0)) == (0, 1)
    for epoch in range(500):
        other.begin(epoch, 0, 3, [])
        read_all(other, epoch)
    present = source(service, 0)
    present.begin(0, 0, 3, [], 1)
    assert read_all(present) == [1]


def test_what_is_being_read_stays_where_another_reader_begins_many_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECES_KEPT", 10)
    queues = PieceQueues()
    large = Key("large", 0, 0)
    queues.change(0, large, 0, Extent(0, 100))
    for number in range(1, 51):
        queues.change(0, large, number, Extent(0, 0))
    for epoch in range(20):
        queues.change(0, Key("small", epoch, 0), 0, Extent(0, 1))
    assert queues.change(0, large, 51, Extent(0, 0)).pieces == [50]


def test_a_server_that_is_gone_is_named_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "0.5")
    with ExitStack() as stack:
        with served(1) as (endpoints, _):
            one = stack.enter_context(joined(endpoints, num_workers=2, strategy=strategy("async")))
            queue = piece_source(one.fleet, "files/0")
            queue.begin(0, 0, 3, [])
            assert queue.take(0) == 0
        wanted = (
            r"worker 0 asked for a piece of epoch 0: server 127.0.0.1:\d+.*; tried for 0.5 s \(FLEET_RPC_TIMEOUT_S\)"
        )
        with pytest.raises(CommunicationError, match=wanted) as caught:
            queue.take(0)
        assert caught.value.retryable


class Race:
    """Workers that take pieces of an epoch, each at its own speed, one piece ahead, in a time of its own."""

    def __init__(self, piece_s: list[float], num_pieces: int) -> None:
        self.now = 0.0
        self._piece_s = piece_s
        self.ends = [0.0] * len(piece_s)
        self.done = [0] * len(piece_s)
        pace, num_left = Pace(lambda: self.now), num_pieces
        calls = [(0.0, worker, 0) for worker in range(len(piece_s))]
        while calls:  # of a worker, when it begins with one piece it asks for the next
            calls.sort()
            self.now, worker, num_held = calls.pop(0)
            if num_left:
                pace.note(worker)
            if not num_left or pace.holds_up(worker, num_left):
                self.ends[worker] = max(self.ends[worker], self.now + self._piece_s[worker] * (num_held > 0))
                continue
            num_left -= 1
            self.done[worker] += 1
            calls.append((self.now + self._piece_s[worker] * (num_held > 0), worker, 1))
        assert num_left == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.001, 10.0), min_size=1, max_size=6), st.integers(0, 60))
def test_whatever_their_speed_workers_do_everything(piece_s: list[float], num_pieces: int) -> None:
    assert sum(Race(piece_s, num_pieces).done) == num_pieces


@pytest.mark.parametrize("num_pieces", [64, 256])
def test_the_slowest_does_not_take_what_others_end_sooner(num_pieces: int) -> None:
    race = Race([1.0, 1.0, 1.0, 4.0], num_pieces)
    assert max(race.ends) < 1.12 * num_pieces / 3.25
    assert race.done[3] > 0.6 * num_pieces / 13


def test_workers_of_one_speed_are_handed_all_alike() -> None:
    assert Race([1.0] * 4, 40).done == [10] * 4

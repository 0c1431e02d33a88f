"""A server without a network: what it refuses and in which words, and that everybody else is served as before."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fleet.errors import CheckpointError, CommunicationError, DeadlineError, FleetError, NotReadyError, UsageError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service

WIDTH, NUM_DENSE = 2, 3
KEYS = np.array([1, 2, -7], np.int64)
ONES = np.ones((3, WIDTH), np.float32)
DENSE = np.ones(NUM_DENSE, np.float32)


def table(name: str = "ads", **changes: Any) -> TableSpec:
    fields: dict[str, Any] = {
        "width": WIDTH,
        "rule": rules.SGD(lr=1.0),
        "initializer": initializers.Constant(0.0),
        "entry": entries.AlwaysEntry(),
        **changes,
    }
    return TableSpec(name, **fields)


def job(mode: str = "sync", num_workers: int = 2, nonfinite: str = "error", **changes: Any) -> JobSpec:
    dense = DenseSpec((rules.SGD(lr=1.0),), (("w", (NUM_DENSE,)),), (DenseBlock("w", 0, NUM_DENSE, 0, 0),))
    return JobSpec(num_workers, 1, mode, nonfinite, (table(**changes), table("users")), dense)


class Peer:
    """A worker as a server sees it."""

    def __init__(self, service: Service, worker: int = 0, spec: JobSpec | None = None, incarnation: int = 1) -> None:
        self.service = service
        self.caller = ps_pb2.Caller(worker=worker, incarnation=incarnation)
        self.sequence = 0
        header = ps_pb2.DeclareRequest.Header(caller=self.caller, job=(spec or job()).to_json())
        self.declared: Any = self.ask("Declare", header)[0]
        self.caller.instance = self.declared.instance
        self.ask("Start", ps_pb2.StartRequest.Header(caller=self.caller), 0 * DENSE)

    def ask(self, method: str, header: Any, *tensors: Any) -> tuple[Any, Any]:
        return self.service.handle(method, header, tensors)

    def push(
        self,
        grads: NDArray[Any] = ONES,
        dense: NDArray[np.float32] | None = DENSE,
        *,
        keys: NDArray[np.int64] = KEYS,
        step: int = 0,
        sequence: int | None = None,
        index: int = 0,
    ) -> Any:
        self.sequence += 1
        header = ps_pb2.PushRequest.Header(
            caller=self.caller,
            sequence=self.sequence if sequence is None else sequence,
            step=step,
            tables=[ps_pb2.PushRequest.Table(table=index, lr=1.0)],
            dense_lrs=[] if dense is None else [1.0],
        )
        return self.ask("Push", header, keys, grads, *([] if dense is None else [dense]))[0]

    def pull(
        self, keys: NDArray[np.int64] = KEYS, version: int = 0, timeout_ms: int = 50
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        header = ps_pb2.PullRequest.Header(
            caller=self.caller, version=version, tables=[0], dense=True, timeout_ms=timeout_ms
        )
        rows, dense = self.ask("Pull", header, keys)[1]
        return rows, dense

    def stats(self) -> dict[str, Any]:
        reply, _ = self.ask("Stats", ps_pb2.StatsRequest.Header(caller=self.caller))
        found: dict[str, Any] = json.loads(reply.stats)
        return found

    def leave(self) -> None:
        self.ask("Leave", ps_pb2.LeaveRequest.Header(caller=self.caller, sequence=100))


def nan_at(row: int, column: int = 0) -> NDArray[np.float32]:
    grads = ONES.copy()
    grads[row, column] = np.nan
    return grads


def test_a_step_is_the_mean_of_its_workers() -> None:
    first, second = (Peer(service := Service()), Peer(service, 1))
    first.push(1 * ONES, 1 * DENSE)
    with pytest.raises(DeadlineError, match="waited 0.05 s for step 0: no gradients from worker 1"):
        first.pull(version=1)
    second.push(3 * ONES, 5 * DENSE)
    rows, dense = first.pull(version=1)
    np.testing.assert_array_equal(rows, -2 * ONES)
    np.testing.assert_array_equal(dense, -3 * DENSE)


@pytest.mark.parametrize("mode", ["sync", "async", "half_async"])
def test_a_repeated_push_changes_nothing(mode: str) -> None:
    one = Peer(Service(), spec=job(mode, num_workers=1))
    for step, sequence in enumerate((1, 2, 3)):
        assert not one.push(step=step, sequence=sequence).was_repeated
        assert one.push(step=step, sequence=sequence).was_repeated
        assert one.push(step=0, sequence=1).was_repeated
    np.testing.assert_array_equal(one.pull()[0], -3 * ONES)
    stats = one.stats()
    assert (stats["pushes"], stats["repeated_pushes"], stats["version"]) == (3, 6, 3)


def test_pushes_that_overtake_each_other_are_all_applied() -> None:
    one = Peer(Service(), spec=job("async", num_workers=1))
    for sequence in (3, 1, 4, 2, 3, 1):
        one.push(sequence=sequence)
    np.testing.assert_array_equal(one.pull()[0], -4 * ONES)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("change", [{"index": 7}, {"grads": np.inf * ONES}, {"dense": np.nan * DENSE}], ids=str)
def test_a_push_that_cannot_be_is_refused_whole(mode: str, change: dict[str, Any]) -> None:
    one, other = (Peer(service := Service(), spec=job(mode)), Peer(service, 1, job(mode)))
    with pytest.raises(UsageError):
        one.push(**change)
    assert not one.pull()[0].any()
    one.push()
    other.push()
    np.testing.assert_array_equal(one.pull()[0], -(1 if mode == "sync" else 2) * ONES)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_rows_with_a_nan_are_skipped_and_counted_where_the_job_says_so(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    spec = job(mode, nonfinite="skip")
    one, other = (Peer(service := Service(), spec=spec), Peer(service, 1, spec))
    one.push(nan_at(1), np.inf * DENSE)
    other.push(ONES, DENSE)
    rows, dense = one.pull()
    # In sync mode the mean of a row is a NaN if one worker's gradient is; in async mode pushes stand alone.
    is_alone = mode == "async"
    np.testing.assert_array_equal(rows[:, 0], -np.array([2, 1, 2] if is_alone else [1, 0, 1], np.float32))
    np.testing.assert_array_equal(dense, -DENSE if is_alone else 0 * DENSE)
    assert one.stats()["skipped"] == 2
    assert caplog.text.count("2 rows or dense groups skip a NaN or Inf") == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (job(width=3), "worker 1 does not agree with the job: table 'ads': width is 3 here, 2 in the declaration"),
        (job(rule=rules.SGD(lr=2.0)), "table 'ads', rule sgd: lr is 2.0 here, 1.0 in the declaration of the others"),
        (job("async"), "job: mode is async here, sync in the declaration of the others"),
        (JobSpec(2, 1, "sync", "error", (table(),)), "table 'users' is declared by the others, but not here"),
        (job(num_workers=3), "job: num_workers is 3 here, 2 in the declaration"),
    ],
)
def test_a_declaration_that_differs_is_refused(changed: JobSpec, message: str) -> None:
    service = Service()
    first = Peer(service)
    with pytest.raises(UsageError, match=message):
        Peer(service, 1, changed)
    second = Peer(service, 1)  # the right one is still welcome
    first.push()
    second.push()
    np.testing.assert_array_equal(first.pull(version=1)[0], -ONES)


def test_callers_that_do_not_belong_are_refused() -> None:
    service = Service()
    with pytest.raises(NotReadyError, match="no worker has declared a job yet"):
        service.handle("Stats", ps_pb2.StatsRequest.Header(), ())
    one = Peer(service)
    for caller, kind, message in (
        (ps_pb2.Caller(worker=5, incarnation=1), UsageError, "worker 5 does not exist in a job of 2 workers"),
        (ps_pb2.Caller(worker=1, incarnation=1), NotReadyError, "worker 1 has not declared its job"),
        (ps_pb2.Caller(worker=0, incarnation=1, instance=5), NotReadyError, "it was started again and has lost"),
    ):
        with pytest.raises(kind, match=message):
            service.handle("Leave", ps_pb2.LeaveRequest.Header(caller=caller), ())
    with pytest.raises(UsageError, match="there is no method 'Destroy'"):
        service.handle("Destroy", ps_pb2.StatsRequest.Header(), ())
    assert one.stats()["pushes"] == 0


def test_a_former_life_can_do_nothing() -> None:
    service = Service()
    former, other = Peer(service), Peer(service, 1)
    former.push(9 * ONES, 9 * DENSE)
    present = Peer(service, incarnation=2)
    for call in (former.push, former.pull, former.leave, former.stats):
        with pytest.raises(CommunicationError, match="worker 0 was started again; this process is its former life"):
            call()
    other.push()
    present.push()
    np.testing.assert_array_equal(present.pull(version=1)[0], -ONES)  # without what the former life had pushed


def test_a_worker_that_left_and_comes_back_is_waited_for() -> None:
    service = Service()
    one, other = Peer(service), Peer(service, 1)
    other.leave()
    one.push()
    assert one.stats()["version"] == 1
    again = Peer(service, 1, incarnation=2)
    assert again.declared.version == 1
    one.push(step=1)
    assert one.stats()["version"] == 1
    again.push(step=1)
    assert one.stats()["version"] == 2
    for peer in (one, again):
        assert not service.finished.is_set()
        peer.leave()
    assert service.finished.is_set()


def test_a_worker_out_of_step_is_told() -> None:
    one = Peer(Service(), spec=job(num_workers=1))
    one.push()
    with pytest.raises(CommunicationError, match="worker 0 pushed step 5, but the workers are at step 1"):
        one.push(step=5)
    one.push(step=1)


def test_those_that_wait_are_let_go_when_the_server_stops() -> None:
    service = Service()
    one = Peer(service)
    errors: list[FleetError] = []

    def wait() -> None:
        try:
            one.pull(version=1, timeout_ms=20_000)
        except FleetError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    service.close()
    thread.join(60)
    assert str(errors[0]) == "the server is stopping"


def test_dense_parameters_are_waited_for() -> None:
    service = Service()
    header = ps_pb2.DeclareRequest.Header(caller=ps_pb2.Caller(worker=1, incarnation=1), job=job().to_json())
    service.handle("Declare", header, ())
    pull = ps_pb2.PullRequest.Header(caller=header.caller, dense=True, timeout_ms=20)
    with pytest.raises(DeadlineError, match="waited 0.02 s for worker 0 to send the first values of the dense"):
        service.handle("Pull", pull, ())


def test_a_pull_leaves_no_trace() -> None:
    one = Peer(Service(), spec=job("async", initializer=initializers.Uniform(-1.0, 1.0)))
    before = one.pull()[0]
    np.testing.assert_array_equal(one.pull()[0], before)
    assert one.stats()["tables"]["ads"]["rows"] == 0
    one.push(0 * ONES)
    np.testing.assert_array_equal(one.pull()[0], before)
    assert one.stats()["tables"]["ads"]["rows"] == 3


def test_a_pull_that_only_reads_gives_zeros_for_keys_without_a_row() -> None:
    one = Peer(Service(), spec=job("async", initializer=initializers.Constant(2.0)))
    one.push(keys=KEYS[:1], grads=ONES[:1], dense=None)

    def ask(*only_read: bool) -> list[float]:
        header = ps_pb2.PullRequest.Header(caller=one.caller, tables=[0], only_read=only_read, timeout_ms=50)
        rows: list[float] = one.ask("Pull", header, KEYS)[1][0][:, 0].tolist()
        return rows

    assert ask() == ask(False) == [1.0, 2.0, 2.0]
    assert ask(True) == [1.0, 0.0, 0.0]
    with pytest.raises(UsageError, match="pull of worker 0: 2 flags of reading for 1 tables"):
        ask(True, True)


def test_no_keys_are_as_good_as_any() -> None:
    one = Peer(Service(), spec=job(num_workers=1))
    one.push(ONES[:0], keys=KEYS[:0])
    rows, dense = one.pull(KEYS[:0], version=1)
    assert rows.shape == (0, WIDTH)
    np.testing.assert_array_equal(dense, -DENSE)


def test_staleness_is_the_number_of_pushes_in_between() -> None:
    one, other = (Peer(service := Service(), spec=job("async")), Peer(service, 1, job("async")))
    for _ in range(3):
        one.push()
    assert other.push().staleness == 3
    stats = one.stats()
    # The first push of `one` had seen everything; the others say that they pulled at 0 as well.
    assert (stats["stale_pushes"], stats["staleness"]["max"]) == (3, 3)


def test_parts_with_and_without_clicks_go_together() -> None:
    """Two modules may share a table, and only one of them knows clicks."""
    spec = job("async", entry=entries.ShowClickEntry("show", "click", 0.0))
    one = Peer(Service(), spec=spec)
    clicks = np.array([1, 0, 1], np.float32)
    header = ps_pb2.PushRequest.Header(caller=one.caller, sequence=1)
    for has_clicks in (True, False, True):
        header.tables.append(ps_pb2.PushRequest.Table(table=0, lr=1.0, has_clicks=has_clicks))
    one.ask("Push", header, *(KEYS, ONES, 2 * clicks, clicks), *(KEYS, ONES), *(KEYS, ONES, 2 * clicks, clicks))
    holdings = one.service.state.holdings
    assert holdings is not None
    rows = holdings.tables[0].export(0, 64)
    where = np.argsort(rows["keys"])
    order = np.argsort(KEYS)
    np.testing.assert_array_equal(rows["shows"][where], (4 * clicks + 1)[order])
    np.testing.assert_array_equal(rows["clicks"][where], (2 * clicks)[order])


def test_folders_that_are_not_there_are_named(tmp_path: Path) -> None:
    one = Peer(Service())
    missing = str(tmp_path / "missing")
    with pytest.raises(CheckpointError, match=f"server 0 does not see the folder .{missing}"):
        one.ask("Save", ps_pb2.SaveRequest.Header(caller=one.caller, folder=missing))
    with pytest.raises(CheckpointError, match=missing):
        one.ask("Load", ps_pb2.LoadRequest.Header(caller=one.caller, folder=missing, sequence=100))
    with pytest.raises(UsageError, match="there is no table 'nothing'; the job declared 'ads', 'users'"):
        one.ask("Shrink", ps_pb2.ShrinkRequest.Header(caller=one.caller, table="nothing", sequence=100))
    assert one.stats()["version"] == 0


def test_a_worker_that_joins_waits_for_its_former_life_and_for_nobody_else() -> None:
    """Locks are taken in one order: while a push of the former life is being applied, the others are served."""
    service = Service()
    Peer(service)
    other = Peer(service, 1)
    joined = threading.Thread(target=lambda: Peer(service, incarnation=2), daemon=True)
    with service.core.gate.open(), service.state.ledger.once(0, 1, 1):  # what a push holds while it is applied
        joined.start()
        joined.join(0.2)
        assert joined.is_alive()
        answered = threading.Thread(target=lambda: other.pull(timeout_ms=5000), daemon=True)
        answered.start()
        answered.join(60)
        assert not answered.is_alive()
    joined.join(60)
    assert not joined.is_alive()


def test_a_step_that_cannot_be_applied_is_over_for_everybody_until_a_checkpoint_is_loaded() -> None:
    service = Service()
    first, second = Peer(service), Peer(service, 1)
    large = np.full_like(ONES, 3e38)
    first.push(large, None)  # each is finite; the sum is not
    with pytest.raises(ValueError, match="NaN or an Inf"):
        second.push(large, None)
    with pytest.raises(CommunicationError, match="step 0 failed on this server: .*; load a checkpoint"):
        first.pull(version=1, timeout_ms=60_000)
    with pytest.raises(CommunicationError, match="step 0 failed"):
        first.push()
    second.leave()

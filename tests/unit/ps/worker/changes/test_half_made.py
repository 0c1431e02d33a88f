"""Changes that some servers have made and others have not: they go on, whoever dies, and nothing is mixed."""

from __future__ import annotations

import errno
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fleet.errors import CheckpointError, CommunicationError, FleetError
from fleet.ps.durable import storage
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.journal import snapshots
from fleet.ps.journal.files import write_all
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.calling.outbox import HalfMadeError
from fleet.ps.worker.modes.base import Setup
from fleet.ps.worker.modes.sync import Sync
from fleet.runtime.saved import saving
from fleet.strategy.parameter_server import ASyncConfigs
from support.processes import wait_until
from support.worker.two_servers import ADS, Servers, push_rows, shrink_on_one

LIMIT_S = 30.0
WIDE = TableSpec("wide", 16, rules.SGD(), initializers.Constant(0.0), entries.AlwaysEntry(), memory=1 << 20)
pytestmark = pytest.mark.timeout(120)


def life_of(servers: Servers) -> Any:
    """A worker's life that can save and load."""
    worker = servers.life()
    worker.policy = SimpleNamespace(flush=lambda: None, trains_locally=False)
    worker.restart_at, worker.send_kept = lambda _: None, lambda: None
    return worker


def trained(servers: Servers, saved: Path) -> Any:
    """A worker whose servers have a checkpoint in which rows were shown 8 times, and rows that were shown 16 times."""
    worker = life_of(servers)
    push_rows(worker.client, 0, range(8), shows=True).results()
    saving.save(worker, saved)
    push_rows(worker.client, 1, range(8), shows=True).results()
    assert servers.shows() == {16.0}
    return worker


@contextmanager
def full(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No snapshot of this server can be written."""

    def write(file: int, buffers: Any) -> None:
        if f"server-{number}" in Path(f"/proc/self/fd/{file}").readlink().as_posix():
            raise OSError(errno.ENOSPC, "No space left on device")
        write_all(file, buffers)

    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "write_all", write)
        yield


def test_a_load_onto_a_full_disk_goes_on_when_there_is_room(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = trained(servers, tmp_path / "saved")
    monkeypatch.setenv("FLEET_RECOVERY_TIMEOUT_S", "30")
    failed = threading.Thread(target=lambda: saving.load(worker, tmp_path / "saved"))
    with full(1, monkeypatch):
        failed.start()
        wait_until(lambda: servers.services[1].core.failure is not None, LIMIT_S, "the first try")
    failed.join(LIMIT_S)
    assert servers.shows() == {8.0}
    push_rows(worker.client, 2, range(8), shows=True).results()
    servers.restart()
    assert servers.shows() == {16.0}


def test_a_load_onto_a_full_disk_of_rows_goes_on_when_there_is_room(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved, keys = tmp_path / "saved", range(60_000)
    in_memory = Servers(tmp_path / "memory", JobSpec(1, 2, "async", tables=(replace(WIDE, memory=0),)))
    worker = life_of(in_memory)
    push_rows(worker.client, 0, keys, width=16).results()
    saving.save(worker, saved)
    in_memory.close()
    shutil.rmtree(tmp_path / "worker-0")
    servers = made(JobSpec(1, 2, "async", tables=(WIDE,)))
    worker = life_of(servers)
    monkeypatch.setenv("FLEET_RECOVERY_TIMEOUT_S", "30")
    loading = threading.Thread(target=lambda: saving.load(worker, saved))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        loading.start()
        wait_until(lambda: servers.services[1].core.failure is not None, LIMIT_S, "the first try")
        assert "has a part of this checkpoint" in (servers.services[1].core.failure or "")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    loading.join(LIMIT_S)
    assert [one.core.failure for one in servers.services] == [None, None]
    assert sum(len(one.state.held.tables[0]) for one in servers.services) == len(keys)


@pytest.mark.parametrize("then", ["the same life pushes", "the next life", "all start again"])
def test_a_load_that_one_server_could_not_keep_is_finished_before_anything_else(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: str
) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = trained(servers, tmp_path / "saved")
    with full(1, monkeypatch), pytest.raises(CommunicationError, match="could not be kept: No space left"):
        saving.load(worker, tmp_path / "saved")
    if then == "all start again":
        servers.restart()
        assert servers.shows() == {8.0, 16.0}
    if then != "the same life pushes":
        worker = servers.life()
    push_rows(worker.client, 2, range(8), shows=True).results()
    assert servers.shows() == {16.0}
    servers.restart()
    assert servers.shows() == {16.0}


def test_another_load_takes_the_place_of_one_that_a_server_refuses(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = trained(servers, tmp_path / "saved")
    saving.save(worker, tmp_path / "whole")
    load = storage.load

    def damaged(holdings: Any, path: Path) -> Any:
        if holdings.server == 1:
            raise CheckpointError("rows are damaged")
        return load(holdings, path)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "load", damaged)
        with pytest.raises(HalfMadeError, match="rows are damaged, and other servers have made this change"):
            saving.load(worker, tmp_path / "saved")
        with pytest.raises(HalfMadeError, match=r"ask for it again; or remove .*/worker-0/change, and load"):
            servers.life()
        with pytest.raises(HalfMadeError):
            push_rows(worker.client, 2, range(8))
    assert servers.shows() == {8.0, 16.0}
    saving.load(worker, tmp_path / "whole")
    assert servers.shows() == {16.0}
    servers.life()
    assert servers.shows() == {16.0}


def test_a_shrink_that_one_server_refuses_goes_on_where_it_is_asked_for_again(
    made: Callable[[JobSpec], Servers], tmp_path: Path
) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    push_rows(worker.client, 0, range(8), shows=True).results()
    listed = tmp_path / "keys" / "ads.server-001.npy"
    listed.mkdir(parents=True)  # server 1 alone cannot list its keys
    for _ in range(2):
        with pytest.raises(HalfMadeError, match="cannot list keys in"):
            saving.shrink(worker, None, decay=0.5, keys_to=tmp_path / "keys")
        assert servers.shows() == {4.0, 8.0}
    listed.rmdir()
    saving.shrink(worker, None, decay=0.5, keys_to=tmp_path / "keys")
    assert servers.shows() == {4.0}


@pytest.mark.parametrize("is_next_life", [False, True])
def test_a_load_does_not_wait_for_a_shrink_that_a_failed_server_refuses(
    made: Callable[[JobSpec], Servers], tmp_path: Path, is_next_life: bool
) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = trained(servers, tmp_path / "saved")
    shrink_on_one(servers, worker)
    servers.services[1].core.failure = "step 3 failed on this server; load a checkpoint"
    if is_next_life:
        worker = life_of(servers)
    saving.load(worker, tmp_path / "saved")
    assert servers.shows() == {8.0}
    servers.life()
    assert servers.shows() == {8.0}


def test_a_worker_that_leaves_finishes_what_it_has_begun(made: Callable[[JobSpec], Servers]) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    push_rows(worker.client, 0, range(8), shows=True).results()
    shrink_on_one(servers, worker)
    worker.client.changes.leave()
    assert servers.shows() == {4.0}


@pytest.mark.parametrize("then", ["shrink", "meet", "leave"])
def test_whatever_comes_behind_a_step_waits_for_it(
    made: Callable[[JobSpec], Servers], monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Without dense parameters and rows of the next batch nobody has waited for the step."""
    monkeypatch.setenv("FLEET_RECOVERY_TIMEOUT_S", "30")
    servers = made(JobSpec(1, 2, "sync", tables=(ADS,)))
    worker = servers.life()
    policy = Sync(Setup(worker.client, None, torch.device("cpu"), 0, ASyncConfigs()))
    is_full = threading.Event()
    is_full.set()
    servers.is_away = lambda number, method: number == 1 and method == "Push" and is_full.is_set()
    push = worker.client.push

    def stepped(*_: Any, **__: Any) -> Any:
        return push_rows(SimpleNamespace(push=push), 0, range(8), shows=True, sync=True)  # type: ignore[arg-type]

    monkeypatch.setattr(worker.client, "push", stepped)
    following: list[Lookup] = []
    policy.step(SimpleNamespace(), following)  # type: ignore[arg-type]
    threading.Timer(0.3, is_full.clear).start()
    if then == "shrink":
        saving.shrink(worker, None, decay=0.5)
        assert servers.shows() == {4.0}
    elif then == "meet":
        WorkerMeetings(worker.client, "all", LIMIT_S).gather_bytes(b"")
    else:
        worker.client.changes.leave()
    assert servers.versions == [1, 1]


@pytest.mark.parametrize("where", [5, 40, -3])
@pytest.mark.parametrize("what", ["outbox", "change"])
def test_a_damaged_outbox_is_refused(made: Callable[[JobSpec], Servers], tmp_path: Path, where: int, what: str) -> None:
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    servers.is_away = lambda number, method: number == 1 and method in ("Push", "Shrink")
    with pytest.raises(CommunicationError, match="killed"):
        if what == "outbox":
            push_rows(worker.client, 0, range(8), shows=True).results()
        else:
            saving.shrink(worker, None, decay=0.5)
    servers.is_away = lambda _, __: False
    path = tmp_path / "worker-0" / what
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[where] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(FleetError, match=rf"worker-0/{what} .*; bring the file back, or remove it"):
        servers.life()
    path.write_bytes(whole)
    servers.life()
    if what == "outbox":
        assert servers.shows() == {8.0}
    path.write_bytes(bytes(4) + whole[4:-3])  # its worker died while it was written
    servers.life()


def test_an_outbox_that_was_written_whole_and_not_marked_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[JobSpec], Servers]
) -> None:
    monkeypatch.setenv("FLEET_JOURNAL", "ALWAYS")
    servers = made(JobSpec(1, 2, "async", tables=(ADS,)))
    worker = servers.life()
    servers.is_away = lambda number, method: number == 1 and method == "Push"
    with pytest.raises(CommunicationError, match="killed"):
        push_rows(worker.client, 0, range(8), shows=True).results()
    servers.is_away = lambda _, __: False
    path = tmp_path / "worker-0" / "outbox"
    path.write_bytes(bytes(4) + path.read_bytes()[4:])  # power went before the mark was on the disk
    servers.life()
    assert servers.shows() == {8.0}
    damaged = bytearray(path.read_bytes())
    damaged[-3] ^= 1
    path.write_bytes(damaged)  # and while the next was written over it
    servers.life()

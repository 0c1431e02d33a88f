"""Tables with more rows than memory, in whole jobs: trained, recovered, saved and loaded as if all were in memory."""

from __future__ import annotations

import os
import resource
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet import checkpoint
from fleet.errors import CheckpointError, CommunicationError, UsageError
from fleet.ps.durable import durability, recovery
from fleet.ps.held import applicable
from fleet.ps.held.table_dir import TableDir
from fleet.ps.job.entries import CountFilterEntry
from fleet.ps.job.spec import JobSpec
from fleet.ps.journal.files import runs_path, snapshots_in
from fleet.ps.server.service import Service
from fleet.ps.steps.ages import Ages
from fleet.ps.wire.budget import needed_bytes
from fleet.strategy.sizes import size_bytes
from support.durable.server_state import everything
from support.parity.training import Trainer, first_model, joined, rows_of, served, strategy
from support.processes import wait_until

pytestmark = pytest.mark.timeout(120)

NUM_IDS = 60_000
MEMORY = "1MiB"  # some 14,000 rows


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEET_TABLE_DIR", str(tmp_path / "tables"))
    return tmp_path / "tables"


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than `tmp_path`, where there is one."""
    here = tmp_path.stat().st_dev
    base = next((base for base in ("/dev/shm", "/tmp") if Path(base).stat().st_dev != here), None)
    with TemporaryDirectory(dir=base) as folder:
        yield Path(folder)


def ids_of(step: int) -> torch.Tensor:
    return torch.randint(0, NUM_IDS, (1500, 3), generator=torch.Generator().manual_seed(step))


def train(one: Trainer, *steps: int) -> None:
    """Steps that together touch more rows than memory holds."""
    for step in range(*steps):
        ids = ids_of(step)
        one.optimizer.zero_grad()
        nn.functional.mse_loss(one.model(ids), (ids.sum(1) % 2).float()).backward()
        one.optimizer.step()
    one.fleet.flush()


def tier(one: Trainer) -> dict[str, Any]:
    found: dict[str, Any] = one.stats()[0]["tables"]["ads"]["disk"]
    return found


def test_rows_are_the_same_to_the_last_bit(folder: Path) -> None:
    found = []
    for memory in ("1MiB", 0):
        model = first_model(0, entry=CountFilterEntry(2), memory=memory)
        with served(1) as (endpoints, services), joined(endpoints, model=model) as one:
            train(one, 8)
            one.fleet.shrink(unseen_steps=5)
            train(one, 8, 12)
            if memory:
                assert tier(one)["cold_rows"] > 0
                assert tier(one)["spilled_rows"] > 0
                assert any(folder.glob("server-0-*/table-0/*.run"))
            state = everything(services[0])
            found.append((state["tables"], state["dense"]))
    assert found[0] == found[1]


@pytest.mark.parametrize("snapshot_bytes", [200_000, 1 << 30])
def test_a_recovered_server_is_the_one_that_died(
    snapshot_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_BYTES", snapshot_bytes)
    service = Service(journal=(tmp_path / "server-0", "OS"))
    model = first_model(0, memory=MEMORY)
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("async"), model=model) as one:
        train(one, 10)
        assert service.core.durability is not None
        with service.core.durability.snapshotting:
            died = shutil.copytree(tmp_path / "server-0", tmp_path / "died", ignore=shutil.ignore_patterns("lock"))
            expected = everything(service)
    assert expected["tables"][0]
    has_snapshot = snapshot_bytes < 1 << 20
    assert [any(runs_path(path).iterdir()) for _, path in snapshots_in(died)] == [True] * has_snapshot
    again = Service(journal=(died, "OS"))
    assert everything(again) == expected
    assert again.state.held.tables[0].tier_counts()["cold_rows"] > 0
    again.close()
    if has_snapshot:
        shutil.copytree(tmp_path / "died", tmp_path / "torn", ignore=shutil.ignore_patterns("lock"))
        next(runs_path(snapshots_in(tmp_path / "torn")[-1][1]).iterdir()).unlink()
        with pytest.raises(CheckpointError, match="snapshot-.* cannot be gone on from: .* cannot be linked"):
            Service(journal=(tmp_path / "torn", "OS"))


def test_checkpoints_link_and_load_anywhere(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    with served(1) as (endpoints, services), joined(endpoints, model=first_model(0, memory=MEMORY)) as one:
        train(one, 8)
        one.fleet.save_persistables(saved)
        expected = rows_of(services)
        where = checkpoint.find(saved)
        manifest = checkpoint.read_manifest(where)
        runs = manifest.runs("ads")
        assert manifest.rows("ads") == len(expected) == len(services[0].state.held.tables[0])
        assert runs
        assert all((where / run.file.name).stat().st_nlink == 2 for run in runs)
        train(one, 8, 12)
        assert rows_of(services) != expected
        assert one.fleet.load_model(saved) == len(expected)
        assert rows_of(services) == expected
        with pytest.raises(CheckpointError, match="most of them in files of servers with memory="):
            checkpoint.refuse_runs(manifest, where, "ads")
    for num_servers, memory in ((1, 0), (2, MEMORY), (2, 0)):
        model = first_model(0, memory=memory)
        with served(num_servers) as (endpoints, services), joined(endpoints, model=model) as one:
            assert one.fleet.load_model(saved) == len(expected)
            assert rows_of(services) == expected
            train(one, 12, 14)


def test_a_cut_copies_no_cold_row(tmp_path: Path) -> None:
    """In async mode a save is of one moment, and training goes on while it is written."""
    model = first_model(0, memory=MEMORY)
    with served(1) as (endpoints, services), joined(endpoints, strategy=strategy("async"), model=model) as one:
        train(one, 8)
        expected = rows_of(services)
        one.fleet.save_persistables(tmp_path / "saved")
        one.fleet.save_inference_model(tmp_path / "served")
        assert not any((tmp_path / "tables").glob("server-*/more-*"))
        train(one, 8, 10)
        one.fleet.load_model(tmp_path / "saved")
        assert rows_of(services) == expected


def test_what_cannot_be_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, text in {
        "4 gigs": "memory must be a number of bytes or a text such as '4GiB' or '500MB', got '4 gigs'",
        1.5: "memory must be a number of bytes or a text",
        1000: "memory must be 0 or at least 1048576 bytes, got 1000",
    }.items():
        with pytest.raises(UsageError, match=f"table 'ads': {text}"):
            fleet.nn.Embedding(4, table="ads", memory=value)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_bytes deletes rows that memory keeps on a disk; give one"):
        fleet.nn.Embedding(4, table="ads", memory="1G", max_bytes=1 << 30)
    assert size_bytes("ads", "1.5 GB") == size_bytes("ads", "1.5G") == 3 << 29
    (spec,) = fleet.nn.Embedding(4, table="ads", memory="4GiB").specs("")
    with pytest.raises(UsageError, match="table 'ads': memory is not supported in geo mode"):
        JobSpec(1, 1, "geo", tables=(spec,))
    assert needed_bytes(JobSpec(1, 1, "async", tables=(spec,)), 0) >= 4 << 30
    monkeypatch.delenv("FLEET_TABLE_DIR")
    with (
        served(1) as (endpoints, _),
        pytest.raises(UsageError, match="nobody said where this server keeps the rows beyond it; set FLEET_TABLE_DIR"),
        joined(endpoints, model=first_model(0, memory=MEMORY)),
    ):
        pass
    monkeypatch.setenv("FLEET_TABLE_DIR", "/proc/nowhere")
    with pytest.raises(UsageError, match="a server cannot keep rows in /proc/nowhere"):
        TableDir(0)


def test_folders_of_dead_servers_go(folder: Path) -> None:
    dead = folder / "server-3-1-0"
    dead.mkdir(parents=True)
    (dead / "lock").touch()
    (dead / "00-1.run").touch()
    lives = TableDir(0)
    also = TableDir(0)
    assert sorted(path.name for path in folder.iterdir()) == sorted([lives.path.name, also.path.name])
    assert str(os.getpid()) in lives.path.name
    lives.close()
    del also
    assert not list(folder.iterdir())


def test_a_push_that_finds_no_room_may_come_again() -> None:
    """What the native table says (csrc/test/cold_test.cc fills a disk) reaches the worker as an error that passes."""

    class Full:
        name, has_disk = "ads", True

        def refuse_if_full(self) -> None:
            raise OSError(28, "table 'ads' takes no push: its memory is full")

    with pytest.raises(CommunicationError, match="takes no push") as told:
        applicable.check_room(Full())  # type: ignore[arg-type]
    assert told.value.retryable


@pytest.mark.parametrize("mode", ["sync", "half"])
def test_a_step_waits_for_room_on_the_disk_of_the_rows(
    mode: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile no file can be made; what was refused has not happened, and is sent again."""
    monkeypatch.setenv("FLEET_WAIT_NOTICE_S", "0.1")
    with (
        served(1) as (endpoints, services),
        joined(endpoints, strategy=strategy(mode), model=first_model(0, memory=MEMORY)) as one,
    ):
        train(one, 4)
        (rows,) = folder.glob("server-0-*/table-0")
        away = rows.rename(rows.with_name("away"))

        def bring_back() -> None:
            wait_until(lambda: "takes no push" in caplog.text or is_over.is_set(), 60, "a push that is refused")
            away.rename(rows)

        is_over, bringing = threading.Event(), threading.Thread(target=bring_back)
        bringing.start()
        try:
            train(one, 4, 16)
        finally:
            is_over.set()
            bringing.join()
        assert services[0].state.rounds.version == 16
        assert set(rows_of(services)) == {int(id) for step in range(16) for id in ids_of(step).flatten()}


@pytest.mark.parametrize("snapshot_bytes", [200_000, 1 << 30])
def test_a_server_that_comes_back_to_a_full_disk_of_rows_waits_for_room(
    snapshot_bytes: int,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    other_disk: Path,
) -> None:
    """Until it has said so, no file may become large. Files of a snapshot on another disk are copied, not linked."""
    monkeypatch.setattr(durability, "SNAPSHOT_BYTES", snapshot_bytes)
    monkeypatch.setattr(recovery, "ROOM_PAUSE_S", 0.01)
    service = Service(journal=(tmp_path / "server-0", "OS"))
    model = first_model(0, memory=MEMORY)
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("async"), model=model) as one:
        train(one, 8)
        assert service.core.durability is not None
        with service.core.durability.snapshotting:
            died = shutil.copytree(tmp_path / "server-0", tmp_path / "died", ignore=shutil.ignore_patterns("lock"))
            expected = everything(service)
    monkeypatch.setenv("FLEET_TABLE_DIR", str(other_disk))
    files = resource.RLIMIT_FSIZE
    before = resource.getrlimit(files)

    def make_room() -> None:
        wait_until(lambda: "waiting for up to" in caplog.text or is_over.is_set(), 60, "a server that waits for room")
        resource.setrlimit(files, before)

    is_over, making = threading.Event(), threading.Thread(target=make_room)
    resource.setrlimit(files, (8192, before[1]))
    making.start()
    try:
        again = Service(journal=(died, "OS"))
    finally:
        is_over.set()
        making.join()
    assert everything(again) == expected
    assert len(list(other_disk.iterdir())) == 1, "what was begun in vain is gone"
    again.close()
    assert caplog.text.count("waiting for up to 60 s until this server can serve") == 1


def test_rows_grow_old_by_the_clock_and_are_listed(tmp_path: Path) -> None:
    now = [1e9]
    with served(1) as (endpoints, services), joined(endpoints, model=first_model(0, memory=MEMORY)) as one:
        services[0].state.ages.wall_s = lambda: now[0]
        assert one.fleet.shrink(unseen_s=1) == 0  # nothing is known of the past
        for step in range(6):
            train(one, step, step + 1)
            now[0] += 3600
        before = set(rows_of(services))
        old = before - {int(id) for step in (3, 4, 5) for id in ids_of(step).flatten()}
        assert one.fleet.shrink(unseen_s=100 * 3600) == 0
        assert one.fleet.shrink(unseen_s=3 * 3600, keys_to=tmp_path / "gone") == len(old) > 1000
        assert before - set(rows_of(services)) == old
        listed = np.load(tmp_path / "gone" / "ads.server-000.npy")
        assert listed.tolist() == sorted(old)
        assert one.fleet.shrink(unseen_s=3 * 3600, keys_to=tmp_path / "gone") == 0
        assert len(np.load(tmp_path / "gone" / "ads.server-000.npy")) == len(old)
        with pytest.raises(UsageError, match="unseen_steps and unseen_s are two ages; give one"):
            one.fleet.shrink(unseen_steps=1, unseen_s=1)
        with pytest.raises(UsageError, match="server 0 cannot list keys in '/proc/none'"):
            one.fleet.shrink(unseen_s=1, keys_to="/proc/none")
        assert services[0].state.to_json()["ages"][0] == (1e9, 0)


def test_ages_are_thinned_out() -> None:
    ages, now = Ages(), [0.0]
    ages.wall_s = lambda: now[0]
    for step in range(20_000):
        now[0] = 10.0 * step
        ages.note(step)
        ages.note(step)
    assert len(ages.to_json()) <= 4096
    again = Ages()
    again.wall_s = ages.wall_s
    again.restore(ages.to_json())
    for seconds in (0, 50, 5_000, 150_000):
        found = again.unseen_steps(seconds, 20_000)
        assert seconds / 10 <= found <= seconds / 10 + 20
    assert again.unseen_steps(300_000, 20_000) == 0

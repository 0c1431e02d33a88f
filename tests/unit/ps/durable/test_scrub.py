"""A server looks for damage on its disk: what it still knows it writes anew, and what it does not it names."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from fleet.errors import CheckpointError
from fleet.observe.metrics import events
from fleet.ps.durable import durability, scrub
from fleet.ps.durable.durability import Durability
from fleet.ps.durable.scrub import Scrub
from fleet.ps.journal import writer
from fleet.ps.journal.files import MARK_NAME, segments_in, snapshots_in
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.journal.verify import verify
from fleet.ps.proto import ps_pb2
from fleet.ps.server.figures import ServerFigures
from fleet.ps.server.service import Service
from support.durable.rows_on_disk import runs_in, snapshot_now, train
from support.durable.server_state import everything
from support.parity.training import Trainer, first_model, joined, served, strategy
from support.plane.fuzz_requests import JOB
from support.processes import wait_until

LIMIT_S = 30.0
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Trainer, Service, Path]]:
    """A server with rows on a disk, a snapshot and several segments; its worker; its folder."""
    folder = tmp_path_factory.mktemp("server-0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLEET_TABLE_DIR", str(tmp_path_factory.mktemp("tables")))
        patch.setattr(writer, "SEGMENT_BYTES", 50_000)
        patch.setenv("FLEET_SCRUB_RATE", "1000")
        service = Service(journal=(folder, "OS"))
        model = first_model(0, memory="1MiB")
        with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("async"), model=model) as one:
            train(one, 6)
            snapshot_now(service)
            train(one, 6, 9)
            yield one, service, folder


def flip(path: Path, place: int = -5) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 8
    with path.open("r+b") as file:  # whoever has the file open sees it, too
        file.write(data)


def own_scrub(service: Service) -> Scrub:
    assert service.core.durability is not None
    return service.core.durability.scrub


def figure(service: Service) -> float:
    found = {sample.name: sample.value for sample in ServerFigures(service).read()}
    assert isinstance(found["fleet_server_damaged_files"], int)
    return found["fleet_server_damaged_files"]


def test_nothing_is_found_where_nothing_is_damaged(running: tuple[Trainer, Service, Path]) -> None:
    _, service, folder = running
    before = own_scrub(service).num_bytes
    own_scrub(service).look()
    read = own_scrub(service).num_bytes - before
    files = [path for path in folder.iterdir() if path.is_file() and path.name not in ("lock", MARK_NAME)]
    assert read >= sum(path.stat().st_size for path in files)
    assert not own_scrub(service).damaged


@pytest.mark.parametrize(
    "what", ["segment", "present segment", "longer segment", "no segment", "missing segment", "snapshot", "copied rows"]
)
def test_what_the_server_knows_is_written_anew(
    what: str, running: tuple[Trainer, Service, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, service, folder = running
    train(one, 9, 13)
    segments = [path for _, path in segments_in(folder)]
    assert len(segments) > 2
    path = {
        "segment": segments[1],
        "present segment": segments[-1],
        "longer segment": segments[-1],
        "no segment": segments[-1],
        "missing segment": segments[1],
        "snapshot": snapshots_in(folder)[-1][1],
        "copied rows": runs_in(folder)[0],
    }[what]
    if what in ("missing segment", "no segment"):
        path.unlink()
    elif what == "longer segment":
        with path.open("ab") as file:
            file.write(b"nobody wrote this")
    elif what == "copied rows":  # as where the journal is on another disk than the tables
        copy = shutil.copy(path, tmp_path / "copy")
        path.unlink()
        shutil.copy(copy, path)
        flip(path, 5000)
    else:
        flip(path, 200)
    with caplog.at_level(logging.WARNING), mock.patch.object(events, "note") as noted:
        own_scrub(service).look()
    named = segments[0] if what == "missing segment" else path
    assert f"{named} " in caplog.text
    assert "a new snapshot has taken its place" in caplog.text
    assert [call.args[0] for call in noted.call_args_list].count("damage") == (4 if what == "no segment" else 2)
    assert figure(service) == 0
    assert not path.exists()
    assert not verify(folder).damaged
    left = shutil.copytree(folder, tmp_path / "left", ignore=shutil.ignore_patterns("lock"))
    again = Service(journal=(left, "OS"))
    assert everything(again) == everything(service)
    again.close()


def test_rows_that_are_nowhere_else_are_named_and_in_no_snapshot(
    running: tuple[Trainer, Service, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, service, folder = running
    train(one, 13, 16)
    holdings = service.state.held
    path = holdings.files_of_rows()[-1]
    before = snapshots_in(folder)
    flip(path, 5000)
    with caplog.at_level(logging.WARNING):
        own_scrub(service).look()
        own_scrub(service).look()
    assert caplog.text.count("block 0 is not what was written") == 1
    assert figure(service) == 1
    assert service.core.durability is not None
    with pytest.raises(CheckpointError, match="block 0 is not what was written.*no snapshot is taken of it"):
        service.core.durability._renew()
    assert snapshots_in(folder) == before
    with pytest.raises(CheckpointError, match="block 0 is not what was written.*it cannot be saved"):
        one.fleet.save_persistables(tmp_path / "saved")
    flip(path, 5000)
    own_scrub(service).look()
    assert figure(service) == 0
    one.fleet.save_persistables(tmp_path / "saved")


def test_it_looks_by_itself_and_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "FIRST_S", 0.01)
    monkeypatch.setattr(scrub, "REST_S", 0.01)
    monkeypatch.setenv("FLEET_SCRUB_RATE", "1")
    journal = writer.Journal(tmp_path, "OS", 0, b"server 0")
    journal.append(Kind.PUSH, [RecordPart(bytes(3_000_000))])
    asked, told = [], threading.Event()

    def mend(_is_lost: bool, why: str) -> str:
        asked.append(why)
        told.set()
        return "mended"

    flip(segments_in(tmp_path)[-1][1], 2_900_000)
    found = Scrub(journal, list, mend)
    wait_until(lambda: found.num_bytes > 0, 20, "the first piece")
    assert not told.is_set()  # 3 MB take 3 s
    found.close()
    assert not asked
    monkeypatch.setenv("FLEET_SCRUB_RATE", "1000")
    found = Scrub(journal, list, mend)
    assert told.wait(20)
    found.close()
    journal.close()


def test_it_looks_at_once_when_it_is_hurried_whatever_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "FIRST_S", 0.01)
    monkeypatch.setenv("FLEET_SCRUB_RATE", "0")
    journal = writer.Journal(tmp_path, "OS", 0, b"server 0")
    journal.append(Kind.PUSH, [RecordPart(bytes(3_000_000))])
    told = threading.Event()

    def mend(_is_lost: bool, _why: str) -> str:
        told.set()
        return "mended"

    flip(segments_in(tmp_path)[-1][1], 2_900_000)
    found = Scrub(journal, list, mend)
    assert not found.num_bytes
    found.hurry()
    assert told.wait(20)
    found.close()
    journal.close()


def test_a_server_ends_in_the_middle_of_a_snapshot_that_its_scrub_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared, begun, may_go_on = threading.Event(), threading.Event(), threading.Event()
    rows = Durability._rows

    def look(own: Scrub) -> None:
        declared.wait(LIMIT_S)
        own._mend(False, "for a test")

    def slowly(*arguments: Any) -> RecordPart:
        begun.set()
        may_go_on.wait(LIMIT_S)
        return rows(*arguments)

    monkeypatch.setattr(scrub, "FIRST_S", 0.0)
    monkeypatch.setattr(Scrub, "look", look)
    monkeypatch.setattr(Durability, "_rows", slowly)
    monkeypatch.setattr(durability, "portions", lambda *_: iter([(0, 1)] * 1000))
    service = Service(journal=(tmp_path / "server-0", "OS"))
    header = ps_pb2.DeclareRequest.Header(caller=ps_pb2.Caller(incarnation=1), job=JOB.to_json(), life=5)
    service.handle("Declare", header, ())
    declared.set()
    assert begun.wait(LIMIT_S)
    closing = threading.Thread(target=service.close)
    closing.start()
    wait_until(lambda: service.core.durability._is_closed, LIMIT_S, "the server to stop")  # type: ignore[union-attr]
    may_go_on.set()
    closing.join(LIMIT_S)
    assert not snapshots_in(tmp_path / "server-0")

"""A server that died is made anew from its folder: the same rows, rules, versions and ledger, bit for bit.

The death is a copy of the folder as it lies there at that moment, which is what kill -9 leaves.
"""

from __future__ import annotations

import errno
import re
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from fleet.errors import CheckpointError, CommunicationError, UsageError
from fleet.net import Endpoint
from fleet.ps.durable import durability, recovery, storage
from fleet.ps.job.entries import CountFilterEntry
from fleet.ps.journal import writer
from fleet.ps.journal.files import segments_in, snapshots_in, write_all
from fleet.ps.journal.records import JournalError
from fleet.ps.proto import ps_pb2
from fleet.ps.server.process import make_service
from fleet.ps.server.service import Service
from fleet.ps.wire.transport import LocalTransport
from fleet.runtime.saved.server_writes import ServerWrites
from support.durable.server_state import everything
from support.parity.training import first_model, in_threads, joined, served, strategy
from support.processes import wait_until

MODES = ["sync", "async", "half", "geo"]
pytestmark = pytest.mark.timeout(120)


def died(folder: Path, tmp_path: Path) -> Path:
    """The folder of a server as it is this moment."""
    return Path(shutil.copytree(folder, tmp_path / "died", ignore=shutil.ignore_patterns("lock")))


def recovered(folder: Path) -> Service:
    service = Service(journal=(folder, "OS"))
    service.close()
    return service


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("snapshot_bytes", [0, 5_000, 1 << 30])
def test_a_recovered_server_is_the_one_that_died(
    mode: str, snapshot_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_BYTES", snapshot_bytes)
    monkeypatch.setattr(durability, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 10_000)
    num_workers = 2 if mode == "sync" else 1
    table = {} if mode == "geo" else {"entry": CountFilterEntry(2)}

    def train(index: int) -> None:
        model = first_model(index, **table)
        with joined(endpoints, index, num_workers, strategy=strategy(mode), model=model) as one:
            one.train(20)
            one.worker.policy.flush()
            if index == 0:
                one.fleet.shrink(unseen_steps=15)
            one.train(20, 40)
            one.worker.policy.flush()

    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _):
        in_threads(*(partial(train, index) for index in range(num_workers)))
        if snapshot_bytes < 1 << 20:
            wait_until(lambda: bool(snapshots_in(tmp_path / "server-0")), 60, "a snapshot")
        assert service.core.durability is not None
        with service.core.durability.snapshotting:  # or a copy, which is not made at once, would be of two moments
            copy = died(tmp_path / "server-0", tmp_path)
    assert everything(recovered(copy)) == everything(service)
    assert (len(snapshots_in(copy)) == 1) == (snapshot_bytes < 1 << 20)


def test_a_job_goes_on_with_the_recovered_server(tmp_path: Path) -> None:
    """Ten steps, a death, ten more: as if nothing had been."""
    for name, stops in {"once": [20], "twice": [10, 20]}.items():
        folder = tmp_path / name
        begin = 0
        for stop in stops:
            service = Service(journal=(folder, "OS"))
            with served([service]) as (endpoints, _), joined(endpoints) as one:
                one.train(begin, stop)
            begin = stop
    once, twice = recovered(tmp_path / "once"), recovered(tmp_path / "twice")
    assert everything(once)["tables"] == everything(twice)["tables"]
    assert everything(once)["dense"] == everything(twice)["dense"]
    assert once.state.rounds.version == twice.state.rounds.version == 20


@pytest.mark.parametrize("is_durable", [False, True])
def test_who_calls_a_server_that_stops_waits_for_its_next_life_where_there_is_one(
    tmp_path: Path, is_durable: bool
) -> None:
    service = Service(journal=(tmp_path / "server-0", "OS")) if is_durable else Service()
    service.close()
    with pytest.raises(CommunicationError, match="the server is stopping") as caught:
        service.core.known(ps_pb2.Caller())
    assert caught.value.retryable == is_durable


def test_a_folder_of_another_job_is_named(tmp_path: Path) -> None:
    for mode in ("async", "sync"):
        with served([Service(journal=(tmp_path / "server-0", "OS"))]) as (endpoints, _):
            if mode == "async":
                with joined(endpoints, strategy=strategy(mode)) as one:
                    one.train(3)
                continue
            text = f"{tmp_path}/server-0 holds that job: run its command again, or choose another --durable"
            with pytest.raises(UsageError, match=text), joined(endpoints, strategy=strategy(mode)):
                pass


def test_a_job_that_ends_in_order_leaves_nothing(tmp_path: Path) -> None:
    service = Service(journal=(tmp_path / "server-0", "INTERVAL"))
    with served([service]) as (endpoints, _), joined(endpoints) as one:
        one.train(3)
        one.fleet.stop_worker()
    assert [path.name for path in (tmp_path / "server-0").iterdir()] == ["lock"]


def test_a_repeated_push_is_known_after_a_recovery(tmp_path: Path) -> None:
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("async")) as one:
        one.train(5)
        one.worker.policy.flush()
        again = Service(journal=(died(tmp_path / "server-0", tmp_path), "OS"))
        header = ps_pb2.PushRequest.Header(caller=one.worker.client.caller(0), sequence=5)
        reply, _ = again.handle("Push", header, ())
        assert isinstance(reply, ps_pb2.PushReply.Header)
        assert reply.was_repeated
        header.sequence = 6
        reply, _ = again.handle("Push", header, ())
        assert isinstance(reply, ps_pb2.PushReply.Header)
        assert not reply.was_repeated
        again.close()


def test_what_was_loaded_is_there_after_a_recovery_without_its_folder(tmp_path: Path) -> None:
    with served(1) as (endpoints, _), joined(endpoints, strategy=strategy("async")) as one:
        one.train(5)
        one.fleet.save_persistables(tmp_path / "saved")
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("async")) as one:
        one.train(30, 35)
        one.fleet.load_model(tmp_path / "saved")
        one.train(5, 8)
        one.worker.policy.flush()
        copy = died(tmp_path / "server-0", tmp_path)
    shutil.rmtree(tmp_path / "saved")
    assert everything(recovered(copy)) == everything(service)


def test_a_server_that_begins_with_a_checkpoint_keeps_it(tmp_path: Path) -> None:
    with served(1) as (endpoints, _), joined(endpoints) as one:
        one.train(5)
        one.fleet.save_persistables(tmp_path / "saved")
    service = Service(journal=(tmp_path / "server-0", "OS"), model_dir=tmp_path / "saved")
    with served([service]) as (endpoints, _), joined(endpoints) as one:
        one.train(5, 8)
        copy = died(tmp_path / "server-0", tmp_path)
    shutil.rmtree(tmp_path / "saved")
    assert everything(recovered(copy)) == everything(service)
    assert service.state.rounds.version == 8


def test_a_full_disk_stops_pushes_and_not_pulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "2")
    monkeypatch.setenv("FLEET_WAIT_NOTICE_S", "0.1")
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(3)
        before = everything(service)
        monkeypatch.setattr(writer, "write_all", _full)
        with pytest.raises(Exception, match=r"still answers pulls.*No space left on device.*make room on that disk"):
            one.train(3, 4)
        monkeypatch.undo()
        assert re.search("waits for server .*: nothing can be changed on this server.*No space left", caplog.text)
        assert "cannot be reached" not in caplog.text
        assert [one.levelname for one in caplog.records if one.name == writer.__name__] == ["ERROR"]
        assert everything(service) == before
        one.model.eval()
        one.model(torch.arange(6).reshape(2, 3))


def test_a_checkpoint_that_cannot_be_kept_stops_pushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server has now is not what its journal says: nothing may be added to that."""
    with served(1) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(5)
        one.fleet.save_persistables(tmp_path / "saved")
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "1")
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(3)
        with monkeypatch.context() as patch:
            patch.setattr(writer, "write_all", _full)
            for change in (lambda: one.fleet.load_model(tmp_path / "saved"), lambda: one.train(3, 5)):
                with pytest.raises(CommunicationError, match="loaded, but could not be kept: .*No space left on dev"):
                    change()
        one.fleet.load_model(tmp_path / "saved")
        copy = died(tmp_path / "server-0", tmp_path)
    assert everything(recovered(copy)) == everything(service)


def test_a_server_that_comes_back_to_a_full_disk_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints) as one:
        one.train(3)
        copy = died(tmp_path / "server-0", tmp_path)
    num_tries = 0

    def full_at_first(file: int, buffers: Any) -> None:
        nonlocal num_tries
        num_tries += 1
        _full(file, buffers) if num_tries < 3 else write_all(file, buffers)

    monkeypatch.setattr(recovery, "ROOM_PAUSE_S", 0.01)
    monkeypatch.setattr(writer, "write_all", full_at_first)
    assert everything(recovered(copy)) == everything(service)
    assert num_tries == 3
    assert caplog.text.count("waiting for up to 60 s until this server can serve: nothing can be changed") == 1


def test_a_server_does_not_begin_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "write_all", _full)
    with pytest.raises(CommunicationError, match="No space left on device"):
        Service(journal=(tmp_path / "server-0", "OS"))


def _full(file: int, buffers: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_two_servers_cannot_share_a_folder(tmp_path: Path) -> None:
    service = Service(journal=(tmp_path, "OS"))
    with pytest.raises(UsageError, match=f"another server keeps its journal in {tmp_path}"):
        Service(journal=(tmp_path, "OS"))
    service.close()


def test_a_folder_that_is_gone_is_not_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_LIFE", "1")
    with pytest.raises(UsageError, match="server-0, where this server kept its journal, is gone"):
        Service(journal=(tmp_path / "server-0", "OS"))
    (tmp_path / "server-0").mkdir()  # killed before it had written anything
    recovered(tmp_path / "server-0")


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints) as one:
        one.train(3)
        copy = died(tmp_path / "server-0", tmp_path)
    path = segments_in(copy)[0][1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(JournalError, match=f"{path} is damaged at offset"):
        Service(journal=(copy, "OS"))


def test_a_server_that_died_after_the_last_worker_had_left_knows_that(tmp_path: Path) -> None:
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints) as one:
        one.train(2)
        one.fleet.stop_worker()
        copies = died(tmp_path / "server-0", tmp_path), shutil.copytree(tmp_path / "died", tmp_path / "again")
    again = Service(journal=(copies[0], "OS"))
    assert again.finished.is_set()
    again.close()
    assert not segments_in(copies[0])
    another = Service(journal=(copies[1], "OS"))
    with served([another]) as (endpoints, _), joined(endpoints):
        assert not another.finished.is_set(), "a worker has come back"


def test_a_journal_that_is_refused_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    (tmp_path / "server-0").mkdir()
    (tmp_path / "server-0" / "journal-00000000000000000001.log").write_bytes(bytes(100))
    with pytest.raises(SystemExit) as ended:
        make_service("server-0", Endpoint("127.0.0.1", 1), device="cpu")
    assert ended.value.code == 2
    line, see = capsys.readouterr().err.splitlines()
    assert line.startswith(f"server: {tmp_path}/server-0/journal-00000000000000000001.log is damaged at offset 0: ")
    assert see.startswith("see docs/errors.md#a-checkpoint-that-is-damaged ")


def test_a_server_that_comes_back_during_a_save_does_not_mix_two_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has forgotten the save and would copy anew, which is later than the other servers did."""
    is_over, write, calls = threading.Event(), storage.write, []

    def late(*arguments: Any) -> str:
        calls.append(arguments)
        if len(calls) > 1:
            return write(*arguments)
        is_over.wait(60)
        raise OSError("this server is dead")

    monkeypatch.setattr(storage, "write", late)
    service = Service(journal=(tmp_path / "server-0", "OS"))
    with served([service]) as (endpoints, _), joined(endpoints, strategy=strategy("half")) as one:
        one.train(3)
        (tmp_path / "saved").mkdir()
        writes = ServerWrites(one.worker.client, tmp_path / "saved", background=True)
        one.train(3, 6)
        again = Service(journal=(died(tmp_path / "server-0", tmp_path), "OS"))
        one.worker.client.transports[0].close()
        one.worker.client.transports[0] = LocalTransport(again)
        try:
            with pytest.raises(CheckpointError, match="server 0 was started again while it wrote, and has gone on"):
                writes.wait()
        finally:
            is_over.set()
            again.close()

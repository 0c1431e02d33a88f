"""Saves whose answer is lost, that are asked for twice, or that meet another one: one account, or one clear error.

One of a durable job that failed is made by the next lives of its workers: it is not told as failed for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import fleet
from fleet import checkpoint
from fleet.checkpoint import StepFolders, TrainingManifest
from fleet.errors import CheckpointError
from fleet.ps.durable import storage
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.runtime.training.checkpoint import Checkpoint
from support.durable.lives import Workers, wait_for_any
from support.jobs import script
from support.parity.training import Net, Trainer, joined, rows_of, served, started
from support.plane.proxy import cutting

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from fleet.ps.wire.messages import Tensors

pytestmark = pytest.mark.timeout(120)


class Losing(Service):
    """Its first answers to Save are lost: the connection breaks when the work is done."""

    lose: Callable[[], None]
    num_lost = 0

    def handle(self, method: str, header: Message, tensors: Tensors) -> tuple[Message, Tensors]:
        answer = super().handle(method, header, tensors)
        if method == "Save" and self.num_lost < 2:
            self.num_lost += 1
            self.lose()
        return answer


def save_step(background: bool) -> Callable[[Trainer, Path], object]:
    def save(one: Trainer, folder: Path) -> None:
        made = Checkpoint(folder.parent, model=one.model, optimizer=one.optimizer, background=background)
        with made:
            made.save(7)

    return save


SAVES: dict[str, Callable[[Trainer, Path], object]] = {
    "checkpoint": lambda one, folder: one.fleet.save_persistables(folder),
    "copy": lambda one, folder: one.fleet.save_inference_model(folder),
    "step-00000007": save_step(background=True),
    "at once/step-00000007": save_step(background=False),
}


@pytest.mark.parametrize("name", SAVES)
def test_a_save_whose_answer_is_lost_is_written_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "60")
    losing = Losing()
    with served([losing]) as ([endpoint], _), cutting(endpoint, lambda: None) as proxy:
        losing.lose = proxy.cut_all
        with joined([proxy.endpoint]) as one:
            one.train(3)
            SAVES[name](one, tmp_path / name)
            assert losing.num_lost == 2
            rows = rows_of([losing])
            model: Any = fleet.load_inference_model(tmp_path / name, Net())
            assert len(model.emb.keys) == len(rows)
            if name != "copy":
                one.train(3, 5)
                assert rows_of([losing]) != rows
                one.fleet.load_model(tmp_path / name)
                assert rows_of([losing]) == rows


def ask(service: Service, folder: Path, **more: Any) -> Any:
    caller = ps_pb2.Caller(worker=0, incarnation=1)
    return service.handle("Save", ps_pb2.SaveRequest.Header(caller=caller, folder=str(folder), **more), ())[0]


@pytest.fixture
def service() -> Service:
    return _declared()


def _declared() -> Service:
    from fleet.ps.job import entries, initializers, rules
    from fleet.ps.job.spec import JobSpec, TableSpec

    table = TableSpec("ads", 2, rules.Adagrad(lr=0.5), initializers.Constant(1.0), entries.AlwaysEntry())
    job = JobSpec(num_workers=1, num_servers=1, mode="sync", tables=(table,))
    made = Service()
    caller = ps_pb2.Caller(worker=0, incarnation=1)
    made.handle("Declare", ps_pb2.DeclareRequest.Header(caller=caller, job=job.to_json()), ())
    pushed = ps_pb2.PushRequest.Header(caller=caller, sequence=1, tables=[ps_pb2.PushRequest.Table(table=0, lr=0.5)])
    made.handle("Push", pushed, [torch.arange(50).numpy(), torch.ones(50, 2).numpy()])
    return made


@pytest.mark.parametrize("values_only", [False, True])
def test_a_save_that_is_asked_for_again_while_it_is_written_is_one(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values_only: bool
) -> None:
    name = "export" if values_only else "write"
    may_write, is_writing, real, num = threading.Event(), threading.Event(), getattr(storage, name), []

    def slowly(*arguments: Any) -> Any:
        num.append(1)
        is_writing.set()
        assert may_write.wait(20)
        return real(*arguments)

    monkeypatch.setattr(storage, name, slowly)
    writing = checkpoint.begin(tmp_path / "saved")
    (first,) = started(lambda: ask(service, writing, values_only=values_only))
    assert is_writing.wait(20)
    (second,) = started(lambda: ask(service, writing, values_only=values_only))
    with pytest.raises(CheckpointError, match="is that of another save, which this server has begun"):
        ask(service, writing, values_only=not values_only)
    may_write.set()
    assert first.result(20).pieces == second.result(20).pieces == ask(service, writing, values_only=values_only).pieces
    assert len(num) == 1


@pytest.mark.parametrize("values_only", [False, True])
def test_a_server_that_was_started_again_writes_what_its_former_life_had_begun(
    tmp_path: Path, values_only: bool
) -> None:
    writing = checkpoint.begin(tmp_path / "saved")
    before = ask(_declared(), writing, values_only=values_only)
    mine = writing / "table-x.server-001-of-002.piece-0000.safetensors"
    mine.write_bytes(b"of another server")
    after = ask(_declared(), writing, values_only=values_only)
    assert after.pieces == before.pieces
    assert mine.exists()


def test_a_save_that_fails_says_so_again(service: Service, tmp_path: Path) -> None:
    writing = checkpoint.begin(tmp_path / "saved")
    (writing / "table-ads.server-000-of-001.piece-0000.safetensors").mkdir()
    for _ in range(2):
        with pytest.raises(CheckpointError, match="piece-0000.safetensors"):
            ask(service, writing)


def test_of_two_saves_into_one_folder_the_first_is_told_of_the_second(tmp_path: Path) -> None:
    steps = StepFolders(tmp_path)
    first = steps.begin(7)
    second = steps.begin(7)
    with pytest.raises(CheckpointError, match=rf"cannot write .*: another save into the same folder .*{second.name}"):
        checkpoint.write_piece(first / "a.safetensors", {}, {})
    manifest = TrainingManifest(step=7, forms={}, pieces=(), shared={}, workers=({},))
    with pytest.raises(CheckpointError, match=rf"cannot commit .*step-00000007: another save .*{second.name}"):
        steps.commit(first, 7, manifest)
    steps.commit(second, 7, manifest)
    assert steps.complete() == [7]


TRAIN = """
    import torch
    import fleet
    fleet.init()
    tables = fleet.nn.Embedding(2, "ads", rule=fleet.rules.SGD(1.0)), fleet.nn.Embedding(3, "sites")
    model = fleet.distributed_model(torch.nn.ModuleList(tables))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    fleet.init_worker()
    for (batch,) in fleet.data.shard((torch.arange(8),), batch_size=2):
        optimizer.zero_grad()
        sum(table(batch).sum() for table in model).backward()
        optimizer.step()
    fleet.save_persistables("kept/saved")
    fleet.stop_worker()
"""


def test_a_save_that_failed_is_made_by_the_next_lives_of_all_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path / "durable"))
    monkeypatch.setenv("FLEET_JOURNAL", "OFF")
    (tmp_path / "kept").touch()  # a file, where there is to be a folder
    with served(2) as (endpoints, _), ExitStack() as stack:
        workers = Workers(stack, endpoints, 2, script(tmp_path, TRAIN), [])
        said: list[list[str]] = [[], []]
        while len(said[0]) < 2:  # the second life makes an attempt of its own, and is told what that came to
            wait_for_any(workers.present)
            for index, process in enumerate(workers.present):
                if process.poll() is None:
                    continue
                assert process.returncode == 1
                said[index].append(process.communicate()[1])
                if len(said[0]) == 2:
                    (tmp_path / "kept").unlink(missing_ok=True)
                workers.present[index] = workers._start(index)
        workers.finish()
    assert all("CheckpointError: " in one for one in said[0])
    assert "fleet.save_persistables() failed on worker 0: " in said[1][0]
    assert set(checkpoint.read_manifest(tmp_path / "kept" / "saved").tables) == {"ads", "sites"}

"""What servers publish while they train is what they have, to the bit, whatever changes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError
from fleet.ps.journal.writer import Policy
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from support.durable.pair import Pair
from support.parity.training import first_model, joined, served, strategy
from support.processes import wait_until
from support.serving.follower import LIMIT_S, Follower

EVERY_S = 0.02


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_serve.following.stream.PATIENCE_S", 0.05)


class TwoTables(nn.Module):
    """Two tables, of which one is trained by the model's optimizers, and two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = fleet.nn.Embedding(4, table="ads")
        self.other = fleet.nn.Embedding(3, table="users/of", rule=fleet.rules.Adagrad(lr=0.1), dtype="bfloat16")
        self.norm = nn.BatchNorm1d(7)
        self.out = nn.Linear(7, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found = torch.cat([self.emb(ids).mean(1), self.other(ids + 7).mean(1)], 1)
        scores: torch.Tensor = self.out(self.norm(found)).squeeze(1)
        return scores


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_follower_has_what_the_servers_have(mode: str, tmp_path: Path) -> None:
    with served(2) as (endpoints, services), joined(endpoints, strategy=strategy(mode), model=TwoTables()) as one:
        one.fleet.publish(tmp_path / "stream", every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(tmp_path / "stream")
        for step in range(2, 12, 2):
            one.train(step, step + 2)
            one.fleet.flush()
            follower.until(lambda: follower.equals(services), f"what step {step} has changed")
        one.fleet.shrink(unseen_steps=6)
        follower.until(lambda: follower.equals(services), "the deleted rows to be gone")
        assert follower.num_bases == 1
        one.fleet.save_persistables(tmp_path / "saved")
        one.train(12, 14)
        one.fleet.load_model(tmp_path / "saved")
        one.train(14, 16)
        one.fleet.flush()
        follower.until(lambda: follower.equals(services), "what was loaded")
        assert follower.num_bases > 1


def test_the_same_without_servers(tmp_path: Path) -> None:
    with joined(model=first_model()) as one:
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 3)
        follower = Follower(tmp_path)
        one.train(3, 6)
        weight = one.model.state_dict()["out.weight"].numpy()
        follower.until(lambda: bool((follower.dense["out.weight"] == weight).all()), "the last step")


def test_a_place_that_is_down_keeps_training_waiting_for_nothing(tmp_path: Path) -> None:
    """What changes meanwhile is published when it is back, in one batch after the one that was under way."""
    place = tmp_path / "stream"
    with served(1) as (endpoints, services), joined(endpoints) as one:
        one.fleet.publish(place, every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(place)
        follower.until(lambda: follower.equals(services), "the first steps")
        batches = place / "batches"
        batches.rename(tmp_path / "elsewhere")
        batches.write_text("a file where a folder should be")
        publisher = services[0].publishing.running
        assert publisher is not None
        one.train(2, 12)
        wait_until(lambda: publisher.num_failures > 0, LIMIT_S, "a batch to fail")
        one.train(12, 20)
        lagging, before = publisher.lag_s, publisher.num_batches
        batches.unlink()
        (tmp_path / "elsewhere").rename(batches)
        follower.until(lambda: follower.equals(services), "all that was changed")
        assert lagging > 0
        assert publisher.num_batches - before <= 3
        assert follower.num_bases == 1
        wait_until(lambda: publisher.lag_s < lagging + 1, LIMIT_S, "the lag to be over")


def test_batches_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once they weigh more than twice a base, another is written, and those that no kept base needs are removed."""
    monkeypatch.setattr("fleet.ps.publishing.publishing.LEAST_BEHIND", 1)
    with joined(model=first_model()) as one:
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 1)
        follower = Follower(tmp_path)
        first = tmp_path / "bases/base-000001"
        step = 1
        while first.exists() and step < 2000:
            one.train(step, step + 1)
            step += 1
        assert not first.exists()
        shard = tmp_path / "batches" / follower.stream.head.stream / "shard-00000"
        is_gone = lambda: all(int(file.name) > 1 for file in shard.glob("[0-9]*"))  # noqa: E731
        wait_until(is_gone, LIMIT_S, "the first batch to be removed")
        weight = one.model.state_dict()["out.weight"].numpy()
        follower.until(lambda: bool((follower.dense["out.weight"] == weight).all()), "the last step")


def test_a_damaged_batch_is_replaced_by_a_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.ps.publishing.bases.ASKED_EVERY_S", 0.0)
    with served(1) as (endpoints, services), joined(endpoints) as one:
        one.fleet.publish(tmp_path, every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(tmp_path)
        follower.until(lambda: follower.equals(services), "the first steps")
        [shard] = (tmp_path / "batches").glob("*/shard-00000")
        at = follower.numbers[0]
        for step in range(2, 5):
            one.train(step, step + 1)
            wait_until((shard / f"{at + step - 1:020}").exists, LIMIT_S, "a batch")
        path = shard / f"{at + 1:020}"
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        follower.until(lambda: follower.equals(services), "a base in the place of what is damaged")
        assert follower.num_bases == 2
        assert at + 1 not in [number for _, number in follower.taken]


def test_where_nothing_can_be_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = tmp_path / "a file"
    taken.write_text("")
    with served(1) as (endpoints, services):
        with joined(endpoints) as one:
            for url, why in (
                ("kafkaesque://x", "cannot lie there; give a folder, or a URL that begins file://"),
                (taken, "server 0 cannot publish to .*: .*; mend that, or publish elsewhere"),
            ):
                with pytest.raises(UsageError, match=why):
                    one.fleet.publish(url)
            with pytest.raises(UsageError, match="every_s must be from 0.01 to 3600 seconds, got 0"):
                one.fleet.publish(tmp_path / "stream", every_s=0)
            monkeypatch.setenv("FLEET_ROOTS", str(tmp_path))
            for outside in ("/tmp/elsewhere", f"{tmp_path}/../elsewhere", "file:///tmp/elsewhere"):
                with pytest.raises(UsageError, match="outside of what this server may write and read"):
                    one.fleet.publish(outside)
            assert services[0].publishing.running is None
            one.fleet.publish(tmp_path / "stream", every_s=EVERY_S)
            one.train(0, 1)
            Follower(tmp_path / "stream")
            one.fleet.publish(None)
            assert services[0].publishing.running is None
            assert services[0].state.touched.last_mark("stream") == ""
    with served(1) as (endpoints, _), joined(endpoints, model=TwoTables()) as one:
        with pytest.raises(
            UsageError, match="the stream of another model: table 'users/of' has none there, and width 3"
        ):
            one.fleet.publish(tmp_path / "stream")
        (tmp_path / "stream" / "stream.json").write_text("{")
        with pytest.raises(UsageError, match="it is not JSON .*; publish elsewhere, or remove that"):
            one.fleet.publish(tmp_path / "stream")


def stop_as_if_killed(service: Service) -> None:
    """Nothing more is published."""
    publisher = service.publishing.running
    assert publisher is not None
    publisher._deadline = None
    publisher._closed.set()
    publisher._thread.join()


class Copied:
    """A copy of a folder as a kill would leave it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Path:
        return Path(shutil.copytree(self._folder, self._folder.with_name("copy"), ignore=lambda *_: {"lock"}))

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder.with_name("copy"))


def test_a_former_life_is_gone_on_with(tmp_path: Path) -> None:
    """A server that is back publishes what its journal has and the place has not, under the next number."""
    journal: tuple[Path, Policy] = (tmp_path / "journal", "OS")
    first = Service(journal=journal)
    with served([first]) as (endpoints, _), joined(endpoints) as one:
        one.fleet.publish(tmp_path / "stream", every_s=EVERY_S)
        one.train(0, 2)
        follower = Follower(tmp_path / "stream")
        follower.until(lambda: follower.equals([first]), "the first steps")
        stop_as_if_killed(first)
        one.train(2, 6)
        with Copied(journal[0]) as folder:
            second = Service(journal=(folder, "OS"))
            try:
                follower.until(lambda: follower.equals([second]), "what the journal has")
            finally:
                second.close()
        assert follower.num_bases == 1
        numbers = [number for _, number in follower.taken]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_copy_that_takes_its_place_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most rows lie on a disk."""
    monkeypatch.setenv("FLEET_TABLE_DIR", str(tmp_path / "rows"))
    monkeypatch.setattr("fleet.ps.publishing.publishing.LAST_S", 0.1)  # the last server waits for a copy in vain
    rng = np.random.default_rng(3)
    with Pair(tmp_path) as pair:
        pair._sequence += 1
        url = str(tmp_path / "stream")
        caller = ps_pb2.Caller(incarnation=1, term=pair._number)
        asked = ps_pb2.PublishRequest.Header(caller=caller, sequence=pair._sequence, url=url, every_s=0.1)
        pair.server.handle("Publish", asked, ())
        assert pair.copy.publishing.running is None
        pair.train(rng)
        follower = Follower(url)
        pair.train(rng, 3)
        follower.until(lambda: follower.equals([pair.server]), "the first pushes")
        stop_as_if_killed(pair.server)
        pair.train(rng, 3)
        pair.promote()
        follower.until(lambda: follower.equals([pair.server]), "what the copy has")
        assert follower.num_bases == 1
        pair.train(rng, 2)
        follower.until(lambda: follower.equals([pair.server]), "what it has learned since")

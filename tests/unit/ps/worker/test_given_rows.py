"""Rows that are given by value: `Embedding.from_pretrained` and `fleet.load_rows`, with servers and without."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError, UsageTypeError
from fleet.net import Hold
from fleet.nn import Embedding, EmbeddingCollection, Slot
from fleet.ps.job.entries import CountFilterEntry
from fleet.ps.server.service import Service
from fleet.ps.together.worker_meetings import WorkerMeetings
from fleet.ps.wire.transport import LocalTransport
from fleet.ps.worker.asking import given_rows
from support.parity.training import Trainer, exported, in_threads, joined, rows_of, served, strategy, trainer

pytestmark = pytest.mark.timeout(120)

WIDE, NARROW = torch.arange(24.0).view(6, 4) / 10, -torch.arange(9.0).view(3, 3)
KEYS = torch.tensor([5, -7, 2**60])


class Two(nn.Module):
    """Two tables of two widths, one of which begins with rows, and a layer."""

    def __init__(self, freeze: bool = False, **others: Any) -> None:
        super().__init__()
        self.wide = Embedding.from_pretrained(WIDE, freeze, **others)
        self.narrow = Embedding(3, table="ids")
        self.layer = nn.Linear(7, 1)
        nn.init.constant_(self.layer.weight, 0.5)
        nn.init.constant_(self.layer.bias, 0.25)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layer(torch.cat([self.wide(ids), self.narrow(ids)], 1)).squeeze(1)
        return scores


def read(module: nn.Module, ids: Any) -> Any:
    with torch.no_grad():
        return module(ids)


def step(one: Trainer, ids: torch.Tensor) -> None:
    one.optimizer.zero_grad()
    one.model(ids).sum().backward()
    one.optimizer.step()


def test_a_table_begins_with_rows_and_trains_as_torch_does() -> None:
    truth = nn.Embedding.from_pretrained(WIDE.clone(), freeze=False)
    layer = nn.Linear(4, 1)
    own = nn.Sequential(Embedding.from_pretrained(WIDE, freeze=False), nn.Linear(4, 1))
    own[1].load_state_dict(layer.state_dict())
    plain = torch.optim.Adagrad([*truth.parameters(), *layer.parameters()], lr=0.1)
    ids = torch.tensor([0, 3, 3, 5])
    with joined(model=own, optimizer=lambda model: torch.optim.Adagrad(model.parameters(), lr=0.1)) as one:
        assert torch.equal(read(own[0], ids), WIDE[ids])
        for _ in range(3):
            step(one, ids)
            plain.zero_grad()
            layer(truth(ids)).sum().backward()
            plain.step()
        torch.testing.assert_close(read(own[0], torch.arange(6)), truth.weight.detach(), rtol=0, atol=1e-6)
        assert not read(own[0].eval(), torch.tensor([6])).any(), "an id beyond them has no row"


@pytest.mark.parametrize("mode", ["sync", "async", "half", "geo"])
def test_rows_of_worker_0_are_written_once_for_all(mode: str) -> None:
    """Worker 1 gives others; both see the same, with two servers, two tables of two widths and prefetched rows."""

    def work(index: int) -> Any:
        model = Two()
        with joined(endpoints, index, 2, strategy=strategy(mode), model=model, meeting=meeting) as one:
            first = read(model.wide, torch.arange(6))
            mine = NARROW + index
            read(model.narrow, KEYS)
            one.fleet.prefetch(iter([(KEYS,)]), model.narrow, keys=lambda batch: batch[0])
            count = one.fleet.load_rows("ids", KEYS, mine)
            both = read(model.narrow, KEYS)
            one.fleet.util.barrier()
            step(one, torch.tensor([5]))
            one.fleet.stop_worker()
            return first, count, both

    with served(2) as (endpoints, services), Hold.any_port() as one, Hold.any_port() as two:
        meeting = [one.endpoint, two.endpoint]
        for first, count, both in in_threads(*(partial(work, index) for index in range(2))):
            assert torch.equal(first, WIDE)
            assert count == 3
            assert torch.equal(both, NARROW)
        written = {key: np.frombuffer(values, np.float32) for key, (values, _) in rows_of(services, 1).items()}
    assert set(written) == set(KEYS.tolist())
    assert written[-7].tolist() == NARROW[1].tolist()
    assert written[5].tolist() != NARROW[0].tolist(), "trained since"


def test_written_rows_begin_anew_whatever_was_there() -> None:
    """State of the rule, admission, type, bounds, norm; and rows of other keys stay as they are."""
    table: dict[str, Any] = {
        "rule": fleet.rules.Adam(lr=0.1),
        "entry": CountFilterEntry(3),
        "dtype": "bfloat16",
        "bounds": (-2.0, 2.0),
        "max_norm": 2.5,
    }
    model = nn.ModuleDict({"own": Embedding(3, **table), "layer": nn.Linear(3, 1)})
    with joined(model=model) as one:
        one.fleet.load_rows(model["own"], [1, 2], torch.tensor([[0.1, 0.2, 0.3], [9.0, 0.0, 0.0]]))
        assert torch.equal(read(model["own"], torch.tensor([1])), torch.tensor([[0.1, 0.2, 0.3]]).bfloat16().float())
        assert read(model["own"], torch.tensor([2])).tolist() == [[2.0, 0.0, 0.0]]
        fresh = exported(service_of(one))["state"].copy()
        for _ in range(2):
            one.optimizer.zero_grad()
            model["layer"](model["own"](torch.tensor([1, 2]))).sum().backward()
            one.optimizer.step()
        assert not np.array_equal(exported(service_of(one))["state"], fresh)
        other = read(model["own"], torch.tensor([2]))
        one.fleet.load_rows("own", torch.tensor([1]), [[2.0, 2.0, 2.0]])
        now = exported(service_of(one))
        assert np.array_equal(now["state"][now["keys"] == 1], fresh[:1]), "a new state"
        assert torch.equal(read(model["own"], torch.tensor([2])), other)
        assert read(model["own"], torch.tensor([1])).norm() <= 2.5


def service_of(one: Trainer) -> Service:
    transport = one.worker.client.transports[0]
    assert isinstance(transport, LocalTransport)
    assert isinstance(transport.service, Service)
    return transport.service


def test_more_rows_than_the_ceiling_allows_are_told(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.ModuleDict({"own": Embedding(4, max_bytes=100_000), "layer": nn.Linear(4, 1)})
    with joined(model=model) as one, caplog.at_level(logging.WARNING):
        one.fleet.load_rows("own", None, torch.ones(5000, 4))
        there = one.fleet.server_stats()[0]["tables"]["own"]["rows"]
    assert 0 < there < 5000
    assert (
        f"table 'own': {5000 - there} rows went while 5000 were written, to stay within max_bytes=100000" in caplog.text
    )


@pytest.mark.parametrize("cache", [{"cache": "gpu", "cache_rows": 4}, {"memory": "1MiB"}])
def test_hot_rows_and_rows_on_a_disk(cache: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are as in a table in memory, before and after training."""
    monkeypatch.setenv("FLEET_TABLE_DIR", str(tmp_path))
    monkeypatch.setattr(given_rows, "BYTES_AT_ONCE", 24 * 1000)
    many, ids = torch.randn(20_000 if "memory" in cache else 6, 4), torch.tensor([0, 1, 5])

    def train(**how: Any) -> Any:
        torch.manual_seed(3)
        model = nn.Sequential(Embedding.from_pretrained(many, freeze=False, **how), nn.Linear(4, 1))
        with joined(model=model) as one:
            step(one, ids)
            one.fleet.load_rows(model[0], torch.tensor([1]), torch.ones(1, 4))
            assert torch.equal(read(model[0], torch.tensor([1])), torch.ones(1, 4))
            step(one, ids)
            return read(model[0], torch.arange(len(many)))

    assert torch.equal(train(), train(**cache))


def test_a_frozen_table_needs_no_rule_and_stays() -> None:
    model = Two(freeze=True)

    def of_the_rest(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.1)

    with joined(model=model, optimizer=of_the_rest) as one:
        step(one, torch.tensor([1, 2]))
        assert torch.equal(read(model.wide, torch.arange(6)), WIDE)
        model.wide.weight.requires_grad_(True)
        with pytest.raises(UsageError, match="'wide.weight' needs a gradient now, but was frozen"):
            step(one, torch.tensor([1, 2]))


def test_modules_that_share_a_table_begin_it_alike() -> None:
    def pair(other: torch.Tensor | None) -> nn.ModuleDict:
        second = Embedding(4, "own") if other is None else Embedding.from_pretrained(other, table="own")
        return nn.ModuleDict({"a": Embedding.from_pretrained(WIDE, table="own"), "b": second})

    for model in (pair(None), pair(WIDE.clone())):
        with joined(model=model):
            assert torch.equal(read(model["b"], torch.arange(6)), WIDE)
    with pytest.raises(UsageError, match="table 'own' is to begin with two sets of rows"), joined(model=pair(WIDE + 1)):
        pass


def test_keys_padding_and_another_class() -> None:
    class Own(Embedding):
        pass

    zeroed = WIDE[:3].clone()
    zeroed[0] = 0
    model = nn.ModuleDict({"own": Own.from_pretrained(zeroed, padding_idx=5, keys=KEYS), "layer": nn.Linear(4, 1)})
    assert isinstance(model["own"], Own)
    assert not model["own"].weight.requires_grad
    with joined(model=model) as one:
        assert torch.equal(read(model["own"], KEYS), zeroed)
        assert one.fleet.server_stats()[0]["tables"]["own"]["rows"] == 2
    with pytest.raises(UsageError, match="the row of key 0 is not zero, but as padding_idx it reads as zeros"):
        Embedding.from_pretrained(WIDE + 1, padding_idx=0)


def test_what_is_no_set_of_rows_is_one_line() -> None:
    slots = EmbeddingCollection([Slot("a", 4), Slot("b", 3)])
    model = nn.ModuleDict({"own": (own := Embedding(3)), "slots": slots})
    bad: list[tuple[Any, Any, Any, type[Exception], str]] = [
        ("nothing", None, NARROW, UsageError, r"there is no table 'nothing'; the job declared 'own', 'a', 'b'$"),
        (model, None, NARROW, UsageTypeError, "takes the name of a table or a module of fleet.nn, got ModuleDict$"),
        (slots, None, NARROW, UsageError, "this EmbeddingCollection has the tables 'a', 'b'; give the name of one$"),
        (Embedding(3), None, NARROW, Exception, "has no table yet"),
        ("own", None, WIDE, UsageError, r"load_rows\('own'\): rows must be floats of shape \[n, 3\].* \[6, 4\]$"),
        ("own", None, NARROW.long(), UsageError, "rows must be floats"),
        ("own", None, NARROW[0], UsageError, "rows must be floats"),
        (
            "own",
            [1, 2],
            NARROW,
            UsageError,
            r"keys must be 3 integers, one for each row, got torch.int64 of shape \[2\]$",
        ),
        ("own", [1.0, 2.0, 3.0], NARROW, UsageError, "keys must be 3 integers"),
        ("own", [4, 1, 4], NARROW, UsageError, "key 4 stands twice; give each row once$"),
        ("own", [4, 1, 6], NARROW / 0, UsageError, "the row of key 4 holds a NaN or an Inf"),
        ("own", None, "rows", UsageError, "keys and rows must be tensors, arrays or lists of numbers"),
    ]
    with joined(model=model) as one:
        for table, keys, values, kind, text in bad:
            with pytest.raises(kind, match=text):
                one.fleet.load_rows(table, keys, values)
        own(torch.tensor([1])).sum().backward()
        with pytest.raises(UsageError, match=r"between backward\(\) and optimizer.step\(\)"):
            one.fleet.load_rows("own", None, NARROW)
        one.optimizer.step()
        assert one.fleet.load_rows("b", np.array([9], np.int32), np.ones((1, 3))) == 1
        assert torch.equal(read(slots, {"a": KEYS, "b": torch.tensor([9, 1, 2])})["b"][0], torch.ones(3))


def test_geo_refuses_rows_once_it_trains() -> None:
    with joined(model=Two(), strategy=strategy("geo")) as one:
        one.fleet.load_rows("ids", None, NARROW)
        step(one, torch.tensor([1]))
        with pytest.raises(UsageError, match=r"in geo mode workers train copies of the rows.* before the first step"):
            one.fleet.load_rows("ids", None, NARROW)


def test_what_a_former_life_has_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker 0 had written and said so when it died; the others need not have come to the end of the call."""
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))

    def work(index: int) -> int:
        with joined(endpoints, index, 2, strategy=strategy("async"), model=(model := Two())) as one:
            if index == 0:
                WorkerMeetings(one.worker.client, "load_rows/1", 60.0).tell("rows", "3")
            count = one.fleet.load_rows("ids", None, NARROW)
            assert not read(model.narrow.eval(), torch.arange(3)).any()
            assert one.fleet.load_rows("ids", None, NARROW) == 3, "another call"
            assert torch.equal(read(model.narrow, torch.arange(3)), NARROW)
            one.fleet.stop_worker()
            return count

    with served(2) as (endpoints, _):
        assert in_threads(*(partial(work, index) for index in range(2))) == [3, 3]


def test_servers_that_began_are_not_taken_back(tmp_path: Path) -> None:
    """Neither when a worker begins another life, nor where they begin with a checkpoint."""
    with served(2) as (endpoints, _):
        for _ in range(2):
            model = Two()
            with joined(endpoints, model=model) as one:
                before = read(model.wide, torch.tensor([1]))
                step(one, torch.tensor([1]))
                saved = one.fleet.save_persistables(tmp_path / "saved")
                after = read(model.wide, torch.tensor([1]))
        assert not torch.equal(before, WIDE[1:2])
    one = trainer((), model=(model := Two()))
    one.fleet.init_server(saved)
    one.fleet.init_worker()
    assert torch.equal(read(model.wide, torch.tensor([1])), after)
    one.fleet.shutdown()

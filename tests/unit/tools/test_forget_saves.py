"""What was saved is written anew without some rows; who is killed meanwhile leaves a save that loads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet import _native
from fleet.checkpoint import Manifest, read_contents, read_inference
from fleet.errors import FleetError, UsageError
from fleet.ps.job.entries import CountFilterEntry
from fleet_tools.commands.verify_checkpoint import main
from fleet_tools.forgetting.cleaning import Cleaner
from fleet_tools.forgetting.ids import keys_of
from fleet_tools.forgetting.patterns import Patterns
from fleet_tools.forgetting.streams import forget_in_stream
from support.increments import tables_in
from support.parity.training import Trainer, joined, served
from support.serving.served_models import WrittenStream

pytestmark = pytest.mark.timeout(120)
GONE = (*range(0, 300, 7), 0x123456789ABC, 5_000)
IDS = (*range(300), 0x123456789ABC)


class Two(nn.Module):
    """Two tables, one of whose keys wait for a row; and a layer."""

    def __init__(self, **ads: Any) -> None:
        super().__init__()
        self.ads = fleet.nn.Embedding(3, table="ads", rule=fleet.rules.Adagrad(lr=0.1), **ads)
        self.users = fleet.nn.Embedding(2, table="users", rule=fleet.rules.Adam(lr=0.1), entry=CountFilterEntry(2))
        self.out = nn.Linear(5, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(torch.cat([self.ads(ids), self.users(ids)], 1))
        return found


def train(one: Trainer, *ids: int) -> None:
    one.optimizer.zero_grad()
    one.model(torch.tensor(ids)).square().sum().backward()
    one.optimizer.step()


def rows_of(folder: Path) -> dict[str, dict[str, dict[int, bytes]]]:
    """Every array of every table, by key."""
    found: dict[str, dict[str, dict[int, bytes]]] = {}
    for table, arrays in tables_in(folder).items():
        for prefix in ("", "waiting_"):
            keys = np.frombuffer(arrays[f"{prefix}keys"], np.int64).tolist()
            for name, data in arrays.items():
                if name.startswith("waiting_") == bool(prefix) and keys:
                    size = len(data) // len(keys)
                    by_key = {key: data[at * size : (at + 1) * size] for at, key in enumerate(keys)}
                    found.setdefault(table, {})[name] = by_key
    return found


def without(rows: dict[str, dict[str, dict[int, bytes]]], *tables: str) -> dict[str, dict[str, dict[int, bytes]]]:
    return {
        table: {
            name: {key: one for key, one in by_key.items() if key not in GONE or table not in tables}
            for name, by_key in arrays.items()
        }
        for table, arrays in rows.items()
    }


def clean(folder: Path, tables: tuple[str, ...] | None = None) -> Cleaner:
    cleaner = Cleaner(keys_of(GONE), tables, [folder])
    cleaner.check()
    cleaner.rewrite()
    assert cleaner.search().is_clean, cleaner.report
    return cleaner


def save_chain(folder: Path, **ads: Any) -> None:
    with served(2) as (endpoints, _), joined(endpoints, model=Two(**ads)) as one:
        train(one, *IDS)
        train(one, *range(100))
        one.fleet.save_persistables(folder, incremental=True)
        train(one, *range(50), 401)
        one.fleet.save_persistables(folder, incremental=True)
        one.fleet.shrink(unseen_steps=2)
        train(one, *range(20, 80))
        one.fleet.save_persistables(folder, incremental=True)


@pytest.mark.parametrize("tables", [None, ("ads",), ("users",)])
def test_a_base_and_its_increments(tables: tuple[str, ...] | None, tmp_path: Path) -> None:
    chain = tmp_path / "chain"
    save_chain(chain)
    before, inside = rows_of(chain), rows_of(chain / "increment-00000001")
    assert not Cleaner(keys_of(GONE), tables, [chain]).search().is_clean
    clean(chain, tables)
    chosen = tables or ("ads", "users")
    assert rows_of(chain) == without(before, *chosen) != before
    assert rows_of(chain / "increment-00000001") == without(inside, *chosen)
    assert main(["verify", str(chain)]) == 0
    manifests = [one.read_bytes() for one in sorted(chain.rglob("manifest.json"))]
    clean(chain, tables)
    assert manifests == [one.read_bytes() for one in sorted(chain.rglob("manifest.json"))], "nothing was left to do"
    with joined(model=Two()) as one:
        train(one, 1)
        one.fleet.load_model(chain)


def test_steps_that_build_on_each_other(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with joined(model=Two()) as one:
        checkpoint = fleet.Checkpoint(
            runs, model=one.model, optimizer=one.optimizer, keep=3, full_every=3, background=False
        )
        for number in range(1, 5):
            train(one, *IDS[number:])
            checkpoint.save(number)
        checkpoint.close()
    steps = sorted(runs.glob("step-*"))
    before = {step: rows_of(step) for step in steps}
    clean(runs)
    assert {step: rows_of(step) for step in steps} == {
        step: without(rows, "ads", "users") for step, rows in before.items()
    }
    assert main(["verify", str(runs)]) == 0


def test_rows_on_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_TABLE_DIR", str(tmp_path / "tables"))
    saved = tmp_path / "saved"
    with served(2) as (endpoints, _), joined(endpoints, model=Two(memory="1MiB")) as one:
        many = torch.randperm(60_000, generator=torch.Generator().manual_seed(0)).tolist()
        for at in range(0, 60_000, 5_000):
            train(one, *many[at : at + 5_000])
        train(one, *range(1_000))
        one.fleet.save_persistables(saved)
    assert list(saved.glob("*.run")), "nothing lies in sealed files"
    before = rows_of(saved)
    clean(saved)
    assert rows_of(saved) == without(before, "ads", "users")
    assert main(["verify", str(saved)]) == 0
    with served(2) as (endpoints, _), joined(endpoints, model=Two(memory="1MiB")) as one:
        train(one, 1)
        assert one.fleet.load_model(saved) == sum(
            len(arrays["keys"]) for arrays in without(before, "ads", "users").values()
        )


def test_an_inference_copy(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with served(2) as (endpoints, _), joined(endpoints, model=Two()) as one:
        train(one, *IDS)
        one.fleet.save_inference_model(copy)
    before = read_inference(copy)
    clean(copy, ("ads",))
    after = read_inference(copy)
    kept = ~np.isin(before.tables["ads"][0], GONE)
    assert np.array_equal(after.tables["ads"][0], before.tables["ads"][0][kept])
    assert np.array_equal(after.tables["ads"][1], before.tables["ads"][1][kept])
    assert np.array_equal(after.tables["users"][0], before.tables["users"][0])
    assert main(["verify", str(copy)]) == 0


class Killed(BaseException):
    """Ends what a process does at this point."""


def calls_killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Numbers the calls that change files, and ends at one after the other, until none is left."""
    real = {name: getattr(os, name) for name in ("replace", "unlink", "fsync")}
    for at in range(1, 1000):
        count = 0

        def dies(name: str, at: int = at) -> Any:
            def call(*args: Any, **more: Any) -> Any:
                nonlocal count
                count += 1
                if count >= at:
                    raise Killed
                return real[name](*args, **more)

            return call

        for name in real:
            monkeypatch.setattr(os, name, dies(name))
        yield at
        for name, one in real.items():
            monkeypatch.setattr(os, name, one)
        if count < at:
            return


def test_whoever_is_killed_leaves_a_save_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tmp_path / "first"
    save_chain(first)
    before = rows_of(first)
    for at in calls_killed(monkeypatch):
        chain = tmp_path / f"chain-{at}"
        os.system(f"cp -r {first} {chain}")
        cleaner = Cleaner(keys_of(GONE), None, [chain])
        is_over = False
        try:
            cleaner.rewrite()
            is_over = True
        except Killed:
            pass
        monkeypatch.undo()
        now = rows_of(chain)
        for table, arrays in before.items():
            for name, by_key in arrays.items():
                assert {key: one for key, one in now[table][name].items() if key not in GONE} == {
                    key: one for key, one in by_key.items() if key not in GONE
                }
        clean(chain)
        assert rows_of(chain) == without(before, "ads", "users")
        assert main(["verify", str(chain)]) == 0
        if is_over:
            assert at > 10
            return


def test_a_stream_that_nobody_publishes(tmp_path: Path) -> None:
    stream = WrittenStream(tmp_path / "stream", {"ads": 2, "users": 3}, shards=1)
    keys = np.arange(50, dtype=np.int64)
    stream.change(0, 1.0, keys)
    stream.base()
    stream.change(0, 2.0, keys[:20], gone=keys[30:])
    cleaner = Cleaner(keys_of([3, 7, 40]), None, [stream.folder])
    with pytest.raises(UsageError, match="is in use: a job publishes there"):
        cleaner.rewrite()
    for batch in stream.folder.glob("batches/*/shard-*/*"):
        os.utime(batch, (1, 1))
    assert cleaner.search().places[0].num_found > 5
    cleaner.rewrite()
    assert cleaner.search().is_clean, cleaner.report
    assert forget_in_stream(stream.folder, Patterns(keys_of([3, 7, 40]), None)) == 0


def test_ids(tmp_path: Path) -> None:
    file = tmp_path / "ids"
    file.write_text("7\n\n-3\n7\n")
    assert keys_of(file).tolist() == [-3, 7]
    assert keys_of(torch.tensor([5, 5, 2])).tolist() == [2, 5]
    schema = fleet.data.Schema(categories=["item", "user"])
    text = np.frombuffer(b"anna42", np.uint8)
    hashed = _native.hash_text(_native.slot_seed("user"), text, np.array([0, 4, 6]))
    assert keys_of(["anna", 42], schema, "user").tolist() == sorted(hashed.tolist())


@pytest.mark.parametrize(
    ("ids", "more", "says"),
    [
        ([1.5], (), "ids must be int64"),
        ([[1, 2]], (), "ids must be int64"),
        ([True], (), "ids must be int64"),
        ([1 << 63], (), "ids must be int64"),
        (["anna"], (), "'anna' is no whole number"),
        ("/nowhere/ids", (), "/nowhere/ids cannot be read: No such file"),
        ([1], (None, "user"), "need both"),
    ],
)
def test_bad_ids(ids: Any, more: tuple[Any, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        keys_of(ids, *more)
    assert "\n" not in str(caught.value)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kept" / "server-0").mkdir(parents=True)
    (tmp_path / "kept" / "server-0" / "journal-00000000000000000001.log").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "text").touch()
    for folder, says in (("none", "is no folder"), ("kept", "start the job again"), ("other", "nothing was saved in")):
        with pytest.raises(UsageError, match=says):
            Cleaner(keys_of([1]), None, [tmp_path / folder]).check()
    (tmp_path / "other" / "manifest.json").write_text("{")
    with pytest.raises(FleetError, match="cannot be read"):
        Cleaner(keys_of([1]), None, [tmp_path / "other"]).check()


def test_manifests_before_are_known(tmp_path: Path) -> None:
    chain = tmp_path / "chain"
    save_chain(chain)
    clean(chain)
    assert len(read_contents(chain, Manifest).formerly) == 1

"""Saves that have only what changed: with their base they hold, bit for bit, what a whole save holds."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import fleet
from fleet.checkpoint import Manifest, Parent, StepFolders, commit, read_chain, read_contents, read_manifest, saving
from fleet.checkpoint.files.names import is_of_server
from fleet.errors import CheckpointError, UsageError
from fleet.ps.job.entries import CountFilterEntry
from fleet.ps.together.cutting import CutLostError
from fleet.runtime.saved.server_writes import ServerWrites
from fleet_tools.commands.compact_checkpoint import compact
from fleet_tools.commands.verify_checkpoint import main
from support.increments import tables_in
from support.parity.saved import differences, saved
from support.parity.training import Trainer, joined, served, strategy

pytestmark = pytest.mark.timeout(120)
NUM_IDS = 400


class Two(nn.Module):
    """Two tables with different rules, one of whose keys wait for a row; and a layer."""

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


def rows_in(folder: Path) -> int:
    """How many rows of tables are in the files of a save itself."""
    return sum(getattr(piece, "rows", 0) for piece in read_contents(folder, Manifest).pieces)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_base_and_its_increments_are_the_whole_save(mode: str, tmp_path: Path) -> None:
    chain, whole = tmp_path / "chain", tmp_path / "whole"
    with served(2) as (endpoints, _), joined(endpoints, strategy=strategy(mode), model=Two()) as one:
        train(one, *range(NUM_IDS))
        assert one.fleet.save_persistables(chain, incremental=True) == chain
        for round_, ids in enumerate([(1, 2, 3, 500, 501), (2, 3, 500), ()], 1):
            for _ in range(round_):
                train(one, *ids, 7)
            if round_ == 2:
                one.fleet.shrink(unseen_steps=2)
            made = one.fleet.save_persistables(chain, incremental=True)
            assert made == chain / f"increment-{round_:08}"
            assert rows_in(made) <= 2 * len(ids) + 2
            one.fleet.save_persistables(whole)
            for num_servers in (1, 2, 3):
                assert tables_in(chain, num_servers) == tables_in(whole)
            assert tables_in(made) == tables_in(whole)
        assert [link.folder.name for link in read_chain(chain)][1:] == [f"increment-{n:08}" for n in (1, 2, 3)]
        values = one.fleet.gather_state_dict(one.model)
    with served(3) as (endpoints, _), joined(endpoints, strategy=strategy(mode), model=Two()) as one:
        train(one, 1, 2)
        one.fleet.load_model(chain)
        again = one.fleet.gather_state_dict(one.model)
        assert all(torch.equal(values[name], again[name]) for name in values)
    model = fleet.load_inference_model(chain, Two())
    assert torch.equal(model.ads(torch.tensor([7])), values["ads.weight"][values["ads.keys"] == 7])


def test_where_nobody_knows_what_changed_a_save_is_whole_and_takes_the_place_of_all(tmp_path: Path) -> None:
    chain = tmp_path / "chain"
    with joined(model=Two()) as one:
        train(one, *range(50))
        one.fleet.save_persistables(chain)
        assert one.fleet.save_persistables(chain, incremental=True) == chain, "nobody has noted anything before"
        train(one, 1, 2)
        assert one.fleet.save_persistables(chain, incremental=True) != chain
        one.fleet.load_model(chain)
        assert one.fleet.save_persistables(chain, incremental=True) == chain, "a load has replaced everything"
        assert not list(chain.glob("increment-*"))
        train(one, 1)
        assert one.fleet.save_persistables(chain, incremental=True) != chain
        one.fleet.save_persistables(chain)
        assert [link.folder for link in read_chain(chain)] == [chain]
        assert not list(chain.glob("increment-*"))
    with joined(model=Two()) as one:
        train(one, 1)
        assert one.fleet.save_persistables(chain, incremental=True) == chain, "this is another server"


@pytest.mark.parametrize("what", ["gone", "gap", "another", "damaged", "another job"])
def test_a_chain_that_is_not_whole_is_refused(what: str, tmp_path: Path) -> None:
    chain = tmp_path / "chain"
    with joined(model=Two()) as one:
        for ids in ((1, 2, 3), (1, 2), (5,)):
            train(one, *ids)
            one.fleet.save_persistables(chain, incremental=True)
        other = tmp_path / "other"
        one.fleet.save_persistables(other)
        newest = chain / "increment-00000002"
        if what == "gone":
            shutil.move(newest, tmp_path / "increment-00000002")
            chain = tmp_path / "increment-00000002"
            says = "which|cannot be read: no checkpoint in .*; bring it back"
        elif what == "gap":
            shutil.rmtree(chain / "increment-00000001")
            says = "cannot be read: no checkpoint in .*increment-00000001.*; bring it back"
        elif what == "another":
            for path in chain.glob("*.*"):
                path.unlink()
            shutil.copytree(other, chain, dirs_exist_ok=True)
            says = "there is another save now; bring the one it builds on back"
        elif what == "damaged":
            path = next(newest.glob("table-ads.*changed*"))
            path.write_bytes(path.read_bytes()[:-1] + b"\0")
            says = "is damaged"
        else:
            text = json.loads((newest / "manifest.json").read_text())
            text["job"]["mode"] = "async"
            del text["checksum"]
            from fleet.checkpoint.folders.seal import seal

            (newest / "manifest.json").write_text(seal(text, {"indent": 1}))
            says = "is of another job; bring the one it builds on back"
        before = one.fleet.gather_state_dict(one.model)
        with pytest.raises(CheckpointError, match=says):
            one.fleet.load_model(chain)
        after = one.fleet.gather_state_dict(one.model)
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_steps_between_whole_ones_have_what_changed_and_go_with_them(tmp_path: Path) -> None:
    folder = tmp_path / "steps"

    def there() -> dict[int, bool]:
        steps = StepFolders(folder, Manifest).complete()[::-1]
        return {step: read_contents(folder / f"step-{step:08}", Manifest).parent is None for step in steps}

    with served(2) as (endpoints, _), joined(endpoints, model=Two()) as one:
        parts: dict[str, Any] = {"model": one.model, "optimizer": one.optimizer}
        checkpoint = fleet.Checkpoint(folder, **parts, keep=1, best="max", full_every=3)
        found = []
        for step in range(1, 10):
            train(one, *(range(NUM_IDS) if step == 1 else (step, step + 1)))
            checkpoint.save(step, metric=1.0 if step == 5 else 0.0)
            checkpoint.wait()
            found.append(there())
        # The best, step 5, keeps the whole one that it builds on.
        assert found[2] == {1: True, 2: False, 3: False}
        assert found[4] == {4: True, 5: False}
        assert found[8] == {4: True, 5: False, 7: True, 8: False, 9: False}
        assert rows_in(folder / "step-00000009") < 10 < NUM_IDS <= rows_in(folder / "step-00000007")
        one.fleet.save_persistables(tmp_path / "whole")
        newest = folder / "step-00000009"
        assert tables_in(newest) == tables_in(tmp_path / "whole")
        assert main(["verify", str(folder)]) == 0
        base = next((folder / "step-00000007").glob("table-*"))
        kept = base.read_bytes()
        base.write_bytes(kept[:-1] + b"?")
        assert main(["verify", str(newest)]) == main(["verify", str(newest.parent)]) == 1
        base.write_bytes(kept)
        assert main(["verify", str(newest)]) == 0
        before = one.fleet.gather_state_dict(one.model)
        checkpoint.close()
        with pytest.raises(UsageError, match="step-00000008 builds on .*step-00000007; give .*step-00000008, or"):
            compact(folder / "step-00000007")
        assert "2 increments are folded" in compact(folder)
        assert there()[9]
        assert tables_in(newest) == tables_in(tmp_path / "whole")
    with served(1) as (endpoints, _), joined(endpoints, model=Two()) as one:
        checkpoint = fleet.Checkpoint(folder, model=one.model, optimizer=one.optimizer, full_every=3, resume=True)
        assert checkpoint.step == 9
        again = one.fleet.gather_state_dict(one.model)
        assert all(torch.equal(before[name], again[name]) for name in before)
        checkpoint.close()
    wrong: Any
    for wrong in (0, 2.5):
        with pytest.raises(UsageError, match=f"full_every must be a whole number of saves, at least 1, got {wrong}"):
            fleet.Checkpoint(folder, **parts, full_every=wrong)


def test_a_step_that_is_saved_again_does_not_build_on_itself(tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    with served(2) as (endpoints, _), joined(endpoints, model=Two()) as one:
        checkpoint = fleet.Checkpoint(folder, model=one.model, optimizer=one.optimizer, full_every=5)
        for step, parents in ((1, []), (1, []), (2, [1]), (2, [1]), (3, [1, 2])):
            train(one, *(range(NUM_IDS) if step == 1 else (step, step + 1)))
            checkpoint.save(step)
            checkpoint.wait()
            newest = folder / f"step-{step:08}"
            assert [link.folder.name for link in read_chain(newest)[:-1]] == [f"step-{one:08}" for one in parents]
            one.fleet.save_persistables(tmp_path / "whole")
            assert tables_in(newest) == tables_in(tmp_path / "whole")
        checkpoint.close()
    increment = read_contents(newest, Manifest)
    assert increment.parent is not None
    for parent in (".", "../step-00000003"):
        broken = replace(increment, parent=replace(increment.parent, folder=parent))
        with pytest.raises(CheckpointError, match="builds on what it would replace"), saving(newest) as writing:
            shutil.copytree(newest, writing, dirs_exist_ok=True)
            commit(writing, newest, broken)
    assert len(read_chain(newest)) == 3


def test_steps_are_pruned_where_a_parent_was_found_beside_its_place(tmp_path: Path) -> None:
    steps = StepFolders(tmp_path, Manifest)
    for step in (1, 2, 3):
        on = Parent("../.step-00000001.old-01234567", "0" * 8, "0" * 64) if step == 2 else None
        steps.commit(steps.begin(step), step, Manifest(step, 1, (), parent=on))
    steps.prune(1)
    assert steps.complete() == [3]


def test_an_increment_is_written_again_where_its_first_files_came_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, real, lost = tmp_path / "chain", ServerWrites.wait, list[int]()

    def loses(writes: ServerWrites, *given: Any, **more: Any) -> Any:
        written = real(writes, *given, **more)
        if not lost:
            lost.append(1)
            raise CutLostError("server 1: the server was started again")
        return written

    with served(2) as (endpoints, _), joined(endpoints, strategy=strategy("async"), model=Two()) as one:
        train(one, *range(NUM_IDS))
        one.fleet.save_persistables(chain, incremental=True)
        train(one, 1, 2, 3)
        monkeypatch.setattr(ServerWrites, "wait", loses)
        made = one.fleet.save_persistables(chain, incremental=True)
        assert lost
        assert made == chain / "increment-00000001"
        one.fleet.save_persistables(tmp_path / "whole")
        one.fleet.save_inference_model(tmp_path / "inference")
        assert tables_in(chain) == tables_in(tmp_path / "whole")
    names = [path.name for path in tmp_path.rglob("*") if re.search(r"\.(server|part)-", path.name)]
    assert any(".changed-" in name for name in names)
    assert all(sum(is_of_server(name, server, 2) for server in (0, 1)) == 1 for name in names), names


def test_increments_are_folded_into_one_whole_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain, whole = tmp_path / "chain", tmp_path / "whole"
    with served(2) as (endpoints, _), joined(endpoints, model=Two()) as one:
        for ids in (range(NUM_IDS), (1, 2), (3, 900)):
            train(one, *ids)
            one.fleet.save_persistables(chain, incremental=True)
        one.fleet.save_persistables(whole)
    assert main(["verify", str(chain)]) == 0
    assert "is whole: chain, checkpoint with 2 increments of" in capsys.readouterr().out
    assert main(["compact", str(chain / "increment-00000001")]) == 2
    assert "is one increment of several; give" in capsys.readouterr().err
    with pytest.raises(CheckpointError, match="holds increments of another save, and a whole"):
        read_manifest(chain)
    piece = next((chain / "increment-00000001").glob("table-*"))
    kept = piece.read_bytes()
    piece.write_bytes(kept[:-1] + b"?")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert main(["verify", str(chain)]) == 1
    assert main(["compact", str(chain)]) == 1
    assert "is damaged" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == before, "nothing half-written stays"
    piece.write_bytes(kept)
    assert main(["compact", str(chain)]) == 0
    assert "is one whole save now" in capsys.readouterr().out
    assert not list(chain.glob("increment-*"))
    assert tables_in(chain) == tables_in(whole)
    assert differences(saved(chain), saved(whole)) == []
    assert main(["compact", str(chain)]) == 0
    assert "is one whole save already: nothing was done" in capsys.readouterr().out
    assert main(["compact", str(tmp_path)]) == 1
    assert main(["compact", str(tmp_path / "nothing")]) == 2
    assert main(["shrink", str(chain)]) == 2


OPERATIONS = st.one_of(
    st.tuples(st.just("train"), st.lists(st.integers(0, 60), max_size=6)),
    st.tuples(st.just("shrink"), st.integers(1, 6)),
    st.tuples(st.just("write"), st.lists(st.integers(0, 60), max_size=3, unique=True)),
    st.tuples(st.just("crowd"), st.integers(1000, 1_000_000)),
    st.tuples(st.sampled_from(["save", "lost", "compact", "load"]), st.none()),
)


def many(one: Trainer, folder: Path, operations: list[tuple[str, Any]]) -> None:
    """Do what is asked for, in turn, save once more, and compare with a whole save of the same moment."""
    chain, whole = folder / "chain", folder / "whole"
    given: Any
    for what, given in (("save", None), *operations, ("save", None)):
        match what:
            case "train":
                train(one, 70, *given)
            case "shrink":
                one.fleet.shrink(unseen_steps=given)
            case "write":
                one.fleet.load_rows("ads", torch.tensor(given, dtype=torch.int64), torch.ones(len(given), 3))
            case "crowd":  # some rows of a table with a ceiling go
                train(one, *range(given, given + 500))
            case "save":
                one.fleet.save_persistables(chain, incremental=True)
            case "lost":  # the servers have marked it, and nobody commits it
                with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
                    patch.setattr(fleet.checkpoint, "commit", Interrupts())
                    one.fleet.save_persistables(chain, incremental=True)
            case "compact":
                compact(chain)
            case "load":
                one.fleet.load_model(chain)
    one.fleet.save_persistables(whole)
    expected = tables_in(whole)
    assert all(tables_in(chain, num_servers) == expected for num_servers in (1, 2, 3))


class Interrupts:
    def __call__(self, *_: object, **__: object) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("examples", [5, pytest.param(300, marks=pytest.mark.exhaustive)])
def test_after_whatever_happens_a_chain_is_the_whole_save(examples: int, tmp_path: Path) -> None:
    numbers = count()
    with served(2) as (endpoints, _), joined(endpoints, strategy=strategy("async"), model=Two(max_bytes=60_000)) as one:

        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(OPERATIONS, min_size=3, max_size=12))
        def run(operations: list[tuple[str, Any]]) -> None:
            many(one, tmp_path / str(next(numbers)), operations)

        run()

"""A script written from the guides whose workers die: its model, its curve, its rates and its own means are the same.

With one, two and three optimizers; over samples, files, steps and numbers of its own; with gradients accumulated,
evaluation in mid-epoch, early stop, schedules, dropout and running statistics. Servers are in this process.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from chaos import loops
from chaos.state import digest_of, times_trained
from support.durable.lives import Workers
from support.jobs import LIMIT_S
from support.parity.training import served
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(300)

NUM_SAMPLES = 512
SMALL = ["--samples", str(NUM_SAMPLES), "--measured", "12"]
"""A shorter run than that of `make chaos`: 32 steps an epoch, an evaluation every 12, a save every 24."""
DEATHS = ["1:between:5", "0:handed:9", "1:measured:12", "0:between:12", "0:saved:24", "1:between:24", "1:stepped:25"]
SAMPLE = [("files", 2, 1, 100), ("ahead", 2, 2, 1)]


def run(folder: Path, how: list[str], deaths: list[str], environ: pytest.MonkeyPatch) -> tuple[str, list[Any]]:
    """The digest of what a run has saved, and what its workers have found."""
    folder.mkdir()
    loops.write_files(folder / "data", NUM_SAMPLES)
    environ.setenv("FLEET_DURABLE", str(folder / "durable"))
    environ.setenv("FLEET_JOURNAL", "OFF")
    environ.setenv("OMP_NUM_THREADS", "1")
    with served(2) as (endpoints, _), ExitStack() as stack:
        arguments = [*how, *SMALL, "--save", "saved", "--die", *deaths]
        workers = Workers(stack, endpoints, 2, Path(loops.__file__), arguments)
        workers.revive()
        workers.finish()
    assert {path.name for path in folder.glob("died-*")} == {f"died-{death}" for death in deaths}
    return digest_of(folder / "saved"), [json.loads((folder / f"found-{n}.json").read_text()) for n in range(2)]


@pytest.mark.parametrize(
    ("loop", "optimizers", "accumulate", "patience"),
    sweep(
        ["shard", "ahead", "files", "steps", "range"],
        [1, 2, 3],
        [1, 2],
        [1, 100],
        sample=lambda *chosen: chosen in SAMPLE,
    ),
)
def test_a_script_whose_workers_die_comes_to_the_same(
    loop: str, optimizers: int, accumulate: int, patience: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if loop in ("steps", "range") and accumulate > 1:
        pytest.skip("a turn of such a loop is a step")
    how = ["--loop", loop, "--optimizers", str(optimizers), "--accumulate", str(accumulate)]
    how += ["--epochs", str(accumulate), "--patience", str(patience)]
    expected = run(tmp_path / "undisturbed", how, [], monkeypatch)
    deaths = [death for death in DEATHS if int(death.rpartition(":")[2]) < expected[1][0]["steps"]]
    assert run(tmp_path / "disturbed", how, deaths, monkeypatch) == expected


@pytest.mark.parametrize(
    ("loop", "every"),
    sweep(["shard", "ahead", "files", "steps", "range"], [2, 3], sample=lambda *chosen: chosen == ("range", 2)),
)
def test_gradients_that_an_optimizer_gathers_over_steps_of_another_are_gathered_again(
    loop: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = ["--loop", loop, "--optimizers", "3", "--every", str(every), "--epochs", "1", "--patience", "100"]
    expected = run(tmp_path / "undisturbed", how, [], monkeypatch)
    assert run(tmp_path / "disturbed", how, DEATHS, monkeypatch) == expected


@pytest.mark.parametrize(
    ("mode", "loop"),
    sweep(["async", "geo"], ["shard", "ahead", "steps"], sample=lambda *chosen: chosen == ("async", "ahead")),
)
def test_each_sample_counts_once_where_bits_differ(
    mode: str, loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "disturbed"
    how = ["--mode", mode, "--loop", loop, "--optimizers", "2", "--epochs", "1"]
    found = run(folder, how, [death for death in DEATHS if int(death.rpartition(":")[2]) < 24], monkeypatch)
    assert [one["steps"] for one in found[1]] == [32, 32]
    assert times_trained(folder / "saved") == dict.fromkeys(range(NUM_SAMPLES), 1.0)


def test_a_script_whose_count_is_another_is_told_both_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path / "durable"))
    monkeypatch.setenv("FLEET_JOURNAL", "OFF")
    how = ["--loop", "shard", "--optimizers", "2", "--epochs", "2", "--unit", "16", "--save", "saved", *SMALL]
    with served(1) as (endpoints, _), ExitStack() as stack:
        workers = Workers(stack, endpoints, 1, Path(loops.__file__), [*how, "--die", "0:stepped:60"])
        workers.revive()
        _, err = workers.present[0].communicate(timeout=LIMIT_S)
        assert workers.present[0].returncode == 1
    last = [line for line in err.splitlines() if "UsageError" in line]
    assert "started again behind 59 steps, and nobody knows where that is by the count of its script" in last[-1], err
    assert "which called save(768) after 48 steps" in last[-1]

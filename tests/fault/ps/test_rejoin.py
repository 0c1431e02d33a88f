"""Workers of a durable job that are killed and started again alone: every sample of every epoch counts once.

Servers are in this process, workers are processes. Rows of the table count how often each sample was trained on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from fleet.ps.server.service import Service
from support.durable import rejoin_job, rejoin_run
from support.durable.lives import Workers, has_come, pushes
from support.jobs import LIMIT_S
from support.parity.training import exported, served
from support.processes import wait_until
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(300)

PROGRAM = Path(rejoin_job.__file__)
NUM_BATCHES = rejoin_job.NUM_SAMPLES * rejoin_job.NUM_EPOCHS // rejoin_job.BATCH_SIZE


@pytest.fixture(autouse=True)
def durable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path / "durable"))
    monkeypatch.setenv("FLEET_JOURNAL", "OFF")


def counts(services: Sequence[Service], num_workers: int) -> dict[int, float]:
    """How often each sample was trained on."""
    found: dict[int, float] = {}
    for service in services:
        rows = exported(service)
        found |= {int(key): float(value[0]) for key, value in zip(rows["keys"], rows["values"], strict=True)}
    return {key: value * num_workers for key, value in sorted(found.items())}


EVERY_SAMPLE = {rejoin_job.FIRST_KEY + sample: float(rejoin_job.NUM_EPOCHS) for sample in range(rejoin_job.NUM_SAMPLES)}


def run(arguments: Sequence[str], num_workers: int, seed: int, num_kills: int = 2) -> dict[int, float]:
    """The counts of a job whose workers are killed at moments of `seed`."""
    rng = random.Random(seed)
    with served(1) as (endpoints, services), ExitStack() as stack:
        workers = Workers(stack, endpoints, num_workers, PROGRAM, arguments)
        for moment in sorted(rng.sample(range(8, NUM_BATCHES - 8), num_kills)):
            reached = partial(has_come, services, workers, moment)
            wait_until(reached, LIMIT_S, f"{moment} pushes")
            workers.kill(rng.randrange(num_workers))
        workers.finish()
        lives = [Path(f"{os.environ['FLEET_DURABLE']}/../lives-{index}").read_text() for index in range(num_workers)]
        told = [int(line) for text in lives for line in text.split()]
        assert any(told), f"nobody was killed in the middle: {told}"
        assert pushes(services) == NUM_BATCHES or "queued" in arguments  # where last batches may be smaller
        return counts(services, num_workers if arguments[0] in ("sync", "geo") else 1)


MODES = ["sync", "async", "half", "geo"]
SAMPLE = [("sync", ("ahead",)), ("async", ()), ("async", ("merged",)), ("half", ("merged",)), ("geo", ("ahead",))]


@pytest.mark.parametrize(
    ("mode", "how", "seed"),
    sweep(
        MODES,
        [(), ("ahead",), ("merged",)],
        range(4),
        sample=lambda mode, how, seed: (mode, how) in SAMPLE and not seed,
    ),
)
def test_each_sample_counts_once(mode: str, how: tuple[str, ...], seed: int) -> None:
    assert run([mode, "samples", *how], 1, seed) == EVERY_SAMPLE


@pytest.mark.parametrize("kind", sweep(["loader", "stream"], sample=lambda kind: kind == "loader"))
def test_each_sample_of_other_data_counts_once(kind: str) -> None:
    assert run(["async", kind], 1, 5) == EVERY_SAMPLE


@pytest.mark.parametrize(
    ("mode", "kind", "how", "num_workers"),
    sweep(
        ["async", "half"],
        ["files", "queued"],
        [(), ("ahead",)],
        [1, 2],
        sample=lambda mode, kind, how, num: (mode, how, num) == ("async", ("ahead",), 1 + (kind == "queued")),
    ),
)
def test_each_sample_of_files_counts_once(
    mode: str, kind: str, how: tuple[str, ...], num_workers: int, tmp_path: Path
) -> None:
    rejoin_job.write_files(tmp_path)
    assert run([mode, kind, *how], num_workers, 2) == EVERY_SAMPLE


@pytest.mark.parametrize(
    ("mode", "how"),
    sweep(MODES, [(), ("anew",)], sample=lambda mode, how: (mode, how) in (("sync", ()), ("async", ("anew",)))),
)
def test_workers_meet_one_that_was_started_again(mode: str, how: tuple[str, ...], tmp_path: Path) -> None:
    found = run([mode, "padded", "meets", *how], 2, 3, num_kills=3)
    assert found == EVERY_SAMPLE or mode == "geo"  # there, what a worker has learned goes to the servers by and by
    for worker in range(2):
        assert set((tmp_path / f"epochs-{worker}").read_text().split()) == {"0", "1", "2"}


def run_with_deaths(style: str, folder: Path, *deaths: str) -> dict[str, torch.Tensor]:
    """What has come of a whole run whose workers die where they are told to."""
    folder.mkdir()
    os.environ["FLEET_DURABLE"] = str(folder / "durable")
    with served(2) as (endpoints, _), ExitStack() as stack:
        workers = Workers(stack, endpoints, 2, Path(rejoin_run.__file__), [style, "out.pt", *deaths])
        workers.revive()
        workers.finish()
    assert {path.name for path in folder.glob("died-*")} == {f"died-{death}" for death in deaths}
    saved: dict[str, torch.Tensor] = torch.load(folder / "out.pt")
    order = saved["rows.keys"].argsort()
    return {name: value[order] if name.startswith("rows.") else value for name, value in saved.items()}


def told_in(folder: Path, what: str) -> list[str]:
    """The lines that both workers wrote, each once, in their order."""
    return [
        line for worker in range(2) for line in dict.fromkeys((folder / f"{what}-{worker}").read_text().split("\n"))
    ]


@pytest.mark.parametrize(
    ("style", "deaths"),
    [
        ("steps", ["1:stepped:9", "0:handed:15", "1:read:18"]),
        pytest.param("epochs", ["0:stepped:6", "1:saved:10", "0:measured:18"], marks=pytest.mark.exhaustive),
        ("ready", ["0:saved:12", "1:measured:12", "1:handed:20"]),
    ],
)
def test_a_run_whose_workers_die_comes_to_the_same_bits(style: str, deaths: list[str], tmp_path: Path) -> None:
    expected = run_with_deaths(style, tmp_path / "undisturbed")
    got = run_with_deaths(style, tmp_path / "disturbed", *deaths)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(got[name], value), name
    for what in ("lrs", "losses"):
        assert told_in(tmp_path / "disturbed", what) == told_in(tmp_path / "undisturbed", what)


def test_a_step_goes_on_without_a_worker_until_it_is_back() -> None:
    done: list[list[list[int]]] = [[], []]

    class Noting(Service):
        """A server that notes with whose gradients each step was done."""

        def __init__(self, number: int) -> None:
            super().__init__()
            step = self.state.step

            def noting(updates: Sequence[Any], *more: Any, **named: Any) -> int:
                done[number].append([update.worker for update in updates if not update.is_pass])
                return step(updates, *more, **named)

            self.state.step = noting  # type: ignore[method-assign]

    with served([Noting(0), Noting(1)]) as (endpoints, services), ExitStack() as stack:
        workers = Workers(stack, endpoints, 2, PROGRAM, ["sync", "stream", "absent"])
        # On a busy machine steps may go on without worker 1 before it has died, as it does after five steps of its own.
        dead = Path(os.environ["FLEET_DURABLE"]).parent / "dead"
        wait_until(
            lambda: (dead.exists() and [0] in done[0]) or workers.has_failed(), LIMIT_S, "a step without worker 1"
        )
        workers.kill(1)
        workers.finish()
        assert [services[0].state.ledger.history(worker)[0] for worker in range(2)] == [NUM_BATCHES // 2] * 2
    assert done[0] == done[1]  # the same steps on both servers
    alone = [step for step, of in enumerate(done[0]) if of == [0]]
    assert alone
    assert [0, 1] in done[0][alone[-1] :], "worker 1 did not come back"
    assert [1] in done[0][alone[-1] :]  # it makes up for what it has missed, while worker 0 passes
    assert done[0][-1] == []

"""The contract of what hangs on the steps of a worker, for every part that there is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError
from fleet.ps.hot.hot_tables import HotTables
from fleet.ps.together.resharding import Wishes
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.asking.lookup_maker import LookupMaker
from fleet.ps.worker.asking.side_thread import NoSideThread, SideThread
from fleet.ps.worker.life.carried import Carried, StoredProgress
from fleet.ps.worker.life.redo import Redo
from fleet.ps.worker.parts.contract import AtClose, NoHotTables, StepPart, Update
from fleet.ps.worker.parts.forgotten_calls import ForgottenCalls
from fleet.ps.worker.parts.meters import MeasuredSteps
from fleet.ps.worker.sending.dense_ahead import DenseAhead
from fleet.ps.worker.worker import Worker
from fleet.runtime.modules.start_worker import Rouser
from support.parity.training import Trainer, batch, dense_of, joined, served, strategy

NUM_STEPS = 4


class Wide(nn.Module):
    """Enough dense parameters that some of them leave ahead of their step."""

    def __init__(self, **table: object) -> None:
        super().__init__()
        self.emb = fleet.nn.Embedding(4, table="ads", rule=fleet.rules.Adagrad(lr=0.1), **table)  # type: ignore[arg-type]
        self.layers = nn.Sequential(nn.Linear(4, 400), nn.ReLU(), nn.Linear(400, 200), nn.ReLU(), nn.Linear(200, 1))
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.layers.parameters():
                parameter.uniform_(-0.1, 0.1, generator=generator)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(self.emb(ids).mean(1)).squeeze(1)
        return scores


@contextmanager
def alone(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Trainer]:
    with joined(model=Wide(), strategy=strategy()) as one:
        yield one


@contextmanager
def hot(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Trainer]:
    with joined(model=Wide(cache="gpu", cache_rows=64), strategy=strategy()) as one:
        yield one


@contextmanager
def ahead(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Trainer]:
    monkeypatch.setenv("FLEET_LOCAL_TRANSPORT", "TCP")
    with served(1) as (endpoints, _), joined(endpoints, model=Wide(), strategy=strategy()) as one:
        yield one


@contextmanager
def durable(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Trainer]:
    monkeypatch.setenv("FLEET_DURABLE", str(folder))
    with served(1) as (endpoints, _), joined(endpoints, model=Wide(), strategy=strategy()) as one:
        one.fleet.steps_done()  # as a script does whose data is its own
        yield one


PARTS: dict[type[StepPart], Callable[[pytest.MonkeyPatch, Path], object]] = {
    MeasuredSteps: alone,
    LookupMaker: alone,
    ForgottenCalls: alone,
    NoSideThread: alone,
    NoHotTables: alone,
    SideThread: hot,
    HotTables: hot,
    Wishes: alone,
    DenseAhead: ahead,
    StoredProgress: durable,
    Carried: durable,
    Redo: durable,
}
"""Each part, and a job of which it is one."""
OTHERS = {AtClose, Rouser}
"""Parts that need a GPU, or that do nothing in a step."""


def step(one: Trainer, number: int, factor: float = 1.0) -> None:
    ids, target = batch(number)
    one.optimizer.zero_grad()
    (factor * nn.functional.mse_loss(one.model(ids), target)).backward()
    one.optimizer.step()


def state(one: Trainer) -> tuple[dict[str, bytes], list[float]]:
    """The dense parameters and the rows of this worker's model, bit for bit."""
    one.model.eval()
    with torch.no_grad():
        rows = one.model.emb(torch.arange(40).reshape(-1, 1)).reshape(-1)  # type: ignore[operator]
    one.model.train()
    return dense_of(one.model), rows.tolist()


def parts_of(worker: Worker) -> Sequence[StepPart]:
    return worker._parts


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> object:
    with alone(pytest.MonkeyPatch(), tmp_path_factory.mktemp("alone")) as one:
        for number in range(NUM_STEPS):
            step(one, number)
        return state(one)


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_a_part_keeps_the_contract(
    kind: type[StepPart], expected: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with PARTS[kind](monkeypatch, tmp_path) as one:  # type: ignore[attr-defined]
        own = [part for part in parts_of(one.worker) if type(part) is kind]
        assert len(own) == 1, "it is one of the parts of this job, once"
        step(one, 0)
        before = state(one)
        with pytest.raises(UsageError, match="hold a NaN or an Inf; nothing was sent"):
            step(one, 1, float("nan"))
        assert state(one) == before, "a step that was given up has changed nothing"
        for number in range(1, NUM_STEPS):
            step(one, number)
        assert state(one) == expected, "it changes nothing of what is computed"
        worker = one.worker
        one.fleet.stop_worker()
        for _ in range(2):
            own[0].close()
        worker.close()


def test_every_part_is_tested() -> None:
    def below(kind: type[StepPart]) -> set[type[StepPart]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    kinds = {kind for kind in below(StepPart) - {StepPart} if kind.__module__.startswith("fleet.")}
    assert kinds == PARTS.keys() | OTHERS


class Told(StepPart):
    """Notes its moments."""

    def __init__(self, name: str, told: list[str]) -> None:
        self._name, self._told = name, told

    def forward(self) -> None:
        self._told.append(f"{self._name} forward")

    def looked_up(self, lookups: Sequence[Lookup]) -> None:
        self._told.append(f"{self._name} looked up {len(lookups)}")

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:
        self._told.append(f"{self._name} begin {len(used)} {is_new}")

    def before_push(self, update: Update) -> None:
        self._told.append(f"{self._name} before {update.gradients.steps}, step {update.step}")

    def after_push(self, update: Update) -> None:
        self._told.append(f"{self._name} after {update.gradients.steps}")

    def zeroed(self, groups: Collection[int]) -> None:
        self._told.append(f"{self._name} zeroed {sorted(groups)}")

    def close(self) -> None:
        self._told.append(f"{self._name} close")


def test_parts_are_told_of_each_moment_in_their_order() -> None:
    told: list[str] = []
    with joined(model=Wide(), strategy=strategy()) as one:
        worker = one.worker
        worker._parts = [*worker._parts, Told("a", told), Told("b", told)]
        step(one, 0)
        one.model.eval()
        one.model(batch(1)[0])
    assert told == [
        *("a zeroed [0]", "b zeroed [0]", "a forward", "b forward", "a looked up 1", "b looked up 1"),
        *("a begin 1 True", "b begin 1 True", "a before 1, step 1", "b before 1, step 1", "b after 1", "a after 1"),
        *("a close", "b close"),
    ]


@pytest.mark.parametrize("makes", [alone, hot])
def test_a_step_by_gradients_that_a_step_had_is_named(
    makes: Callable[[pytest.MonkeyPatch, Path], AbstractContextManager[Trainer]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And not one behind a batch for layers alone, if somebody has zeroed gradients, by whatever way."""
    with makes(monkeypatch, tmp_path) as one:
        caplog.clear()
        for zero_grad in (one.optimizer.zero_grad, one.model.zero_grad):
            step(one, 0)
            zero_grad()
            one.model.layers(torch.ones(2, 4)).sum().backward()  # type: ignore[operator]
            one.optimizer.step()
            zero_grad()
        assert not caplog.messages
        step(one, 1)
        one.optimizer.step()
        one.optimizer.step()
    assert [message.split(":")[0] for message in caplog.messages] == [
        "optimizer.step() came twice after one loss.backward()"
    ]


def test_what_is_to_be_undone_is_undone_once() -> None:
    undone: list[str] = []
    part = AtClose(lambda: undone.append("first"), lambda: undone.append("then"))
    part.close()
    part.close()
    assert undone == ["then", "first"]

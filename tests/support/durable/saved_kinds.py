"""Every kind of thing that Fleet saves, for sweeps of damage: how it is saved, loaded, and what there is to compare.

Each kind is a context with two different saves of one model, and a process that is in a third state.
"""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
import fleet_programs as static
from fleet.nn import Embedding
from fleet.ps.server.service import Service
from fleet.runtime.training.checkpoint import Checkpoint
from fleet_programs import io
from fleet_programs.program.json_form import to_json
from program_support.programs_alone import Alone, feed
from support.durable.rows_on_disk import train
from support.parity.training import Trainer, exported, first_model, joined, served


@dataclass(frozen=True)
class Subject:
    """One kind of saved thing."""

    good: Path
    other: Path | None
    """Another save of the same model; None if the one file in it may take the place of the other."""
    work: Path
    """Where a damaged copy of `good` lies when `load` is called."""
    load: Callable[[], object]
    reset: Callable[[], object]
    """Go back to the state before a load that was not refused."""
    state: Callable[[], Any]
    """Everything that a load changes, in values that can be compared."""

    def renew(self, source: Path | None = None) -> None:
        """Let `work` be an undamaged copy."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(source or self.good, self.work)


Kind = Callable[[Path], AbstractContextManager[Subject]]


def plain(value: Any) -> Any:
    """A value in which tensors and arrays are their bytes."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return str(value.dtype), tuple(value.shape), bytes(value.contiguous().view(-1).view(torch.uint8).numpy())
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, np.ascontiguousarray(value).tobytes()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def _random_state() -> Any:
    return [torch.get_rng_state(), random.getstate(), list(np.random.get_state())]


class Net(nn.Module):
    """Two layers of one shape, so that files of the same size can be taken for each other."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.two(self.norm(self.one(x))).sum()


@contextmanager
def collective(root: Path) -> Iterator[Subject]:
    """fleet.Checkpoint of a collective job."""
    fleet.shutdown()
    fleet.init(is_collective=True)
    model: Any = fleet.distributed_model(Net())
    optimizer: Any = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.1))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    data = fleet.data.shard(torch.randn(40, 3), 2, shuffle=True)
    given: dict[str, Any] = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "data": data}
    work = Checkpoint(root / "work", **given)

    def train() -> None:
        for batch, _ in zip(data, range(3), strict=False):
            model(batch + torch.rand(()) + random.random()).backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()

    def state() -> Any:
        parts = [model.state_dict(), optimizer.state_dict(), scheduler.state_dict(), data.state_dict()]
        return plain([*parts, _random_state(), work.step, model.step_state.num_updates])

    try:
        for name in ("good", "other", "before"):
            train()
            with Checkpoint(root / name, **given) as checkpoint:
                checkpoint.save(7)
        before = Checkpoint(root / "before", **given)

        def reset() -> None:
            before.load()
            work._step = 0

        yield Subject(root / "good", root / "other", root / "work", work.load, reset, state)
    finally:
        fleet.shutdown()


class Tower(nn.Module):
    """Two tables of one width, layers, and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.ads = Embedding(4, rule=fleet.rules.Adagrad(lr=0.1))
        self.users = Embedding(4, rule=fleet.rules.Adagrad(lr=0.1))
        self.norm = nn.BatchNorm1d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.out = nn.Linear(4, 1)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.out(self.frozen(self.norm(self.ads(ids).mean(1) + self.users(ids + 1).mean(1)))).squeeze(1)


def _held(service: Service) -> Any:
    """All that a server in this process has."""
    holdings = service.state.holdings
    assert holdings is not None
    tables = [exported(service, number) for number in range(len(holdings.tables))]
    rows = [
        {name: one[np.argsort(table["keys"])] for name, one in table.items() if not name.startswith("waiting_")}
        for table in tables
    ]
    return [rows, holdings.snapshot(), list(holdings.kept), service.state.rounds.version]


class Position:
    """A place in the data."""

    at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "order": torch.arange(self.at)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


@contextmanager
def _job(num_servers: int = 2) -> Iterator[tuple[Trainer, list[Service]]]:
    with served(num_servers) as (endpoints, services), joined(endpoints, model=Tower()) as one:
        yield one, services


@contextmanager
def beside_servers(root: Path) -> Iterator[Subject]:
    """fleet.Checkpoint of a job with two servers."""
    with _job() as (one, services):
        data = Position()
        scheduler = torch.optim.lr_scheduler.StepLR(one.optimizer, 2)
        given: dict[str, Any] = {"model": one.model, "optimizer": one.optimizer, "scheduler": scheduler, "data": data}

        def train(begin: int) -> None:
            torch.rand(())
            data.at += 1
            one.train(begin, begin + 3)
            scheduler.step()

        def state() -> Any:
            own = [_random_state(), scheduler.state_dict(), data.state_dict(), one.worker.num_steps, work.step]
            settings = [group["lr"] for group in one.optimizer.param_groups]
            return plain([*map(_held, services), own, settings])

        for number, name in enumerate(("good", "other", "before")):
            train(3 * number)
            with Checkpoint(root / name, **given) as checkpoint:
                checkpoint.save(7)
        work, before = Checkpoint(root / "work", **given), Checkpoint(root / "before", **given)

        def reset() -> None:
            before.load()
            work._step = 0

        yield Subject(root / "good", root / "other", root / "work", work.load, reset, state)


@contextmanager
def persistables(root: Path, num_increments: int = 0) -> Iterator[Subject]:
    """fleet.save_persistables, of two servers."""
    with _job() as (one, services):
        for number, name in enumerate(("good", "other", "before")):
            for part in range(num_increments + 1):
                one.train(3 * number + part, 3 * number + 3)
                one.fleet.save_persistables(root / name, incremental=num_increments > 0)

        def state() -> Any:
            return plain([*map(_held, services), one.worker.num_steps])

        yield Subject(
            root / "good",
            root / "other",
            root / "work",
            lambda: one.fleet.load_model(root / "work"),
            lambda: one.fleet.load_model(root / "before"),
            state,
        )


@contextmanager
def rows_on_a_disk(root: Path) -> Iterator[Subject]:
    """fleet.save_persistables of a server whose rows do not fit its memory: sealed files, and what differs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLEET_TABLE_DIR", str(root / "tables"))
        with served(1) as (endpoints, services), joined(endpoints, model=first_model(0, memory="1MiB")) as one:
            for number, name in enumerate(("good", "other", "before")):
                train(one, 5 * number, 5 * number + 5)
                one.fleet.save_persistables(root / name)

            def state() -> Any:
                return plain([*map(_held, services), one.worker.num_steps])

            yield Subject(
                root / "good",
                root / "other",
                root / "work",
                lambda: one.fleet.load_model(root / "work"),
                lambda: one.fleet.load_model(root / "before"),
                state,
            )


def served_from(save: Callable[[Trainer, Path], object], step: str = "") -> Kind:
    """A folder that fleet.load_inference_model reads."""

    @contextmanager
    def kind(root: Path) -> Iterator[Subject]:
        with _job() as (one, _):
            for number, name in enumerate(("good", "other")):
                one.train(3 * number, 3 * number + 3)
                save(one, root / name)
        torch.manual_seed(5)
        first = Tower()
        models = [first]

        def reset() -> None:
            models[0] = copy.deepcopy(first)

        def state() -> Any:
            return plain([models[0].state_dict(), models[0].training])

        reset()
        load = lambda: fleet.load_inference_model(root / "work" / step, models[0])  # noqa: E731
        yield Subject(root / "good", root / "other", root / "work", load, reset, state)

    return kind


def _save_step(one: Trainer, folder: Path) -> None:
    with Checkpoint(folder, model=one.model, optimizer=one.optimizer) as checkpoint:
        checkpoint.save(7)


class Line:
    """A program of two layers of one shape, and its own scope."""

    def __init__(self) -> None:
        self.main, self.startup, self.scope = static.Program(), static.Program(), static.Scope()
        self.main.random_seed = self.startup.random_seed = 5
        self.executor = static.Executor()
        with static.program_guard(self.main, self.startup), static.unique_name.guard():
            self.x = static.data("x", [None, 3])
            self.out = static.layers.fc(static.layers.fc(self.x, 3, act="relu"), 3)
            static.optimizer.Adam(0.1).minimize(static.layers.mean(self.out))
        self.executor.run(self.startup, scope=self.scope)
        self.train(0)

    def train(self, seed: int) -> None:
        fed = {"x": np.random.default_rng(seed).random((4, 3), np.float32)}
        self.executor.run(self.main, fed, [], scope=self.scope)


def of_program(
    save: Callable[[Line, Path], object], load: Callable[[Line, Path], object], *, is_one_file: bool = False
) -> Kind:
    """What a program saves; `load` may return what else there is to compare."""

    @contextmanager
    def kind(root: Path) -> Iterator[Subject]:
        line = Line()
        kept: list[Any] = [None]
        with static.scope_guard(line.scope):
            for number, name in enumerate(("good", "other")):
                line.train(number)
                save(line, root / name)
            line.train(7)
            before = {name: tensor.clone() for name, tensor in line.scope.tensors.items()}

            def reset() -> None:
                kept[0] = None
                for name in [name for name in line.scope.tensors if name not in before]:
                    del line.scope.tensors[name]
                for name, tensor in before.items():
                    line.scope.tensors[name] = tensor.clone()

            def load_kept() -> None:
                kept[0] = load(line, root / "work")

            def state() -> Any:
                return plain([dict(line.scope.tensors), kept[0]])

            other = None if is_one_file else root / "other"
            yield Subject(root / "good", other, root / "work", load_kept, reset, state)

    return kind


def _save_model(*names: str) -> Callable[[Line, Path], object]:
    given = dict(zip(("model_filename", "params_filename"), names, strict=False))

    def save(line: Line, folder: Path) -> object:
        made: Any = io.save_inference_model
        return made(folder, ["x"], [line.out], line.executor, line.main, **given)

    return save


def _load_model(*names: str) -> Callable[[Line, Path], object]:
    def load(line: Line, folder: Path) -> object:
        program, feeds, targets = io.load_inference_model(folder, line.executor, *names)
        return [to_json(program), feeds, [one.name for one in targets]]

    return load


@contextmanager
def program_beside_servers(root: Path) -> Iterator[Subject]:
    """What the servers of a program saved, loaded into the program as one process runs it."""
    with ExitStack() as stack:
        there = Alone()
        stack.callback(there.fleet.shutdown)
        there.start()
        with static.scope_guard(there.scope):
            for number, name in enumerate(("good", "other")):
                there.executor.run(there.main, feed(number), [there.loss], scope=there.scope)
                io.save_persistables(there.executor, root / name, there.main)
        here = Alone(None)
        stack.callback(here.fleet.shutdown)
        with here.building():
            here.by.minimize(here.loss)
        here.start()
        before = {name: tensor.clone() for name, tensor in here.scope.tensors.items()}

        def reset() -> None:
            here.scope.tensors.update({name: tensor.clone() for name, tensor in before.items()})

        stack.enter_context(static.scope_guard(here.scope))
        load = lambda: io.load_persistables(here.executor, root / "work", here.main)  # noqa: E731
        state = lambda: plain(dict(here.scope.tensors))  # noqa: E731
        yield Subject(root / "good", root / "other", root / "work", load, reset, state)


def _paddle_save(line: Line, folder: Path) -> None:
    from fleet_paddle.imperative import files

    values = {name: tensor.clone() for name, tensor in line.scope.tensors.items()}
    files.save({"state": values, "step": len(values), "name": "x"}, folder / "model.pdparams")


def _paddle_load(_: Line, folder: Path) -> object:
    from fleet_paddle.imperative import files

    return files.load(folder / "model.pdparams", return_numpy=True)


KINDS: dict[str, Kind] = {
    "fleet.Checkpoint": collective,
    "fleet.Checkpoint beside servers": beside_servers,
    "save_persistables": persistables,
    "save_persistables, increments": partial(persistables, num_increments=2),
    "save_persistables, rows on a disk": rows_on_a_disk,
    "inference copy": served_from(lambda one, folder: one.fleet.save_inference_model(folder)),
    "save_persistables, served": served_from(lambda one, folder: one.fleet.save_persistables(folder)),
    "fleet.Checkpoint, served": served_from(_save_step, "step-00000007"),
    "static.save": of_program(
        lambda line, folder: io.save(line.main, folder / "line"),
        lambda line, folder: io.load(line.main, folder / "line", line.executor),
    ),
    "static variables, one file each": of_program(
        lambda line, folder: io.save_persistables(line.executor, folder, line.main),
        lambda line, folder: io.load_persistables(line.executor, folder, line.main),
    ),
    "static variables, one file": of_program(
        lambda line, folder: io.save_persistables(line.executor, folder, line.main, "all"),
        lambda line, folder: io.load_persistables(line.executor, folder, line.main, "all"),
    ),
    "static inference model": of_program(_save_model(), _load_model()),
    "static inference model, two files": of_program(
        _save_model("line.pdmodel", "line.pdiparams"), _load_model("line.pdmodel", "line.pdiparams")
    ),
    "load_program_state": of_program(
        lambda line, folder: io.save_persistables(line.executor, folder, line.main),
        lambda _, folder: io.load_program_state(folder),
    ),
    "program beside servers": program_beside_servers,
    "paddle.save": of_program(_paddle_save, _paddle_load, is_one_file=True),
}

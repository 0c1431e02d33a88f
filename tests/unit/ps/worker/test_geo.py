"""Geo mode with several workers: what comes of differences that more than one of them sends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import fleet
from fleet.nn import Embedding
from fleet.ps.server.service import Service
from fleet.ps.worker.modes.geo import Geo
from support.parity.training import LIMIT_S, Trainer, in_threads, joined, rows_of, served, strategy

pytestmark = pytest.mark.timeout(300)

SHARED = 1


class Weights(nn.Module):
    """Rows and a dense parameter, each drawn to a target."""

    def __init__(self) -> None:
        super().__init__()
        zeros = fleet.initializers.Constant(0.0)
        self.emb = Embedding(1, "ads", rule=fleet.rules.SGD(lr=1.0), initializer=zeros)
        self.w = nn.Parameter(torch.zeros(2))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.emb(ids)
        return rows

    def read(self, key: int) -> float:
        with torch.no_grad():
            return float(self.emb(torch.tensor([key]))[0, 0])


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1.0)


def policy_of(one: Trainer) -> Geo:
    policy = one.worker.policy
    assert isinstance(policy, Geo)
    return policy


def settle(one: Trainer) -> None:
    """Take over what came of the last exchange."""
    policy_of(one)._end_exchange()


def add(one: Trainer, amount: float, *keys: int) -> None:
    """A step that adds an amount to some rows and to the dense parameter."""
    model = one.model
    assert isinstance(model, Weights)
    one.optimizer.zero_grad()
    (-amount * (model(torch.tensor(keys)).sum() + model.w.sum())).backward()
    one.optimizer.step()


def row_of(services: Sequence[Service], key: int) -> float:
    """What the servers have."""
    return float(np.frombuffer(rows_of(services)[key][0], np.float32)[0])


@contextmanager
def workers(num_workers: int, k_steps: int) -> Iterator[tuple[list[Trainer], list[Service]]]:
    """Workers of one job, all used from this thread, one after the other, and their servers."""
    with served(2) as (endpoints, services):
        given = strategy("geo", k_steps=k_steps)
        made = [
            joined(endpoints, index, num_workers, model=Weights(), optimizer=sgd, strategy=given)
            for index in range(num_workers)
        ]
        entered: list[Trainer] = in_threads(*(one.__enter__ for one in made))
        try:
            yield entered, services
        finally:
            for one in made:
                one.__exit__(None, None, None)


def test_an_exchange_is_what_numpy_says() -> None:
    """Of two workers, each sends 2/3 of a row that it touched twice, and half of the dense parameters."""
    amounts = np.array([[1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60]], np.float32)
    servers = {1.5: np.float32(0), 2.0: np.float32(0)}
    own = {parts: np.zeros(2, np.float32) for parts in servers}
    start = {parts: np.zeros(2, np.float32) for parts in servers}
    server = {parts: np.zeros(2, np.float32) for parts in servers}
    heard = [0, 0]
    num_exchanges = 0
    comes_late = [True, True]  # the row, in the first window
    with workers(2, k_steps=2) as (both, _):
        for step in range(6):
            for index, one in enumerate(both):
                add(one, amounts[index, step], SHARED)
                settle(one)
                for parts in servers:
                    own[parts][index] += amounts[index, step]
                if step % 2:
                    num_exchanges += 1
                    awaited = 1 - min(num_exchanges - heard[index] - 1, 1)
                    heard[index] = num_exchanges
                    for parts in servers:
                        ahead = own[parts][index]
                        sent = np.float32((ahead - start[parts][index]) / np.float32(parts))
                        servers[parts] += sent
                        if servers[parts] == server[parts][index] + sent:  # nobody else has come yet
                            start[parts][index] = ahead if awaited or comes_late[index] else servers[parts]
                        else:
                            target = servers[parts] + np.float32((parts - 1) * awaited) * sent
                            start[parts][index] = own[parts][index] = target
                        server[parts][index] = servers[parts]
                assert isinstance(one.model, Weights)
                assert one.model.read(SHARED) == pytest.approx(own[1.5][index], rel=1e-6)
                assert one.model.w.tolist() == pytest.approx([own[2.0][index]] * 2, rel=1e-6)


def test_a_row_that_each_touches_once_gets_all_of_it() -> None:
    with workers(4, k_steps=2) as (all_of_them, _):
        for number, one in enumerate(all_of_them):
            add(one, 1.0 + number, SHARED)
            add(one, 0.0, 50 + number)
            one.fleet.flush()
        for one in all_of_them:
            assert isinstance(one.model, Weights)
            assert one.model.read(SHARED) == 10.0  # a copy of before the others came would be less


@pytest.mark.parametrize(
    ("targets", "error"), [([2.5] * 4, 0.01), ([1.0, 2.0, 3.0, 4.0], 0.4)], ids=["same target", "four targets"]
)
def test_workers_that_converge_meet_at_their_mean(targets: list[float], error: float) -> None:
    """Each worker draws a row and the dense parameters all the way to a target in each window.

    The sum of their differences is four times too much; sent by and by, it comes late, and overshoots. Where targets
    differ the first to exchange keep to their own for a window, and in turns the last counts a little more.
    """
    k_steps = 16
    with workers(4, k_steps) as (all_of_them, services):
        for number in range(6):
            for target, one in [*zip(targets, all_of_them, strict=True)] * k_steps:
                model = one.model
                assert isinstance(model, Weights)
                one.optimizer.zero_grad()
                rows = model(torch.tensor([SHARED, 100 + one.index]))
                (0.2 * ((rows - target) ** 2).sum() + 0.2 * ((model.w - target) ** 2).sum()).backward()
                one.optimizer.step()
                settle(one)
            if number != 1 or error < 0.1:
                assert row_of(services, SHARED) == pytest.approx(2.5, abs=error)
                dense = [value for service in services for part in service.state.held.read_dense() for value in part]
                assert dense == pytest.approx([2.5] * 2, abs=error)
        for target, one in zip(targets, all_of_them, strict=True):
            # A row of one worker: there is nobody to share with.
            assert row_of(services, 100 + one.index) == pytest.approx(target, abs=0.1)


class Net(nn.Module):
    """Rows of three ids and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = Embedding(4, "ads", rule=fleet.rules.Adagrad(lr=0.1))
        self.out = nn.Linear(12, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.out(self.emb(ids).flatten(1)).squeeze(1)
        return scores


def clicks(seed: int, size: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """A few ids come often, most seldom, and each has a hidden weight."""
    generator = torch.Generator().manual_seed(seed)
    ids = (torch.rand(size, 3, generator=generator) ** 4 * 300).long()
    weights = torch.sin(ids.float() * 12.9898) * 3
    return ids, (torch.rand(size, generator=generator) < torch.sigmoid(weights.sum(1))).float()


def held_out(model: nn.Module) -> float:
    ids, labels = clicks(10**6, 4096)
    with torch.no_grad():
        return float(binary_cross_entropy_with_logits(model(ids), labels))


@pytest.mark.parametrize("k_steps", [4, 40])
def test_the_held_out_loss_of_four_workers_falls(k_steps: int) -> None:
    num_steps = 120

    def work(index: int) -> Callable[[], tuple[float, float]]:
        def run() -> tuple[float, float]:
            torch.manual_seed(0)
            given = strategy("geo", k_steps=k_steps)
            with joined(endpoints, index, 4, model=Net(), strategy=given) as one:
                before = held_out(one.model)
                meeting.wait(LIMIT_S)
                for step in range(num_steps):
                    ids, labels = clicks(1000 * index + step)
                    one.optimizer.zero_grad()
                    binary_cross_entropy_with_logits(one.model(ids), labels).backward()
                    one.optimizer.step()
                one.fleet.flush()
                meeting.wait(LIMIT_S)
                one.fleet.flush()
                return before, held_out(one.model)

        return run

    meeting = threading.Barrier(4)
    with served(2) as (endpoints, _):
        for before, after in in_threads(*map(work, range(4))):
            assert before > 0.68
            assert after < 0.56

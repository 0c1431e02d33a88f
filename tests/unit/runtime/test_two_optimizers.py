"""Several optimizers in one job, stepped in turn as those of a generator and a discriminator; layers frozen late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.errors import NotReadyError, UsageError
from fleet.nn import Embedding
from fleet.ps.worker.optimizer import ServerOptimizer
from support.parity.training import joined, strategy

pytestmark = pytest.mark.timeout(60)

IDS = torch.tensor([1, 2, 3])
ALL_MODES = ["sync", "async", "half", "geo"]


class Pair(nn.Module):
    """A table and a layer that one optimizer has, and a layer that another has."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = Embedding(2, "ads", initializer=fleet.initializers.Constant(0.0))
        self.maker = nn.Linear(2, 2)
        self.judge = nn.Linear(2, 1)

    def made(self) -> torch.Tensor:
        made: torch.Tensor = self.maker(self.emb(IDS))
        return made


@contextmanager
def pair(
    given: fleet.DistributedStrategy | None = None,
) -> Iterator[tuple[Fleet, Pair, ServerOptimizer, ServerOptimizer]]:
    """A job of one worker that has joined: its model, and the optimizers of the maker and of the judge."""
    here, model = Fleet(), Pair()
    here.init(strategy=given)
    here.distributed_model(model)
    made = [*model.emb.parameters(), *model.maker.parameters()]
    both = [
        here.distributed_optimizer(torch.optim.SGD(parameters, lr=1.0, momentum=0.5))
        for parameters in (made, list(model.judge.parameters()))
    ]
    try:
        here.init_worker()
        yield here, model, *both  # type: ignore[misc]
    finally:
        here.shutdown()


def test_lookups_whose_graph_is_gone_are_not_kept_for_an_optimizer_that_does_not_step() -> None:
    with pair() as (here, model, makers, judges):
        worker = here._server_job().worker("a test")
        for _ in range(20):
            judges.zero_grad()
            model.judge(model.made().detach()).sum().backward()
            judges.step()
        assert len(worker._used) <= 1
        alive = model.made()  # one that is kept gets its gradient later
        judges.zero_grad()
        model.judge(alive.detach()).sum().backward()
        judges.step()
        before = model.emb(IDS).detach().clone()
        makers.zero_grad()
        model.judge(alive).sum().backward()
        makers.step()
        assert not torch.equal(model.emb(IDS), before)


def test_a_save_may_follow_a_step_whose_gradients_reached_the_rows_of_the_other_optimizer(tmp_path: Path) -> None:
    with pair() as (_, model, makers, judges):
        saved = fleet.Checkpoint(tmp_path, model=model, optimizer=[makers, judges])
        model.judge(model.made()).sum().backward()
        with pytest.raises(UsageError, match=r"save\(1\) comes between backward\(\) and optimizer.step\(\)"):
            saved.save(1)
        judges.step()
        saved.save(1)
        saved.close()


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_nan_of_one_optimizer_does_not_keep_the_other_from_its_step(mode: str) -> None:
    with pair(strategy(mode, k_steps=1)) as (here, model, _, judges):
        model.judge(torch.ones(1, 2)).sum().backward()
        model.maker.weight.grad = torch.full((2, 2), float("nan"))
        before = model.judge.bias.detach().clone()
        judges.step()
        here.flush()
        here.stop_worker()
        torch.testing.assert_close(model.judge.bias.detach(), before - 1.0)


@pytest.mark.parametrize("mode", ["async", "half"])
def test_merged_pushes_are_a_mean_over_those_of_their_own_optimizer(mode: str) -> None:
    with pair(strategy(mode, max_merge_var_num=4, send_queue_size=8, send_wait_times=100_000)) as here_and_all:
        here, model, makers, judges = here_and_all
        for _ in range(2):
            makers.zero_grad()
            model.emb(IDS).sum().backward()
            makers.step()
            judges.zero_grad()
            model.judge(torch.ones(1, 2)).sum().backward()
            judges.step()
        here.flush()
        assert here.server_stats()[0]["pushes"] == 1
        torch.testing.assert_close(model.emb(IDS).detach(), torch.full((3, 2), -1.0))


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_layer_that_is_frozen_late_is_not_moved_by_a_momentum(mode: str) -> None:
    model = nn.Linear(2, 1)
    groups: list[dict[str, Any]] = [{"params": [model.weight]}, {"params": [model.bias]}]
    with joined(
        model=model, optimizer=lambda _: torch.optim.Adam(groups, lr=0.1), strategy=strategy(mode, k_steps=1)
    ) as one:

        def step() -> None:
            one.optimizer.zero_grad()
            model(torch.ones(3, 2)).sum().backward()
            one.optimizer.step()

        step()
        one.fleet.flush()
        frozen, bias = model.weight.detach().clone(), model.bias.detach().clone()
        model.weight.requires_grad_(False)
        step()
        one.fleet.stop_worker()
        torch.testing.assert_close(model.weight.detach(), frozen)
        assert not torch.equal(model.bias.detach(), bias)


def test_a_rule_that_rests_without_a_gradient_lets_layers_be_frozen() -> None:
    model = nn.Linear(2, 1)
    with joined(model=model, optimizer=lambda _: torch.optim.SGD(model.parameters(), lr=0.1)) as one:
        model.weight.requires_grad_(False)
        before = model.weight.detach().clone()
        model(torch.ones(3, 2)).sum().backward()
        one.optimizer.step()
        assert torch.equal(model.weight, before)


def test_a_checkpoint_of_an_earlier_stay_is_refused(tmp_path: Path) -> None:
    """It would write what the servers had then."""
    with joined(model=nn.Linear(2, 1)) as one:
        saved = fleet.Checkpoint(tmp_path, model=one.model, optimizer=one.optimizer)
        one.fleet.stop_worker()
        with pytest.raises(NotReadyError, match=r"checkpoint.save\(1\): this worker has left the servers"):
            saved.save(1)
        one.fleet.init_worker()
        for call, name in ((lambda: saved.save(2), r"save\(2\)"), (saved.load, r"load\(\)")):
            with pytest.raises(NotReadyError, match=f"checkpoint.{name}: this fleet.Checkpoint was made before"):
                call()

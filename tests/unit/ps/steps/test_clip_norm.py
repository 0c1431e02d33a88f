"""Clipping beside servers is that of one process: `strategy.clip_norm`, and torch's own call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm

from fleet.errors import NotSupportedError, UsageError
from fleet.net import Endpoint
from fleet.nn import Embedding
from fleet.ps.held.holdings import Holdings
from fleet.ps.held.mean_norm import mean_squared_norm
from fleet.ps.held.requests import PushedUpdate, TableUpdate
from fleet.ps.job.clip_factor import factor_of
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.worker.modes.sync import Sync
from support.parity.training import in_threads, joined, served, strategy, trainer
from support.plane.pushes import pushed
from support.worker.clipped import (
    NORMAL,
    WIDTHS,
    Make,
    Tower,
    assert_alike,
    batch_of,
    one_optimizer,
    plain_rows,
    served_rows,
    train_plain,
    train_served,
    two_optimizers,
    values_of,
)

pytestmark = pytest.mark.timeout(120)

MAX_NORM = 0.7
STEPS = 6
STEPS_OF = {
    workers: [[batch_of(step, one) for one in range(workers)] for step in range(STEPS)] for workers in (1, 2, 3)
}


def by_optimizer(_: Tower, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """As `strategy.clip_norm` does: what each step applies."""
    for optimizer in optimizers:
        clip_grad_norm_([one for group in optimizer.param_groups for one in group["params"]], MAX_NORM)


def by_torch(model: Tower, _: Sequence[torch.optim.Optimizer]) -> None:
    clip_grad_norm_(model.parameters(), MAX_NORM)


def nothing(*_: object) -> None:
    """No clipping."""


def work(
    endpoints: Sequence[Endpoint], make: Make, worker: int, num_workers: int, clip: Any, **fields: Any
) -> dict[str, torch.Tensor]:
    """One worker of a job; what it has in the end."""
    mode = fields.pop("mode", "sync")
    made: list[torch.optim.Optimizer] = []
    model = Tower(served_rows)
    given = make(model)
    one = trainer(
        endpoints,
        worker,
        num_workers,
        strategy=strategy(mode, k_steps=1, **fields),
        model=model,
        optimizer=lambda _: given[0],
    )
    made = [one.optimizer, *(one.fleet.distributed_optimizer(other) for other in given[1:])]
    with ExitStack() as stack:
        stack.callback(one.fleet.shutdown)
        one.fleet.init_worker()
        train_served(one, made, [batches[worker] for batches in STEPS_OF[num_workers]], clip)
        one.worker.policy.flush()
        if mode != "sync":
            one.worker.policy.refresh()
        found = values_of(model)
        one.fleet.stop_worker()
    return found


@pytest.mark.parametrize("make", [one_optimizer, two_optimizers])
@pytest.mark.parametrize(("num_workers", "num_servers"), [(1, 2), (2, 1), (2, 2), (3, 2)])
def test_the_norm_of_the_mean_is_limited_as_in_one_process(make: Make, num_workers: int, num_servers: int) -> None:
    wanted = values_of(train_plain(make, STEPS_OF[num_workers], by_optimizer))
    loose = values_of(train_plain(make, STEPS_OF[num_workers], nothing))
    assert any((wanted[name] - loose[name]).abs().max() > 0.01 for name in wanted), "the limit must be met"
    with served(num_servers) as (endpoints, _):
        found = in_threads(
            *(
                partial(work, endpoints, make, one, num_workers, nothing, clip_norm=MAX_NORM)
                for one in range(num_workers)
            )
        )
    for one in found:
        assert_alike(one, wanted)


SUM = {"scale_strategy": "sum"}


@pytest.mark.parametrize("max_norm", [None, MAX_NORM])
def test_a_step_may_apply_the_sum_over_its_workers(max_norm: float | None) -> None:
    """A worker that is there more, or less, then changes nothing for what the others have sent."""

    def summed(model: Tower, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        for one in model.parameters():
            if one.grad is not None:
                one.grad.mul_(2)
        if max_norm is not None:
            by_optimizer(model, optimizers)

    fields = {"gradient_scale_configs": SUM} | ({} if max_norm is None else {"clip_norm": max_norm})
    wanted = values_of(train_plain(one_optimizer, STEPS_OF[2], summed))
    with served(2) as (endpoints, _):
        for one in in_threads(
            *(partial(work, endpoints, one_optimizer, one, 2, nothing, **fields) for one in range(2))
        ):
            assert_alike(one, wanted)


def test_a_sum_is_refused_where_there_is_none() -> None:
    with served(1) as (endpoints, _):
        for fields, why in (({"mode": "async"}, "counts by itself in async"), ({"dense": "allreduce"}, "averaged by")):
            with pytest.raises(UsageError, match=f"scale_strategy = 'sum': .*{why}"):
                work(endpoints, one_optimizer, 0, 2, nothing, gradient_scale_configs=SUM, **fields)


@pytest.mark.parametrize("make", [one_optimizer, two_optimizers])
@pytest.mark.parametrize("num_servers", [0, 2])
def test_torchs_call_clips_rows_and_layers_by_one_norm(make: Make, num_servers: int) -> None:
    wanted = values_of(train_plain(make, STEPS_OF[1], by_torch))
    with served(num_servers) as (endpoints, _):
        assert_alike(work(endpoints, make, 0, 1, by_torch), wanted)


@pytest.mark.parametrize("mode", ["half", "geo"])
@pytest.mark.parametrize("how", ["strategy", "torch"])
def test_in_other_modes_each_worker_limits_its_own_gradients(mode: str, how: str) -> None:
    """With one worker that is what one process does."""
    wanted = values_of(train_plain(one_optimizer, STEPS_OF[1], by_torch))
    fields = {"clip_norm": MAX_NORM} if how == "strategy" else {}
    with served(2) as (endpoints, _):
        found = work(endpoints, one_optimizer, 0, 1, nothing if fields else by_torch, mode=mode, **fields)
    assert_alike(found, wanted)


def test_workers_that_pass_or_leave_have_no_share_in_the_mean() -> None:
    """Of three workers one has no batch left after two steps, and one leaves after four."""
    trained = {0: STEPS, 1: 4, 2: 2}
    steps = [
        [batch for one, batch in enumerate(batches) if step < trained[one]] for step, batches in enumerate(STEPS_OF[3])
    ]
    wanted = values_of(train_plain(one_optimizer, steps, by_optimizer))

    def part(endpoints: Sequence[Endpoint], worker: int) -> dict[str, torch.Tensor]:
        made, model = strategy(clip_norm=MAX_NORM), Tower(served_rows)
        with joined(
            endpoints, worker, 3, strategy=made, model=model, optimizer=lambda _: one_optimizer(model)[0]
        ) as one:
            own = [batches[worker] for batches in STEPS_OF[3]][: trained[worker]]
            train_served(one, [one.optimizer], own, nothing)
            if worker == 2:
                assert isinstance(one.worker.policy, Sync)
                for _ in range(STEPS - 2):
                    one.worker.policy.pass_on(2)
                one.worker.policy.refresh()
            found = values_of(model)
            one.fleet.stop_worker()
        return found

    with served(2) as (endpoints, _):
        found = in_threads(*(partial(part, endpoints, one) for one in range(3)))
    assert_alike(found[0], wanted)
    assert_alike(found[2], wanted)


class Twice(nn.Module):
    """Two modules that share a table, in a model that is called twice in a step."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = (self.first(ids) * 3 + self.second(ids.flip(0))).sum() + self.first(
            ids[:1]
        ).square().sum()
        return found


@pytest.mark.parametrize("how", ["strategy", "torch"])
def test_gradients_of_a_row_that_is_looked_up_several_times_are_added_first(how: str) -> None:
    ids = torch.tensor([[1, 1, 2], [2, 3, 1]])
    plain = Twice(table := plain_rows("users"), table)
    model = Twice(served_rows("users"), served_rows("users"))
    fields: dict[str, Any] = {"clip_norm": MAX_NORM} if how == "strategy" else {}
    with joined(
        model=model, optimizer=lambda net: torch.optim.SGD(net.parameters(), lr=0.5), strategy=strategy(**fields)
    ) as one:
        for net, optimizer in ((plain, torch.optim.SGD(plain.parameters(), lr=0.5)), (model, one.optimizer)):
            for _ in range(2):
                optimizer.zero_grad()
                for _ in range(2):
                    net(ids).backward()
                if net is plain or how == "torch":
                    found = clip_grad_norm_(net.parameters(), MAX_NORM)
                    assert found > MAX_NORM
                optimizer.step()
        torch.testing.assert_close(model.first(ids).detach(), plain.first(ids).detach(), atol=1e-6, rtol=0)


def refused(endpoints: Sequence[Endpoint], num_workers: int, clip: Any) -> list[str]:
    """What each worker is told at its first step."""

    def told(worker: int) -> str:
        with pytest.raises(UsageError) as caught:
            work(endpoints, one_optimizer, worker, num_workers, clip)
        return str(caught.value)

    return in_threads(*(partial(told, one) for one in range(num_workers)))


def test_torchs_call_says_what_to_do_in_a_step_of_several_workers() -> None:
    def only_layers(model: Tower, _: Sequence[torch.optim.Optimizer]) -> None:
        clip_grad_norm_(model.layers(), MAX_NORM)

    def only_rows(model: Tower, _: Sequence[torch.optim.Optimizer]) -> None:
        clip_grad_norm_(model.rows(), MAX_NORM)

    for clip in (by_torch, only_layers, only_rows):
        with served(1) as (endpoints, _):
            for text in refused(endpoints, 2, clip):
                assert text.endswith("take the call out, and set strategy.clip_norm to its max_norm")


def test_the_norm_may_be_looked_at_and_gradients_changed_in_a_step_of_several_workers() -> None:
    found: list[torch.Tensor] = []

    def halve(model: Tower, _: Sequence[torch.optim.Optimizer]) -> None:
        found.append(get_total_norm([one.grad for one in model.parameters() if one.grad is not None]))
        for one in model.parameters():
            assert one.grad is not None
            one.grad.mul_(0.5)

    wanted = values_of(train_plain(one_optimizer, STEPS_OF[2], halve))
    with served(2) as (endpoints, _):
        for one in in_threads(*(partial(work, endpoints, one_optimizer, one, 2, halve) for one in range(2))):
            assert_alike(one, wanted)
    assert all(0 < one < 100 for one in found)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_values_of_gradients_cannot_be_cut(num_workers: int) -> None:
    def cut(model: Tower, _: Sequence[torch.optim.Optimizer]) -> None:
        clip_grad_value_(model.parameters(), 0.1)

    with served(1) as (endpoints, _):
        for text in refused(endpoints, num_workers, cut):
            assert text.startswith("torch.nn.utils.clip_grad_value_ reaches neither")


def test_what_cannot_be_limited_is_refused_before_it_is_declared() -> None:
    with pytest.raises(NotSupportedError, match=r"strategy.clip_value is for collective jobs"):
        work([], one_optimizer, 0, 1, nothing, clip_value=1.0)
    with served(1) as (endpoints, _):
        for fields, why in (
            ({"dense": "allreduce"}, "nobody has the gradients of rows and layers"),
            ({"wait_for_workers_s": 5.0}, "leave out strategy.wait_for_workers_s"),
        ):
            with pytest.raises(UsageError, match=f"strategy.clip_norm = 0.7: .*{why}"):
                work(endpoints, one_optimizer, 0, 2, nothing, clip_norm=MAX_NORM, **fields)


def test_workers_must_agree_on_the_limit() -> None:
    with (
        served(1) as (endpoints, _),
        joined(endpoints, 0, 2, model=Tower(served_rows), strategy=strategy(clip_norm=1.0)),
    ):
        with pytest.raises(UsageError, match=r"clip_norm is 2.0 here, 1.0 in the declaration of the others"):
            work(endpoints, one_optimizer, 1, 2, nothing, clip_norm=2.0)


def test_hot_rows_are_limited_too() -> None:
    """Rows that are trained beside the model are part of the same norm."""

    def cached(name: str) -> nn.Module:
        return Embedding(WIDTHS[name], table=name, initializer=NORMAL, cache="gpu", cache_rows=5)

    wanted = values_of(train_plain(one_optimizer, STEPS_OF[1], by_torch))
    model = Tower(cached)
    with joined(model=model, optimizer=lambda _: one_optimizer(model)[0], strategy=strategy(clip_norm=MAX_NORM)) as one:
        train_served(one, [one.optimizer], [batches[0] for batches in STEPS_OF[1]], nothing)
        assert_alike(values_of(model), wanted)


def test_what_is_left_out_has_no_share_in_the_norm() -> None:
    """With `nonfinite_gradients = "skip"`: rows with a NaN, and dense groups."""
    tables = tuple(TableSpec(name, 2, RuleSpec("sgd"), NORMAL, AlwaysEntry()) for name in ("a", "b"))
    blocks = (DenseBlock("w", 0, 2, 0, 0), DenseBlock("v", 0, 1, 0, 1), DenseBlock("mean", 0, 1, 0, 2))
    shapes = (("w", (2,)), ("v", (1,)), ("mean", (1,)))
    dense = DenseSpec((RuleSpec("sgd"), RuleSpec("sgd"), RuleSpec("average")), shapes, blocks)
    job = JobSpec(2, 1, "sync", "skip", tables, dense, clip_norm=1.0)
    nan = float("nan")

    def update(worker: int, rows: list[list[float]], last: float) -> PushedUpdate:
        part = TableUpdate(worker, 0.1, np.array([4, 5]), np.array(rows, np.float32))
        layers = {0: [2.0, 0.0], 1: [last], 2: [1000.0]}
        dense = {group: np.array(one, np.float32) for group, one in layers.items()}
        return pushed(job, worker, 0, [part], dense)

    updates = [update(0, [[nan, 1.0], [6.0, 0.0]], nan), update(1, [[0.0, 8.0], [0.0, 0.0]], 7.0)]
    assert mean_squared_norm(updates, job, Holdings(job, 0).native) == (6.0 / 2) ** 2 + (8.0 / 2) ** 2 + 2.0**2
    assert factor_of(job.clip_norm, 29.0) == pytest.approx(1 / 29**0.5, rel=1e-6)

"""A parameter without a part in the loss stays as it is beside servers, with its momentum and count: as in torch."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet
from fleet.net import Endpoint
from fleet.ps.durable import durability
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.named_spec import RuleSpec
from fleet.ps.job.spec import JobSpec
from fleet.ps.server.service import Service
from fleet.ps.worker.sending.gradients import Gradients
from fleet.ps.worker.sending.merge import merged
from support.durable.server_state import everything
from support.parity.training import Trainer, in_threads, served, strategy, trainer
from support.worker.clipped import (
    Batch,
    Make,
    Tower,
    assert_alike,
    batch_of,
    loss_of,
    one_optimizer,
    served_rows,
    train_plain,
    train_served,
    two_optimizers,
    values_of,
)

pytestmark = pytest.mark.timeout(120)

STEPS = 9


def nothing(*_: object) -> None:
    """No clipping."""


def adams(model: Tower) -> list[torch.optim.Optimizer]:
    """Layers of one optimizer in two groups, whose rules keep momentum and a count of steps."""
    branch = {id(one) for one in model.branch.parameters()}
    groups: list[dict[str, Any]] = [
        {"params": [one for one in model.layers() if id(one) in branch], "lr": 0.03},
        {"params": [one for one in model.layers() if id(one) not in branch]},
    ]
    return [
        torch.optim.Adagrad(model.rows(), lr=0.1, initial_accumulator_value=0.1),
        torch.optim.Adam(groups, lr=0.05, weight_decay=0.1, amsgrad=True),
    ]


def damped(model: Tower) -> list[torch.optim.Optimizer]:
    """A momentum whose first gradient is another case."""
    rows = torch.optim.Adagrad(model.rows(), lr=0.1, initial_accumulator_value=0.1)
    return [rows, torch.optim.SGD(model.layers(), lr=0.02, momentum=0.9, dampening=0.5)]


def uses(step: int, worker: int) -> bool:
    """The branch: by everybody in every third step, by worker 1 in every third, by nobody otherwise."""
    return step % 3 == 1 or (step % 3 == 2 and worker == 1)


def batches(num_workers: int, steps: range = range(STEPS)) -> list[list[Batch]]:
    return [
        [
            batch_of(step, one, uses_branch=uses(step, one if num_workers > 1 else step % 2))
            for one in range(num_workers)
        ]
        for step in steps
    ]


def joins(
    stack: ExitStack, endpoints: list[Endpoint], make: Make, worker: int, num_workers: int, **fields: Any
) -> tuple[Trainer, list[torch.optim.Optimizer]]:
    """A worker that has joined, and its optimizers."""
    model = Tower(served_rows)
    given = make(model)
    mode = fields.pop("mode", "sync")
    one = trainer(
        endpoints,
        worker,
        num_workers,
        strategy=strategy(mode, k_steps=1, **fields),
        model=model,
        optimizer=lambda _: given[0],
    )
    stack.callback(one.fleet.shutdown)
    optimizers = [one.optimizer, *(one.fleet.distributed_optimizer(other) for other in given[1:])]
    one.fleet.init_worker()
    return one, optimizers


def work(
    endpoints: list[Endpoint], make: Make, worker: int, num_workers: int, zero: dict[str, bool], **fields: Any
) -> dict[str, torch.Tensor]:
    with ExitStack() as stack:
        one, optimizers = joins(stack, endpoints, make, worker, num_workers, **fields)
        train_served(one, optimizers, [step[worker] for step in batches(num_workers)], nothing, **zero)
        one.worker.policy.flush()
        assert isinstance(one.model, Tower)
        found = values_of(one.model)
        one.fleet.stop_worker()
    return found


@pytest.mark.parametrize("make", [adams, two_optimizers, damped, one_optimizer])
@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_branch_that_is_not_used_rests(make: Make, num_workers: int, set_to_none: bool) -> None:
    wanted = values_of(train_plain(make, batches(num_workers), nothing, set_to_none=set_to_none))
    other = values_of(train_plain(make, batches(num_workers), nothing, set_to_none=not set_to_none))
    assert make is one_optimizer or not torch.allclose(wanted["branch.weight"], other["branch.weight"], atol=1e-4)
    zero = {"set_to_none": set_to_none}
    with served(2) as (endpoints, _):
        for found in in_threads(
            *(partial(work, endpoints, make, one, num_workers, zero) for one in range(num_workers))
        ):
            assert_alike(found, wanted)


@pytest.mark.parametrize("fields", [{"mode": "half"}, {"mode": "geo"}, {"dense": "allreduce"}], ids=str)
def test_in_every_mode(fields: dict[str, str]) -> None:
    wanted = values_of(train_plain(adams, batches(1), nothing))
    with served(2) as (endpoints, _):
        assert_alike(work(endpoints, adams, 0, 1, {}, **fields), wanted)


def test_counts_of_steps_are_saved_for_any_number_of_servers(tmp_path: Path) -> None:
    """Each parameter has its own since it sat out a step."""
    wanted = values_of(train_plain(adams, batches(1), nothing))
    middle = 5
    with served(2) as (endpoints, _), ExitStack() as stack:
        one, optimizers = joins(stack, endpoints, adams, 0, 1)
        train_served(one, optimizers, [step[0] for step in batches(1, range(middle))], nothing)
        one.fleet.save_persistables(tmp_path / "saved")
        one.fleet.stop_worker()
    with served(3) as (endpoints, _), ExitStack() as stack:
        one, optimizers = joins(stack, endpoints, adams, 0, 1)
        one.fleet.load_model(tmp_path / "saved")
        train_served(one, optimizers, [step[0] for step in batches(1, range(middle, STEPS))], nothing)
        assert isinstance(one.model, Tower)
        assert_alike(values_of(one.model), wanted)
        one.fleet.stop_worker()


@pytest.mark.parametrize("snapshot_bytes", [2000, 1 << 30])
def test_servers_that_died_know_who_rested_and_what_was_scaled(
    snapshot_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From records alone, and from a snapshot with records after it."""
    monkeypatch.setattr(durability, "SNAPSHOT_BYTES", snapshot_bytes)
    folders = [tmp_path / f"server-{server}" for server in range(2)]
    with served([Service(journal=(folder, "OS")) for folder in folders]) as (endpoints, services):
        in_threads(*(partial(work, endpoints, adams, one, 2, {}, clip_norm=0.7) for one in range(2)))
        for folder, service in zip(folders, services, strict=True):
            assert service.core.durability is not None
            with service.core.durability.snapshotting:
                copy = shutil.copytree(folder, tmp_path / f"died-{folder.name}", ignore=shutil.ignore_patterns("lock"))
            again = Service(journal=(copy, "OS"))
            again.close()
            assert everything(again) == everything(service)


def test_with_fewer_bytes_what_was_not_sent_of_it_stays() -> None:
    """Rounding leaves some of every gradient for the next step: not for one that the parameter is absent from."""
    configs = fleet.DistributedStrategy().wire_configs
    configs.dense_gradients = "int8"
    found: list[tuple[bytes, bool, list[float]]] = []
    with served(2) as (endpoints, _), ExitStack() as stack:
        one, optimizers = joins(stack, endpoints, adams, 0, 1, wire_configs=configs)
        residuals = one.worker.client.encoder._residuals
        for uses_branch in (True, False):
            train_served(one, optimizers, [batch_of(0, 0, uses_branch=uses_branch)], nothing)
            assert isinstance(one.model, Tower)
            left = [residuals[server, 0] for server in range(2)]
            values = one.model.branch.weight.detach().flatten().tolist()
            found.append((b"".join(part.tobytes() for part in left), any(part.any() for part in left), values))
        one.fleet.stop_worker()
    assert found[0] == found[1]
    assert found[0][1], "there is something left"


JOB = JobSpec(
    2,
    1,
    "sync",
    dense=DenseSpec(
        (RuleSpec("adam"), RuleSpec("adam")),
        (("a", (2,)), ("b", (3,)), ("c", (4,))),
        (DenseBlock("a", 0, 2, 0, 0), DenseBlock("b", 0, 3, 0, 0), DenseBlock("c", 0, 4, 0, 1)),
    ),
)


def test_what_several_pushes_lack_their_sum_lacks() -> None:
    both, first = {0: 0.1, 1: 0.1}, {0: 0.1}
    five, four = np.zeros(5, np.float32), np.zeros(4, np.float32)
    sent = [
        Gradients(0, dense=[[five, four]], lrs=both, absent=(1, 2)),
        Gradients(1, dense=[[five]], lrs=first, absent=(0, 1)),
    ]
    (one,) = merged(sent, JOB)
    assert one.absent == (1, 2), "the second has nothing of the group of c"


def test_zeros_and_none_mean_rows_too() -> None:
    """`model.zero_grad()` in both forms, between `backward()` and `step()`."""
    for set_to_none in (True, False):
        with ExitStack() as stack:
            one, optimizers = joins(stack, [], one_optimizer, 0, 1)
            loss_of(one.model, batch_of(0, 0)).backward()
            one.model.zero_grad(set_to_none)
            optimizers[0].step()
            assert [table["rows"] for table in one.stats()[0]["tables"].values()] == [0, 0]

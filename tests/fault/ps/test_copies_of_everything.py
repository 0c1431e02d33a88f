"""A copy follows all that a job does: tables, optimizers, a norm, rows by value and on a disk, shrinks, loads."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

import fleet
from support.durable.second_copies import Copied
from support.durable.server_state import everything
from support.jobs import LIMIT_S
from support.parity.training import Trainer, started, strategy, trainer
from support.processes import wait_until
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(120)
NUM_IDS, BATCH = 9_000, 600


class Net(nn.Module):
    """A table with rows on a disk, one with another rule, and layers of two optimizers."""

    def __init__(self) -> None:
        super().__init__()
        self.many = fleet.nn.Embedding(32, "many", rule=fleet.rules.Adam(0.01), memory="1MiB")
        self.few = fleet.nn.Embedding(4, "few", rule=fleet.rules.Adagrad(0.1))
        self.first, self.second = nn.Linear(36, 8), nn.Linear(8, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.second(self.first(torch.cat([self.many(ids), self.few(ids % 50)], dim=1)))
        return found.squeeze(1)


def step(one: Trainer, other: torch.optim.Optimizer, number: int) -> None:
    """One of both optimizers, each with a push of its own."""
    ids = torch.randint(0, NUM_IDS, (BATCH,), generator=torch.Generator().manual_seed(number))
    for optimizer in (one.optimizer, other):
        optimizer.zero_grad()
        nn.functional.mse_loss(one.model(ids), (ids % 2).float()).backward()
        optimizer.step()
        one.worker.policy.flush()


def complains(job: Copied, server: int) -> bool:
    """Whether a server has said that it misses its copy."""
    return job.servers[server].complaint is not None


@pytest.mark.parametrize("mode", sweep(["sync", "async"], sample=lambda mode: mode == "async"))
def test_a_copy_follows_everything_that_is_done_to_its_server(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path / "worker"))
    monkeypatch.setenv("FLEET_STANDBY", "SYNC")
    tables = {"FLEET_TABLE_DIR": str(tmp_path / "tables")}
    with Copied(tmp_path, 2, **tables) as job:
        how = strategy(mode, clip_norm=1.0) if mode == "sync" else strategy(mode)
        model = Net()
        one = trainer(
            job.endpoints,
            strategy=how,
            model=model,
            optimizer=lambda _: torch.optim.Adam([*model.first.parameters(), *model.many.parameters()], lr=0.01),
        )
        others = [*model.second.parameters(), *model.few.parameters()]
        other = one.fleet.distributed_optimizer(torch.optim.SGD(others, lr=0.1))
        one.fleet.init_worker()
        try:
            for number in range(6):
                step(one, other, number)
            copies = [job.add_copy(server) for server in range(2)]
            one.fleet.save_persistables(tmp_path / "saved")
            keys = torch.arange(0, NUM_IDS, 3)
            one.worker.client.assign(0, keys, torch.ones(len(keys), 32))
            step(one, other, 6)
            assert one.fleet.shrink("many", unseen_steps=4) > 0
            loading = started(lambda: one.fleet.load_model(tmp_path / "saved"))[0]
            for server in range(2):  # a checkpoint is no record: copies are filled anew, and the load waits
                wait_until(partial(complains, job, server), LIMIT_S, "a server to miss its copy")
                job.drop_copy(server)
            loading.result(LIMIT_S)
            for number in range(7, 10):
                step(one, other, number)
            for copy in copies:
                job.list_copy(copy)
            one.fleet.shrink("many", unseen_steps=2)
            step(one, other, 10)
            job.servers[1].burn()
            job.promote(1)
            step(one, other, 11)
            job.servers[0].kill()
            copies[0].kill()
            assert everything(copies[0].state()) == everything(job.servers[0].state())
        finally:
            one.fleet.shutdown()

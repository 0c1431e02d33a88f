"""Running statistics of batch norm: in every mode all workers come to the mean of what each has seen."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from support.parity.beside_servers import Member, Recipe, run

pytestmark = pytest.mark.timeout(60)
MOMENTUM, STEPS = 0.25, 48


class Normed(nn.Module):
    """A batch norm over what the batch is: worker w's have the mean w."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3, momentum=MOMENTUM)
        self.out = nn.Linear(3, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.norm(inputs))
        return result


def strategy(**settings: Any) -> fleet.DistributedStrategy:
    made = fleet.DistributedStrategy()
    made.a_sync = bool(settings.get("a_sync"))
    made.dense = settings.get("dense", "server")
    for name in ("half_async", "k_steps", "max_merge_var_num"):
        if name in settings:
            made.a_sync_configs[name] = settings[name]
    return made


MODES = {
    "sync": strategy(),
    "sync, all-reduce": strategy(dense="allreduce"),
    "async": strategy(a_sync=True),
    "async, merged": strategy(a_sync=True, max_merge_var_num=2),
    "half-async": strategy(a_sync=True, half_async=True),
    "geo": strategy(a_sync=True, k_steps=2),
}


def inputs(worker: int) -> torch.Tensor:
    return worker + torch.tensor([[1.0], [-1.0], [2.0], [-2.0]]).expand(4, 3)


def trained(mode: str, num_workers: int, num_servers: int) -> list[Any]:
    recipe = Recipe(
        lambda model: torch.optim.SGD(model.parameters(), lr=0.0),
        model=Normed,
        loss=lambda model, batch: model(batch).sum(),
        strategy=MODES[mode],
    )

    together = threading.Barrier(num_workers, timeout=30)

    def work(member: Member) -> nn.Module:
        for _ in range(STEPS):  # side by side: the statistics are of the last batches
            member.train([inputs(member.index)])
            member.worker.policy.flush()
            together.wait()
        return member.model

    return run(num_workers, num_servers, recipe, work)


@pytest.mark.parametrize("mode", MODES)
def test_workers_have_the_mean(mode: str) -> None:
    models = trained(mode, 2, 2)
    for model in models:  # they have left the servers with what these hold
        torch.testing.assert_close(model.norm.running_mean, torch.full((3,), 0.5), atol=0.25, rtol=0)
        torch.testing.assert_close(model.norm.running_var, inputs(0).var(0), atol=1e-2, rtol=0)
    if mode.startswith("sync"):
        torch.testing.assert_close(models[0].norm.running_mean, torch.full((3,), 0.5))
        assert torch.equal(models[0].norm.running_mean, models[1].norm.running_mean)


@pytest.mark.parametrize("mode", ["sync", "half-async"])
def test_one_worker_has_torch_s_own_bit_for_bit(mode: str) -> None:
    (model,) = trained(mode, 1, 2)
    plain: Any = Normed()
    for _ in range(STEPS):
        plain(inputs(0))
    assert torch.equal(model.norm.running_mean, plain.norm.running_mean)
    assert torch.equal(model.norm.running_var, plain.norm.running_var)

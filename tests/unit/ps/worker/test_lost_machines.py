"""A worker whose machine is lost while it sends, with all that it had written down: where nobody waits for others."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.ps.journal.writer import Policy
from fleet.ps.server.service import Service
from fleet.ps.wire.calls import ServerCall
from fleet.ps.worker.calling import requests
from fleet.ps.worker.calling.server_set import ServerSet
from support.parity.training import Trainer, exported, joined, served, strategy, trainer

NUM_IDS, BATCH, NUM_STEPS, LOST_AT = 60, 8, 12, 5
MODES = {
    "async": strategy("async", send_queue_size=1),
    "merged": strategy("async", max_merge_var_num=2, send_wait_times=1000, send_queue_size=4),
    "half": strategy("half", max_merge_var_num=2),
    "geo": strategy("geo", k_steps=2),
}
pytestmark = pytest.mark.timeout(120)


class LostError(Exception):
    """The machine is gone."""


class Counts(nn.Module):
    """How often each id was trained."""

    def __init__(self) -> None:
        super().__init__()
        zeros = fleet.initializers.Constant(0.0)
        self.times = fleet.nn.Embedding(1, "times", rule=fleet.rules.SGD(lr=1.0), initializer=zeros)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.times(ids)
        return found


def ids_of(step: int) -> torch.Tensor:
    return (torch.arange(BATCH) * 7 + 5 * step) % NUM_IDS


def train(one: Trainer, num_steps: int) -> None:
    for step in range(one.fleet.steps_done(), num_steps):
        one.optimizer.zero_grad()
        (-one.model(ids_of(step)).sum()).backward()
        one.optimizer.step()
    one.worker.policy.flush()


def counted(services: Sequence[Service]) -> dict[int, float]:
    found = [exported(service) for service in services]
    return {int(key): float(row[0]) for one in found for key, row in zip(one["keys"], one["values"], strict=True)}


def lost_when(has: set[int], at: int) -> Callable[..., list[ServerCall]]:
    """Makes the calls of a worker that is lost when these servers have its push with step `at`, and no others."""

    def calls_to(server_set: ServerSet, method: str, messages: Any, timeout_s: float, servers: Any, **more: Any) -> Any:
        if method != "Push" or messages[0][0].steps < at:
            return real(server_set, method, messages, timeout_s, servers, **more)
        for call in real(server_set, method, messages, timeout_s, [one for one in servers if one in has], **more):
            call.result()
        raise LostError

    real = requests.calls_to
    return calls_to


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("has", [(), (0,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_each_step_counts_once_on_each_server(
    mode: str, has: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the lost life sent last is on some servers only: the next one makes those steps again for the others."""
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path / "worker"))
    given: dict[str, Any] = {
        "strategy": MODES[mode],
        "optimizer": lambda model: torch.optim.SGD(model.parameters(), 1.0),
    }
    wanted = Counter(int(one) for step in range(NUM_STEPS) for one in ids_of(step))
    journals: list[tuple[Path, Policy]] = [(tmp_path / f"server-{server}", "OS") for server in range(3)]
    with served([Service(journal=journal) for journal in journals]) as (endpoints, services):
        for at in (LOST_AT, LOST_AT + 2):  # twice, and nothing is learned in between
            dying = trainer(endpoints, model=Counts(), **given)
            dying.fleet.init_worker()
            with monkeypatch.context() as patch, pytest.raises(LostError):
                patch.setattr(requests, "calls_to", lost_when(set(has), at))
                train(dying, NUM_STEPS)
            dying.fleet.shutdown()
            shutil.rmtree(tmp_path / "worker")
        with joined(endpoints, model=Counts(), **given) as one:
            train(one, NUM_STEPS)
        assert counted(services) == wanted
    recovered = [Service(journal=journal) for journal in journals]
    for service in recovered:
        service.close()
    assert counted(recovered) == wanted

"""What must not disturb synchronous training: prefetching, evaluation, saving, dense parameters kept by the workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.ps.wire.transport import Transport
from fleet.runtime.saved import saving
from support.parity.around import CTR, RULES, Batch, batches, loss_of, worst_error
from support.parity.beside_servers import Member, Recipe, run, train
from support.parity.plain import train_plain
from support.parity.saved import differences, saved
from support.sweeps import sweep


@pytest.mark.parametrize("num_workers", [1, 4])
@pytest.mark.parametrize("rule", RULES)
def test_prefetching_changes_nothing(rule: str, num_workers: int, tmp_path: Path) -> None:
    recipe, data = Recipe(RULES[rule]), batches(20)
    losses = train(num_workers, 2, recipe, data, save=tmp_path / "plain")
    assert losses == train(num_workers, 2, recipe.prefetched(), data, save=tmp_path / "prefetched")
    assert differences(saved(tmp_path / "prefetched"), saved(tmp_path / "plain")) == []


@pytest.mark.parametrize("again", [True, False], ids=["prefetching", "without prefetching"])
def test_rows_prefetched_for_a_batch_that_was_left_out_are_not_used_later(again: bool) -> None:
    """An epoch that ends early has pulled rows of a batch that it did not train; the next epoch pulls them anew."""
    data = batches(6)

    def work(member: Member) -> list[float]:
        own = [batch.share(member.index, 2) for batch in data]
        keys, losses = member.recipe.keys, []
        for number, batch in enumerate(own if keys is None else fleet.prefetch(own, member.model, keys=keys)):
            losses.append(member.learn(batch))
            member.step()
            if number == 2:
                break
        member.recipe = replace(member.recipe, keys=keys if again else None)
        return losses + member.train(own)

    recipe = Recipe(RULES["sgd"])
    assert run(2, 2, recipe, work) == run(2, 2, recipe.prefetched(), work)


def test_evaluation_leaves_tables_alone(tmp_path: Path) -> None:
    data, unseen = batches(20), batches(5, seed=6)

    def work(member: Member) -> None:
        own = [batch.share(member.index, 2) for batch in data]
        member.train(own[:10])
        member.model.eval()
        evaluated = [loss_of(member.model, batch._replace(ids=batch.ids + 1)).item() for batch in unseen]
        member.model.train()
        with torch.no_grad():
            assert evaluated == [loss_of(member.model, batch._replace(ids=batch.ids + 1)).item() for batch in unseen]
        member.train(own[10:])

    run(2, 2, Recipe(RULES["adam"]), work, save=tmp_path / "evaluated")
    train(2, 2, Recipe(RULES["adam"]), data, save=tmp_path / "plain")
    assert differences(saved(tmp_path / "evaluated"), saved(tmp_path / "plain")) == []


@pytest.mark.parametrize(
    ("num_workers", "rule"), sweep([2, 4], RULES, sample=lambda workers, rule: workers == 2 or rule == "adam")
)
def test_dense_parameters_may_stay_with_the_workers(rule: str, num_workers: int) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.dense = "allreduce"
    expected, _ = train_plain(RULES[rule], batches())
    losses = train(num_workers, 2, Recipe(RULES[rule], strategy=strategy), batches())
    assert worst_error(losses, expected) < 1e-5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tables_of_half_precision_train(dtype: str, tmp_path: Path) -> None:
    def model() -> CTR:
        return CTR(dtype=dtype)

    exact = train(2, 1, Recipe(RULES["adagrad"]), batches())
    one = train(2, 1, Recipe(RULES["adagrad"], model=model), batches(), save=tmp_path / "1")
    assert one == train(2, 3, Recipe(RULES["adagrad"], model=model), batches(), save=tmp_path / "3")
    state = saved(tmp_path / "1")
    assert differences(saved(tmp_path / "3"), state) == []
    assert state["table ids, values"].dtype == "uint16"
    assert worst_error(one, exact) < (1e-2 if dtype == "bfloat16" else 1e-3)
    assert sum(one[-10:]) < sum(one[:10]) - 0.2


class TablesOnly(nn.Module):
    """A model without dense parameters: a step has nothing to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = fleet.nn.Embedding(1, table="ids", pooling="sum")

    def forward(self, batch: Batch) -> torch.Tensor:
        logits: torch.Tensor = self.ids(batch.ids).squeeze(1)
        return logits


class Telling(Transport):
    """A transport that sets an event as soon as its worker pushes."""

    def __init__(self, transport: Transport, event: threading.Event) -> None:
        self._transport, self._event = transport, event
        self.endpoint = transport.endpoint

    def call(self, method: str, *rest: Any) -> Any:
        if method == "Push":
            self._event.set()
        return self._transport.call(method, *rest)

    def close(self) -> None:
        self._transport.close()


@contextmanager
def telling(member: Member, event: threading.Event) -> Iterator[None]:
    transports = member.worker.client.transports
    plain = list(transports)
    transports[:] = [Telling(transport, event) for transport in plain]
    yield
    transports[:] = plain


def test_a_checkpoint_holds_the_whole_last_step(tmp_path: Path) -> None:
    """Worker 0 saves when its own part of the last step is out, and the other's is not."""
    data = batches(4)
    recipe = Recipe(RULES["sgd"], model=TablesOnly)
    is_saving = threading.Event()

    def work(member: Member) -> None:
        own = [batch.share(member.index, 2) for batch in data]
        member.train(own[:-1])
        if member.index == 0:
            with telling(member, is_saving):
                member.train(own[-1:])
                saving.save(member.worker, tmp_path / "early")
        else:
            member.learn(own[-1])
            assert is_saving.wait(60)
            member.step()

    run(2, 2, recipe, work, save=tmp_path / "late")
    assert differences(saved(tmp_path / "early"), saved(tmp_path / "late")) == []

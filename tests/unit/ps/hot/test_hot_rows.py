"""A cache of hot rows beside the model: not a bit differs from training in the table, however small the cache is.

The model is on the CPU, and so is the cache: the same code as on a GPU, the threads beside it included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError
from fleet.net import Endpoint
from fleet.ps.hot.hot_tables import HotTables
from fleet.ps.hot.slot_sets import WAYS
from fleet.ps.worker.parts import meters
from fleet_tools.looking.model_facts import table_facts
from fleet_tools.planner.memory import cache_bytes
from support.parity.training import Trainer, joined, strategy, trainer

NUM_IDS, STEPS = 400, 30
CACHE: dict[str, Any] = {"cache": "gpu", "cache_rows": 64}
RULES = {
    "sgd": fleet.rules.SGD(lr=0.1, weight_decay=0.01),
    "adagrad": fleet.rules.Adagrad(lr=0.1, initial_accumulator_value=0.1),
    "adagrad that decays": fleet.rules.Adagrad(lr=0.1, lr_decay=0.1, weight_decay=0.01, maximize=True),
    "adam": fleet.rules.Adam(lr=0.01),
    "amsgrad": fleet.rules.Adam(lr=0.01, amsgrad=True, weight_decay=0.1),
    "adamw": fleet.rules.AdamW(lr=0.01),
    "adamax": fleet.rules.Adamax(lr=0.01),
    "momentum": fleet.rules.SGD(lr=0.1, momentum=0.9, dampening=0.3),
    "rmsprop": fleet.rules.RMSprop(lr=0.01, momentum=0.9, centered=True),
}


class Model(nn.Module):
    """Rows of a table, used twice if `shared`, and a layer."""

    def __init__(self, *, shared: bool = False, **table: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        given = {"rule": RULES["adagrad"], **table}
        self.rows = fleet.nn.Embedding(6, "ads", **given)
        self.others = fleet.nn.Embedding(6, "ads", pooling="mean", padding_idx=7, **given) if shared else None
        self.out = nn.Linear(6, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found = self.rows(ids).mean(1)
        if self.others is not None:
            found = found + self.others(ids[:, :2].contiguous())
        scores: torch.Tensor = self.out(found)
        return scores


def batch(step: int) -> torch.Tensor:
    """Ids of 12 samples, most of them rare."""
    generator = torch.Generator().manual_seed(step)
    return (torch.rand(12, 5, generator=generator) ** 2 * NUM_IDS).long() * 2**40 - 3 * (step % 2)


def train(one: Trainer, steps: Sequence[int], *, accumulate: int = 1, ahead: bool = True) -> list[float]:
    """The loss of each step."""
    losses: list[float] = []
    data = [batch(step) for step in steps]
    for number, ids in enumerate(one.fleet.prefetch(data, one.model) if ahead else data):
        loss = (one.model(ids) - 1.0).square().mean()
        loss.backward()
        losses.append(loss.item())
        if (number + 1) % accumulate == 0:
            one.optimizer.step()
            one.optimizer.zero_grad()
    return losses


def rows_of(one: Trainer) -> Mapping[str, np.ndarray[Any, Any]]:
    """The table as it is after everything was written back, by key."""
    one.stats()
    service = one.worker.client.transports[0].service  # type: ignore[attr-defined]
    found = service.state.held.tables[0].export(0, 64)
    order = found["keys"].argsort()
    return {name: found[name][order] for name in ("keys", "values", "state", "seen", "step")}


def same(a: Mapping[str, np.ndarray[Any, Any]], b: Mapping[str, np.ndarray[Any, Any]]) -> bool:
    return all(a[name].tobytes() == b[name].tobytes() for name in a)


def run(cache: Mapping[str, Any], mode: str = "sync", **options: Any) -> tuple[list[float], Any]:
    training = {name: options.pop(name) for name in ("accumulate", "ahead") if name in options}
    fields = options.pop("fields", {})
    with joined(model=Model(**options, **cache), strategy=strategy(mode, **fields)) as one:
        losses = train(one, range(STEPS), **training)
        one.fleet.flush()
        return losses, rows_of(one)


@pytest.mark.parametrize("rule", RULES)
def test_every_bit_is_as_without(rule: str) -> None:
    before = meters.counts().get("cache.evicted", 0)
    plain, cached = run({}, rule=RULES[rule]), run(CACHE, rule=RULES[rule])
    assert plain[0] == cached[0]
    assert same(plain[1], cached[1])
    assert len(plain[1]["keys"]) > 3 * CACHE["cache_rows"]
    assert meters.counts()["cache.evicted"] - before > 500  # it is a test of what comes and goes


@pytest.mark.parametrize(
    "options",
    [
        {"accumulate": 3},
        {"ahead": False},
        {"shared": True, "accumulate": 2, "ahead": False},
        {"bounds": (-0.02, 0.02)},
        {"fields": {"dense": "allreduce"}},
    ],
    ids=str,
)
def test_however_it_is_trained(options: dict[str, Any]) -> None:
    plain, cached = run({}, **options), run(CACHE, **options)
    assert plain[0] == cached[0]
    assert same(plain[1], cached[1])


def test_a_rule_of_the_optimizer_and_its_schedule() -> None:
    found = []
    for cache in ({}, CACHE):
        with joined(model=Model(rule=None, **cache), optimizer=lambda m: torch.optim.Adam(m.parameters())) as one:
            schedule = torch.optim.lr_scheduler.StepLR(one.optimizer, 2, 0.5)
            losses = []
            for step in range(8):
                losses += train(one, [step])
                schedule.step()
            found.append((losses, rows_of(one)))
    assert found[0][0] == found[1][0]
    assert same(found[0][1], found[1][1])


def test_evaluation_sees_what_was_trained() -> None:
    outputs = []
    for cache in ({}, CACHE):
        with joined(model=Model(**cache)) as one:
            for begin in range(0, STEPS, 10):
                train(one, range(begin, begin + 10))
                one.model.eval()
                with torch.no_grad():
                    data = [batch(step) for step in (begin, begin + 9, 1000)]
                    outputs.append([one.model(ids) for ids in one.fleet.prefetch(data, one.model)])
                one.model.train()
    for plain, cached in zip(outputs[:3], outputs[3:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(plain, cached, strict=True))


def test_a_row_that_was_only_looked_up_is_none() -> None:
    with joined(model=Model(**CACHE)) as one:
        one.model(batch(0))
        one.worker.give_up()
        for step in range(1, 20):
            train(one, [step])
        trained = torch.cat([batch(step) for step in range(1, 20)]).unique()
        assert rows_of(one)["keys"].tolist() == trained.tolist()


def test_a_checkpoint_has_every_row_and_loading_one_is_seen(tmp_path: Path) -> None:
    results: list[Any] = []
    for cache in ({}, CACHE):
        folder = tmp_path / f"saved{len(results)}"
        with joined(model=Model(**cache)) as one:
            first = train(one, range(10))
            one.fleet.save_persistables(folder)
            saved = rows_of(one)
            second = train(one, range(10, 20))
            one.fleet.load_model(folder)
            assert same(rows_of(one), saved)
            again = train(one, range(10, 20))
            results.append((first, second, again, rows_of(one)))
    assert results[0][:3] == results[1][:3]
    assert results[1][1] == results[1][2]
    assert same(results[0][3], results[1][3])
    with joined(model=Model()) as one:  # what was trained with a cache is loaded without
        one.fleet.load_model(tmp_path / "saved1")
        assert train(one, range(10, 20)) == results[1][1]


def test_a_checkpoint_in_the_background(tmp_path: Path) -> None:
    with joined(model=Model(**CACHE)) as one:
        saves = fleet.Checkpoint(tmp_path, model=one.model, optimizer=one.optimizer)
        train(one, range(6))
        saved = rows_of(one)
        saves.save(6)
        rest = train(one, range(6, 12))
        saves.wait()
        saves.load(6)
        assert same(rows_of(one), saved)
        assert train(one, range(6, 12)) == rest


def test_shrinking_is_seen() -> None:
    results = []
    for cache in ({}, CACHE):
        with joined(model=Model(**cache)) as one:
            train(one, range(12))
            deleted = one.fleet.shrink(unseen_steps=4)
            losses = train(one, range(12, 20), ahead=False)
            results.append((deleted, losses, rows_of(one)))
    assert results[0][0] == results[1][0] > 0
    assert results[0][1] == results[1][1]
    assert same(results[0][2], results[1][2])


@pytest.mark.parametrize("mode", ["async", "half"])
def test_other_modes_write_back_too(mode: str) -> None:
    with joined(model=Model(**CACHE), strategy=strategy(mode)) as one:
        train(one, range(STEPS))
        one.fleet.flush()
        trained = torch.cat([batch(step) for step in range(STEPS)]).unique()
        assert rows_of(one)["keys"].tolist() == trained.tolist()


def test_gradients_that_are_no_numbers() -> None:
    def spoil(one: Trainer) -> None:
        loss = one.model(batch(0))
        scale = torch.ones_like(loss)
        scale[0] = torch.nan
        (loss * scale).sum().backward()
        one.model.out.weight.grad.zero_()  # type: ignore[union-attr, operator]
        one.model.out.bias.grad.zero_()  # type: ignore[union-attr, operator]
        one.optimizer.step()
        one.optimizer.zero_grad()

    with joined(model=Model(**CACHE)) as one:
        train(one, range(3))
        before = rows_of(one)
        with pytest.raises(UsageError, match="table 'ads': the gradients of worker 0, step 3 hold a NaN"):
            spoil(one)
        assert same(rows_of(one), before)
    results = []
    for cache in ({}, CACHE):
        with joined(model=Model(**cache), strategy=strategy(nonfinite_gradients="skip")) as one:
            spoil(one)
            results.append((train(one, range(5)), rows_of(one), one.stats()[0]["skipped"]))
    assert results[0][0] == results[1][0]
    assert same(results[0][1], results[1][1])
    assert results[0][2] == results[1][2] > 0


def test_a_cache_grows_to_what_a_step_needs() -> None:
    plain, cached = run({}, accumulate=STEPS), run({"cache": "gpu", "cache_rows": 1}, accumulate=STEPS)
    assert plain[0] == cached[0]
    assert same(plain[1], cached[1])


def test_rows_of_who_lived_when_a_place_was_asked_for_stay() -> None:
    with joined(model=Model(cache="gpu", cache_rows=WAYS)) as one:
        assert isinstance(one.worker.hot, HotTables)
        (rows,) = one.worker.hot._rows.values()
        evicted = meters.counts().get("cache.evicted", 0)
        first = rows.expect()
        rows.place(torch.arange(WAYS), first)
        second = rows.expect()
        del first  # its step may still be under way on the device
        rows.place(torch.arange(WAYS) + 1000, second)
        assert meters.counts().get("cache.evicted", 0) == evicted
        assert len(set(second.slots.tolist())) == WAYS
        del second
        before = meters.counts().get("cache.evicted", 0)
        for number in range(2, 20):  # now they may go
            rows.place(torch.arange(WAYS) + 1000 * number, rows.expect())
        assert meters.counts()["cache.evicted"] > before


def test_a_plan_says_what_a_cache_takes() -> None:
    with joined(model=Model(**CACHE)) as one:
        (table,) = table_facts(one.worker.client.job, [], {0: CACHE["cache_rows"]})
        assert isinstance(one.worker.hot, HotTables)
        assert cache_bytes(table) == one.worker.hot.nbytes == 64 * (2 * 4 * 6 + 32)


@pytest.mark.parametrize(
    ("table", "mode", "message"),
    [
        (
            {"rule": fleet.rules.Ftrl()},
            "sync",
            "does not have rule ftrl to the bit; choose one of adagrad, adam",
        ),
        (
            {"rule": fleet.rules.Adagrad(per_row=True)},
            "sync",
            "does not have rule adagrad_row to the bit",
        ),
        ({"entry": fleet.entries.CountFilterEntry(2)}, "sync", "knows no entry policy, such as count_filter; take"),
        ({"dtype": "float16"}, "sync", "does not go with dtype='float16'; take dtype= away"),
        ({"max_norm": 1.0}, "sync", "does not go with max_norm=1.0; take max_norm= away"),
        ({"max_bytes": 1000}, "sync", "does not go with max_bytes=1000; take max_bytes= away"),
        ({"wire": "bfloat16"}, "sync", "does not go with wire='bfloat16'; take wire= away"),
        ({}, "geo", "geo mode has no use for, since it trains copies; use sync or async mode"),
    ],
)
def test_what_a_cache_cannot_do_is_refused(table: dict[str, Any], mode: str, message: str) -> None:
    with pytest.raises(UsageError) as caught, joined(model=Model(**table, **CACHE), strategy=strategy(mode)):
        pass
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_servers_are_refused() -> None:
    one = trainer([Endpoint("127.0.0.1", 1)], model=Model(**CACHE))  # nobody is asked
    with pytest.raises(UsageError, match=r"this job has servers; start the script without them \(python"):
        one.fleet.init_worker()
    one.fleet.shutdown()


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="cache must be None or 'gpu', got 'cpu'"):
        fleet.nn.Embedding(4, cache="cpu", cache_rows=10)
    with pytest.raises(UsageError, match="cache and cache_rows go together, got cache='gpu' and cache_rows=0"):
        fleet.nn.Embedding(4, cache="gpu")
    with pytest.raises(UsageError, match="cache_rows must be an int"):
        fleet.nn.Embedding(4, cache="gpu", cache_rows="many")  # type: ignore[arg-type]
    both = nn.ModuleList([fleet.nn.Embedding(4, "ads", rule=RULES["sgd"], **one) for one in (CACHE, {})])
    with pytest.raises(UsageError, match="cache_rows=64 and with cache_rows=0; give all"), joined(model=both):
        pass

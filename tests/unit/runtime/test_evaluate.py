"""fleet.evaluate in one process: what is measured, what stays as it was, and what is refused."""

from __future__ import annotations

import doctest
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fleet
from fleet.errors import RoleError, UsageError, UsageTypeError
from fleet.metrics import AUC, GroupedAUC, Mean, Metric, means
from support.parity.training import batch, joined

mse = nn.functional.mse_loss


class Half(nn.Module):
    """Normalised and dropped out in training, and one part in evaluation all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.dropout = nn.Dropout(0.5)
        self.fixed = nn.BatchNorm1d(3).eval()
        self.out = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of [B, 3]."""
        scores: torch.Tensor = self.out(self.fixed(self.dropout(self.norm(x)))).squeeze(1)
        return scores


def batches(*sizes: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(sum(sizes))
    found = []
    for size in sizes:
        x = torch.randn(size, 3, generator=generator)
        found.append((x, (x.sum(1) > 0).float()))
    return found


def test_examples() -> None:
    assert doctest.testmod(means).failed == 0


def test_values_are_those_of_all_samples_at_once() -> None:
    model, data = Half(), batches(5, 1, 30)
    found = fleet.evaluate(
        model,
        data,
        {"loss": mse, "auc": AUC(), "right": lambda scores, labels: ((scores > 0.5) == (labels > 0)).float().mean()},
        step=lambda model, batch: (model(batch[0]).sigmoid(), batch[1]),
    )
    x, labels = (torch.cat(parts) for parts in zip(*data, strict=True))
    model.eval()
    with torch.no_grad():
        scores = model(x).sigmoid()
    exact = AUC()
    exact.update(scores, labels)
    assert found["loss"] == pytest.approx(float(mse(scores, labels)), abs=1e-6)
    assert found["auc"] == exact.compute()
    assert found["right"] == pytest.approx(float(((scores > 0.5) == (labels > 0)).float().mean()), abs=1e-6)
    assert list(found) == ["loss", "auc", "right"]


def test_nothing_of_the_model_changes() -> None:
    model = Half()
    modes = [module.training for module in model.modules()]
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def step(model: nn.Module, batch: Any) -> Any:
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        return model(batch[0]), batch[1]

    fleet.evaluate(model, batches(8), {"loss": mse}, step=step)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.is_grad_enabled()


def test_a_metric_of_the_caller_stays_as_it_is() -> None:
    metric = AUC()
    metric.update(torch.tensor([0.1, 0.9]), torch.tensor([1, 0]))
    for _ in range(2):
        scores = [(torch.tensor([0.1, 0.9]), torch.tensor([0, 1]))]
        assert fleet.evaluate(nn.Identity(), scores, {"auc": metric}) == {"auc": 1.0}
    assert metric.compute() == 0.0


@pytest.mark.parametrize("kind", ["samples", "loader", "stream"])
def test_a_batch_that_was_looked_at_counts_too(kind: str) -> None:
    fleet.init()
    [(x, y)] = batches(10)
    loader = DataLoader(TensorDataset(x, y), batch_size=4)
    made: dict[str, Any] = {"samples": lambda: fleet.data.shard((x, y), 4, uneven="join")}
    made |= {"loader": lambda: fleet.data.shard(loader), "stream": lambda: fleet.data.shard(lambda: loader)}
    data, model = made[kind](), Half()
    expected = pytest.approx(fleet.evaluate(model, [(x, y)], {"loss": mse})["loss"], abs=1e-6)
    next(iter(data))
    for _ in range(2):
        assert fleet.evaluate(model, data, {"loss": mse})["loss"] == expected
    num_left = 0
    for _ in data:  # goes on where it was, also where the model is measured on the way
        num_left += 1
        assert fleet.evaluate(model, data, {"loss": mse})["loss"] == expected
    assert (num_left, data.epoch) == (2, 1)
    assert fleet.evaluate(model, data, {"loss": mse})["loss"] == expected
    fleet.shutdown()


def test_no_batch_is_no_value() -> None:
    found = fleet.evaluate(nn.Linear(3, 1), [], {"loss": mse, "auc": AUC()})
    assert all(math.isnan(value) for value in found.values())


def test_rows_are_never_made() -> None:
    with joined() as one:
        one.train(2)
        rows = one.stats()[0]["tables"]["ads"]["rows"]
        ids = torch.arange(1000, 1030).view(10, 3)
        data = [batch(0), (ids, torch.zeros(10))]
        found = one.fleet.evaluate(one.model, data, {"loss": mse}, progress=True)
        assert one.stats()[0]["tables"]["ads"]["rows"] == rows
        assert one.model.training
        one.model.eval()
        with torch.no_grad():
            both = [float(mse(one.model(x), y)) for x, y in data]
        assert found["loss"] == pytest.approx((8 * both[0] + 10 * both[1]) / 18, abs=1e-6)
        one.model.train()
        one.train(2, 4)


def test_an_error_leaves_the_model_in_its_mode() -> None:
    model = Half()
    with pytest.raises(ZeroDivisionError):
        fleet.evaluate(model, batches(2), {"bad": lambda *_: 1 / 0})
    assert model.training

    def breaks() -> Iterator[Any]:
        yield batches(2)[0]
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        fleet.evaluate(model, breaks(), {"loss": mse})
    assert model.training


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ({}, r'metrics must map names to metrics, \{"auc": AUC\(\)\}, got'),
        ([AUC()], r'metrics must map names to metrics, \{"auc": AUC\(\)\}, got'),
        ({"auc": AUC}, r"metric 'auc' is a class; give an object, AUC\(\)"),
        ({"auc": 3}, "metric 'auc' is a int without update, state, merge, compute, reset"),
    ],
)
def test_metrics_that_cannot_be_are_named(metrics: Any, says: str) -> None:
    with pytest.raises(UsageTypeError, match=says):
        fleet.evaluate(nn.Linear(1, 1), [], metrics)


def test_a_metric_that_cannot_be_merged_is_refused() -> None:
    """A class of another library may be callable, too; what it returns for a batch is no mean."""

    class Foreign:
        def update(self, outputs: Any, targets: Any) -> None: ...
        def compute(self) -> float:
            return 0.0

        def __call__(self, *_: Any) -> float:
            return 0.0

    with pytest.raises(UsageTypeError, match="metric 'f1' is a Foreign without state, merge, reset, so the counts of"):
        fleet.evaluate(nn.Linear(1, 1), [], {"f1": Foreign()})


def test_batches_that_are_not_pairs_ask_for_a_step() -> None:
    for odd in ({"x": torch.ones(1)}, torch.ones(2, 3), (torch.ones(1),)):
        with pytest.raises(UsageTypeError, match=r"step=lambda model, batch: \(outputs, targets\)"):
            fleet.evaluate(nn.Linear(1, 1), [odd], {"loss": mse})


def test_a_function_gives_a_value_for_a_batch_or_for_each_sample() -> None:
    def two(outputs: Any, targets: Any) -> torch.Tensor:
        return torch.tensor([1.0, 2.0])

    metric = Mean(two)
    metric.update(torch.ones(2), torch.ones(2))
    assert metric.compute() == 1.5
    with pytest.raises(
        UsageError, match=r"two must give one number for a batch, or for each of its 3 samples, got shape \[2\]"
    ):
        metric.update(torch.ones(3), torch.ones(3))


def test_samples_are_counted_wherever_they_are() -> None:
    metric = Mean(lambda outputs, _: outputs["value"])
    metric.update({"value": torch.tensor(1.0)}, {"labels": [torch.zeros(3)]})
    metric.update({"value": 5.0}, torch.zeros(1, 7))
    assert isinstance(metric, Metric)
    assert metric.compute() == 2.0


def test_servers_have_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    here = fleet.Fleet()
    here.init(fleet.UserDefinedRoleMaker(0, fleet.Role.SERVER, 1, ["127.0.0.1:1"]))
    with pytest.raises(RoleError, match="server 0 has no model; call fleet.evaluate"):
        here.evaluate(nn.Linear(1, 1), [], {"loss": mse})
    here.shutdown()


def test_groups_go_to_the_metrics_that_need_them() -> None:
    users = torch.arange(36) % 5
    data = [(x, y, users[place : place + len(y)]) for place, (x, y) in zip((0, 16), batches(16, 20), strict=True)]
    model = Half()
    found = fleet.evaluate(
        model,
        data,
        {"gauc": GroupedAUC(), "auc": AUC(from_logits=True)},
        step=lambda model, batch: (model(batch[0]), batch[1], batch[2]),
    )
    model.eval()
    expected = GroupedAUC()
    with torch.no_grad():
        expected.update(torch.cat([model(x) for x, _, _ in data]), torch.cat([y for _, y, _ in data]), users)
    assert found["gauc"] == expected.compute()
    assert 0 <= found["auc"] <= 1
    with pytest.raises(
        UsageError, match="GroupedAUC is by group; give step=lambda model, batch: .outputs, targets, gr"
    ):
        fleet.evaluate(model, batches(4), {"gauc": GroupedAUC()})

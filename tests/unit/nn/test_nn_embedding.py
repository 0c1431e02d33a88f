"""`fleet.nn` modules in a model: what they compute, what they refuse, and how they are copied, saved and frozen.

The server is in this process, so nothing here needs a network.
"""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError
from fleet.nn import Embedding, EmbeddingCollection, Slot
from fleet.ps.server.service import Service
from support.parity.training import Net, Trainer, joined, strategy

SGD = fleet.rules.SGD(lr=1.0)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1.0)


def service_of(one: Trainer) -> Service:
    """The server in this process."""
    service: Service = one.worker.client.transports[0].service  # type: ignore[attr-defined]
    return service


def num_rows(one: Trainer, table: str = "ads") -> int:
    return int(one.stats()[0]["tables"][table]["rows"])


def table(**given: Any) -> Embedding:
    return Embedding(2, "ads", **{"rule": SGD, "initializer": fleet.initializers.Constant(0.0), **given})


def test_rows_follow_their_gradients() -> None:
    with joined(model=table()) as one:
        ids = torch.tensor([[5, -1], [5, 2**62]])
        out = one.model(ids)
        assert out.shape == (2, 2, 2)
        (out * torch.tensor([1.0, 2.0])).sum().backward()
        one.optimizer.step()
        expected = torch.tensor([[[-2.0, -4.0], [-1.0, -2.0]], [[-2.0, -4.0], [-1.0, -2.0]]])
        torch.testing.assert_close(one.model(ids), expected)
        assert num_rows(one) == 3


def test_a_table_without_a_rule_follows_the_optimizer() -> None:
    """Also its learning rate, in every step."""
    with joined(model=table(rule=None), optimizer=sgd) as one:
        ids = torch.tensor([1])
        for _ in range(2):
            one.model(ids).sum().backward()
            one.optimizer.step()
            one.optimizer.param_groups[0]["lr"] = 0.5
        torch.testing.assert_close(one.model(ids), torch.full((1, 2), -1.5))


@pytest.mark.parametrize("mode", ["sync", "async", "half", "geo"])
@pytest.mark.parametrize("ids", [torch.empty(0, 3, dtype=torch.int64), torch.empty(0, dtype=torch.int64)])
def test_an_empty_batch_is_a_step_like_any_other(mode: str, ids: torch.Tensor) -> None:
    with joined(model=table(), strategy=strategy(mode)) as one:
        out = one.model(ids)
        assert out.shape == (*ids.shape, 2)
        out.sum().backward()
        one.optimizer.step()
        one.model(torch.tensor([1])).sum().backward()
        one.optimizer.step()
        one.fleet.flush()
        assert num_rows(one) == 1
        one.fleet.stop_worker()


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_an_empty_bag_is_zeros(pooling: Any) -> None:
    with joined(model=table(pooling=pooling, initializer=fleet.initializers.Constant(1.0))) as one:
        out = one.model(torch.tensor([1, 2, 3]), torch.tensor([0, 0, 3]))
        scale = 3.0 if pooling == "sum" else 1.0
        torch.testing.assert_close(out, torch.tensor([[0.0, 0.0], [scale, scale], [0.0, 0.0]]))
        out.sum().backward()
        one.optimizer.step()
        empty = one.model(torch.empty(0, dtype=torch.int64), torch.tensor([0, 0]))
        torch.testing.assert_close(empty, torch.zeros(2, 2))


class TwoTables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = table(), Embedding(2, "other", rule=SGD)
        self.out = nn.Linear(2, 1)

    def forward(self, ids: torch.Tensor, with_idle: bool = False) -> torch.Tensor:
        rows = self.used(ids) + (self.idle(ids) if with_idle else 0)
        scores: torch.Tensor = self.out(rows)
        return scores


@pytest.mark.parametrize("mode", ["sync", "async", "half", "geo"])
def test_a_table_without_a_gradient_is_left_alone(mode: str) -> None:
    model = TwoTables()
    with joined(model=model, strategy=strategy(mode)) as one:
        ids = torch.tensor([1, 2])
        model(ids).sum().backward()
        model.idle(ids)  # looked up, but nothing comes back
        one.optimizer.step()
        one.optimizer.step()  # nothing at all
        one.fleet.flush()
        assert (num_rows(one), num_rows(one, "other")) == (2, 0)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_frozen_table_does_not_learn_and_its_neighbour_does(mode: str) -> None:
    """Also where the rows of both come with one prefetch, whichever module is called first."""
    model = TwoTables()
    with joined(model=model, strategy=strategy(mode)) as one:
        model.idle.requires_grad_(False)
        batches = [torch.tensor([step, step + 1]) for step in range(4)]
        for number, ids in enumerate(one.fleet.prefetch(batches, model, lambda ids: {"used": ids, "idle": ids})):
            rows = model.idle(ids) + model.used(ids) if number % 2 else model(ids, with_idle=True)
            rows.sum().backward()
            one.optimizer.step()
        one.fleet.flush()
        assert (num_rows(one), num_rows(one, "other")) == (5, 0)


def test_evaluation_leaves_no_trace() -> None:
    with joined(model=Net()) as one:
        ids = torch.tensor([[1, 2, 3]])
        with torch.no_grad():
            one.model(ids)
        one.model.eval()
        one.model(ids).sum().backward()
        one.optimizer.step()
        assert num_rows(one) == 0


def test_gradients_of_several_batches_are_added() -> None:
    with joined(model=table()) as one:
        for _ in range(3):
            one.model(torch.tensor([1, 2])).sum().backward()
        one.optimizer.step()
        torch.testing.assert_close(one.model(torch.tensor([1])), torch.full((1, 2), -3.0))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.tensor([1], dtype=torch.int32), "ids must be int64, got torch.int32; call .long()"),
        (torch.tensor([1.0]), "ids must be int64, got torch.float32"),
        ([1, 2], "ids must be a tensor of int64 ids, got list"),
    ],
)
def test_ids_of_another_type_are_refused(ids: Any, message: str) -> None:
    with joined(model=table()) as one, pytest.raises(UsageError, match=message):
        one.model(ids)


def test_clicks_must_fit_and_be_wanted() -> None:
    ids = torch.tensor([1, 2])
    with joined(model=table()) as one:
        with pytest.raises(
            UsageError, match="'ads' does not count shows and clicks; .* name them: per_sample_weights="
        ):
            one.model(ids, click=torch.ones(2))
    with joined(model=table(entry=fleet.ShowClickEntry())) as one:
        with pytest.raises(UsageError, match="table 'ads': click has 3 values for 2 ids"):
            one.model(ids, click=torch.ones(3))


def test_slots_that_share_a_table_are_one_lookup() -> None:
    slots = [Slot("a", 2, "ads", rule=SGD), Slot("b", 2, "ads", pooling="sum", rule=SGD), Slot("c", 3, rule=SGD)]
    with joined(model=EmbeddingCollection(slots)) as one:
        inputs = {"a": torch.tensor([1, 2]), "b": (torch.tensor([2, 3]), torch.tensor([0, 0])), "c": torch.tensor([1])}
        out = one.model(inputs)
        assert {name: list(rows.shape) for name, rows in out.items()} == {"a": [2, 2], "b": [2, 2], "c": [1, 3]}
        sum(rows.sum() for rows in out.values()).backward()
        one.optimizer.step()
        assert (num_rows(one), num_rows(one, "c"), one.stats()[0]["pulls"]) == (3, 1, 1)
        with pytest.raises(UsageError, match="the batch has no slot 'c'; it has 'a', 'b'"):
            one.model({"a": inputs["a"], "b": inputs["b"]})


def test_a_table_that_is_declared_twice_must_be_the_same() -> None:
    model = nn.ModuleList([Embedding(4, "ads", rule=SGD), Embedding(8, "ads", rule=SGD)])
    with pytest.raises(
        UsageError, match="module '1' declares a table that another has: table 'ads': width is 8 here, 4 in '0';"
    ):
        with joined(model=model):
            pass
    with pytest.raises(UsageError, match="slot 'b' declares table 'ads' differently from an earlier slot"):
        EmbeddingCollection([Slot("a", 4, "ads"), Slot("b", 8, "ads")])
    shared = nn.ModuleList([Embedding(4, "ads", rule=SGD), Embedding(4, "ads", rule=SGD)])
    with joined(model=shared) as one:
        (shared[0](torch.tensor([1])) + shared[1](torch.tensor([1]))).sum().backward()
        one.optimizer.step()
        torch.testing.assert_close(shared[0](torch.tensor([1])), shared[1](torch.tensor([1])))


def test_a_table_needs_a_rule() -> None:
    model = nn.Sequential(Embedding(4, "ads"), nn.Linear(4, 1))
    with pytest.raises(UsageError, match="table 'ads' has no rule: give its module rule=fleet.rules.Adagrad"):
        with joined(model=model, optimizer=lambda model: torch.optim.SGD(model[1].parameters(), lr=1.0)):
            pass


def test_a_state_dict_holds_the_dense_parameters() -> None:
    with joined() as one:
        one.train(2)
        file = io.BytesIO()
        torch.save(one.model.state_dict(), file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
        assert {name: list(value.shape) for name, value in state.items()} == {
            "emb.weight": [0, 4],
            "out.weight": [1, 4],
            "out.bias": [1],
        }
        fresh = Net()
        fresh.load_state_dict(state)
        assert isinstance(one.model, Net)
        torch.testing.assert_close(fresh.out.weight, one.model.out.weight)
        one.model.load_state_dict(state)  # in place: the buffers of Fleet stay where they are
        one.train(2, 3)


def test_entries_end_to_end() -> None:
    """A key has a row once it was seen often enough; until then it reads as zeros."""
    count = table(entry=fleet.CountFilterEntry(3), initializer=fleet.initializers.Constant(1.0))
    with joined(model=count) as one:
        ids = torch.tensor([1, 1, 2])
        seen = []
        for _ in range(4):
            out = one.model(ids)
            seen.append(out[:, 0].tolist())
            out.sum().backward()
            one.optimizer.step()
        # Key 1 is there after two steps and key 2 after three; a row learns from the step after that on.
        assert seen == [[0, 0, 0], [0, 0, 0], [1, 1, 0], [-1, -1, 1]]
        assert one.stats()[0]["tables"]["ads"]["waiting"] == 0


def test_clicks_decide_who_enters() -> None:
    entry = fleet.ShowClickEntry("show", "click", threshold=2.0, nonclk_coeff=0.1, click_coeff=1.0)
    with joined(model=table(entry=entry)) as one:
        ids = torch.tensor([1, 2])
        for _ in range(3):
            one.model(ids, click=torch.tensor([1.0, 0.0])).sum().backward()
            one.optimizer.step()
        assert one.stats()[0]["tables"]["ads"] | {"bytes": 0} == {"rows": 1, "waiting": 1, "bytes": 0}
        assert one.fleet.shrink("ads", score_below=10.0) == 1
        assert num_rows(one) == 0


def test_rows_that_are_not_trained_can_be_deleted() -> None:
    with joined(model=table()) as one:
        for step in range(6):
            one.model(torch.tensor([step, 100])).sum().backward()
            one.optimizer.step()
        assert one.fleet.shrink("ads", unseen_steps=2) == 3
        assert num_rows(one) == 4
        assert one.fleet.shrink() == 0
        with pytest.raises(UsageError, match="there is no table 'nothing'; the job declared 'ads'"):
            one.fleet.shrink("nothing")
        torch.testing.assert_close(one.model(torch.tensor([0, 100]))[:, 0], torch.tensor([0.0, -6.0]))


def test_prefetched_batches_that_are_not_used_do_not_pile_up() -> None:
    with joined(model=table(), strategy=strategy("async")) as one:
        batches = [torch.tensor([step]) for step in range(20)]
        for ids in one.fleet.prefetch(batches, one.model):
            one.model(ids.clone()).sum().backward()
            one.optimizer.step()
        assert len(one.worker._ahead) <= 2
        assert len(one.worker.policy._pending) <= 2

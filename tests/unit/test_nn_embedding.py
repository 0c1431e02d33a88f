"""`fleet.nn` modules in a model: what they compute, what they refuse, and how they are copied, saved and frozen.

The server is in this process, so nothing here needs a network.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.errors import NotReadyError, RoleError, UsageError, UsageTypeError
from fleet.net import Endpoint
from fleet.nn import Embedding, EmbeddingCollection, Slot
from fleet.ps.service import Service
from fleet.roles import Role, UserDefinedRoleMaker
from support.training import Net, Trainer, joined, strategy, trainer

SGD = fleet.rules.SGD(lr=1.0)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1.0)


def service_of(one: Trainer) -> Service:
    """The server in this process."""
    service: Service = one.worker.client.transports[0]._service  # type: ignore[attr-defined]
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
        with pytest.raises(UsageError, match="table 'ads' does not count shows and clicks"):
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
    with pytest.raises(UsageError, match="table 'ads' is declared twice and differently: .*width=8.*width=4"):
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


def test_modules_before_their_time_say_what_is_missing() -> None:
    remedy = "pass the model to fleet.distributed_model.., then call fleet.init_worker"
    ids = torch.tensor([[1, 2]])
    with pytest.raises(NotReadyError, match=f"Embedding has no table yet; {remedy}"):
        table()(ids)
    with pytest.raises(NotReadyError, match=f"EmbeddingCollection has no table yet; {remedy}"):
        EmbeddingCollection([Slot("a", 4, rule=SGD)])({"a": ids})
    one = trainer(())
    with pytest.raises(NotReadyError, match="Embedding has no table yet"):
        one.model(ids)
    with pytest.raises(NotReadyError, match=r"optimizer.step\(\) needs the servers; call fleet.init_worker\(\) first"):
        one.optimizer.step()
    for call in (one.fleet.flush, one.fleet.server_stats, one.fleet.shrink, lambda: one.fleet.save_persistables("x")):
        with pytest.raises(NotReadyError, match=r"needs the servers; call fleet.init_worker\(\) first"):
            call()
    one.fleet.stop_worker()  # nothing to stop
    one.fleet.shutdown()


def test_after_the_end_modules_have_no_table_again() -> None:
    with joined() as one:
        one.train(2)
        one.fleet.stop_worker()
        with pytest.raises(NotReadyError, match="Embedding has no table yet"):
            one.model(torch.tensor([[1]]))
        with pytest.raises(NotReadyError, match="optimizer.step.. needs the servers"):
            one.optimizer.step()


def test_calls_of_a_job_that_do_not_fit_are_refused() -> None:
    with joined() as one:
        with pytest.raises(NotReadyError, match="init_worker.. was called before; call fleet.stop_worker.. first"):
            one.fleet.init_worker()
        with pytest.raises(UsageTypeError, match="a job of modules takes one argument, save_persistables.dirname."):
            one.fleet.save_persistables("executor", "folder")
        one.train(1)
        one.fleet.stop_worker()
        one.fleet.init_worker()
        one.train(1)


def test_roles_that_do_not_fit_are_refused() -> None:
    endpoint = str(Endpoint("127.0.0.1", 6170))
    worker, server = Fleet(), Fleet()
    worker.init(UserDefinedRoleMaker(0, Role.WORKER, 1, [endpoint]))
    server.init(UserDefinedRoleMaker(0, Role.SERVER, 1, [endpoint]))
    try:
        with pytest.raises(RoleError, match="worker 0 is no server; call fleet.run_server.. where fleet.is_server"):
            worker.run_server()
        with pytest.raises(RoleError, match="worker 0 is no server; call fleet.init_server.. where"):
            worker.init_server()
        with pytest.raises(RoleError, match="server 0 is no worker; call fleet.init_worker.. where fleet.is_worker"):
            server.init_worker()
    finally:
        worker.shutdown()
        server.shutdown()


class OwnSGD(torch.optim.SGD):
    """May step as it likes."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: torch.optim.LBFGS(model.out.parameters()), "optimizer LBFGS cannot run on the servers; use one"),
        (lambda model: OwnSGD(model.parameters()), "optimizer OwnSGD cannot run on the servers; use one of torch"),
    ],
)
def test_optimizers_that_servers_do_not_know_are_refused(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        with joined(optimizer=make):
            pass


def test_what_is_no_optimizer_is_refused() -> None:
    one = trainer(())
    with pytest.raises(UsageTypeError, match="optimizer must be a torch.optim.Optimizer, got str"):
        one.fleet.distributed_optimizer("sgd")  # type: ignore[call-overload]
    one.fleet.shutdown()


def test_an_optimizer_that_changes_under_way_is_refused() -> None:
    with joined(optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)) as one:
        one.train(1)
        one.optimizer.param_groups[0]["momentum"] = 0.9
        with pytest.raises(UsageError, match="parameter group 0 of optimizer SGD changed its momentum from 0.5 to 0.9"):
            one.train(1)
        one.optimizer.param_groups[0]["momentum"] = 0.5
        one.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
        with pytest.raises(
            UsageError, match="optimizer SGD has 2 parameter groups now, but had 1 in fleet.init_worker"
        ):
            one.train(1)


def test_a_parameter_that_was_frozen_cannot_be_trained_later() -> None:
    model = Net()
    model.out.bias.requires_grad_(False)
    with joined(model=model) as one:
        one.train(2)
        model.out.bias.requires_grad_(True)
        with pytest.raises(UsageError, match="parameter 'out.bias' needs a gradient now, but was frozen in fleet.init"):
            one.train(1)
        one.fleet.stop_worker()
        one.fleet.init_worker()
        before = model.out.bias.item()
        one.train(2)
        assert model.out.bias.item() != before


def test_state_of_an_optimizer_that_servers_would_need_is_refused() -> None:
    plain = nn.Linear(4, 1)
    used = torch.optim.Adam(plain.parameters())
    plain(torch.ones(1, 4)).sum().backward()
    used.step()
    with joined(model=nn.Linear(4, 1)) as one:
        one.optimizer.load_state_dict(one.optimizer.state_dict())
        with pytest.raises(UsageError, match="the state of this optimizer is on the servers.*use fleet.load_model"):
            one.optimizer.load_state_dict(used.state_dict())


def test_a_model_that_was_converted_is_refused() -> None:
    with joined() as one:
        one.train(1)
        one.model.double()
        with pytest.raises((UsageError, RuntimeError)):
            one.train(1)
        with pytest.raises(UsageError, match="parameter 'out.weight' was moved or converted after Fleet took it over"):
            one.optimizer.step()


@pytest.mark.parametrize("how", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_model_has_the_parameters_but_no_table(how: Callable[[nn.Module], nn.Module]) -> None:
    with joined() as one:
        one.train(2)
        copied = how(one.model)
        with pytest.raises(NotReadyError, match="Embedding has no table yet"):
            copied(torch.tensor([[1]]))
        assert isinstance(copied, Net)
        assert isinstance(one.model, Net)
        torch.testing.assert_close(copied.out.weight, one.model.out.weight)
        before = copied.out.weight.detach().clone()
        one.train(2, 4)  # the original goes on, the copy stays
        torch.testing.assert_close(copied.out.weight, before)
        one.fleet.stop_worker()
    with joined(model=copied) as again:
        again.train(2)


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
        assert len(one.worker.mode._pending) <= 2

"""What `fleet.nn` modules, their job and their optimizer refuse: calls too early or too late, roles, optimizers.

The server is in this process, so nothing here needs a network.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.api import Fleet
from fleet.checkpoint import read_inference
from fleet.errors import CheckpointError, NotReadyError, RoleError, UsageError, UsageTypeError
from fleet.net import Endpoint
from fleet.nn import Embedding, EmbeddingCollection, Slot
from fleet.roles import Role, UserDefinedRoleMaker
from support.parity.training import Net, joined, trainer

SGD = fleet.rules.SGD(lr=1.0)


def test_modules_before_their_time_say_what_is_missing() -> None:
    remedy = "pass the model to fleet.distributed_model.., then call fleet.init_worker"
    ids = torch.tensor([[1, 2]])
    with pytest.raises(NotReadyError, match=f"Embedding has no table yet; {remedy}"):
        Embedding(2, "ads", rule=SGD)(ids)
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


def test_a_call_after_the_end_says_that_the_worker_has_left(tmp_path: Path) -> None:
    remedy = (
        r"this worker has left the servers; move the call before fleet.stop_worker\(\), or join them again with "
        r"fleet.init_worker\(\)$"
    )
    with joined() as one:
        one.train(2)
        one.fleet.save_persistables(tmp_path / "saved")
        one.fleet.stop_worker()
        one.fleet.stop_worker()  # twice does no harm
        late: dict[str, Callable[[], object]] = {
            "Embedding": lambda: one.model(torch.tensor([[1]])),
            r"optimizer.step\(\)": one.optimizer.step,
            r"fleet.save_persistables\(\)": lambda: one.fleet.save_persistables(tmp_path / "late"),
            r"fleet.load_model\(\)": lambda: one.fleet.load_model(tmp_path / "saved"),
            r"fleet.server_stats\(\)": one.fleet.server_stats,
        }
        for what, call in late.items():
            with pytest.raises(NotReadyError, match=f"^{what}: {remedy}"):
                call()
        one.fleet.init_worker()
        one.train(2)
        assert one.fleet.server_stats()[0]["pushes"] == 2


def test_a_folder_of_the_other_kind_is_called_by_its_name(tmp_path: Path) -> None:
    with joined() as one:
        one.train(2)
        one.fleet.save_persistables(tmp_path / "saved")
        one.fleet.save_inference_model(tmp_path / "served")
        with pytest.raises(
            CheckpointError,
            match=r"in .*/served: it holds an inference copy, which fleet.load_inference_model.. reads$",
        ):
            one.fleet.load_model(tmp_path / "served")
        with pytest.raises(
            CheckpointError,
            match=r"no inference copy in .*/saved: it holds a checkpoint, which fleet.load_model\(\).* reads$",
        ):
            read_inference(tmp_path / "saved")


def test_a_second_model_is_refused_and_the_same_one_is_not() -> None:
    with joined() as one:
        assert one.fleet.distributed_model(one.model) is one.model
        with pytest.raises(UsageError, match=r"given a Net before.*put both into one, nn.ModuleList\(\[first, second"):
            one.fleet.distributed_model(nn.Linear(1, 1))
        one.train(1)
        one.fleet.stop_worker()
        one.fleet.distributed_model(Net())  # what it was trained with has left


def test_calls_of_a_job_that_do_not_fit_are_refused() -> None:
    with joined() as one:
        with pytest.raises(NotReadyError, match="init_worker.. was called before; call fleet.stop_worker.. first"):
            one.fleet.init_worker()
        with pytest.raises(UsageTypeError, match="takes one argument for modules; write"):
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
        with pytest.raises(RoleError, match="server 0 is no worker; .* before it: if fleet.is_server.*run_server"):
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

"""`fleet.init` again in one process: another role replaces the former job, and nothing of that stays open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist

import fleet_programs as static
from fleet import api
from fleet.errors import RoleError
from fleet.net import Hold
from fleet.roles import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from fleet_paddle.jobs.init_again import init_on


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[api.Fleet]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    made = api.Fleet()
    yield made
    made.shutdown()


def _server(index: int, endpoints: list[str]) -> UserDefinedRoleMaker:
    return UserDefinedRoleMaker(index, Role.SERVER, 1, endpoints)


def test_other_roles_one_after_the_other(job: api.Fleet) -> None:
    servers = ["127.0.0.1:1", "127.0.0.1:2"]
    init_on(job, UserDefinedRoleMaker(0, Role.WORKER, 2, servers))
    assert (job.worker_index(), job.worker_num()) == (0, 2)
    init_on(job, _server(1, servers))
    assert job.is_server()
    assert job.server_index() == 1
    init_on(job, is_collective=True)
    assert job.is_collective()
    assert dist.get_world_size() == 1
    init_on(job, PaddleCloudRoleMaker())
    assert not job.is_collective()
    assert not dist.is_initialized()
    with pytest.raises(RoleError, match="call fleet.shutdown"):  # Fleet itself goes on refusing it
        job.init(_server(0, servers))


def test_what_the_environment_says_is_asked_again(job: api.Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    init_on(job)
    maker = job.role
    init_on(job)
    assert job.role is maker
    for name, value in (
        ("TRAINING_ROLE", "PSERVER"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1"),
        ("PADDLE_TRAINERS_NUM", "3"),
        ("POD_IP", "127.0.0.1"),
        ("PADDLE_PORT", "1"),
    ):
        monkeypatch.setenv(name, value)
    init_on(job)
    assert job.is_server()
    assert job.worker_num() == 3


def test_a_server_of_the_former_job_is_stopped_and_its_port_is_free(job: api.Fleet) -> None:
    with Hold.any_port() as hold:
        endpoint = hold.endpoint
    init_on(job, _server(0, [str(endpoint)]))
    job.init_server()
    serving = threading.Thread(target=job.run_server)
    serving.start()
    other = api.Fleet()
    other.init(UserDefinedRoleMaker(0, Role.WORKER, 1, [str(endpoint)]))
    _join(other)
    init_on(job, _server(0, ["127.0.0.1:1"]))
    serving.join(30)
    assert not serving.is_alive()
    other.shutdown()


def _join(worker: api.Fleet) -> None:
    import torch

    import fleet.nn

    model = fleet.nn.Embedding(2)
    worker.distributed_model(model)
    worker.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    worker.init_worker()


def _trained(job: api.Fleet, scale: float) -> Any:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.unique_name.guard():
        x = static.data("x", [None, 2])
        loss = static.layers.mean(static.layers.fc(x, 1))
        job.distributed_optimizer(static.optimizer.SGD(0.1)).minimize(loss)
    exe = static.Executor()
    with static.scope_guard(static.Scope()):
        job.init_worker()
        exe.run(startup)
        first = np.array(static.global_scope().tensors["fc_0.w_0"])
        exe.run(main, feed={"x": np.full((3, 2), scale, "float32")})
        return first - np.asarray(exe.run(main, feed={"x": np.zeros((1, 2), "float32")}, fetch_list=["fc_0.w_0"])[0])


def test_a_worker_trains_anew_after_the_former_job(job: api.Fleet) -> None:
    init_on(job, PaddleCloudRoleMaker())
    assert np.allclose(_trained(job, 1.0), 0.1)
    init_on(job, is_collective=True)
    init_on(job, PaddleCloudRoleMaker())
    assert np.allclose(_trained(job, 2.0), 0.2)

"""What newcomers get wrong in one line, and the line that says what was meant."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import cast

import pytest
import torch
from torch import nn

import fleet
from fleet import env
from fleet.api import Fleet
from fleet.errors import NotReadyError, UsageError, UsageTypeError
from fleet.launch.processes.child import Child
from fleet.launch.run import torch_alone, unserved


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (
            fleet.rules.Adagrad,
            "learning_rate",
            "fleet.rules.Adagrad has no argument 'learning_rate'; did you mean 'lr'?",
        ),
        (fleet.rules.Adam, "beta1", "no argument 'beta1'; did you mean 'betas'?"),
        (fleet.rules.SGD, "momentun", "no argument 'momentun'; did you mean 'momentum'?"),
        (fleet.rules.SGD, "xyz", "no argument 'xyz'; it has lr, momentum, dampening, weight_decay, nesterov, maximize"),
        (fleet.rules.Sum, "lr", "fleet.rules.Sum has no argument 'lr'; it takes none"),
        (fleet.initializers.Normal, "scale", "fleet.initializers.Normal .* did you mean 'std'?"),
        (fleet.CountFilterEntry, "count_filter", "fleet.entries.CountFilterEntry .* it has count"),
    ],
)
def test_an_argument_by_another_name(make: Callable[..., object], given: str, message: str) -> None:
    with pytest.raises(UsageTypeError, match=message):
        make(**{given: 0.1})


def test_an_embedding_of_torch() -> None:
    with pytest.raises(UsageError, match=r"no vocabulary.*give the width alone: fleet.nn.Embedding\(8\)"):
        fleet.nn.Embedding(1000, 8)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"table 'embedding': rule .* 'adagrad'; .* fleet.rules.Adagrad\(lr=0.1\)"):
        fleet.nn.Embedding(8, rule="adagrad")  # type: ignore[arg-type]


def test_a_collective_script_that_does_not_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one, module = Fleet(), nn.Linear(1, 1)
    sgd = torch.optim.SGD(module.parameters(), lr=0.1)
    for call in (lambda: one.distributed_model(module), lambda: one.distributed_optimizer(sgd)):
        with pytest.raises(NotReadyError, match=r"call fleet.init\(\) first"):
            call()
    try:
        one.init()
        with pytest.raises(NotReadyError, match=r"begin with fleet.init\(is_collective=True\)"):
            one.distributed_optimizer(sgd).step()
        one.shutdown()
        for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")):
            monkeypatch.setenv(name, value)
        one.init()
        for call in (lambda: one.distributed_model(module), lambda: one.distributed_optimizer(sgd)):
            with pytest.raises(UsageError, match=r"2 workers and no servers; call fleet.init\(is_collective=True\)"):
                call()
    finally:
        one.shutdown()


def test_the_optimizer_of_a_collective_job_is_not_copied_either() -> None:
    one, module = Fleet(), nn.Linear(1, 1)
    try:
        one.init(is_collective=True)
        optimizer = one.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=0.1))
        for copied in (copy.deepcopy, pickle.dumps):
            with pytest.raises(UsageError, match="belongs to this job and cannot be copied or pickled; save its state"):
                copied(optimizer)
    finally:
        one.shutdown()


def test_a_variable_that_is_nearly_one_of_ours_is_named() -> None:
    given = {"FLEET_STALL_TIMEOUT": "5", "FLEET_STALL_TIMEOUT_S": "5", "FLEET_MY_OWN": "1", "STALL_TIMEOUT_S": "5"}
    assert env.misspelt(given) == {"FLEET_STALL_TIMEOUT": "FLEET_STALL_TIMEOUT_S"}


def test_what_torch_says_beside_servers_is_explained() -> None:
    for said in ("environment variable RANK expected, but not set", "Default process group has not been initialized"):
        assert "fleetrun --nproc_per_node 2" in str(torch_alone.remedy(["Traceback", f"ValueError: {said}, please"]))
    assert torch_alone.remedy(["ZeroDivisionError: division by zero"]) is None


class Ended:
    """A child that has ended."""

    def __init__(self, role: str = "server", *, served: bool = False, told: bool = False, noted: bool = False) -> None:
        self.plan = type("Plan", (), {"role": role, "name": f"{role} 0"})
        self.back_at = 1.0 if served else None
        self.status, self.was_told_to_stop, self.noted_at = 0, told, 1.0 if noted else None


def test_servers_that_ran_a_script_without_fleet_are_named_once() -> None:
    def said(*children: Ended) -> str | None:
        return unserved.complaint(cast("Child", child) for child in children)

    assert said(Ended(served=True)) is None
    assert said(Ended("worker"), Ended(told=True), Ended(noted=True)) is None
    assert "server 0, server 0 ran the script to its end" in str(said(Ended(), Ended(served=True), Ended()))

"""fleet.ps.job.from_torch: the rule a torch optimizer stands for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adagrad, Adam, Adamax, AdamW, Optimizer, RMSprop

from fleet.errors import UsageError
from fleet.optim import Lamb, Lars
from fleet.ps.job import rules
from fleet.ps.job.from_torch import check_fresh, check_unchanged, rule_of
from fleet.ps.job.named_spec import RuleSpec


def made(kind: Any, **arguments: Any) -> Optimizer:
    optimizer: Optimizer = kind([nn.Parameter(torch.ones(2))], **arguments)
    return optimizer


def rule(kind: Any, **arguments: Any) -> RuleSpec:
    optimizer = made(kind, **arguments)
    return rule_of(optimizer, optimizer.param_groups[0])


@pytest.mark.parametrize(
    ("kind", "ours"),
    [
        (SGD, rules.SGD()),
        (Adagrad, rules.Adagrad()),
        (Adam, rules.Adam()),
        (AdamW, rules.AdamW()),
        (Adamax, rules.Adamax()),
        (RMSprop, rules.RMSprop()),
    ],
)
def test_defaults_are_torchs(kind: type[Optimizer], ours: RuleSpec) -> None:
    assert rule(kind) == ours


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (SGD, {"lr": 0.5, "weight_decay": 0.1, "maximize": True}),
        (SGD, {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
        (SGD, {"lr": 0.5, "momentum": 0.9, "dampening": 0.2}),
        (Adagrad, {"lr": 0.5, "lr_decay": 0.1, "weight_decay": 0.2, "initial_accumulator_value": 0.3, "eps": 0.4}),
        (Adam, {"lr": 0.5, "betas": (0.8, 0.9), "eps": 0.1, "weight_decay": 0.2, "amsgrad": True, "maximize": True}),
        (Adam, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
        (AdamW, {"lr": 0.5, "betas": (0.8, 0.9), "eps": 0.1, "weight_decay": 0.2, "amsgrad": True, "maximize": True}),
        (Adamax, {"lr": 0.5, "betas": (0.8, 0.9), "eps": 0.1, "weight_decay": 0.2, "maximize": True}),
        (RMSprop, {"lr": 0.5, "alpha": 0.9, "eps": 0.1, "weight_decay": 0.2, "momentum": 0.3, "centered": True}),
    ],
)
def test_every_argument_arrives(kind: type[Optimizer], arguments: dict[str, Any]) -> None:
    assert rule(kind, **arguments) == getattr(rules, kind.__name__)(**arguments)


def test_numbers_as_tensors() -> None:
    assert rule(Adam, lr=torch.tensor(0.5)) == rules.Adam(lr=0.5)
    betas = (torch.tensor(0.5), torch.tensor(0.25))
    assert rule(Adam, lr=torch.tensor(0.5), betas=betas, foreach=False) == rules.Adam(lr=0.5, betas=(0.5, 0.25))


@pytest.mark.parametrize("hint", [{"foreach": True}, {"foreach": False}, {"fused": True}])
@pytest.mark.parametrize("kind", [SGD, Adagrad, Adam, AdamW])
def test_hints_change_nothing(kind: type[Optimizer], hint: dict[str, bool]) -> None:
    assert rule(kind, **hint) == rule(kind)


def test_dampening_without_momentum_means_nothing_to_torch() -> None:
    assert rule(SGD, dampening=0.5) == rules.SGD()


def test_groups_have_their_own_rules() -> None:
    groups: list[dict[str, Any]] = [{"params": [nn.Parameter(torch.ones(1))]} for _ in range(2)]
    groups[1].update(lr=0.5, momentum=0.9, name="second")
    optimizer = SGD(groups, lr=0.1)
    assert [rule_of(optimizer, group) for group in optimizer.param_groups] == [rules.SGD(0.1), rules.Momentum(0.5)]


def test_a_schedule_may_leave_its_marks() -> None:
    optimizer = made(SGD, lr=0.1)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    assert rule_of(optimizer, optimizer.param_groups[0]) == rules.SGD(0.0)


class OwnAdam(Adam):
    """A subclass may step as it likes."""


@pytest.mark.parametrize(
    ("kind", "arguments", "line"),
    [
        (
            torch.optim.Adadelta,
            {},
            "Adadelta cannot run on the servers; .* SGD, Adagrad, Adam, AdamW, Adamax, RMSprop$",
        ),
        (Lars, {"lr": 0.1}, "optimizer Lars cannot run on the servers; use one of torch"),
        (Lamb, {}, "optimizer Lamb cannot run on the servers; use one of torch"),
        (OwnAdam, {}, "optimizer OwnAdam cannot run on the servers"),
        (Adam, {"capturable": True}, "optimizer Adam: capturable = True has no meaning on the servers"),
        (RMSprop, {"differentiable": True}, "optimizer RMSprop: differentiable = True has no meaning"),
        (RMSprop, {"alpha": 1.5}, "optimizer RMSprop: rule rmsprop: alpha must be >= 0 and < 1, got 1.5"),
    ],
)
def test_what_servers_cannot_do(kind: type[Optimizer], arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        rule(kind, **arguments)


def test_an_argument_of_a_later_torch() -> None:
    optimizer = made(SGD)
    optimizer.defaults["cautious"] = optimizer.param_groups[0]["cautious"] = True
    with pytest.raises(UsageError, match="optimizer SGD: Fleet does not know its argument cautious, got True"):
        rule_of(optimizer, optimizer.param_groups[0])
    optimizer.param_groups[0]["cautious"] = False
    assert rule_of(optimizer, optimizer.param_groups[0]) == rules.SGD()


@pytest.mark.parametrize("kind", [SGD, Adagrad, Adam, AdamW, Adamax, RMSprop])
def test_a_new_optimizer_is_fresh(kind: type[Optimizer]) -> None:
    check_fresh(made(kind))


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [(SGD, {"momentum": 0.9}), (Adagrad, {}), (Adam, {}), (AdamW, {}), (Adamax, {}), (RMSprop, {})],
)
def test_a_used_optimizer_is_not(kind: type[Optimizer], arguments: dict[str, Any]) -> None:
    optimizer = made(kind, **arguments)
    optimizer.param_groups[0]["params"][0].grad = torch.ones(2)
    optimizer.step()
    with pytest.raises(UsageError, match="has already made steps.*fleet.load_model"):
        check_fresh(optimizer)
    again = made(kind, **arguments)
    again.load_state_dict(optimizer.state_dict())
    with pytest.raises(UsageError, match="has already made steps"):
        check_fresh(again)


def test_a_schedule_of_the_learning_rate_is_followed_and_of_nothing_else() -> None:
    optimizer = made(SGD, lr=0.1, momentum=0.9)
    declared = [rule_of(optimizer, group) for group in optimizer.param_groups]
    optimizer.param_groups[0]["lr"] = 0.5
    check_unchanged(optimizer, declared)
    optimizer.param_groups[0]["momentum"] = 0.8
    with pytest.raises(UsageError, match="group 0 of optimizer SGD changed its momentum from 0.9 to 0.8"):
        check_unchanged(optimizer, declared)
    optimizer.param_groups[0]["momentum"] = 0.0
    with pytest.raises(UsageError, match="group 0 of optimizer SGD changed its rule"):
        check_unchanged(optimizer, declared)

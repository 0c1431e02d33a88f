"""`weight` of a `fleet.nn` module: a parameter to whoever trains, and an error to whoever wants rows of it."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import fleet
from fleet.errors import UsageError
from fleet.nn import Embedding, EmbeddingCollection, Slot
from support.parity.training import joined

ROWS = torch.ones(3, 4)


def modules() -> list[nn.Module]:
    return [Embedding(4), EmbeddingCollection([Slot("a", 4), Slot("b", 2)])]


def _set(weight: Any) -> None:
    weight[0] = 1.0


@pytest.mark.parametrize(
    "write",
    [
        lambda weight: weight.fill_(1.0),
        lambda weight: weight.data.uniform_(-1, 1),
        lambda weight: weight.data.copy_(ROWS),
        lambda weight: setattr(weight, "data", ROWS),
        lambda weight: weight.add_(1.0),
        _set,
        nn.init.uniform_,
        nn.init.normal_,
        nn.init.zeros_,
        lambda weight: nn.init.constant_(weight, 1.0),
        nn.init.kaiming_uniform_,
        nn.init.trunc_normal_,
    ],
)
def test_what_would_write_rows_says_how(write: Callable[[Any], Any]) -> None:
    for module in modules():
        with (
            torch.no_grad(),
            pytest.raises(
                UsageError,
                match=r"would write no row.*initializer=.*from_pretrained.*fleet.load_rows\(module, keys, values",
            ),
        ):
            write(module.weight)


@pytest.mark.parametrize(
    "use",
    [
        lambda weight: weight.norm(),
        lambda weight: weight.pow(2).sum(),
        lambda weight: (weight * weight).sum(),
        lambda weight: torch.ones(2, 4) @ weight.T,
        lambda weight: nn.functional.linear(torch.ones(2, 4), weight),
        lambda weight: nn.functional.embedding(torch.tensor([0]), weight),
        lambda weight: weight[0],
        lambda weight: torch.cat([weight, ROWS]),
        lambda weight: weight.view(-1),
    ],
)
def test_what_would_read_rows_says_how(use: Callable[[Any], Any]) -> None:
    for module in modules():
        with pytest.raises(UsageError, match=r"would see no row.*fleet.gather_state_dict.*weight_decay= of their rule"):
            use(module.weight)


def test_rows_of_a_model_of_torch() -> None:
    model, plain = nn.ModuleDict({"rows": Embedding(4)}), nn.ModuleDict({"rows": nn.Embedding(3, 4)})
    remedy = r"rows.weight of the state_dict has shape \[3, 4\] and no keys.*from_pretrained.*fleet.load_rows"
    for strict in (True, False):
        with pytest.raises(UsageError, match=remedy):
            model.load_state_dict(plain.state_dict(), strict=strict)
    with pytest.raises(UsageError, match=r"weight = Parameter\(tensor\) would write no row"):
        model["rows"].weight = nn.Parameter(ROWS)
    for wrap in (parametrizations.weight_norm, parametrizations.spectral_norm):
        with pytest.raises(UsageError, match="would see no row"):
            wrap(Embedding(4))
    with pytest.raises(UsageError, match="would see no row"):
        prune.l1_unstructured(Embedding(4), "weight", 0.3)


def test_it_is_a_parameter_like_any_other() -> None:
    model = nn.ModuleDict({"rows": Embedding(4), "layer": nn.Linear(4, 1)})
    weight = model["rows"].weight
    assert isinstance(weight, nn.Parameter)
    assert sum(one.numel() for one in model.parameters()) == 5
    assert [tuple(one.shape) for _, one in model.named_parameters()] == [(0, 4), (1, 4), (1,)]
    assert "rows of width 4" in repr(weight)
    for kind in (torch.optim.SGD, torch.optim.Adagrad, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adamax):
        optimizer = kind(model.parameters(), lr=0.1)
        twin = copy.deepcopy(optimizer)
        twin.load_state_dict(optimizer.state_dict())
        twin.add_param_group({"params": Embedding(2).parameters()})
    weight.grad = torch.zeros_like(weight)
    model["layer"].weight.grad = torch.ones(1, 4)
    assert nn.utils.clip_grad_norm_(model.parameters(), 1.0) == 2
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    model.zero_grad()
    assert weight.grad is None
    model.half().float().to("cpu", torch.float64).float().share_memory()
    assert model["rows"].weight is weight
    assert not model.requires_grad_(False)["rows"].weight.requires_grad
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file, weights_only=True))
    assert [type(one) for one in model.state_dict().values()] == [torch.Tensor] * 3


def test_a_plain_optimizer_that_steps_is_told() -> None:
    """It would leave the rows as they are."""
    model = nn.Sequential(Embedding(4), nn.Linear(4, 1))
    plain = torch.optim.Adam(model.parameters())
    with joined(model=model, optimizer=lambda _: plain) as one:
        model(torch.tensor([1])).sum().backward()
        with pytest.raises(UsageError, match="call it on what that returned"):
            plain.step()
        one.optimizer.step()
        assert one.fleet.server_stats()[0]["tables"]["0"]["rows"] == 1


def test_a_penalty_goes_by_the_rule_or_by_the_rows_that_were_read() -> None:
    """Both are what torch does with the rows of a batch."""
    ids, start = torch.tensor([0, 1, 1]), torch.arange(8.0).view(2, 4)

    def train(rule: Any, penalty: float) -> torch.Tensor:
        rows = Embedding.from_pretrained(start, freeze=False, rule=rule)
        with joined(model=rows) as one:
            for _ in range(3):
                one.optimizer.zero_grad()
                found = rows(torch.tensor([0, 1]))
                (rows(ids).sum() + penalty / 2 * found.pow(2).sum()).backward()
                one.optimizer.step()
            with torch.no_grad():
                trained: torch.Tensor = rows(torch.arange(2))
            return trained

    truth = nn.Embedding.from_pretrained(start.clone(), freeze=False)
    sgd = torch.optim.SGD(truth.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(3):
        sgd.zero_grad()
        truth(ids).sum().backward()
        sgd.step()
    torch.testing.assert_close(train(fleet.rules.SGD(lr=0.1, weight_decay=0.5), 0.0), truth.weight.detach())
    torch.testing.assert_close(train(fleet.rules.SGD(lr=0.1), 0.5), truth.weight.detach())


def test_a_model_that_trains_may_be_compiled() -> None:
    model = nn.Sequential(Embedding(4), nn.Linear(4, 1))
    with joined(model=model) as one:
        compiled = torch.compile(model, backend="eager")
        compiled(torch.tensor([1, 2])).sum().backward()
        one.optimizer.step()
        assert one.fleet.server_stats()[0]["tables"]["0"]["rows"] == 2

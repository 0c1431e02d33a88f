"""What scripts do around an optimizer's step means the same beside servers, or is an error that says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.errors import NotReadyError, UsageError

IDS = torch.arange(6).view(3, 2)


class Model(nn.Module):
    def __init__(self, rule: Any = None) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(4, rule=rule, initializer=fleet.initializers.Constant(0.5))
        self.layer = nn.Linear(8, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(self.rows(ids).flatten(1)).squeeze(1)
        return result


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    fleet.init()
    yield
    fleet.shutdown()


def start(rule: Any = None) -> tuple[Model, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = fleet.distributed_model(Model(rule))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    fleet.init_worker()
    return model, optimizer


def rows_of(model: Model) -> torch.Tensor:
    with torch.no_grad():
        rows: torch.Tensor = model.rows(torch.arange(6))
    return rows.clone()


def learn(model: Model, optimizer: torch.optim.Optimizer, scaler: Any = None) -> None:
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(IDS).square().sum()
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


@pytest.mark.parametrize("rule", [None, fleet.rules.SGD(lr=0.1)])
def test_a_scaler_unscales_rows_too(rule: Any) -> None:
    model, optimizer = start(rule)
    learn(model, optimizer)
    plain = rows_of(model), model.layer.weight.clone()
    fleet.stop_worker()
    model, optimizer = start(rule)
    learn(model, optimizer, torch.amp.GradScaler("cpu", init_scale=2.0**10))
    torch.testing.assert_close((rows_of(model), model.layer.weight.clone()), plain)


def test_a_scaler_skips_a_step_whole() -> None:
    model, optimizer = start()
    learn(model, optimizer)
    before = rows_of(model), model.layer.weight.clone()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    scaler.scale(model(IDS).sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close((rows_of(model), model.layer.weight.clone()), before)
    assert scaler.get_scale() < 2.0**10
    optimizer.zero_grad()
    learn(model, optimizer, scaler)
    assert not torch.equal(rows_of(model), before[0])


def test_unscaling_by_hand_is_refused_where_there_are_rows() -> None:
    model, optimizer = start()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(model(IDS).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(UsageError, match=r"unscale_\(optimizer\) cannot reach the rows of tables; leave it out"):
        scaler.step(optimizer)


@pytest.mark.parametrize("how", ["model", "optimizer", "none"])
def test_zeroed_gradients_of_rows_are_gone(how: str) -> None:
    model, optimizer = start()
    model(IDS).sum().backward()
    if how == "model":
        model.zero_grad()
    elif how == "optimizer":
        optimizer.zero_grad()
    else:
        for parameter in model.parameters():
            parameter.grad = None
    before = rows_of(model)
    optimizer.step()
    assert not rows_of(model).any()  # no row was made
    assert torch.equal(rows_of(model), before)


def test_what_comes_after_zeroing_counts() -> None:
    model, optimizer = start()
    model(IDS).sum().backward()
    model.zero_grad()
    model(IDS).sum().backward()
    model(IDS).sum().backward()
    optimizer.step()
    weight = model.layer.weight.detach()
    torch.manual_seed(0)
    first = Model().layer.weight.detach().view(2, 4)
    torch.testing.assert_close(rows_of(model)[:2], 0.5 - 0.1 * 2 * first)
    assert weight.shape == (1, 8)


def test_rows_in_evaluation_are_not_trained_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    model, optimizer = start()
    model.eval()
    with caplog.at_level(logging.WARNING, logger="fleet"):
        learn(model, optimizer)
    said = [record.getMessage() for record in caplog.records if "in evaluation" in record.getMessage()]
    assert len(said) == 1
    assert "rows of table 'rows' get no gradients" in said[0]
    assert not rows_of(model).any()
    model.rows.train()
    learn(model, optimizer)
    assert rows_of(model).any()


@pytest.mark.parametrize("how", ["fill_", "load_state_dict"])
def test_values_written_by_hand_are_not_lost_in_silence(how: str) -> None:
    model, optimizer = start()
    learn(model, optimizer)
    if how == "fill_":
        with torch.no_grad():
            model.layer.bias.fill_(7.0)
    else:
        model.layer.load_state_dict({"weight": torch.ones(1, 8), "bias": torch.ones(1)})
    model(IDS).sum().backward()
    with pytest.raises(UsageError, match=r"parameter 'layer\.\w+' was changed by hand after fleet.init_worker\(\)"):
        optimizer.step()


def test_values_that_are_put_back_are_no_change() -> None:
    model, optimizer = start()
    learn(model, optimizer)
    before = {name: value.clone() for name, value in model.layer.state_dict().items()}
    with torch.no_grad():
        model.layer.weight.zero_()
    model.layer.load_state_dict(before)
    learn(model, optimizer)
    assert not torch.equal(model.layer.weight, before["weight"])


def test_a_buffer_that_torch_does_not_save_may_be_new(tmp_path: Path) -> None:
    model, optimizer = start()
    learn(model, optimizer)
    fleet.save_persistables(tmp_path / "saved")
    fleet.stop_worker()
    torch.manual_seed(0)
    other = Model()
    other.register_buffer("cache", torch.ones(3), persistent=False)
    fleet.distributed_model(other)
    fleet.distributed_optimizer(torch.optim.SGD(other.parameters(), lr=0.1))
    fleet.init_worker()
    fleet.load_model(tmp_path / "saved")
    assert torch.equal(other.get_buffer("cache"), torch.ones(3))


def test_a_model_that_comes_late_is_named() -> None:
    model = Model()
    fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(UsageError, match=r"in no model of this job; call fleet.distributed_model\(model\) before"):
        fleet.init_worker()
    fleet.shutdown()
    fleet.init()
    fleet.init_worker()
    with pytest.raises(NotReadyError, match=r"distributed_model\(\) must come before fleet.init_worker\(\)"):
        fleet.distributed_model(model)


def test_a_folder_of_steps_is_not_one_of_them(tmp_path: Path) -> None:
    model, optimizer = start()
    with fleet.Checkpoint(tmp_path / "runs", model=model, optimizer=optimizer) as checkpoint:
        checkpoint.save(3)
    with pytest.raises(fleet.FleetError, match="it holds step-00000003 of fleet.Checkpoint; name one of them"):
        fleet.load_model(tmp_path / "runs")


def test_a_compiled_model_learns_the_same() -> None:
    """Lookups are calls to servers, which a compiler cannot look into: it compiles what is around them."""
    model, optimizer = start(fleet.rules.SGD(lr=0.1))
    learn(model, optimizer)
    plain = rows_of(model), model.layer.weight.detach().clone()
    fleet.stop_worker()
    model, optimizer = start(fleet.rules.SGD(lr=0.1))
    learn(torch.compile(model, backend="eager"), optimizer)  # type: ignore[arg-type]
    assert torch.equal(rows_of(model), plain[0])
    assert torch.equal(model.layer.weight, plain[1])

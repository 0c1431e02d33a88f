"""The looking of a plan: bytes of models that can be counted by hand, and a model that stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.collective.parts.recompute import recompute
from fleet.errors import UsageError
from fleet_tools.looking.saved_bytes import SavedBytes, storage_of
from fleet_tools.planner.plan import Plan

WIDE = 64
ROWS = 32


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, WIDE), nn.Tanh(), nn.BatchNorm1d(WIDE), nn.Linear(WIDE, 1))


def optimizers(model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    parameters = list(model.parameters())
    return {
        "sgd": torch.optim.SGD(parameters, lr=0.1),
        "momentum": torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "adam": torch.optim.Adam(parameters, lr=0.1),
        "amsgrad": torch.optim.AdamW(parameters, lr=0.1, amsgrad=True),
        "nadam": torch.optim.NAdam(parameters, lr=0.1),
        "radam": torch.optim.RAdam(parameters, lr=0.1),
        "adamax": torch.optim.Adamax(parameters, lr=0.1),
        "adagrad": torch.optim.Adagrad(parameters, lr=0.1),
        "adadelta": torch.optim.Adadelta(parameters, lr=0.1),
        "rmsprop": torch.optim.RMSprop(parameters, lr=0.1, centered=True, momentum=0.9),
        "unknown": torch.optim.Rprop(parameters, lr=0.1),
    }


def here(model: nn.Module, batch: Any, *more: Any, **named: Any) -> Plan:
    return fleet.plan(model, batch, *more, num_gpus=0, **named)


@pytest.mark.parametrize("name", list(optimizers(net())))
def test_dense_bytes_are_those_that_torch_has(name: str) -> None:
    model = net()
    optimizer = optimizers(model)[name]
    found = here(model, torch.randn(ROWS, 8), optimizer).workload
    model(torch.randn(ROWS, 8)).sum().backward()
    optimizer.step()
    kept = [value for state in optimizer.state.values() for value in state.values()]
    state = sum(value.nbytes for value in kept if isinstance(value, torch.Tensor))
    size = sum(one.nbytes for one in model.parameters())
    dense, seen = found.dense, found.measured
    assert dense.parameter_bytes == seen.parameter_bytes == size
    assert (
        dense.gradient_bytes
        == seen.gradient_bytes
        == sum(one.grad.nbytes for one in model.parameters() if one.grad is not None)
    )
    assert dense.state_bytes == seen.state_bytes == state
    assert dense.other_bytes == sum(one.nbytes for one in model.buffers())
    assert bool(found.notes) == (name == "unknown")


def test_the_model_and_the_optimizer_stay_as_they_are() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = here(model, torch.randn(ROWS, 8), optimizer)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not optimizer.state
    assert all(one.grad is None for one in model.parameters())
    assert found.workload.batch_size == ROWS
    assert found.workload.measured.is_warm


def test_activations_are_what_the_layers_keep() -> None:
    """Linear keeps its input, tanh its output, which is the next layer's input; the mean keeps nothing."""
    model = nn.Sequential(nn.Linear(8, WIDE), nn.Tanh(), nn.Linear(WIDE, 1))
    found = here(model, torch.randn(ROWS, 8), loss=lambda outputs: outputs.sum()).workload
    assert found.measured.activation_bytes == 4 * ROWS * (8 + WIDE)


def test_each_storage_counts_once_and_at_its_most() -> None:
    model, x = nn.Identity(), torch.randn(ROWS, 8, requires_grad=True)
    saved = SavedBytes(model)
    saved.start()
    try:
        first = (x * x.view(8, ROWS).T.contiguous() * x[0]).sum()  # x twice, a copy of it, and a product
        both = saved.now_bytes
        first.backward()
        after = saved.now_bytes
        (x * x).sum().backward()
    finally:
        saved.stop()
    assert both == 3 * x.nbytes
    assert after == 0
    assert saved.most_bytes == both
    assert saved.now_bytes == 0
    assert storage_of(x) == storage_of(x[3:])


def test_parameters_are_not_activations() -> None:
    model = nn.Linear(8, WIDE)
    found = here(model, torch.randn(ROWS, 8)).workload
    assert found.measured.activation_bytes == 4 * ROWS * 8


class Deep(nn.Module):
    """Blocks that keep more than their input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, WIDE), nn.Tanh(), nn.Linear(WIDE, 8)) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_the_blocks_that_are_worth_recomputing_are_found_and_save_what_was_said() -> None:
    x = torch.randn(ROWS, 8)
    found = here(Deep(), x).workload
    assert found.block is not None
    assert found.block.pattern == "layers.*"
    assert found.block.saved_bytes == (4 * ROWS * (8 + WIDE),) * 6
    assert found.block.input_bytes == 6 * 4 * ROWS * 8
    saved = SavedBytes(model := Deep())
    recompute(model, ["layers.*"], offload=False)
    saved.start()
    try:
        model(x).sum().backward()
    finally:
        saved.stop()
    # The inputs are kept; the block that is computed again is beside them while its backward runs.
    left = found.measured.activation_bytes - found.block.saving
    assert left - max(found.block.saved_bytes) <= saved.most_bytes <= left


class Clicks(nn.Module):
    def __init__(self, **table: Any) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(8, table="ads", rule=fleet.rules.Adagrad(lr=0.1), **table)
        self.layer = nn.Linear(24, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(self.rows(ids).flatten(1))
        return logits


@pytest.mark.parametrize(("dtype", "value_bytes"), [("float32", 32), ("bfloat16", 16)])
def test_tables_are_seen_with_what_a_batch_asks_of_them(dtype: str, value_bytes: int) -> None:
    ids = torch.tensor([[1, 2, 3], [1, 2, 4], [1, 7, 7]])
    model = Clicks(dtype=dtype)
    found = here(model, (ids,), rows={"ads": 1000})
    (table,) = found.workload.tables
    assert (table.name, table.width, table.value_bytes, table.state_bytes) == ("ads", 8, value_bytes, 32)
    assert (table.num_ids, table.num_distinct) == (9, 5)
    assert found.workload.measured.table_bytes > 0
    assert found.workload.dense.server_bytes == 4 * (25 * 3) + 4  # values, two moments, one counter: Adam
    assert not model.rows.is_bound


def test_what_has_no_plan_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="this Identity has nothing to train"):
        here(nn.Identity(), torch.randn(2))
    with pytest.raises(UsageError, match="nothing that the model returned has a gradient"):
        here(Silent(), torch.randn(2))
    with pytest.raises(UsageError, match="parameters that are not the model's"):
        here(net(), torch.randn(ROWS, 8), torch.optim.SGD(net().parameters(), lr=0.1))
    with pytest.raises(UsageError, match="host_memory must be a number of bytes or a text such as"):
        here(net(), torch.randn(ROWS, 8), host_memory="much")
    with pytest.raises(UsageError, match="no such table; its tables are: none"):
        here(net(), torch.randn(ROWS, 8), rows={"ads": 3})


class Silent(nn.Linear):
    """Returns numbers alone."""

    def __init__(self) -> None:
        super().__init__(2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).detach()


class Moody(nn.Module):
    """Will not be called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.is_used = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_used:
            raise RuntimeError("once is enough")
        self.is_used = True
        out: torch.Tensor = self.layer(x)
        return out


def test_a_step_that_cannot_be_repeated_has_the_times_of_the_first() -> None:
    found = here(Moody(), torch.randn(ROWS, 8)).workload
    assert not found.measured.is_warm
    assert found.measured.forward_s > 0
    assert "RuntimeError: once is enough" in found.notes[0]

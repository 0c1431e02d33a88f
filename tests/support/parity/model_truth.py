"""A model of `fleet.models` with nothing of Fleet in it: each sparse module becomes a matrix and plain torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

import fleet
from fleet import _native
from fleet.nn import Embedding, EmbeddingCollection, Slot, SparseModule
from support.worker.model_cases import BATCH, CASES, NUM_IDS, Case, share

FIRST = fleet.initializers.Uniform(-0.5, 0.5)
ROWS: dict[str, Any] = {"lr": 0.1, "initial_accumulator_value": 0.1}  # no steps of lr times the sign of nothing
DENSE: dict[str, Any] = {"lr": 0.1, "momentum": 0.5}


class Zoo(nn.Module):
    """All models in one job, each with tables of its own."""

    def __init__(self, cases: list[Case] = CASES) -> None:
        super().__init__()
        self.cases = cases
        self.nets = nn.ModuleDict({case.name: case.make() for case in cases})
        for case in cases:
            for name, module in list(sparse_of(self.nets[case.name]).items()):
                self.nets[case.name].set_submodule(name, _with_own_tables(module, case.name))

    def losses(self, step: list[Any]) -> list[torch.Tensor]:
        """The loss of each model, for its batch of a step."""
        nets: Any = self.nets.values()
        return [net.loss(net(batch), batch) for net, batch in zip(nets, step, strict=True)]

    def keys(self, step: list[Any]) -> dict[str, Any]:
        """For `fleet.prefetch`: what each sparse module will be called with."""
        wanted: dict[str, Any] = {}
        for (case, net), batch in zip(self.nets.items(), step, strict=True):
            modules = list(sparse_of(net))
            keys = net.keys(batch)  # type: ignore[operator]
            of_modules = {modules[0]: keys} if len(modules) == 1 else keys
            wanted |= {f"nets.{case}.{name}": given for name, given in of_modules.items()}
        return wanted

    def dense(self) -> list[nn.Parameter]:
        """All that is no row."""
        rows = {id(one) for module in sparse_of(self).values() for one in module.parameters()}
        return [one for one in self.parameters() if id(one) not in rows]


def sparse_of(model: nn.Module) -> dict[str, nn.Module]:
    """Modules that look up rows, of Fleet or plain, by name."""
    return {name: one for name, one in model.named_modules() if isinstance(one, SparseModule | PlainRows)}


def _with_own_tables(module: nn.Module, case: str) -> nn.Module:
    """The same with tables that no other model has, larger first values and one rule."""
    rule = fleet.rules.Adagrad(**ROWS)
    if isinstance(module, EmbeddingCollection):
        return EmbeddingCollection(
            [replace(slot, table=f"{case}.{slot.request.name}", rule=rule, initializer=FIRST) for slot in module.slots]
        )
    assert isinstance(module, Embedding)
    name = f"{case}.{module._request.name}"
    module._request = replace(module._request, name=name, rule=rule, initializer=FIRST)
    return module


class PlainRows(nn.Module):
    """What an Embedding or an EmbeddingCollection gives, from matrices that hold every id."""

    def __init__(self, module: nn.Module, tables: Mapping[str, nn.Parameter]) -> None:
        super().__init__()
        if isinstance(module, EmbeddingCollection):
            self.slots: tuple[Slot, ...] | None = module.slots
            self.own = [(str(slot.request.name), slot.pooling, slot.padding_idx) for slot in module.slots]
        else:
            assert isinstance(module, Embedding)
            self.slots = None
            self.own = [(str(module._request.name), module.pooling, module.padding_idx)]
        self.tables = nn.ParameterDict({name.replace(".", "/"): tables[name] for name, _, _ in self.own})

    def forward(self, inputs: Any, offsets: torch.Tensor | None = None) -> Any:
        if self.slots is None:
            return self._rows(0, inputs, offsets)
        pairs = [one if isinstance(one, tuple) else (one, None) for one in (inputs[slot.name] for slot in self.slots)]
        return {slot.name: self._rows(place, *pairs[place]) for place, slot in enumerate(self.slots)}

    def _rows(self, place: int, ids: torch.Tensor, offsets: torch.Tensor | None) -> torch.Tensor:
        name, pooling, padding = self.own[place]
        if offsets is not None:  # of length B + 1
            return torch.cat([self._rows(place, bag.unsqueeze(0), None) for bag in ids.split(offsets.diff().tolist())])
        is_there = torch.ones_like(ids) if padding is None else (ids != padding).long()
        rows: torch.Tensor = self.tables[name.replace(".", "/")][ids] * is_there.unsqueeze(-1)
        if pooling == "none":
            return rows
        total: torch.Tensor = rows.sum(1)
        return total if pooling == "sum" else total / is_there.sum(1, keepdim=True).clamp(min=1)


def train() -> tuple[Zoo, dict[str, list[float]]]:
    """Plain torch in one process, with the batch of all workers: the models, and the loss of each at every step."""
    torch.manual_seed(0)
    zoo = Zoo()
    tables: dict[str, nn.Parameter] = {}
    for module in sparse_of(zoo).values():
        for request in module.table_requests():  # type: ignore[operator]
            first = _native.initialize(
                FIRST.name, dict(FIRST.args), 0, request.name, torch.arange(NUM_IDS), request.width
            )
            tables.setdefault(request.name, nn.Parameter(torch.from_numpy(first)))
    for name, module in sparse_of(zoo).items():
        zoo.set_submodule(name, PlainRows(module, tables))
    optimizers = [torch.optim.SGD(zoo.dense(), **DENSE), torch.optim.Adagrad(tables.values(), **ROWS)]
    losses: dict[str, list[float]] = {case.name: [] for case in zoo.cases}
    for step in zip(*(case.batches() for case in zoo.cases), strict=True):
        whole = _losses(zoo, step)
        for case, loss in zip(zoo.cases, whole, strict=True):
            losses[case.name].append(loss.item())
        for optimizer in optimizers:
            optimizer.zero_grad()
        torch.stack(whole).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    return zoo, losses


def _losses(zoo: Zoo, step: tuple[Any, ...]) -> list[torch.Tensor]:
    found = []
    nets: Any = zoo.nets.values()
    for case, net, batch in zip(zoo.cases, nets, step, strict=True):
        parts = [share(batch, worker, 2) for worker in (0, 1)] if case.by_parts else [batch]
        found.append(torch.stack([net.loss(net(part), part) for part in parts]).mean())
    return found


assert BATCH % 2 == 0

"""A model with two tables of different widths and a branch that not every batch uses, beside servers, in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

import fleet
from fleet import _native
from fleet.nn import Embedding
from support.parity.training import Trainer

NUM_IDS = 12
WIDTHS = {"users": 4, "items": 6}
NORMAL = fleet.initializers.Normal(std=0.5)
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool]
"""Users [B, 3], items [B, 3], targets [B]; whether the branch is used."""


class Tower(nn.Module):
    """`rows` makes the embedding of a table."""

    def __init__(self, rows: Callable[[str], nn.Module]) -> None:
        super().__init__()
        self.users, self.items = rows("users"), rows("items")
        generator = torch.Generator().manual_seed(7)
        self.branch = nn.Linear(4, 4)
        self.trunk = nn.Linear(10, 8)
        self.out = nn.Linear(8, 1)
        with torch.no_grad():
            for layer in (self.branch, self.trunk, self.out):
                for parameter in layer.parameters():
                    parameter.uniform_(-0.5, 0.5, generator=generator)

    def layers(self) -> list[nn.Parameter]:
        return [one for layer in (self.branch, self.trunk, self.out) for one in layer.parameters()]

    def rows(self) -> list[nn.Parameter]:
        return [*self.users.parameters(), *self.items.parameters()]

    def forward(self, users: torch.Tensor, items: torch.Tensor, uses_branch: bool) -> torch.Tensor:
        own = self.users(users).sum(1)
        if uses_branch:
            own = own + self.branch(own)
        hidden = torch.tanh(self.trunk(torch.cat([own, self.items(items).sum(1)], dim=1)))
        scores: torch.Tensor = self.out(hidden).squeeze(1)
        return scores


def served_rows(name: str) -> nn.Module:
    """A table on the servers, which follows the optimizer."""
    return Embedding(WIDTHS[name], table=name, initializer=NORMAL)


def plain_rows(name: str) -> nn.Module:
    """The same rows in torch."""
    keys = torch.arange(NUM_IDS).numpy()
    made = nn.Embedding(NUM_IDS, WIDTHS[name])
    first = _native.initialize(NORMAL.name, dict(NORMAL.args), 0, name, keys, WIDTHS[name])
    made.weight = nn.Parameter(torch.from_numpy(first))
    return made


def batch_of(step: int, worker: int, *, uses_branch: bool = True, size: int = 4) -> Batch:
    """Ids that repeat within a batch and among workers."""
    generator = torch.Generator().manual_seed(100 * worker + step)
    users, items = (torch.randint(NUM_IDS, (size, 3), generator=generator) for _ in range(2))
    return users, items, 3 * torch.randn(size, generator=generator), uses_branch


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    users, items, targets, uses_branch = batch
    return nn.functional.mse_loss(model(users, items, uses_branch), targets)


def one_optimizer(model: Tower) -> list[torch.optim.Optimizer]:
    return [torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=0.1)]


def two_optimizers(model: Tower) -> list[torch.optim.Optimizer]:
    """Adam with a decay for the layers."""
    return [
        torch.optim.Adagrad(model.rows(), lr=0.1, initial_accumulator_value=0.1),
        torch.optim.Adam(model.layers(), lr=0.05, weight_decay=0.1),
    ]


Make = Callable[[Tower], list[torch.optim.Optimizer]]
Clip = Callable[[Tower, list[torch.optim.Optimizer]], object]


def train_plain(make: Make, steps: Sequence[Sequence[Batch]], clip: Clip, *, set_to_none: bool = True) -> Tower:
    """Plain torch: each step is the mean over some batches of equal size."""
    model = Tower(plain_rows)
    optimizers = make(model)
    for batches in steps:
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none)
        torch.stack([loss_of(model, batch) for batch in batches]).mean().backward()
        clip(model, optimizers)
        for optimizer in optimizers:
            optimizer.step()
    return model


def train_served(
    one: Trainer, optimizers: Sequence[torch.optim.Optimizer], batches: Sequence[Batch], clip: Clip, **zero: bool
) -> None:
    for batch in batches:
        for optimizer in optimizers:
            optimizer.zero_grad(**zero)
        loss_of(one.model, batch).backward()
        clip(one.model, list(optimizers))  # type: ignore[arg-type]
        for optimizer in optimizers:
            optimizer.step()


def values_of(model: Tower) -> dict[str, torch.Tensor]:
    """All rows and layers, of either model."""
    ids = torch.arange(NUM_IDS)
    with torch.no_grad():
        found = {name: getattr(model, name)(ids).clone() for name in WIDTHS}
    return found | {name: one.detach().clone() for name, one in model.named_parameters() if name[0] in "bto"}


def assert_alike(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    """To 1e-6; the error names what differs."""
    far = {name: float((found[name] - one).abs().max()) for name, one in wanted.items()}
    assert all(distance < 1e-6 for distance in far.values()), far

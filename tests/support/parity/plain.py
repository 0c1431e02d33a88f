"""The truth: the model of `support.parity.around` in plain torch, in one process, with a parameter for each table.

Nothing of Fleet is used but the first values of rows. Only rows that a step has seen move, as in a table of servers;
dense parameters are torch.optim's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import SGD, Adagrad, Adam, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from fleet import _native
from support.parity.around import CTR, INITIALIZER, KEYS, TORCH_SEED, WIDTHS, Batch, loss_of


class PlainEmbedding(nn.Module):
    """All rows of the vocabulary, in the order of KEYS; `weight` has no elements, as Fleet's, and names the group."""

    def __init__(self, name: str, pooling: str) -> None:
        super().__init__()
        width = WIDTHS[name]
        self.weight = nn.Parameter(torch.empty(0, width))
        first = _native.initialize(INITIALIZER.name, dict(INITIALIZER.args), 0, name, KEYS, width)
        self.rows = torch.from_numpy(first).requires_grad_()
        self.state = {kind: torch.zeros(len(KEYS), width) for kind in ("first", "second")}
        self.steps = torch.zeros(len(KEYS), 1)
        self.pooling = pooling
        self._seen = torch.zeros(len(KEYS), dtype=torch.bool)

    def forward(self, ids: torch.Tensor, offsets: torch.Tensor | None = None) -> torch.Tensor:
        index = (ids.unsqueeze(-1) == KEYS).long().argmax(-1)
        self._seen[index.flatten()] = True
        if offsets is None:
            return self.rows[index]
        return F.embedding_bag(index, self.rows, offsets, mode=self.pooling)

    @torch.no_grad()
    def update(self, kind: type[Optimizer], group: dict[str, Any]) -> None:
        """One step of the rows that were seen since the last, with the arguments of an optimizer's group."""
        seen = self._seen.nonzero().squeeze(1)
        assert self.rows.grad is not None
        old = self.rows[seen]
        grad = self.rows.grad[seen] + group["weight_decay"] * old
        self.steps[seen] += 1
        first, second, steps = self.state["first"][seen], self.state["second"][seen], self.steps[seen]
        if kind is SGD:
            first = group["momentum"] * first + grad
            new = old - group["lr"] * first
        elif kind is Adagrad:
            first = first + grad**2
            new = old - group["lr"] * grad / (first.sqrt() + group["eps"])
        else:
            assert kind is Adam
            beta1, beta2 = group["betas"]
            first = beta1 * first + (1 - beta1) * grad
            second = beta2 * second + (1 - beta2) * grad**2
            size = (second / (1 - beta2**steps)).sqrt() + group["eps"]
            new = old - group["lr"] * first / (1 - beta1**steps) / size
        self.rows[seen], self.state["first"][seen], self.state["second"][seen] = new, first, second
        self.rows.grad = None
        self._seen.zero_()


def train_plain(
    optimizer_of: Callable[[nn.Module], Optimizer],
    data: Sequence[Batch],
    *,
    model: Callable[[], nn.Module] = lambda: CTR(PlainEmbedding),
    loss: Callable[[nn.Module, Any], torch.Tensor] = loss_of,
    accumulate: int = 1,
    schedule: Callable[[Optimizer], LRScheduler] | None = None,
) -> tuple[list[float], nn.Module]:
    """Train on whole batches; the loss of every batch, and the model at the end."""
    torch.manual_seed(TORCH_SEED)
    made = model()
    optimizer = optimizer_of(made)
    scheduler = schedule and schedule(optimizer)
    tables = [module for module in made.modules() if isinstance(module, PlainEmbedding)]
    losses = []
    for number, batch in enumerate(data, start=1):
        value = loss(made, batch)
        losses.append(value.item())
        value.backward()
        if number % accumulate:
            continue
        for table in tables:
            (group,) = (
                group for group in optimizer.param_groups if any(one is table.weight for one in group["params"])
            )
            table.update(type(optimizer), group)
        optimizer.step()
        optimizer.zero_grad()
        if scheduler:
            scheduler.step()
    return losses, made

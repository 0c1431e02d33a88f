"""Which optimizer of torch an optimizer is."""

from __future__ import annotations

from torch.optim import Optimizer


def kind_of(optimizer: Optimizer) -> type[Optimizer]:
    """An optimizer's class; for one that only gives an optimizer of torch other names, torch's."""
    kind: type[Optimizer] = getattr(optimizer, "stands_for", type(optimizer))
    return kind

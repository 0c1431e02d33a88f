"""What optimizers of Fleet have in common: closures, the optimizer of torch that they are, and that none is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.optim import Optimizer

from fleet.errors import UsageError


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """What the closure gives, computed with gradients though `step` has none; None without a closure."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def kind_of(optimizer: Optimizer) -> type[Optimizer]:
    """An optimizer's class; for one that only gives an optimizer of torch other names, torch's."""
    kind: type[Optimizer] = getattr(optimizer, "stands_for", type(optimizer))
    return kind


class Uncopied:
    """Refuses `copy.deepcopy`, `pickle` and `torch.save`: what came of them would be bound to nothing."""

    def __getstate__(self) -> NoReturn:
        raise UsageError(
            "the optimizer of fleet.distributed_optimizer() belongs to this job and cannot be copied or pickled; save "
            "its state with fleet.Checkpoint, or its param_groups alone with state_dict()"
        )

    def __setstate__(self, state: Any) -> NoReturn:
        raise UsageError("an optimizer of fleet.distributed_optimizer() cannot be unpickled; make it anew")

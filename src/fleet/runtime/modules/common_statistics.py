"""The running statistics that a save would write, lent to all workers for an evaluation.

Each worker's batch norm follows its own batches. Measured with those, every worker would measure another model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from fleet.collective.world.util import Util


@contextmanager
def common_statistics(model: object, util: Util | None, *, of_first: bool) -> Iterator[None]:
    """Inside, batch norm has the mean of all workers' running statistics or worker 0's; afterwards its own again.

    Every worker of `util` comes here. Where they have different models nothing is lent: what follows will say so.
    """
    own = [] if util is None or not isinstance(model, nn.Module) else _running(model)
    kept = [one.detach().clone() for one in own]
    if util is not None:
        told = util.all_gather(
            torch.cat([torch.zeros(0, dtype=torch.float64), *(one.cpu().double().flatten() for one in kept)])
        )
        if own and len({len(one) for one in told}) == 1:
            _put(own, told[0] if of_first else torch.stack(told).mean(0))
    try:
        yield
    finally:
        for one, value in zip(own, kept, strict=True):
            one.data.copy_(value)


def _running(model: nn.Module) -> list[torch.Tensor]:
    norms = [one for one in model.modules() if isinstance(one, _NormBase)]
    running = [one for norm in norms for one in (norm.running_mean, norm.running_var)]
    return [one for one in running if one is not None and not is_lazy(one)]


def _put(tensors: list[torch.Tensor], values: torch.Tensor) -> None:
    parts = values.split([one.numel() for one in tensors])
    for one, part in zip(tensors, parts, strict=True):
        one.data.copy_(part.view(one.shape))

"""`PReLU`, the activation that is trained; those without parameters are in `fleet_paddle.imperative.nn.table`."""

from __future__ import annotations

from typing import Any

import torch

from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_programs.parameters.initializer import Constant

__all__ = ["PReLU"]


class PReLU(Layer):
    """x where it is positive, a trained fraction of it elsewhere: one for all, or one for each channel."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, weight_attr: Any = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(init))

    def forward(self, x: torch.Tensor) -> Any:
        return F.prelu(x, self._weight)

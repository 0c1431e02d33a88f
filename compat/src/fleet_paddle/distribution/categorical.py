"""A distribution over the numbers 0, 1, ... of a last dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.distribution.base import Distribution, operands
from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.nn import functional
from fleet_paddle.imperative.tensor import as_paddle
from fleet_programs.program.variable import Variable


class Categorical(Distribution):
    """By the last dimension of `logits`.

    PaddlePaddle reads them in two ways, and so does this: `entropy` and `kl_divergence` take their softmax, while
    `sample`, `probs` and `log_prob` take them for weights, which must not be negative.
    """

    def __init__(self, logits: Any, name: str | None = None) -> None:
        (self.logits,) = operands(logits)
        self.name = name or "Categorical"

    def sample(self, shape: Sequence[int] = (), seed: int = 0) -> Any:
        """`shape` numbers for each row of weights; with a `seed` the same each time."""
        if isinstance(self.logits, Variable):
            raise NotSupportedError(
                "Categorical.sample: it is not built for programs; fetch the logits and draw with numpy.random"
            )
        if bool((self.logits < 0).any()):
            raise UsageError("Categorical.sample: logits are taken for weights and must be >= 0; give it exp(logits)")
        rows = self.logits.reshape([-1, self.logits.shape[-1]])
        generator = torch.Generator(rows.device).manual_seed(seed) if seed else None
        num = int(torch.Size(shape).numel())
        drawn = torch.multinomial(rows, num, replacement=True, generator=generator)
        return as_paddle(drawn.t().reshape([*shape, *self.logits.shape[:-1]]))

    def entropy(self) -> Any:
        """Of the softmax of the logits; the last dimension stays, of size 1."""
        logs = functional.log_softmax(self.logits, axis=-1)
        return table.sum(table.exp(logs) * logs, axis=-1, keepdim=True) * -1.0

    def kl_divergence(self, other: Any) -> Any:
        """From the softmax of these logits to that of another's; the last dimension stays, of size 1."""
        self._same_kind(other)
        logs = functional.log_softmax(self.logits, axis=-1)
        others = functional.log_softmax(other.logits, axis=-1)
        return table.sum(table.exp(logs) * (logs - others), axis=-1, keepdim=True)

    def probs(self, value: Any) -> Any:
        """The weights' shares of the numbers in `value`: of each row those of its row, or any of a single row."""
        shares = self.logits / table.sum(self.logits, axis=-1, keepdim=True)
        if len(shares.shape) == 1:
            picked = table.gather(shares, table.reshape(value, [-1]))
            return table.reshape(picked, list(value.shape))
        return table.index_sample(shares, value) if len(shares.shape) == 2 else _picked(shares, value)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of `probs`."""
        return table.log(self.probs(value))


def _picked(shares: Any, value: Any) -> Any:
    if isinstance(shares, Variable):
        raise NotSupportedError(
            f"Categorical.probs: logits of a program must have 1 or 2 dimensions, got {len(shares.shape)}; reshape them"
        )
    return as_paddle(torch.take_along_dim(shares, value, dim=-1))

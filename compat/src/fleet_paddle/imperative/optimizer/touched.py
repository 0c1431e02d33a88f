"""Adam on a large sparse embedding without walking through all of it.

A row that has never had a gradient has no moments, and Adam moves it by nothing: 0 / (0 + epsilon). So a step that
updates every row that ever had one has the result of a step over the whole table, at the price of those rows: a table
of a million rows of which a job has seen a thousand takes a fraction of a millisecond instead of ten. Where more rows
have been seen, torch's own step over all of them is faster again, and is taken from then on.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

DENSE_SHARE = 64
"""One row of so many seen: from there on the whole table is updated. Narrow rows cross over there on a CPU."""


class Touched:
    """The rows of one table whose moments are not zero, in the order in which they were first seen."""

    def __init__(self, first: torch.Tensor, second: torch.Tensor, are_new: bool) -> None:
        if are_new:
            self.rows = torch.empty(0, dtype=torch.int64, device=first.device)
        else:
            seen = ((first != 0) | (second != 0)).flatten(1).any(1)
            self.rows = torch.nonzero(seen)[:, 0]
        self.place = torch.full((len(first),), -1, dtype=torch.int64, device=first.device)
        """Where a row stands in `rows`; -1 where it does not."""
        self.place[self.rows] = torch.arange(len(self.rows), device=first.device)
        self.version, self.count = -1, -1.0
        """That of the first moment, and the steps, after our last update: others tell that somebody else has written.

        Both are needed: torch's fused pass over a dense gradient counts its step and leaves the version as it was.
        """

    def add(self, rows: torch.Tensor) -> None:
        """Take in rows, each given once."""
        new = rows[self.place[rows] < 0]
        if len(new):
            self.place[new] = torch.arange(len(self.rows), len(self.rows) + len(new), device=new.device)
            self.rows = torch.cat([self.rows, new])

    @property
    def is_most(self) -> bool:
        """Whether so many rows are seen that the whole table is cheaper."""
        return len(self.rows) * DENSE_SHARE > len(self.place)


class AdamTouched:
    """Adam's update by a sparse gradient whose rows are distinct, without decay; one for each optimizer."""

    def __init__(self) -> None:
        self._tables: Any = WeakIdKeyDictionary()  # by the first moment, and so anew where a state was loaded

    def __reduce__(self) -> tuple[type[AdamTouched], tuple[()]]:
        return AdamTouched, ()  # a copy finds out anew

    def __call__(
        self, parameter: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any], state: dict[str, Any]
    ) -> bool:
        """Update the rows that ever had a gradient; False leaves it to torch's own step."""
        if gradient.sparse_dim() != 1:
            return False
        is_new = not state
        if is_new:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        first, second = state["exp_avg"], state["exp_avg_sq"]
        known = self._known(first, second, is_new, float(state["step"]))
        rows = gradient.indices()[0]
        known.add(rows)
        if known.is_most:
            return False
        values = gradient.values()
        every = values.new_zeros((len(known.rows), *values.shape[1:]))
        every.index_copy_(0, known.place[rows], values)
        state["step"] += 1
        count, (beta1, beta2) = float(state["step"]), group["betas"]
        # index_select and index_copy_ move whole rows: several times as fast as brackets are here.
        mean = torch.index_select(first, 0, known.rows).lerp_(every, 1 - beta1)
        square = torch.index_select(second, 0, known.rows).mul_(beta2).addcmul_(every, every, value=1 - beta2)
        root = square.sqrt().div_(math.sqrt(1 - beta2**count)).add_(group["eps"])
        weights = torch.index_select(parameter, 0, known.rows)
        weights.addcdiv_(mean, root, value=-group["lr"] / (1 - beta1**count))
        for table, new in ((parameter, weights), (first, mean), (second, square)):
            table.index_copy_(0, known.rows, new)
        known.version, known.count = first._version, count
        return True

    def _known(self, first: torch.Tensor, second: torch.Tensor, are_new: bool, count: float) -> Touched:
        """What is known of a table, found anew where its moments were written by somebody else."""
        known: Touched | None = self._tables.get(first)
        is_ours = known is not None and (known.version, known.count) == (first._version, count)
        if known is None or not (is_ours or known.is_most):
            known = self._tables[first] = Touched(first, second, are_new)
        return known

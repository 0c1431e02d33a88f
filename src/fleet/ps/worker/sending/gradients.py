"""What one step of a worker sends: gradients, or differences, of rows and of dense parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fleet.ps.wire.formats import decoded_rows
from fleet.ps.worker.asking.lookup import Lookup

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensor
    from fleet.ps.worker.sending.encoding import EncodedDense


@dataclass
class TablePush:
    """The gradients, or differences, of some keys of one table; keys are grouped by server."""

    table: int
    lr: float
    keys: torch.Tensor
    grads: torch.Tensor
    ends: list[int]
    """Where each server's keys end; the first begins at 0."""
    counts: torch.Tensor | None = None
    shows: torch.Tensor | None = None
    clicks: torch.Tensor | None = None
    format: int = 0
    """The format of `grads`, as in proto/ps.proto; they are encoded rows unless it is 0, float32."""

    def parts(self) -> list[list[Tensor]]:
        """The tensors for each server, as views."""
        tensors = [self.keys, self.grads, self.counts, self.shows, self.clicks]
        arrays = [tensor.numpy() for tensor in tensors if tensor is not None]
        return [[array[begin:end] for array in arrays] for begin, end in pairwise(self.ends)]

    def values(self, width: int) -> NDArray[np.float32]:
        """What the servers read: the gradients after rounding, where there is some."""
        rows: NDArray[Any] = self.grads.numpy()
        return decoded_rows(rows, self.format, (len(self.keys), width), "rows") if self.format else rows


def push_of(lookup: Lookup, grads: torch.Tensor, lr: float) -> TablePush:
    """What is sent of a lookup's gradients."""
    route = lookup.route
    offsets = route.offsets.tolist()
    return TablePush(lookup.table, lr, route.grouped, grads, offsets, route.counts, lookup.shows, lookup.clicks)


@dataclass
class Gradients:
    """What one push sends to all servers."""

    step: int
    tables: list[TablePush] = field(default_factory=list)
    dense: list[list[Tensor]] = field(default_factory=list)
    """For each server, one buffer for each dense group of `lrs`, in its order; empty: no dense gradients."""
    lrs: dict[int, float] = field(default_factory=dict)
    """The learning rate of each dense group that is pushed, ascending."""
    pulled_version: int = 0
    stepped: frozenset[int] | None = None
    """The tables that the step trains, with those that had no gradient in it; None: all."""
    steps: int = 0
    """How many steps of this worker are in this push and those before it, in all its lives."""
    position: bytes = b""
    """Where the data of this worker is after these steps."""
    is_pass: bool = False
    """Whether the worker has no batch left, and only takes part in the step."""
    absent: tuple[int, ...] = ()
    """Parameters, by their place in the job's list of shapes, that had no part in the loss; `dense` has zeros."""
    encoded: EncodedDense | None = None
    """How `dense` travels, where that is not float32."""

"""The keys of one table in one batch, from the batch's ids to the gradients of the distinct rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from fleet.ps.keys import Route, route
from fleet.ps.meters import measured
from fleet.ps.staging import download, upload, wait_for

CPU = torch.device("cpu")


class Request(NamedTuple):
    """Ids of one table, as the model has them. Shows and clicks are given per id."""

    table: int
    sources: tuple[torch.Tensor, ...]
    shows: torch.Tensor | None = None
    clicks: torch.Tensor | None = None

    def is_for(self, other: Request) -> bool:
        """Whether both mean the very same tensors: how a prefetched lookup is found again."""
        same = len(self.sources) == len(other.sources)
        return (
            same and self.table == other.table and all(a is b for a, b in zip(self.sources, other.sources, strict=True))
        )


@dataclass(eq=False)
class Lookup:
    """One table's part of a batch. `rows` is a leaf whose gradient is what a push sends."""

    request: Request
    width: int
    route: Route
    inverse: torch.Tensor
    """Position in `rows` of each id of all sources, one after the other, on the device of `rows`."""
    shows: torch.Tensor | None = None
    clicks: torch.Tensor | None = None
    rows: torch.Tensor | None = None
    version: int = 0
    """Of the servers when the rows were pulled."""

    @property
    def table(self) -> int:
        """The index of the table in the job's declaration."""
        return self.request.table

    @property
    def num_rows(self) -> int:
        """How many distinct keys there are."""
        return len(self.route.grouped)

    def set_rows(self, rows: torch.Tensor, device: torch.device, with_grad: bool) -> None:
        """Rows [distinct, width] have arrived; a `host_buffer` of the device goes there without a wait."""
        self.rows = upload(rows, device).requires_grad_(with_grad)

    def train(self, with_grad: bool) -> None:
        """Set whether the rows get a gradient; they may have been pulled for a module that wanted it otherwise."""
        if self.rows is not None and self.rows.requires_grad != with_grad:
            self.rows.requires_grad_(with_grad)

    def gradients(self) -> torch.Tensor | None:
        """Those of the distinct rows, in host memory after `wait_for(rows.device)`; None if none reached them."""
        if self.rows is None or self.rows.grad is None:
            return None
        grad = self.rows.grad
        return download((grad.to_dense() if grad.is_sparse else grad).to(torch.float32).contiguous())


def make_lookup(request: Request, width: int, num_servers: int, *, counts: bool, device: torch.device = CPU) -> Lookup:
    """Find the distinct keys of a batch and their servers; shows and clicks are summed per key.

    Ids may lie anywhere. `device` is where the rows will be; ids in host memory are quickest for every device.
    """
    with measured("route"):
        found = route(_flat(request.sources), num_servers, counts=counts)
        shows, clicks = (
            None if values is None else _summed(values.detach().to("cpu").reshape(-1), found)
            for values in (request.shows, request.clicks)
        )
        inverse = upload(found.inverse.reshape(-1), device)
    return Lookup(request, width, found, inverse, shows, clicks)


def _flat(sources: tuple[torch.Tensor, ...]) -> torch.Tensor:
    parts = [download(source.detach().reshape(-1)) for source in sources]
    for device in {source.device for source in sources}:
        wait_for(device)
    return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts)


def _summed(values: torch.Tensor, found: Route) -> torch.Tensor:
    return torch.zeros(len(found.grouped), dtype=torch.float32).index_add_(0, found.inverse.reshape(-1), values.float())

"""The keys of one table in one batch, from the batch's ids to the gradients of the distinct rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from fleet.errors import UsageError
from fleet.ps.job.spec import TableSpec
from fleet.ps.job.staging import download, upload, wait_for
from fleet.ps.worker.asking.keys import Route, route, route_there
from fleet.ps.worker.parts.meters import measured, routed

if TYPE_CHECKING:
    from fleet.ps.hot.hot_rows import SlotPlacement

CPU = torch.device("cpu")


class Request(NamedTuple):
    """Ids of one table, as the model has them. Shows and clicks are given per id."""

    table: int
    sources: tuple[torch.Tensor, ...]
    shows: torch.Tensor | None = None
    clicks: torch.Tensor | None = None
    only_read: bool = False
    """Whether the rows are only read, not trained."""
    paddings: tuple[int | None, ...] = ()
    """For each source the id that stands for nothing: it has no row, and no server hears of it. Empty: none has."""

    def is_for(self, other: Request) -> bool:
        """Whether both mean the very same tensors: how a prefetched lookup is found again."""
        same = (self.table, self.paddings, len(self.sources)) == (other.table, other.paddings, len(other.sources))
        return same and all(a is b for a, b in zip(self.sources, other.sources, strict=True))


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
    """The servers' version when the rows were pulled."""
    weight: torch.Tensor | None = None
    """The `weight` of the module it was made for; zeroing gradients leaves it without one."""
    has_padding: bool = False
    """Whether `rows` end with a row of zeros that belongs to no key: the row of padding."""
    placement: SlotPlacement | None = None
    """The slots of its rows, if they are trained where the model is: see `fleet.ps.hot.hot_rows`."""

    @property
    def table(self) -> int:
        """The index of the table in the job's declaration."""
        return self.request.table

    @property
    def num_rows(self) -> int:
        """How many distinct keys there are."""
        return len(self.route.grouped)

    @property
    def height(self) -> int:
        """How many rows `rows` has: one for each distinct key and, at the end, one for padding."""
        return self.num_rows + self.has_padding

    @property
    def padding_row(self) -> int | None:
        """Which of `rows` is the row of padding, if one is."""
        return self.num_rows if self.has_padding else None

    def set_rows(self, rows: torch.Tensor, device: torch.device, with_grad: bool) -> None:
        """Take rows [height, width] that have arrived; a `host_buffer` of the device is copied there without a wait."""
        self.rows = upload(rows, device).requires_grad_(with_grad)

    def asked_again(self, *, only_read: bool) -> Lookup:
        """The same keys, whose rows are wanted for another purpose."""
        return replace(self, request=self.request._replace(only_read=only_read), rows=None, version=0)

    @property
    def may_matter(self) -> bool:
        """Whether the rows have a gradient, or a graph of autograd holds them, by which they may still get one."""
        if self.rows is None or self.rows.grad is not None:
            return self.rows is not None
        holders: int = self.rows._use_count()  # type: ignore[attr-defined]  # torch has it, its types do not
        return holders > 1

    def train(self, with_grad: bool) -> None:
        """Set whether the rows get a gradient; they may have been pulled for a module that wanted it otherwise."""
        if self.rows is not None and self.rows.requires_grad != with_grad:
            self.rows.requires_grad_(with_grad)

    def gradients(self) -> torch.Tensor | None:
        """The gradients of the distinct rows, in host memory after `wait_for(rows.device)`; None if there are none."""
        grad = self.row_gradients
        return None if grad is None else download(grad.to(torch.float32).contiguous())

    @property
    def row_gradients(self) -> torch.Tensor | None:
        """The gradients of the distinct rows where they lie; padding has none."""
        if self.rows is None or self.rows.grad is None:
            return None
        grad = self.rows.grad.to_dense() if self.rows.grad.is_sparse else self.rows.grad
        return grad[: self.num_rows] if self.has_padding else grad


def completed(request: Request, spec: TableSpec) -> Request:
    """The request, checked, with both shows and clicks if it has one."""
    _, sources, shows, clicks = request[:4]
    if (shows is not None or clicks is not None) and spec.entry.name != "show_click":
        raise UsageError(
            f"table {spec.name!r} does not count shows and clicks; give it entry=ShowClickEntry(), or, where these "
            "are weights, name them: per_sample_weights="
        )
    for what, values in (("show", shows), ("click", clicks)):
        if values is not None and values.numel() != (num_ids := sum(source.numel() for source in sources)):
            raise UsageError(f"table {spec.name!r}: {what} has {values.numel()} values for {num_ids} ids")
    if shows is None and clicks is not None:
        shows = torch.ones_like(clicks)
    if clicks is None and shows is not None:
        clicks = torch.zeros_like(shows)
    return request._replace(shows=shows, clicks=clicks)


def make_lookup(
    request: Request,
    width: int,
    num_servers: int,
    *,
    counts: bool,
    device: torch.device = CPU,
    keys_stay: bool = False,
) -> Lookup:
    """Find the distinct keys of a batch and their servers; shows and clicks are summed per key.

    Ids may lie anywhere. `device` is where the rows will be: a GPU finds the keys for one server by itself, and with
    `keys_stay` they may stay there.
    """
    with measured("route"):
        if device.type == "cuda" and num_servers == 1 and not request.paddings and request.shows is None:
            there, inverse = route_there(request.sources, device, counts=counts, keys_stay=keys_stay)
            routed(inverse.numel(), len(there.grouped))
            return Lookup(request, width, there, inverse)
        parts = _flat(request.sources)
        kept = _kept(parts, request.paddings)
        ids = parts[0].contiguous() if len(parts) == 1 else torch.cat(parts)
        found = route(ids if kept is None else ids[kept], num_servers, counts=counts)
        shows, clicks = (
            None if values is None else _summed(values.detach().to("cpu").reshape(-1), found, kept)
            for values in (request.shows, request.clicks)
        )
        inverse = found.inverse.reshape(-1)
        routed(inverse.numel(), len(found.grouped))
        if kept is not None:
            inverse = torch.full(ids.shape, len(found.grouped)).masked_scatter_(kept, inverse)
        inverse = upload(inverse, device)
    return Lookup(request, width, found, inverse, shows, clicks, has_padding=kept is not None)


def _flat(sources: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    parts = [download(source.detach().reshape(-1)) for source in sources]
    for device in {source.device for source in sources}:
        wait_for(device)
    return parts


def _kept(parts: Sequence[torch.Tensor], paddings: Sequence[int | None]) -> torch.Tensor | None:
    """Which ids of all parts are not padding; None if none is padding."""
    if all(padding is None for padding in paddings):
        return None
    kept = torch.cat(
        [
            torch.ones_like(part, dtype=torch.bool) if padding is None else part != padding
            for part, padding in zip(parts, paddings, strict=True)
        ]
    )
    return None if kept.all() else kept


def _summed(values: torch.Tensor, found: Route, kept: torch.Tensor | None) -> torch.Tensor:
    values = values if kept is None else values[kept]
    return torch.zeros(len(found.grouped), dtype=torch.float32).index_add_(0, found.inverse.reshape(-1), values.float())

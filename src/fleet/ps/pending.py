"""What a worker sends to all servers at once, and the answers on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from fleet.errors import CommunicationError, MovedError
from fleet.ps.calls import Call, results
from fleet.ps.meters import measured
from fleet.ps.staging import host_buffer

if TYPE_CHECKING:
    from fleet.ps.lookup import Lookup
    from fleet.ps.place import Place
    from fleet.ps.wire import Tensor, Tensors

Answers = list[tuple[Any, "Tensors"]]


class Follower(Protocol):
    """A worker's client, which goes where the servers are."""

    place: Place

    def follow(self, place: Place) -> None:
        """Find the servers that have taken the place of some."""


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

    def part(self, server: int) -> list[Tensor]:
        """The tensors for one server, as views."""
        begin, end = self.ends[server], self.ends[server + 1]
        tensors = [self.keys, self.grads, self.counts, self.shows, self.clicks]
        return [tensor[begin:end].numpy() for tensor in tensors if tensor is not None]


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
    """The tables that the step was about, also those without a gradient in it; None: all."""
    steps: int = 0
    """How many steps of this worker are in this push and those before it, in all its lives."""
    position: bytes = b""
    """Where its data is after them."""


@dataclass
class Sent:
    """Calls to the servers of one place."""

    place: Place
    calls: Sequence[Call]
    rows: Sequence[tuple[torch.Tensor | None, int]] = ()
    """Of each tensor of rows in the answers, their order if it is not the one they were wanted in, and their width."""


class Pending:
    """A call to every server, under way; where other servers have taken their place, it is made again."""

    def __init__(
        self,
        client: Follower,
        send: Callable[[Place], Sent],
        note: Callable[[Answers], None] | None = None,
        *,
        dense: bool = False,
        kept: bool = False,
    ) -> None:
        """`note` looks at the answers of all servers together. `dense`, `kept`: what the answers have after rows."""
        self._client = client
        self._send = send
        self._note = note
        self._has = {"dense": dense, "kept": kept}
        self._sent = send(client.place)

    def results(self) -> Answers:
        """One answer per server that this worker has declared its job to."""
        with measured("wait"):
            while True:
                try:
                    answers = results(self._sent.calls)
                    break
                except MovedError:
                    self._client.follow(self._sent.place)
                    self._sent = self._send(self._client.place)
        if self._note is not None:
            self._note(answers)
        return self._sent.place.answers(answers, self._sent.rows, **self._has)


class PendingPull:
    """Rows on their way; `finish` puts them into the lookups."""

    def __init__(self, results: Callable[[], list[tuple[Any, Tensors]]], lookups: Sequence[Lookup]) -> None:
        """`results` waits for one answer per server, whose tensors begin with the rows of the lookups."""
        self.results = results
        self._lookups = lookups

    def finish(self, device: torch.device, with_grad: bool) -> tuple[int, list[Tensors]]:
        """Wait; returns the version and each server's dense tensors."""
        answers = self.results()
        with measured("pull"):
            version = max((header.version for header, _ in answers), default=0)
            for number, lookup in enumerate(self._lookups):
                parts = [tensors[number] for _, tensors in answers]
                lookup.set_rows(_joined(parts, lookup, device), device, with_grad)
                lookup.version = version
        return version, [tensors[len(self._lookups) :] for _, tensors in answers]


def _joined(parts: Sequence[Tensor], lookup: Lookup, device: torch.device) -> torch.Tensor:
    """The rows of all servers, one after the other, which is the order of the lookup's keys; bound for `device`."""
    rows = host_buffer((lookup.height, lookup.width), device)
    if lookup.has_padding:
        rows[lookup.num_rows :] = 0.0
    flat = rows[: lookup.num_rows].view(-1).numpy()
    begin = 0
    for part in parts:
        values = part.reshape(-1) if isinstance(part, np.ndarray) else np.frombuffer(part, np.float32)
        if begin + len(values) > len(flat):
            break
        flat[begin : begin + len(values)] = values
        begin += len(values)
    if begin != len(flat):
        raise CommunicationError(f"servers answered {begin} values for {lookup.num_rows} rows of {lookup.width}")
    return rows

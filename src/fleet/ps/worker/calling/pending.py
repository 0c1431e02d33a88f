"""Calls to every server that are under way, and rows that are on their way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fleet.errors import CommunicationError, MovedError, UsageError
from fleet.ps.job.staging import host_buffer
from fleet.ps.wire.calls import ServerCall, results
from fleet.ps.wire.formats import decoded_answer
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.calling.server_set import ServerSet
from fleet.ps.worker.parts.meters import measured

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensor, Tensors
    from fleet.ps.worker.calling.client import Client

Answers = list[tuple[Any, "Tensors"]]


@dataclass
class Sent:
    """Calls to every server of one set."""

    server_set: ServerSet
    calls: Sequence[ServerCall]
    rows: Sequence[tuple[torch.Tensor | None, int]] = ()
    """For each tensor of rows in the answers: their order, if it is not the wanted one, and their width."""
    rest: Callable[[Any], Sequence[ServerCall]] | None = None
    """Makes the other calls, from the answer to the first; None: all have been made."""
    formats: Sequence[int] = ()
    """The format of each tensor of rows; empty: all are float32."""
    dense_format: int = 0
    """The format of the dense values, if there are some."""

    def results(self) -> Answers:
        """One answer per server of the set, in float32."""
        answers = results(self.calls)
        if self.rest is not None:
            answers += results(self.rest(answers[0][0]))
        if not (any(self.formats) or self.dense_format):
            return answers
        widths, formats = [width for _, width in self.rows], self.formats or [0] * len(self.rows)
        try:
            return [
                (header, decoded_answer(tensors, widths, formats, self.server_set.job, server, self.dense_format))
                for server, (header, tensors) in enumerate(answers)
            ]
        except UsageError as error:  # a server's mistake, not ours
            raise CommunicationError(f"an answer cannot be read: {error}") from None


class Pending:
    """A call to every server, under way; made again where other servers have taken their place."""

    def __init__(
        self,
        client: Client,
        send: Callable[[ServerSet], Sent],
        note: Callable[[Answers], None] | None = None,
        *,
        dense: bool = False,
        kept: bool = False,
    ) -> None:
        """`note` looks at the answers of all servers together. `dense`, `kept`: what the answers have after rows."""
        self._client = client
        self._send = send
        self._note = note
        self._dense, self._kept = dense, kept
        self._sent = send(client.server_set)

    def again(self) -> None:
        """Make the call once more, for a server that has lost what came of it."""
        self._sent = self._send(self._client.server_set)

    def results(self) -> Answers:
        """One answer per server that this worker has declared its job to."""
        with measured("wait"):
            while True:
                try:
                    answers = self._sent.results()
                    break
                except MovedError:
                    self._client.follow(self._sent.server_set)
                    self._sent = self._send(self._client.server_set)
        if self._note is not None:
            self._note(answers)
        return self._sent.server_set.answers(answers, self._sent.rows, dense=self._dense, kept=self._kept)


class Unanswered:
    """The push of a synchronous step that nobody has waited for yet; the servers may still lose it."""

    def __init__(self) -> None:
        self._sent: Pending | None = None

    def put(self, sent: Pending | None) -> None:
        """Keep a push until somebody waits for it; None: the one that is kept matters no more."""
        self._sent = sent

    def wait(self) -> None:
        """Return when its step is complete, on all servers."""
        sent, self._sent = self._sent, None
        if sent is not None:
            sent.results()


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


def _pinned(parts: Sequence[Tensor], shape: tuple[int, int]) -> torch.Tensor | None:
    """The rows where they lie, if a service in this process has put all of them into pinned memory."""
    if len(parts) != 1 or not isinstance(parts[0], np.ndarray) or not parts[0].flags.writeable:
        return None
    whole = torch.from_numpy(parts[0])
    return whole if whole.shape == shape and whole.is_pinned() else None


def _joined(parts: Sequence[Tensor], lookup: Lookup, device: torch.device) -> torch.Tensor:
    """The rows of all servers, one after the other, which is the order of the lookup's keys; bound for `device`."""
    if device.type == "cuda" and (whole := _pinned(parts, (lookup.height, lookup.width))) is not None:
        return whole
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

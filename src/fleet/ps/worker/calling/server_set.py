"""The servers that a worker talks to, and how it goes on when their number changes.

A worker's model is bound to the placement that it declared when it joined, and keeps it when the number of servers
changes: what the worker sends is cut anew for the present servers, and their answers are put together as if they came
from those it began with. A worker that is started again declares the placement of today, and needs none of this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import CommunicationError
from fleet.jobfiles.layouts import Layouts
from fleet.jobfiles.terms import Terms, own_whereabouts
from fleet.ps.job.dense_spec import DenseSpec
from fleet.ps.job.patience import rpc_timeout_s
from fleet.ps.job.spec import JobSpec
from fleet.ps.wire.calls import ServerCall, voice_of
from fleet.ps.worker.asking.keys import Route, split
from fleet.ps.worker.sending.gradients import Gradients, TablePush

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensor, Tensors
    from fleet.ps.wire.transport import Transport
    from fleet.ps.worker.calling.pending import Answers

_FOLLOW_S = 10.0
_LOOK_S = 0.02

Floats = NDArray[np.float32]


class Recut:
    """Makes the dense buffers of one placement from those of another."""

    def __init__(self, source: DenseSpec, target: DenseSpec, num_targets: int) -> None:
        pieces: dict[str, list[tuple[int, int, int, int]]] = {}
        ends: dict[tuple[int, int], int] = {}
        for block in source.blocks:
            at = ends.get((block.server, block.group), 0)
            pieces.setdefault(block.parameter, []).append((block.begin, block.end, block.server, at))
            ends[block.server, block.group] = at + block.end - block.begin
        self._num_targets = num_targets
        self._parts: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        """For each server and group, where its elements are: server, begin and end."""
        for block in target.blocks:
            parts = self._parts.setdefault((block.server, block.group), [])
            for begin, end, server, at in pieces[block.parameter]:
                low, high = max(begin, block.begin), min(end, block.end)
                if low < high:
                    parts.append((server, at + low - begin, at + high - begin))

    def buffers(self, sources: Sequence[Sequence[Tensor]], groups: Sequence[int]) -> list[list[Tensor]]:
        """For each server one buffer for each of the groups, which `sources` have in the same order."""
        found = [[_floats(tensor) for tensor in tensors] for tensors in sources]
        return [
            [
                np.concatenate(
                    [
                        np.zeros(0, np.float32),
                        *(
                            found[source][number][begin:end]
                            for source, begin, end in self._parts.get((server, group), [])
                        ),
                    ]
                )
                for number, group in enumerate(groups)
            ]
            for server in range(self._num_targets)
        ]


@dataclass(frozen=True)
class ServerSet:
    """Some servers, and the job as they hold it."""

    transports: list[Transport]
    job: JobSpec
    declared: JobSpec
    """The job as this worker declared it when it joined."""
    layout: int = 0
    """The number of their layout or, where servers have copies, of the term."""
    instances: list[int] = field(default_factory=list)
    """The present life of each server, as it names that; 0 until it has told."""

    def go_by(self, server: int, transport: Transport) -> None:
        """Send calls to a server through another transport, which wraps the present one."""
        self.transports[server] = transport

    @cached_property
    def term(self) -> int:
        """The term that calls to them go by; 0 where servers have no copies."""
        return self.layout if isinstance(self._whereabouts, Terms) else 0

    @cached_property
    def _whereabouts(self) -> Terms | Layouts | None:
        return own_whereabouts()

    def moved(self, server: int) -> Callable[[], bool] | None:
        """Says whether another has taken the place of a server; None if that never happens."""
        whereabouts = self._whereabouts
        if whereabouts is None:
            return None
        endpoint = self.transports[server].endpoint if isinstance(whereabouts, Terms) else ""

        def has_moved() -> bool:
            later = whereabouts.later(self.layout)
            return later is not None and later.endpoints[server : server + 1] != (endpoint,)

        return has_moved

    def call(
        self,
        server: int,
        method: str,
        header: Any,
        tensors: Tensors = (),
        *,
        timeout_s: float,
        patience_s: float | None = None,
        waits_for_others: bool = False,
    ) -> ServerCall:
        """Begin a call to one server. `waits_for_others`: whether the answer may have to wait for other workers."""
        transport, patience_s = self.transports[server], rpc_timeout_s() if patience_s is None else patience_s
        voice = voice_of(transport, header.caller, method, waits_for_others=waits_for_others)
        return ServerCall(transport, method, header, tensors, timeout_s, patience_s, voice, self.moved(server))

    @property
    def is_declared(self) -> bool:
        """Whether the servers are those that the worker began with."""
        return self.job is self.declared

    def keys(self, route: Route) -> tuple[list[NDArray[np.int64]], torch.Tensor | None]:
        """The keys for each server, and, where they were grouped for other servers, the order they are in now."""
        if len(route.offsets) == len(self.transports) + 1:
            return _cut(route.grouped, route.offsets), None
        parts = split(route.grouped, len(self.transports))
        return _cut(parts.grouped, parts.offsets), parts.order

    def push(self, push: TablePush) -> list[list[Tensor]]:
        """The tensors of a push for each server."""
        if len(push.ends) == len(self.transports) + 1:
            return push.parts()
        parts = split(push.keys, len(self.transports))
        given = (push.keys, push.grads, push.counts, push.shows, push.clicks)
        tensors = [torch.from_numpy(tensor.numpy()[parts.order.numpy()]) for tensor in given if tensor is not None]
        ends = pairwise(parts.offsets.tolist())
        return [[tensor[begin:end].numpy() for tensor in tensors] for begin, end in ends]

    def dense(self, buffers: Sequence[Sequence[Tensor]], groups: Sequence[int]) -> Sequence[Sequence[Tensor]]:
        """Dense buffers for each server, from those for the declared servers."""
        return buffers if self.is_declared or not buffers else self._there.buffers(buffers, groups)

    def encoded(self, gradients: Gradients) -> tuple[Sequence[Sequence[Tensor]], Sequence[Sequence[Any]]]:
        """The tensors of dense gradients for each server, and for each how they travel; empty: all are float32.

        Other servers than the declared ones get the same values in float32: they have other blocks.
        """
        encoded, groups = gradients.encoded, list(gradients.lrs)
        if encoded is None:
            return self.dense(gradients.dense, groups), ()
        if self.is_declared:
            return encoded.tensors, encoded.forms
        return self.dense(encoded.values(), groups), ()

    def kept(self, tensors: Sequence[Sequence[Tensor]]) -> Sequence[Sequence[Tensor]]:
        """Kept tensors for each server, from those for the declared servers."""
        return tensors if self.is_declared else _kept(tensors, self.declared, self.job)

    def answers(
        self,
        answers: Answers,
        rows: Sequence[tuple[torch.Tensor | None, int]],
        *,
        dense: bool = False,
        kept: bool = False,
    ) -> Answers:
        """Answers as the declared servers would have given them: rows in the order asked for, then the rest.

        `rows`: of each tensor of rows, the order they were asked in, if it was another, and their width.
        """
        if self.is_declared and all(order is None for order, _ in rows):
            return answers
        newest = max((header for header, _ in answers), key=lambda header: header.version)
        joined = [_rows([tensors[number] for _, tensors in answers], *one) for number, one in enumerate(rows)]
        nothing = [np.zeros((0, width), np.float32) for _, width in rows]
        rest = [tensors[len(rows) :] for _, tensors in answers]
        if not self.is_declared:
            groups = len(self.job.dense.groups) if dense else 0
            values = self._back.buffers([one[:groups] for one in rest], range(groups)) if groups else None
            others = _kept([one[groups:] for one in rest], self.job, self.declared) if kept else None
            rest = [
                [*([] if values is None else values[server]), *([] if others is None else others[server])]
                for server in range(self.declared.num_servers)
            ]
        return [(newest, [*(nothing if server else joined), *one]) for server, one in enumerate(rest)]

    @cached_property
    def _there(self) -> Recut:
        return Recut(self.declared.dense, self.job.dense, self.job.num_servers)

    @cached_property
    def _back(self) -> Recut:
        return Recut(self.job.dense, self.declared.dense, self.declared.num_servers)


class Elsewhere(NamedTuple):
    """How a worker reaches other servers when their number changes."""

    plan: Callable[[int], JobSpec]
    """The job, placed on so many servers."""
    connect: Callable[[Sequence[str]], Sequence[Transport]]
    """Transports to servers, by their endpoints."""


def following(server_set: ServerSet, elsewhere: Elsewhere | None) -> ServerSet:
    """The servers that have replaced these; waits until the job's files name them.

    Of a term with the same servers, they are reached as before.
    """
    whereabouts = own_whereabouts()
    if whereabouts is None or elsewhere is None:
        raise CommunicationError("the rows have moved to other servers, and this worker cannot follow; start it again")
    deadline = time.monotonic() + _FOLLOW_S
    while (later := whereabouts.later(server_set.layout)) is None:
        if time.monotonic() > deadline:
            raise CommunicationError(f"the rows have moved, and {whereabouts.folder} does not say where")
        time.sleep(_LOOK_S)
    num_servers = len(later.endpoints)
    if isinstance(whereabouts, Terms) and [one.endpoint for one in server_set.transports] == list(later.endpoints):
        return replace(server_set, layout=later.number)
    job = server_set.declared if num_servers == server_set.declared.num_servers else elsewhere.plan(num_servers)
    return ServerSet(
        list(elsewhere.connect(later.endpoints)), job, server_set.declared, later.number, [0] * num_servers
    )


def _cut(keys: torch.Tensor, offsets: torch.Tensor) -> list[NDArray[np.int64]]:
    """The keys of each server, as views: there may be a thousand servers."""
    array = keys.numpy()
    return [array[begin:end] for begin, end in pairwise(offsets.tolist())]


def _rows(parts: Sequence[Tensor], order: torch.Tensor | None, width: int) -> Any:
    found = [_floats(part).reshape(-1, width) for part in parts]
    return np.concatenate(found) if order is None else _native.merge(found, order)


def _kept(tensors: Sequence[Sequence[Tensor]], source: JobSpec, target: JobSpec) -> list[list[Tensor]]:
    """Kept tensors for each server of another placement."""
    found = {
        spec.name: tensor
        for server, own in enumerate(tensors)
        for spec, tensor in zip(source.kept_on(server), own, strict=True)
    }
    return [[found[spec.name] for spec in target.kept_on(server)] for server in range(target.num_servers)]


def _floats(tensor: Tensor) -> Floats:
    return tensor.reshape(-1) if isinstance(tensor, np.ndarray) else np.frombuffer(tensor, np.float32)

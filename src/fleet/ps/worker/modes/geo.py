"""Geo: a worker trains on copies of its own; every k steps differences go out and fresh values come back."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from fleet import _native
from fleet.errors import FleetError, NotSupportedError
from fleet.ps.job.spec import TableSpec
from fleet.ps.job.staging import host_buffer
from fleet.ps.wire.messages import Tensors
from fleet.ps.worker.asking.keys import Route, unique
from fleet.ps.worker.asking.lookup import CPU, Lookup
from fleet.ps.worker.modes.base import PushPolicy, Setup
from fleet.ps.worker.modes.geo_exchange import ChangedRows, DenseCopy, Exchange
from fleet.ps.worker.sending.gradients import Gradients, TablePush

# By how much servers may round a value that they store.
_ROUNDING = {"float32": 0.0, "float16": 2.0**-10, "bfloat16": 2.0**-7}


class _Part(NamedTuple):
    """The keys of a lookup that the servers were asked for."""

    lookup: Lookup
    positions: torch.Tensor
    """Where these keys are among all keys of the lookup."""
    located: _native.Located
    """Where the copies of all its keys are."""


class Geo(PushPolicy):
    """Rows and dense parameters are updated in the worker, by the rules that servers run in the other modes.

    An exchange sends what a window of k steps has changed, divided by about the number of workers that have changed it
    too, and servers add. The worker goes on from their sum, and keeps of what it has not sent as much as the others
    will still send (ADR 27). The exchange runs in a thread; its outcome is taken over between two steps, before the
    next exchange at the latest. Copies are float32, whatever the servers store.
    """

    trains_locally = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        for spec in setup.client.job.tables:
            if spec.entry.name != "always" or spec.max_bytes:
                raise NotSupportedError(
                    f"table {spec.name!r}: entry policies and max_bytes are not supported in geo mode, where workers "
                    "hold copies of the rows; leave them out or choose another mode"
                )
        self._copies = [_copies(spec) for spec in setup.client.job.tables]
        self._fetched: dict[int, _Part] = {}
        """For lookups under way: the keys that had no copy here, and their rows."""
        self._located: dict[int, tuple[torch.Tensor, _native.Located]] = {}
        """Where the copies are of lookups that may be trained before the next step, by the id of their keys."""
        self._steps = self._exchanged = 0
        """Steps made here, and those of them whose outcome the servers have."""
        self._exchange: Exchange | None = None
        """The exchange that is under way."""
        self._heard = setup.version
        """The servers' version at the last exchange."""
        self._failure: FleetError | None = None
        self._last = Gradients(0)
        """Empty gradients of the last step, which say how many steps there were and where the data was."""
        self._dense = None if self._flat is None else DenseCopy(self._flat)

    def pull(self, lookups: Sequence[Lookup]) -> None:
        """Ask the servers only for rows that this worker has no copy of, or an old one."""
        parts = [self._missing(lookup) for lookup in lookups]
        wanted = [part.lookup for part in parts if part.lookup.num_rows]
        if wanted:
            self._note(self._client.pull(wanted), wanted)
        self._fetched.update((id(lookup), part) for lookup, part in zip(lookups, parts, strict=True))

    def is_pending(self, lookup: Lookup) -> bool:
        return id(lookup) in self._fetched

    def forget(self, lookup: Lookup) -> None:
        part = self._fetched.pop(id(lookup), None)
        if part is not None:
            super().forget(part.lookup)

    def forget_rows(self, table: int) -> None:
        """Drop the copies of a table; all that was trained in them must have been sent."""
        self._copies[table].clear()
        self._fetched.clear()
        self._located.clear()

    def finish(self, lookups: Sequence[Lookup], with_grad: bool) -> None:
        parts = [self._fetched.pop(id(lookup), None) for lookup in lookups]
        asked = [part.lookup for part in parts if part is not None and part.lookup.num_rows]
        for one in asked:
            pending = self._pending.pop(id(one), None)
            if pending is not None and one.rows is None:
                pending.finish(CPU, False)
        for lookup, part in zip(lookups, parts, strict=True):
            if lookup.rows is None:
                self._fill(lookup, part, with_grad)

    def step(self, gradients: Gradients, following: Sequence[Lookup]) -> None:
        skip = self._client.job.nonfinite == "skip"
        self._last = Gradients(0, steps=gradients.steps, position=gradients.position)
        for table in sorted({part.table for part in gradients.tables}):
            # Modules may share a table, and a step may have several batches: each row still has one update.
            part = _together([part for part in gradients.tables if part.table == table])
            _, located = self._located.get(id(part.keys), (None, None))
            self._copies[table].push(part.keys, part.grads, lr=part.lr, skip_nonfinite=skip, located=located)
        self._located.clear()
        self._steps += 1
        if self._steps % max(1, self._setup.configs.k_steps) == 0 or gradients.steps in self._client.half_sent:
            self._begin_exchange()
        elif self._exchange is not None and self._exchange.is_done:
            self._end_exchange()
        if following:
            self.pull(following)

    def close(self) -> None:
        super().close()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.wait()
            if exchange.is_applied:
                self._exchanged = exchange.gradients.step
        self._warn_of_loss(self._steps - self._exchanged)
        self._exchanged = self._steps

    def flush(self) -> None:
        self._end_exchange()
        if self._steps > self._exchanged:
            self._begin_exchange()
            self._end_exchange()

    def restart_at(self, version: int) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.wait()  # it went to what the servers had before
        for copies in self._copies:
            copies.clear()
        self._fetched.clear()
        self._located.clear()
        self._exchanged = self._steps
        self._heard = version
        super().restart_at(version)

    def take_over(self, dense: Sequence[Tensors], version: int) -> None:
        super().take_over(dense, version)
        if self._dense is not None:
            self._dense.reset()

    def _missing(self, lookup: Lookup) -> _Part:
        *found, located = self._copies[lookup.table].missing(lookup.route.grouped, lookup.route.offsets)
        keys, positions, offsets = map(torch.from_numpy, found)
        request = lookup.request._replace(sources=(), shows=None, clicks=None, paddings=())
        nothing = torch.empty(0, dtype=torch.int64)
        return _Part(Lookup(request, lookup.width, Route(keys, nothing, offsets, None), nothing), positions, located)

    def _fill(self, lookup: Lookup, part: _Part | None, with_grad: bool) -> None:
        """Write the rows of a lookup: copies, and what the servers were asked for."""
        copies, keys = self._copies[lookup.table], lookup.route.grouped
        fetched = None if part is None else part.lookup.rows
        rows = host_buffer((lookup.height, lookup.width), self._setup.device)
        rows[lookup.num_rows :] = 0.0
        own = rows[: lookup.num_rows]
        located = None if part is None else part.located
        if part is None or fetched is None:
            copies.pull(keys, own, located=located)
        elif lookup.request.only_read:  # no copy is made: a key that is only read may have no row on the servers either
            copies.pull(keys, own, located=located)
            own[part.positions] = fetched
        else:
            copies.pull(keys, own, part.positions, fetched, located)
        if with_grad and located is not None:
            self._located[id(keys)] = keys, located
        lookup.set_rows(rows, self._setup.device, with_grad)

    def _begin_exchange(self) -> None:
        """Send what the window has changed, when the exchange before is over."""
        self._end_exchange()
        if self._failure is not None:
            raise self._failure  # some servers may have added the differences: they must not be sent again
        job = self._client.job
        num_workers = self._client.num_workers
        changed = [
            ChangedRows(table, *copies.difference(num_workers, self._client.num_servers))
            for table, copies in enumerate(self._copies)
        ]
        dense = []
        if self._dense is not None:
            dense = self._dense.difference(num_workers, job.num_servers, self.num_groups)
        gradients = Gradients(
            self._steps,
            [],
            dense,
            dict.fromkeys(range(self.num_groups), 1.0) if dense else {},
            steps=self._last.steps,
            position=self._last.position,
        )
        self._exchange = Exchange(self._client, gradients, [part for part in changed if len(part.keys)], num_workers)

    def _end_exchange(self) -> None:
        """Take over what came of the exchange that is under way, if there is one; wait for it."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        try:
            exchange.result()
        except FleetError as error:
            self._failure = error
            raise
        num_workers, others = exchange.num_workers, exchange.num_workers - 1
        num_heard = exchange.version - self._heard - 1
        awaited = 1.0 - min(max(num_heard, 0), others) / others if others else 0.0
        for part in exchange.answers:
            self._copies[part.table].merge(part.keys, part.sent, part.touches, part.rows, num_workers, awaited)
        for copies in self._copies:
            copies.age()
        if self._dense is not None:
            self._dense.merge(lambda: self._load(exchange.dense, exchange.version), num_workers, awaited)
        self._heard = exchange.version
        self._exchanged = exchange.gradients.step


def _copies(spec: TableSpec) -> _native.Copies:
    return _native.Copies(
        spec.name,
        spec.width,
        spec.rule.name,
        dict(spec.rule.args),
        spec.bounds,
        spec.max_norm,
        spec.norm_type,
        _ROUNDING[spec.dtype],
    )


def _together(parts: Sequence[TablePush]) -> TablePush:
    """One push instead of several of one table; gradients of equal keys are added in the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    keys, inverse = unique(torch.cat([part.keys for part in parts]))
    grads = torch.zeros(len(keys), parts[0].grads.shape[1])
    _native.scatter(torch.cat([part.grads for part in parts]), inverse, grads)
    return TablePush(parts[0].table, parts[0].lr, keys, grads, [])

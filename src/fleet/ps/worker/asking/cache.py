"""Rows that a worker keeps for a few steps, so that the servers need not be asked for them (ADR 29).

A lookup that is to be trained takes from the cache what is there and young enough, and asks the servers for the rest: a
lookup of its own, its part. Gradients of all rows go to the servers as ever; a row in the cache does not show them
until it is refreshed. Rows that are only read, as in evaluation, always come from the servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from fleet import _native
from fleet.ps.job.spec import JobSpec
from fleet.ps.job.staging import host_buffer
from fleet.ps.worker.asking import meters
from fleet.ps.worker.asking.keys import Route
from fleet.ps.worker.asking.lookup import Lookup


class _Part(NamedTuple):
    """What the servers are asked for of a lookup."""

    lookup: Lookup
    positions: torch.Tensor
    """Where its keys are among all."""
    rows: torch.Tensor
    """The rows of the whole lookup; the others are there already."""
    now: int
    version: int


class Cache:
    """The caches of all tables of a job. Used from one thread."""

    def __init__(self, job: JobSpec, num_rows: int, staleness: int, device: torch.device) -> None:
        """`num_rows` of each table, used while they are at most `staleness` steps old."""
        self._tables = [_native.RowCache(spec.width, num_rows, staleness) for spec in job.tables]
        self._parts: dict[int, _Part] = {}
        self._device = device
        self._counted: dict[str, int] = {}
        self._now = 0

    def count_step(self) -> None:
        """A step is over: all rows are one step older."""
        self._now += 1
        found = [table.counts() for table in self._tables]
        for name in ("hits", "misses", "refreshed", "evicted", "age_steps"):
            total = sum(one[name] for one in found)
            meters.count(f"cache.{name}", total - self._counted.get(name, 0))
            self._counted[name] = total
        meters.raise_to("cache.oldest", max((one["oldest"] for one in found), default=0))

    def ask(self, lookups: Sequence[Lookup]) -> list[Lookup]:
        """What the servers have to be asked for instead of these lookups."""
        if any(lookup.request.only_read for lookup in lookups):
            return list(lookups)
        parts = [self._take(lookup) for lookup in lookups]
        self._parts.update((id(lookup), part) for lookup, part in zip(lookups, parts, strict=True))
        return [part.lookup for part in parts if part.lookup.num_rows]

    def asked(self, lookup: Lookup) -> Lookup:
        """What the servers were asked for instead of a lookup: a part of it, or the lookup itself."""
        part = self._parts.get(id(lookup))
        return lookup if part is None else part.lookup

    def forget(self, lookup: Lookup) -> None:
        """Drop the part of a lookup that nobody will finish."""
        self._parts.pop(id(lookup), None)

    def knows(self, lookup: Lookup) -> bool:
        """Whether `ask` was given the lookup, and nobody has finished it."""
        return id(lookup) in self._parts

    def finish(self, lookup: Lookup, with_grad: bool) -> None:
        """Put the rows of a lookup together, whose part has come."""
        part = self._parts.pop(id(lookup))
        fetched, version = part.lookup.rows, part.version
        if fetched is not None:
            part.rows[part.positions] = fetched
            self._tables[lookup.table].put(part.lookup.route.grouped, fetched, part.now, part.lookup.version)
            version = min(version, part.lookup.version)
        lookup.set_rows(part.rows, self._device, with_grad)
        lookup.version = version

    def clear(self) -> None:
        """The servers were given another state."""
        self._parts.clear()
        for table in self._tables:
            table.clear()

    def _take(self, lookup: Lookup) -> _Part:
        rows = host_buffer((lookup.height, lookup.width), self._device)
        rows[lookup.num_rows :] = 0.0
        keys, offsets = lookup.route.grouped, lookup.route.offsets
        *found, version = self._tables[lookup.table].take(keys, offsets, self._now, rows[: lookup.num_rows])
        wanted, positions, ends = map(torch.from_numpy, found)
        request = lookup.request._replace(sources=(), shows=None, clicks=None, paddings=())
        nothing = torch.empty(0, dtype=torch.int64)
        asked = Lookup(request, lookup.width, Route(wanted, nothing, ends, None), nothing)
        return _Part(asked, positions, rows, self._now, version)

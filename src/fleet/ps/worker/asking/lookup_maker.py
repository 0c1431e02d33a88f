"""The lookups of a worker: those of batches that are known ahead are made before they are asked for."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch

from fleet.ps.worker.asking.lookup import Lookup, Request, completed, make_lookup
from fleet.ps.worker.asking.side_thread import After, MadeLater, MadeNow, NoSideThread, used_here
from fleet.ps.worker.parts.contract import NoHotTables, StepPart, Update

if TYPE_CHECKING:
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.modes.base import PushPolicy

log = logging.getLogger(__name__)


class PendingLookup:
    """The lookup of a batch that is known ahead: made already, or beside the model while it computes."""

    def __init__(self, request: Request, made: MadeNow[Lookup] | MadeLater[Lookup]) -> None:
        self.request = request
        self._made = made
        self._lookup: Lookup | None = None

    def get(self) -> Lookup:
        """Wait until the lookup is made; called by the thread that trains."""
        if self._lookup is None:
            self._lookup = self._made.get()
            used_here(self._lookup.inverse)
        return self._lookup

    def drop_rows(self) -> None:
        """Keep the keys alone: the rows, if they are there, are those of before a step."""
        lookup = self.get()
        if lookup.rows is not None:
            self._lookup = lookup.asked_again(only_read=lookup.request.only_read)


class LookupMaker(StepPart):
    """Makes lookups, ahead or when they are asked for; the policy pulls their rows, or hot tables fill them."""

    def __init__(
        self, client: Client, policy: PushPolicy, device: torch.device, side_thread: NoSideThread, hot: NoHotTables
    ) -> None:
        self._client, self._policy, self._device, self._side_thread, self._hot = (
            client,
            policy,
            device,
            side_thread,
            hot,
        )
        # Keys need their number of occurrences where the entry policy counts.
        self._counts = [spec.entry.name in ("count_filter", "show_click") for spec in client.job.tables]
        self._ahead: list[PendingLookup] = []  # what is made and not used: for the next batch, or still for this one
        self._newest: list[PendingLookup] = []  # what the last `prefetch` made
        self._last_ahead: list[PendingLookup] = []  # what was ahead when the last step ended
        self._has_warned = False

    def take(self, requests: Sequence[Request]) -> list[Lookup]:
        """The lookups of a batch; those that were made ahead for these ids are used."""
        found = [self._take_ahead(request) for request in requests]
        return [lookup or self._begin(request).get() for lookup, request in zip(found, requests, strict=True)]

    def prefetch(self, requests: Sequence[Request]) -> None:
        """Find the keys of the next batch's ids, and pull their rows as soon as the mode allows."""
        self._drop_unused()
        self._newest = [self._begin(request) for request in requests if not self._is_read_late(request)]
        self._ahead += self._newest
        self._policy.expect_pull()
        if self._policy.pulls_ahead and (
            pulled := [one.get() for one in self._newest if not self._is_hot(one.request)]
        ):
            self._policy.pull(pulled)

    def waiting(self, tables: Collection[int]) -> list[Lookup]:
        """Lookups whose rows are to be asked for when a step is over that changes these tables."""
        if self._policy.pulls_ahead:
            return []
        cold = [one for one in self._ahead if not self._is_hot(one.request)]
        for one in cold:
            if one.request.table in tables:
                one.drop_rows()
        return [lookup for one in cold if (lookup := one.get()).rows is None]

    def forget_all(self) -> None:
        """Drop all lookups made ahead, and their rows, which were replaced on the servers."""
        self._forget(list(self._ahead))

    def clear(self) -> None:
        """Drop all lookups made ahead: the servers were given another state."""
        self._ahead.clear()

    def begin(self, used: Sequence[Lookup], *, is_new: bool) -> None:  # noqa: ARG002
        """Drop what was ahead when the last step ended and is still unused, unless its batch is yet to come."""
        if is_new:
            self._forget([one for one in self._ahead if one in self._last_ahead])

    def after_push(self, update: Update) -> None:  # noqa: ARG002
        self._last_ahead = list(self._ahead)

    def _is_hot(self, request: Request) -> bool:
        """Whether rows are trained where the model is."""
        return request.table in self._hot and not request.only_read

    def _is_read_late(self, request: Request) -> bool:
        """Whether rows may only be read at the moment of their use: until then steps change them where the model is."""
        return request.table in self._hot and request.only_read

    def _begin(self, request: Request) -> PendingLookup:
        """Begin a lookup."""
        spec = self._client.job.tables[request.table]
        complete, width = completed(request, spec), spec.width
        counts, num_servers, hot = self._counts[request.table], self._client.num_servers, self._hot
        placement = hot.expect(request.table) if self._is_hot(request) else None

        def make(after: After) -> Lookup:
            if any(source.device.type != "cpu" for source in complete.sources):
                after()
            stays = placement is not None
            lookup = make_lookup(complete, width, num_servers, counts=counts, device=self._device, keys_stay=stays)
            if placement is not None:
                after()  # rows that lose their slots must have been trained
                hot.place(lookup, placement)
            return lookup

        return PendingLookup(complete, self._side_thread.make(make))

    def _take_ahead(self, request: Request) -> Lookup | None:
        for position, one in enumerate(self._ahead):
            if one.request.is_for(request):
                self._ahead.pop(position)
                lookup = one.get()
                if lookup.request.only_read == request.only_read:
                    return lookup
                self._policy.forget(lookup)  # keys without a row read otherwise when they are trained
                if request.table in self._hot:
                    return None
                return lookup.asked_again(only_read=request.only_read)
        return None

    def _forget(self, ahead: Sequence[PendingLookup]) -> None:
        """Drop lookups that were made ahead, and their rows."""
        for one in ahead:
            self._ahead.remove(one)
            self._policy.forget(one.get())

    def _drop_unused(self) -> None:
        """Drop what the last `prefetch` but one has made and nobody used: its batch is over."""
        unused = [one for one in self._ahead if one not in self._newest]
        self._forget(unused)
        if unused and not self._has_warned:
            self._has_warned = True
            log.warning(
                "rows of table %r were prefetched but not used: keys(batch) must give the very tensors that the model "
                "is called with; ids may stay in host memory where the model is on a GPU",
                self._client.job.tables[unused[0].request.table].name,
            )

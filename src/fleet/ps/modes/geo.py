"""Geo: a worker trains on copies of its own; every k steps differences go out and fresh values come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from fleet.errors import FleetError, NotSupportedError
from fleet.ps.gradients import Gradients, TablePush
from fleet.ps.holdings import make_table
from fleet.ps.keys import Route, route
from fleet.ps.lookup import Lookup, Request, make_lookup
from fleet.ps.modes.base import PushPolicy, Setup

if TYPE_CHECKING:
    from fleet.ps.wire import Tensor, Tensors


class Geo(PushPolicy):
    """Rows and dense parameters are updated in the worker, by the rules that servers run in the other modes.

    `base` is what a worker and the servers agreed on last. An exchange sends (own - base) / workers, which the servers
    add, and takes their sum for the new base; what the worker has learned beyond what it sent stays with it.
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
        tables = setup.client.job.tables
        self._own = [make_table(spec) for spec in tables]
        self._base = [make_table(spec, rule="sum") for spec in tables]
        self._touched: list[list[torch.Tensor]] = [[] for _ in tables]
        self._fetched: dict[int, Lookup] = {}
        """Of lookups that were asked for, the keys that had no copy here, and their rows."""
        self._steps = self._exchanged = 0
        """Steps made here, and those of them whose outcome the servers have."""
        self._failure: FleetError | None = None
        self._last = Gradients(0)
        """Of the last step: how many there were, and where the data was."""
        self._dense_base = None if self._flat is None else self._flat.value_buffer.clone()
        self._gradients = torch.empty(0)

    def pull(self, lookups: Sequence[Lookup]) -> None:
        """Only rows that this worker has no copy of come from the servers."""
        missing = [self._missing(lookup) for lookup in lookups]
        wanted = [part for part in missing if part.num_rows]
        if wanted:
            self._client.pull(wanted).finish(torch.device("cpu"), False)
        self._fetched.update((id(lookup), part) for lookup, part in zip(lookups, missing, strict=True))

    def is_pending(self, lookup: Lookup) -> bool:
        return id(lookup) in self._fetched

    def forget(self, lookup: Lookup) -> None:
        self._fetched.pop(id(lookup), None)

    def finish(self, lookups: Sequence[Lookup], with_grad: bool) -> None:
        for lookup in lookups:
            part = self._fetched.pop(id(lookup), None)
            if lookup.rows is not None:
                continue
            fetched = None if part is None else part.rows
            if part is not None and not lookup.request.only_read:
                self._keep(part)
                fetched = None
            rows = torch.zeros(lookup.height, lookup.width)
            keys = lookup.route.grouped
            rows[: lookup.num_rows] = torch.from_numpy(self._own[lookup.table].pull(keys))
            if part is not None and fetched is not None:
                # Both have their keys server by server, and ascending.
                rows[torch.isin(keys, part.route.grouped).nonzero().squeeze(1)] = fetched
            lookup.set_rows(rows, self._setup.device, with_grad)

    def _keep(self, part: Lookup) -> None:
        """Make copies of rows that came, but for those that another lookup has made since.

        Of keys that are only read there is no copy: they may have no row on the servers either.
        """
        if part.rows is None:
            return
        keys, own = part.route.grouped, self._own[part.table]
        is_missing = torch.from_numpy(own.find(keys)) == 0
        for table in (own, self._base[part.table]):
            table.assign(keys[is_missing], part.rows[is_missing])

    def step(self, gradients: Gradients, following: Sequence[Lookup]) -> None:
        skip = self._client.job.nonfinite == "skip"
        self._last = Gradients(0, steps=gradients.steps, position=gradients.position)
        for table in sorted({part.table for part in gradients.tables}):
            # Modules may share a table, and a step may have several batches: each row still has one update.
            parts = [part for part in gradients.tables if part.table == table]
            keys = torch.cat([part.keys for part in parts])
            grads = torch.cat([part.grads for part in parts])
            self._own[table].push(keys, grads, step=self._steps & 0xFFFFFFFF, lr=parts[0].lr, skip_nonfinite=skip)
            self._touched[table].append(keys)
        self._steps += 1
        if self._steps % self._setup.k_steps == 0:
            self._exchange()
        if following:
            self.pull(following)

    def close(self) -> None:
        self._warn_of_loss(self._steps - self._exchanged)
        self._exchanged = self._steps

    def flush(self) -> None:
        if self._steps > self._exchanged:
            self._exchange()

    def restart_at(self, version: int) -> None:
        for table in (*self._own, *self._base):
            table.clear()
        self._fetched.clear()
        self._touched = [[] for _ in self._touched]
        self._exchanged = self._steps
        super().restart_at(version)

    def take_over(self, dense: Sequence[Tensors], version: int) -> None:
        super().take_over(dense, version)
        if self._flat is not None:
            self._dense_base = self._flat.value_buffer.clone()

    def _missing(self, lookup: Lookup) -> Lookup:
        keys = lookup.route.grouped
        unknown = keys[torch.from_numpy(self._own[lookup.table].find(keys)) == 0]
        request = Request(lookup.table, (unknown,), only_read=lookup.request.only_read)
        return make_lookup(request, lookup.width, self._client.num_servers, counts=False)

    def _exchange(self) -> None:
        if self._failure is not None:
            raise self._failure  # some servers may have added the differences: they must not be sent again
        try:
            self._exchange_once()
        except FleetError as error:
            self._failure = error
            raise

    def _exchange_once(self) -> None:
        found = {
            table: route(torch.cat(keys), self._client.num_servers) for table, keys in enumerate(self._touched) if keys
        }
        pushes = [self._difference(table, part) for table, part in found.items()]
        dense = self._dense_difference()
        lrs = dict.fromkeys(range(self.num_groups), 1.0) if dense else {}
        # Merged with what the servers read of it: the rest stays in this worker's copies.
        sent = self._client.encoder.encode(
            Gradients(self._steps, pushes, dense, lrs, steps=self._last.steps, position=self._last.position),
            is_delta=True,
        )
        if sent.encoded is not None:
            self._note_sent(sent.encoded.values())
        pushes = sent.tables
        answers = self._client.push(
            sent,
            want_rows=True,
            want_dense=bool(dense),
            is_delta=True,
        ).results()
        for number, push in enumerate(pushes):
            self._merge_rows(push, [tensors[number] for _, tensors in answers])
        if dense:
            version = max(header.version for header, _ in answers)
            self._merge_dense([tensors[len(pushes) :] for _, tensors in answers], version)
        self._touched = [[] for _ in self._touched]
        self._exchanged = self._steps

    def _difference(self, table: int, found: Route) -> TablePush:
        keys = found.grouped
        difference = self._own[table].pull(keys) - self._base[table].pull(keys)
        difference /= self._client.job.num_workers
        return TablePush(table, 1.0, keys, torch.from_numpy(difference), found.offsets.tolist())

    def _merge_rows(self, push: TablePush, parts: Sequence[Tensor]) -> None:
        """Own += servers - (base + sent); base = servers."""
        own, base = self._own[push.table], self._base[push.table]
        width = self._client.job.tables[push.table].width
        rows = np.concatenate([np.frombuffer(part, np.float32).reshape(-1, width) for part in parts])
        own.assign(push.keys, own.pull(push.keys) + (rows - (base.pull(push.keys) + push.values(width))))
        base.assign(push.keys, rows)

    def _dense_difference(self) -> list[list[Tensor]]:
        if self._flat is None or self._dense_base is None:
            return []
        # The gradient buffer carries the difference for a while: its spans are what servers expect.
        self._gradients = self._flat.gradient_buffer.clone()
        difference = (self._flat.value_buffer - self._dense_base) / self._client.job.num_workers
        self._flat.gradient_buffer.copy_(difference)
        self._flat.to_host()
        return [
            [b"".join(self._flat.pieces(server, group)) for group in range(self.num_groups)]
            for server in range(self._client.job.num_servers)
        ]

    def _note_sent(self, values: Sequence[Sequence[Tensor]]) -> None:
        """Let the gradient buffer carry what is sent of the difference."""
        assert self._flat is not None
        for server, groups in enumerate(values):
            for group, buffer in enumerate(groups):
                source, begin = np.frombuffer(buffer, np.float32), 0
                for piece in self._flat.pieces(server, group):
                    target = np.frombuffer(piece, np.float32)
                    target[:] = source[begin : begin + len(target)]
                    begin += len(target)
        self._flat.from_host()

    def _merge_dense(self, answers: Sequence[Tensors], version: int) -> None:
        assert self._flat is not None
        assert self._dense_base is not None
        own = self._flat.value_buffer.clone()
        expected = self._dense_base + self._flat.gradient_buffer
        self._load(answers, version)
        self._dense_base = self._flat.value_buffer.clone()
        self._flat.value_buffer.copy_(own + (self._dense_base - expected))
        self._flat.gradient_buffer.copy_(self._gradients)

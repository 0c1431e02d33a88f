"""Pushes of several workers as one: gradients are added in the order of the workers, and what they want is asked once.

The sums are those that a server makes of the same pushes: `((g0 + g1) + g2) + g3`. A server adds those of the machines,
in the order of their first workers, and divides by the number of workers. So bits depend on which workers share a
machine, and on nothing else; with all of them on one they are those of pushes that were not combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import CommunicationError, UsageError
from fleet.ps.held.applicable import check_rates
from fleet.ps.held.update import PushedUpdate, read_update
from fleet.ps.proto import ps_pb2

if TYPE_CHECKING:
    from fleet.ps.job.spec import JobSpec
    from fleet.ps.wire.messages import Tensors

Push = tuple[ps_pb2.PushRequest.Header, "Tensors"]


class _Pull(NamedTuple):
    """Rows of one table that some of the workers want."""

    keys: NDArray[np.int64]
    shares: dict[tuple[int, int], NDArray[np.int64]]
    """Which of the keys each wants: by the worker's place and that of the table in its request."""


class Combined:
    """One push for several workers, and what each of them gets of the answer."""

    def __init__(self, pushes: Sequence[Push], job: JobSpec, server: int) -> None:
        """`pushes` come in the order of the workers. UsageError where they do not belong to one step of the job."""
        self._job = job
        self._pushes = pushes
        updates = [_read(header, tensors, job, server) for header, tensors in pushes]
        _check_one_step(updates)
        check_rates(updates, job)
        first = pushes[0][0]
        self.header = ps_pb2.PushRequest.Header(
            caller=first.caller,
            sequence=first.sequence,
            step=first.step,
            pulled_version=min(header.pulled_version for header, _ in pushes),
            want_dense=any(header.want_dense for header, _ in pushes),
            timeout_ms=max(header.timeout_ms for header, _ in pushes),
            is_pass=all(header.is_pass for header, _ in pushes),
            members=[_member(header) for header, _ in pushes],
        )
        self.tensors: list[Any] = []
        self._add_tables(updates)
        self._add_dense(updates)
        self._pulls = self._add_pulls()

    def share(self, place: int, answered: Tensors) -> list[Any]:
        """What the worker at a place in the order gets of the answer: rows for its next batch, dense parameters."""
        header = self._pushes[place][0]
        found: list[Any] = []
        for index, key in enumerate(_wanted(header)):
            number = list(self._pulls).index(key)
            rows = np.frombuffer(answered[number], np.float32).reshape(-1, self._job.tables[key[0]].width)
            found.append(rows[self._pulls[key].shares[place, index]])
        return [*found, *answered[len(self._pulls) :]] if header.want_dense else found

    def _add_tables(self, updates: Sequence[PushedUpdate]) -> None:
        for index in sorted({part.table for update in updates for part in update.tables}):
            parts = [part for update in updates for part in update.tables if part.table == index]
            width = self._job.tables[index].width
            keys, grads, counts, shows, clicks = _native.sum_pushes([part.columns() for part in parts], width)
            # Where nobody counts, a server takes each push of a key for one.
            has_counts = counts is not None and bool(
                (counts != 1).any() or any(part.counts is not None for part in parts)
            )
            self.header.tables.add(table=index, lr=parts[0].lr, has_counts=has_counts, has_clicks=shows is not None)
            self.tensors += [keys, grads, *([counts] if has_counts else [])]
            if shows is not None:
                self.tensors += [shows, np.zeros_like(shows) if clicks is None else clicks]

    def _add_dense(self, updates: Sequence[PushedUpdate]) -> None:
        own = [update for update in updates if update.dense]
        for group in own[0].groups if own else ():
            total = own[0].dense[group].copy()
            for update in own[1:]:
                total += update.dense[group]
            self.header.dense_lrs.append(own[0].lrs[group])
            self.tensors.append(total)
        if own and (absent := set.intersection(*(set(update.absent) for update in own))):
            self.header.absent.extend(sorted(absent))
        if own and len(own[0].groups) < len(self._job.dense.groups):
            self.header.dense_groups.extend(own[0].groups)

    def _add_pulls(self) -> dict[tuple[int, bool], _Pull]:
        """Each key is asked for once, whoever wants it."""
        wanted: dict[tuple[int, bool], list[tuple[tuple[int, int], NDArray[np.int64]]]] = {}
        for place, (header, tensors) in enumerate(self._pushes):
            asked = tensors[len(tensors) - len(header.pull_tables) :]
            for index, (key, tensor) in enumerate(zip(_wanted(header), asked, strict=True)):
                wanted.setdefault(key, []).append(((place, index), np.frombuffer(tensor, np.int64)))
        pulls = {}
        for key, parts in wanted.items():
            keys, inverse = _native.unique(np.concatenate([own for _, own in parts]))
            ends = np.cumsum([len(own) for _, own in parts])[:-1]
            pulls[key] = _Pull(keys, {who: at for (who, _), at in zip(parts, np.split(inverse, ends), strict=True)})
            self.tensors.append(keys)
        self.header.pull_tables.extend(table for table, _ in pulls)
        if any(only_read for _, only_read in pulls):
            self.header.pull_only_read.extend(only_read for _, only_read in pulls)
        return pulls


def _read(header: ps_pb2.PushRequest.Header, tensors: Tensors, job: JobSpec, server: int) -> PushedUpdate:
    if header.dense or header.pull_formats or header.dense_format or any(one.format for one in header.tables):
        raise UsageError(f"push of worker {header.caller.worker}: only float32 can be combined")
    return read_update(header, tensors[: len(tensors) - len(header.pull_tables)], job, server)


def _check_one_step(updates: Sequence[PushedUpdate]) -> None:
    """As a server would, which sees one push of all of them."""
    first = updates[0]
    for update in updates:
        if update.step != first.step:
            raise CommunicationError(
                f"worker {update.worker} pushed step {update.step}, and worker {first.worker}, of the same machine, "
                f"step {first.step}; every worker makes the same steps"
            )
    own = [update for update in updates if update.groups]
    for update in own:
        if update.groups != own[0].groups:
            raise UsageError(
                f"step {update.step}: workers {own[0].worker} and {update.worker} step different optimizers; every "
                "worker must step them in the same order"
            )


def _member(header: ps_pb2.PushRequest.Header) -> ps_pb2.PushRequest.Member:
    return ps_pb2.PushRequest.Member(
        worker=header.caller.worker,
        incarnation=header.caller.incarnation,
        sequence=header.sequence,
        steps=header.steps,
        position=header.position,
        is_pass=header.is_pass,
    )


def _wanted(header: ps_pb2.PushRequest.Header) -> list[tuple[int, bool]]:
    """The tables whose rows a push wants, and whether only to read them."""
    only_read = header.pull_only_read or [False] * len(header.pull_tables)
    return list(zip(header.pull_tables, only_read, strict=True))

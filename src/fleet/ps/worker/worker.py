"""A worker's runtime: it joins the servers, pulls rows for batches, and sends gradients when the optimizer steps.

Modules of `fleet.nn` ask it for lookups, `fleet.ps.worker.optimizer` tells it to step. With servers in the job it
talks gRPC to them; without any, one service in this process takes their place.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from fleet import _native
from fleet.errors import NotReadyError, UsageError
from fleet.ps.job.staging import wait_for
from fleet.ps.worker.asking.lookup import Lookup, Request
from fleet.ps.worker.asking.lookup_maker import LookupMaker
from fleet.ps.worker.asking.side_thread import NoSideThread
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.life.data_ahead import DataAhead
from fleet.ps.worker.modes.base import PushPolicy
from fleet.ps.worker.parts.contract import Done, NoHotTables, StepPart, Update
from fleet.ps.worker.parts.forgotten_calls import ForgottenCalls
from fleet.ps.worker.parts.meters import MeasuredSteps
from fleet.ps.worker.sending.gradients import Gradients, push_of
from fleet.ps.worker.sending.kept_tensors import KeptTensors, refuse_changes, take_kept
from fleet.ps.worker.sending.norms import is_finite, nonfinite_error

if TYPE_CHECKING:
    from fleet.ps.wire.messages import Tensor
    from fleet.ps.worker.life.membership import HandedBack
    from fleet.ps.worker.life.passing import Passing
    from fleet.ps.worker.life.progress import ScriptProgress
    from fleet.ps.worker.sending.flat import FlatParameters


log = logging.getLogger(__name__)


def has_left(what: str) -> NotReadyError:
    """The error of a call that comes after `fleet.stop_worker()`."""
    return NotReadyError(
        f"{what}: this worker has left the servers; move the call before fleet.stop_worker(), or join them again with "
        "fleet.init_worker()"
    )


@dataclass(eq=False, repr=False)
class Worker:
    """One worker of a job, between `fleet.init_worker()` and `fleet.stop_worker()`. Used from one thread."""

    client: Client
    policy: PushPolicy
    flat: FlatParameters | None
    """The dense parameters; None: the model has none."""
    device: torch.device
    done: Done
    kept: KeptTensors = field(default_factory=KeptTensors)
    """The model's tensors beside tables and dense parameters."""
    other_names: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Further names of the model's tensors, as tied weights have."""
    has_optimizer: bool = True
    """Whether somebody will call `step`; without it, rows are looked up to be read only."""
    progress: ScriptProgress | None = None
    """Where this worker is, for its next life; None if it will have none."""
    passing: Passing | None = None
    """What this worker does at the end of its batches; None where nobody would wait for it then."""
    side_thread: NoSideThread = field(default_factory=NoSideThread)
    """Makes lookups; in a thread beside the model where that is on a GPU, or trains rows itself."""
    hot: NoHotTables = field(default_factory=NoHotTables)
    """Tables whose hot rows are trained where the model is."""
    parts: Sequence[StepPart] = ()
    """What else hangs on the steps of this worker."""
    data: DataAhead = field(default_factory=DataAhead, init=False)
    """Where its data is, while `fleet.prefetch` reads ahead."""

    def __post_init__(self) -> None:
        self._process = os.getpid()
        self.calls = ForgottenCalls(self.flat)
        self._lookups = LookupMaker(self.client, self.policy, self.device, self.side_thread, self.hot)
        self._parts: Sequence[StepPart] = (
            MeasuredSteps(self.done.count),
            self._lookups,
            self.side_thread,
            self.hot,
            *self.parts,
            self.calls,
        )
        self._has_warned_of_evaluation = False
        self._used: list[Lookup] = []  # of this batch; their gradients are the next push
        self._untrained: set[int] = set()  # tables looked up in evaluation with gradients on, since the last step
        self._num_left = 0  # how many of the first ones are of tables that the last step did not train

    @property
    def num_steps(self) -> int:
        """The step that comes next, as the servers count."""
        return self.done.num_steps

    @property
    def has_caught_up(self) -> bool:
        """Whether it has come to where a former life was: what it makes now, its servers have not."""
        return self.done.num_updates >= self.client.resumed_updates

    def go_on_at(self, step: int) -> None:
        """Go on at a step whose state was loaded from a checkpoint."""
        self.done.num_steps = step

    @property
    def used(self) -> Sequence[Lookup]:
        """What this batch has looked up to be trained; the next step sends its gradients."""
        return self._used

    def lookups(self, requests: Sequence[Request], *, with_grad: bool, in_training: bool = False) -> list[Lookup]:
        """Rows for some ids, in one request to each server; those that were prefetched for these ids are used.

        `in_training`: by a module that is in training, if only to read them, as under `torch.no_grad()`.
        """
        if with_grad:
            for part in self._parts:
                part.forward()
        if with_grad and not self.has_optimizer:
            raise NotReadyError(
                "rows are looked up to be trained, but no optimizer would send their gradients; call "
                "fleet.distributed_optimizer() before fleet.init_worker(), or model.eval() to only read them"
            )
        requests = [request._replace(only_read=not with_grad) for request in requests]
        lookups = self._lookups.take(requests)
        pulled = [lookup for lookup in lookups if lookup.placement is None]
        fresh = [lookup for lookup in pulled if lookup.rows is None and not self.policy.is_pending(lookup)]
        if fresh:
            self.policy.pull(fresh)
        self.policy.finish(pulled, with_grad)
        for lookup in lookups:
            if lookup.placement is not None:
                self.hot.fill(lookup)
        for lookup in lookups:
            lookup.train(with_grad)
        if with_grad:
            self._used += lookups
            self.done.num_lookups += 1
        for part in self._parts if with_grad or in_training else ():
            part.looked_up(lookups) if with_grad else part.read(lookups)
        return lookups

    def prefetch(self, requests: Sequence[Request]) -> None:
        """Find the keys of the next batch's ids, and pull their rows as soon as the mode allows."""
        self._lookups.prefetch(requests)

    def end_prefetch(self) -> None:
        """Stop prefetching: no more batches are known ahead."""
        self.policy.expect_no_pull()

    def refuse_fork(self, what: str) -> None:
        """UsageError in a process that the worker has forked: what it said would be said in the worker's name."""
        if os.getpid() != self._process:
            raise UsageError(
                f"{what} was called in a process that worker {self.client.worker} has forked, and which is no worker; "
                "leave the call to the worker, and end what it forks with os._exit(0)"
            )

    def step(self, lrs: Mapping[int, float], table_lrs: Mapping[int, float], optimizer: object = None) -> None:
        """Send the gradients of the lookups since the last step, and of the dense parameters.

        Of the dense groups those of `lrs`, ascending, and of the tables those of `table_lrs`: what `optimizer` trains.
        """
        self.refuse_fork("optimizer.step()")
        is_new = self.done.count.enter(optimizer)
        used = [lookup for lookup in self._used if lookup.table in table_lrs]
        self.heed_zeroed(table_lrs)
        for part in self._parts:
            part.begin(used, is_new=is_new)
        self._warn_of_evaluation({lookup.table for lookup in used}, table_lrs)
        # All gradients are copied from a GPU first, and waited for once.
        pulled = [lookup for lookup in used if lookup.placement is None]
        sparse = [(lookup, grads) for lookup in pulled if (grads := lookup.gradients()) is not None]
        versions = [lookup.version for lookup in pulled]
        self._used = [lookup for lookup in self._used if lookup.table not in table_lrs and lookup.may_matter]
        self._num_left = len(self._used)
        dense, absent = self._dense_gradients(lrs)
        wait_for(self.device)
        for lookup, grads in sparse:
            self._refuse_nonfinite(f"table {self.client.job.tables[lookup.table].name!r}", grads)
        tables = [push_of(lookup, grads, table_lrs[lookup.table]) for lookup, grads in sparse]
        if dense:
            versions.append(self.policy.version)
        stepped = frozenset(table_lrs)
        gradients = Gradients(
            self.num_steps, tables, dense, dict(lrs), min(versions, default=0), stepped, absent=absent
        )
        gradients.steps = self.done.num_updates + 1
        update = Update(gradients, table_lrs, self.done.count.num, is_new)
        self._send(update, self._lookups.waiting(table_lrs))
        self.client.row_limits.check()

    def _dense_gradients(self, groups: Mapping[int, float]) -> tuple[list[list[Tensor]], tuple[int, ...]]:
        """The gradients of some dense groups, for each server, and which parameters had no part in the loss."""
        if not groups or self.flat is None or self.policy.trains_locally:
            return [], ()
        if changed := self.flat.changed_by_hand():
            refuse_changes(changed, self.flat, self.policy, self.client.job)
        self.flat.collect_gradients()
        names = set(self.flat.absent(groups))
        absent = tuple(place for place, (name, _) in enumerate(self.client.job.dense.shapes) if name in names)
        self.flat.to_host()
        for part in self.flat.of_groups(self.flat.host_gradients, groups):
            self._refuse_nonfinite("dense parameters", part)
        servers = range(self.client.job.num_servers)
        return [[b"".join(self.flat.pieces(server, group)) for group in groups] for server in servers], absent

    def _send(self, update: Update, waiting: Sequence[Lookup]) -> None:
        """Have the gradients of a step sent, unless the servers have them from a former life of this worker."""
        for part in self._parts:
            part.before_push(update)
        if update.gradients.steps > self.client.resumed_updates:
            self.policy.step(update.gradients, waiting)
            self.done.num_steps += 1
        elif waiting:
            self.policy.pull(waiting)
        self.done.num_updates += 1
        for part in reversed(self._parts):
            part.after_push(update)

    def multiply_gradients(self, factor: float, groups: Collection[int], tables: Collection[int]) -> None:
        """Multiply the gradients of some dense groups and of the rows of some tables."""
        if self.flat is not None:
            self.flat.collect_gradients()
            for part in self.flat.of_groups(self.flat.gradient_buffer, groups):
                part.mul_(factor)
        for lookup in self._used:
            if lookup.table in tables and lookup.rows is not None and lookup.rows.grad is not None:
                lookup.rows.grad.mul_(factor)

    def note_untrained(self, tables: Collection[int]) -> None:
        """Rows of these tables were looked up with gradients on, but by a module in evaluation, which trains none."""
        self._untrained.update(tables)

    def drop_older(self, weight: torch.Tensor, newest: torch.Tensor) -> None:
        """Drop the gradients that a module's rows had when somebody zeroed them; newer ones stay."""
        for lookup in self._used:
            if lookup.weight is weight:
                self.calls.rows_zeroed((lookup.table,))
                if lookup.rows is not newest and lookup.rows is not None:
                    lookup.rows.grad = None

    def zeroed(self, groups: Collection[int]) -> None:
        """The gradients of some dense groups were dropped, or set to zeros."""
        for part in self._parts:
            part.zeroed(groups)

    def zero_grad(self, tables: Collection[int]) -> None:
        """Drop the gradients that rows of some tables have; their lookups may still get others."""
        self.calls.rows_zeroed(tables)
        for lookup in self._used:
            if lookup.table in tables and lookup.rows is not None:
                lookup.rows.grad = None

    def send_kept(self) -> None:
        """Give the servers this worker's values of the tensors that they keep, for the save that follows."""
        if self.kept:
            self.client.keep([self.kept.values(server) for server in range(self.client.job.num_servers)])

    def take_kept(self) -> None:
        """Take over the tensors that the servers keep."""
        take_kept(self.client, self.kept)

    def row_gradients(self) -> list[torch.Tensor]:
        """The gradients of rows that the next step will send."""
        return [grad for lookup in self._used if (grad := lookup.row_gradients) is not None]

    @property
    def is_mid_step(self) -> bool:
        """Whether rows have gradients that no step has come after: backward() is over, and optimizer.step() is not."""
        return any(lookup.row_gradients is not None for lookup in self._used[self._num_left :])

    def forget_rows(self, table: int) -> None:
        """Drop what this worker has of a table's rows: they have been replaced on the servers."""
        self._lookups.forget_all()
        self.policy.forget_rows(table)

    def give_up(self) -> None:
        """Forget the lookups of this batch: its step will not come."""
        self._used.clear()
        self._num_left = 0

    def takes(self, gradients: Sequence[torch.Tensor]) -> bool:
        """Whether dense gradients may be applied here: UsageError, or False, if they hold a NaN or an Inf."""
        are_finite = all(is_finite(part) for part in gradients)
        if not are_finite:
            if self.client.job.nonfinite != "skip":
                raise nonfinite_error("dense parameters", self.client.worker, self.num_steps)
            log.warning("step %d of worker %d: dense parameters skip a NaN", self.num_steps, self.client.worker)
        return are_finite

    def restart_at(self, version: int) -> None:
        """Start over: the servers were given another state, so this worker's rows and parameters are out of date."""
        self._lookups.clear()
        self.give_up()
        self.client.encoder.forget()
        self.policy.restart_at(version)
        self.take_kept()
        if self.client.job.mode == "sync":
            self.go_on_at(version)

    def stop(self, back: Sequence[HandedBack] | None = None) -> None:
        """Send what is left, take leave of the servers and let the connections go; `back`: see `Client.leave`."""
        self.calls.at_end()
        try:
            self.policy.stop()
            self.client.changes.leave(back=back)
        finally:
            self.close()
        if not self.client.row_limits.was_exceeded:  # what was queued may have been too much
            self.client.row_limits.check()

    def close(self) -> None:
        """Close the connections without a word to anybody; idempotent."""
        self.client.close()
        self.policy.close()
        for part in self._parts:
            part.close()

    def heed_zeroed(self, tables: Collection[int]) -> None:
        """Drop gradients of rows where `model.zero_grad()` or `parameter.grad = None` came after `backward`."""
        for lookup in self._used:
            if lookup.table not in tables:
                continue
            if lookup.weight is not None and lookup.weight.grad is None and lookup.rows is not None:
                lookup.rows.grad = None

    def _warn_of_evaluation(self, used: Collection[int], stepped: Collection[int]) -> None:
        untrained = sorted(self._untrained & set(stepped) - set(used))
        self._untrained.clear()
        if untrained and not self._has_warned_of_evaluation:
            self._has_warned_of_evaluation = True
            log.warning(
                "rows of table %r get no gradients: their module was in evaluation. Call model.train() before "
                "training or, where the rest is to stay in evaluation, train() of that module alone",
                self.client.job.tables[untrained[0]].name,
            )

    def _refuse_nonfinite(self, what: str, grads: torch.Tensor) -> None:
        """Raise before anything is sent: a push that only some of the servers take would set them apart."""
        if self.client.job.nonfinite != "skip" and not _native.all_finite(grads):
            raise nonfinite_error(what, self.client.worker, self.num_steps)

"""A worker's runtime: it joins the servers, pulls rows for batches, and sends gradients when the optimizer steps.

Modules of `fleet.nn` ask it for lookups, `fleet.ps.worker.optimizer` tells it to step. With servers in the job it
talks gRPC to them; without any, one service in this process takes their place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from fleet import _native
from fleet.errors import NotReadyError, UsageError
from fleet.observe.metrics.registry import registry
from fleet.observe.metrics.step_count import StepCount
from fleet.observe.metrics.steps import steps
from fleet.ps.job.staging import wait_for
from fleet.ps.wire import traced
from fleet.ps.worker.asking import meters
from fleet.ps.worker.asking.ahead import Ahead, begun
from fleet.ps.worker.asking.aside import Aside
from fleet.ps.worker.asking.lookup import Lookup, Request, completed, make_lookup
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.modes.base import PushPolicy
from fleet.ps.worker.sending.by_hand import refuse_changes
from fleet.ps.worker.sending.finite import is_finite
from fleet.ps.worker.sending.gradients import Gradients, push_of
from fleet.ps.worker.sending.kept import KeptTensors

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from fleet.ps.hot.hot_tables import HotTables
    from fleet.ps.wire.messages import Tensor
    from fleet.ps.worker.asking.aside import After
    from fleet.ps.worker.life.passing import Passing
    from fleet.ps.worker.life.progress import Progress
    from fleet.ps.worker.life.redo import Redo
    from fleet.ps.worker.sending.dense_ahead import DenseAhead
    from fleet.ps.worker.sending.flat import FlatParameters


log = logging.getLogger(__name__)

AWAKE_US = 1500
"""For how long threads that read and write a table look out for the push of a step: until its gradients are there."""


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
    device: torch.device
    num_steps: int
    kept: KeptTensors = field(default_factory=KeptTensors)
    """What the model has beside tables and dense parameters."""
    other_names: dict[str, torch.Tensor] = field(default_factory=dict, init=False)
    """Further names of the model's tensors, as tied weights have."""
    has_optimizer: bool = field(default=True, init=False)
    """Whether somebody will call `step`; without it, rows are looked up to be read only."""
    behind: tuple[object, Any] | None = field(default=None, init=False)
    """Data that `fleet.prefetch` reads a batch ahead, and its state before that batch: where training is."""
    left: Any = field(default=None, init=False)
    """What a loop of `fleet.prefetch` that was left early had read ahead."""
    saved_data: Any = field(default=None, init=False)
    """The data whose position a `fleet.Checkpoint` of this worker saves, whatever is wrapped around it."""
    progress: Progress | None = field(default=None, init=False)
    """Where this worker is, for its next life; None if it will have none."""
    count: StepCount = field(default_factory=StepCount, init=False)
    """Counts the steps of this worker, of all its lives."""
    num_updates: int = field(default=0, init=False)
    """How often an optimizer of this worker has stepped, in all its lives: each time is a push of its own."""
    num_trained: int = field(default=0, init=False)
    """How often rows were looked up to be trained."""
    redo: Redo | None = field(default=None, init=False)
    """What lets the next life of this worker make its last step again as it was; None where nobody comes back."""
    passing: Passing | None = field(default=None, init=False)
    """What happens at the end of this worker's batches; None where nobody waits for it then."""
    dense_ahead: DenseAhead | None = field(default=None, init=False)
    """What sends dense gradients while backward runs; None: all of them go along with the push."""
    look_for_wishes: Callable[[], None] | None = field(default=None, init=False)
    """Called at every step, where somebody outside may want another number of servers."""
    hot: HotTables | None = field(default=None, init=False)
    """Tables whose hot rows are trained where the model is; None: there are none."""
    rouses: bool = field(default=False, init=False)
    """Whether a table in this process waits, at each step, for gradients that come from a GPU."""
    hooks: Sequence[RemovableHandle] = field(default=(), init=False)
    """Hooks of backward on parameters of the model; they go when this worker does."""
    undo_graphs: Callable[[], None] | None = field(default=None, init=False)
    """Gives the model its own forward back, where parts of it are replayed as CUDA graphs."""

    def __post_init__(self) -> None:
        steps.inside, steps.count = meters.training_s, self.count
        registry.remove(meters.read)
        registry.add(meters.read)
        traced.prepare()
        # Keys need their number of occurrences where the entry policy counts.
        self._counts = [spec.entry.name in ("count_filter", "show_click") for spec in self.client.job.tables]
        # Where the model is on a GPU, or trains rows itself, lookups are made beside it.
        self.aside = Aside(self.device) if self.device.type == "cuda" else None
        self._ahead: list[Ahead] = []  # of the next batch, and until it is used of this one
        self._newest: list[Ahead] = []  # what the last `prefetch` made
        self._last_ahead: list[Ahead] = []  # what was ahead when the last step ended
        self._has_warned = self._has_warned_of_evaluation = False
        self._used: list[Lookup] = []  # of this batch; their gradients are the next push
        self._untrained: set[int] = set()  # tables looked up in evaluation with gradients on, since the last step
        self._num_left = 0  # of those, the first: of tables that the last step was not about

    @property
    def used(self) -> Sequence[Lookup]:
        """What this batch has looked up to be trained; the next step sends its gradients."""
        return self._used

    def lookups(self, requests: Sequence[Request], *, with_grad: bool) -> list[Lookup]:
        """Rows for some ids, in one request to each server; those that were prefetched for these ids are used."""
        if with_grad and self.progress is not None:
            self.progress.begin_forward(self.count)
        if with_grad and not self.has_optimizer:
            raise NotReadyError(
                "rows are looked up to be trained, but no optimizer would send their gradients; call "
                "fleet.distributed_optimizer() before fleet.init_worker(), or model.eval() to only read them"
            )
        requests = [request._replace(only_read=not with_grad) for request in requests]
        found = [self._take_ahead(request) for request in requests]
        lookups = [lookup or self._begin(request).get() for lookup, request in zip(found, requests, strict=True)]
        pulled = [lookup for lookup in lookups if lookup.placement is None]
        fresh = [lookup for lookup in pulled if lookup.rows is None and not self.policy.is_pending(lookup)]
        if fresh:
            self.policy.pull(fresh)
        self.policy.finish(pulled, with_grad)
        for lookup in lookups:
            if lookup.placement is not None and self.hot is not None:
                self.hot.fill(lookup)
        for lookup in lookups:
            lookup.train(with_grad)
        if with_grad:
            self._used += lookups
            self.num_trained += 1
            if self.redo is not None:
                self.redo.note(lookups)
        return lookups

    def prefetch(self, requests: Sequence[Request]) -> None:
        """Find the keys of the next batch's ids, and pull their rows as soon as the mode allows."""
        self._drop_unused()
        self._newest = [self._begin(request) for request in requests if not self._is_read_late(request)]
        self._ahead += self._newest
        self.policy.expects_pull = True
        if self.policy.pulls_ahead and (pulled := [one.get() for one in self._newest if not self._is_hot(one.request)]):
            self.policy.pull(pulled)

    def end_prefetch(self) -> None:
        """Stop prefetching: no more batches are known ahead."""
        self.policy.expect_no_pull()

    def step(self, lrs: Mapping[int, float], table_lrs: Mapping[int, float], optimizer: object = None) -> None:
        """Send the gradients of the lookups since the last step, and of the dense parameters.

        Of the dense groups those of `lrs`, ascending, and of the tables those of `table_lrs`: what `optimizer` trains.
        """
        is_new = self.count.enter(optimizer)
        steps.begin_step(is_new=is_new)
        self._forget([one for one in self._ahead if one in self._last_ahead])  # this step makes their rows old
        # From a GPU all gradients are copied first, and waited for once.
        used = [lookup for lookup in self._used if lookup.table in table_lrs]
        self.heed_zeroed(table_lrs)
        self._warn_of_evaluation({lookup.table for lookup in used}, table_lrs)
        hot = self._hot_gradients(used)
        pulled = [lookup for lookup in used if lookup.placement is None]
        if self.rouses and pulled:
            _native.rouse(AWAKE_US)
        sparse = [(lookup, grads) for lookup in pulled if (grads := lookup.gradients()) is not None]
        versions = [lookup.version for lookup in pulled]
        self._used = [lookup for lookup in self._used if lookup.table not in table_lrs and lookup.may_matter]
        self._num_left = len(self._used)
        dense: list[list[Tensor]] = []
        absent: tuple[int, ...] = ()
        if lrs and self.flat is not None and not self.policy.trains_locally:
            if changed := self.flat.changed_by_hand():
                refuse_changes(changed, self.flat, self.policy, self.client.job)
            self.flat.collect_gradients()
            absent = self._absent(lrs)
            self.flat.to_host()
            for part in self.flat.of_groups(self.flat.host_gradients, lrs):
                self._refuse_nonfinite("dense parameters", part)
            dense = [
                [b"".join(self.flat.pieces(server, group)) for group in lrs]
                for server in range(self.client.job.num_servers)
            ]
            if self.dense_ahead is not None:
                self.dense_ahead.claim(dense, list(lrs))
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
        waiting = [] if self.policy.pulls_ahead else [one.get() for one in self._ahead if not self._is_hot(one.request)]
        self._send(gradients, [lookup for lookup in waiting if lookup.rows is None], is_new=is_new)
        if hot and self.hot is not None:
            self.hot.apply(hot, table_lrs)
        if self.dense_ahead is not None:
            self.dense_ahead.end_step(lrs)
        self._last_ahead = list(self._ahead)
        steps.end_step(is_whole=self.count.is_whole)
        self.client.row_limits.check()

    def _send(self, gradients: Gradients, waiting: Sequence[Lookup], *, is_new: bool) -> None:
        """Have the gradients of a step sent, unless the servers have them from a former life of this worker."""
        if self.look_for_wishes is not None:
            self.look_for_wishes()
        gradients.steps = self.num_updates + 1
        if self.progress is not None:
            gradients.position = self.progress.capture(self.count.num - 1, is_new=is_new)
        if self.redo is not None:
            self.redo.keep(self.count.num, gradients.steps, is_new=is_new)
        if gradients.steps > self.client.resumed_updates:
            self.policy.step(gradients, waiting)
            self.num_steps += 1
        elif waiting:
            self.policy.pull(waiting)
        if self.redo is not None:
            self.redo.end_update(gradients.steps)
        self.num_updates += 1

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
        """Drop the gradients of a module's rows, which somebody has zeroed, but those that have come since."""
        for lookup in self._used:
            if lookup.weight is weight and lookup.rows is not newest and lookup.rows is not None:
                lookup.rows.grad = None

    def zero_grad(self, tables: Collection[int]) -> None:
        """Drop the gradients that rows of some tables have; their lookups may still get others."""
        for lookup in self._used:
            if lookup.table in tables and lookup.rows is not None:
                lookup.rows.grad = None

    def send_kept(self) -> None:
        """Give the servers this worker's values of what they keep, for the save that follows."""
        if self.kept:
            self.client.keep([self.kept.values(server) for server in range(self.client.job.num_servers)])

    def take_kept(self) -> None:
        """Take over what the servers keep."""
        if self.kept or self.client.job.first_rows:  # which are there when the kept ones are
            for server, (_, tensors) in enumerate(self.client.pull((), kept=True).results()):
                self.kept.load(server, tensors)

    def row_gradients(self) -> list[torch.Tensor]:
        """The gradients of rows that the next step will send."""
        return [grad for lookup in self._used if (grad := lookup.row_gradients) is not None]

    @property
    def is_mid_step(self) -> bool:
        """Whether rows have gradients that no step has come after: backward() is over, and optimizer.step() is not."""
        return any(lookup.row_gradients is not None for lookup in self._used[self._num_left :])

    def forget_rows(self, table: int) -> None:
        """Rows of a table have been replaced on the servers: what this worker has of them is old."""
        self._forget(list(self._ahead))
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
                raise UsageError(self._nonfinite("dense parameters"))
            log.warning("step %d of worker %d: dense parameters skip a NaN", self.num_steps, self.client.worker)
        return are_finite

    def restart_at(self, version: int) -> None:
        """Start over: the servers were given another state, so this worker's rows and parameters are out of date."""
        self._ahead.clear()
        self.give_up()
        self.client.encoder.forget()
        self.policy.restart_at(version)
        self.take_kept()
        if self.client.job.mode == "sync":
            self.num_steps = version

    def stop(self) -> None:
        """Send what is left, take leave of the servers and let the connections go."""
        try:
            self.policy.stop()
            self.client.leave()
        finally:
            self.close()
        if not self.client.row_limits.was_exceeded:  # what was queued may have been too much
            self.client.row_limits.check()

    def close(self) -> None:
        """Let the connections go, without a word to anybody; calling it again changes nothing."""
        if self.dense_ahead is not None:
            self.dense_ahead.close()
        self.client.close()
        self.policy.close()
        if self.aside is not None:
            self.aside.close()
        if self.hot is not None:
            self.hot.close()
        for hook in self.hooks:
            hook.remove()
        if self.undo_graphs is not None:
            self.undo_graphs()
        if self.redo is not None:
            self.redo.close()

    def _is_hot(self, request: Request) -> bool:
        """Whether rows are trained where the model is."""
        return self.hot is not None and request.table in self.hot and not request.only_read

    def _is_read_late(self, request: Request) -> bool:
        """Whether rows may be read only when they are used: until then steps change them elsewhere."""
        return self.hot is not None and request.table in self.hot and request.only_read

    def _begin(self, request: Request) -> Ahead:
        """Begin a lookup."""
        spec = self.client.job.tables[request.table]
        complete, width = completed(request, spec), spec.width
        counts, num_servers, hot = self._counts[request.table], self.client.num_servers, self.hot
        placement = hot.expect(request.table) if hot is not None and self._is_hot(request) else None

        def make(after: After) -> Lookup:
            if any(source.device.type != "cpu" for source in complete.sources):
                after()
            stays = placement is not None
            lookup = make_lookup(complete, width, num_servers, counts=counts, device=self.device, keys_stay=stays)
            if hot is not None and placement is not None:
                after()  # rows that lose their place must have been trained
                hot.place(lookup, placement)
            return lookup

        return begun(complete, make, self.aside)

    def _hot_gradients(self, used: Sequence[Lookup]) -> list[tuple[Lookup, torch.Tensor]]:
        """The gradients of rows that are trained here; UsageError if one is a NaN or an Inf and may not be skipped."""
        found = [
            (lookup, grads.to(torch.float32))
            for lookup in used
            if lookup.placement is not None and (grads := lookup.row_gradients) is not None
        ]
        if self.client.job.nonfinite != "skip":
            for lookup, grads in found:
                if not is_finite(grads):
                    raise UsageError(self._nonfinite(f"table {self.client.job.tables[lookup.table].name!r}"))
        return found

    def _take_ahead(self, request: Request) -> Lookup | None:
        for position, one in enumerate(self._ahead):
            if one.request.is_for(request):
                self._ahead.pop(position)
                lookup = one.get()
                if lookup.request.only_read == request.only_read:
                    return lookup
                self.policy.forget(lookup)  # keys without a row may read otherwise now
                if self.hot is not None and request.table in self.hot:
                    return None
                return lookup.asked_again(only_read=request.only_read)
        return None

    def _forget(self, ahead: Sequence[Ahead]) -> None:
        """Lookups ahead that nobody came for."""
        for one in ahead:
            self._ahead.remove(one)
            self.policy.forget(one.get())

    def _drop_unused(self) -> None:
        """Forget what an earlier `prefetch` but the last one made: its batch is over."""
        unused = [one for one in self._ahead if one not in self._newest]
        self._forget(unused)
        if unused and not self._has_warned:
            self._has_warned = True
            log.warning(
                "rows of table %r were prefetched but not used: keys(batch) must give the very tensors that the model "
                "is called with; ids may stay in host memory where the model is on a GPU",
                self.client.job.tables[unused[0].request.table].name,
            )

    def _absent(self, groups: Collection[int]) -> tuple[int, ...]:
        """Parameters of some dense groups without a gradient, by their places in the job's list."""
        if self.flat is None or not (names := set(self.flat.absent(groups))):
            return ()
        return tuple(place for place, (name, _) in enumerate(self.client.job.dense.shapes) if name in names)

    def heed_zeroed(self, tables: Collection[int]) -> None:
        """`model.zero_grad()` and `parameter.grad = None` after `backward` mean rows too."""
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
        """Before anything is sent: a push that only some of the servers take would leave them apart."""
        if self.client.job.nonfinite != "skip" and not _native.all_finite(grads):
            raise UsageError(self._nonfinite(what))

    def _nonfinite(self, what: str) -> str:
        return (
            f"{what}: the gradients of worker {self.client.worker}, step {self.num_steps} hold a NaN or an Inf; "
            "nothing was sent. Set strategy.nonfinite_gradients = 'skip' to leave such rows out"
        )

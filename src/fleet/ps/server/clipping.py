"""How servers clip the mean gradient of a synchronous step when each of them holds only a part of it.

    worker: Push                     each server: takes it, and answers at once
    worker: Norm                     each server: has the pushes of all workers -> the squared norm of its part
    worker: Norm, with the sum       each server: scales its part by the same factor, applies it, writes it down

Every worker does so, and the first sum that arrives counts: no worker waits for another one, and any may die. The
sum is the same whoever adds. What a server has taken and not applied is gone if it dies, as ever in sync mode; it says
so (`is_lost`), and the push is sent again. A server that has applied the step answers with the sum it was done with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet.errors import DeadlineError, NotReadyError, UsageError
from fleet.ps.held.mean_norm import mean_squared_norm
from fleet.ps.held.requests import PushedUpdate
from fleet.ps.proto import ps_pb2
from fleet.ps.steps.missing_workers import loaded_meanwhile, too_late
from fleet.ps.wire import callers
from fleet.ps.wire.messages import Tensors

if TYPE_CHECKING:
    from fleet.ps.server.pushes import Pushes
    from fleet.ps.steps.core import Core

Reply = ps_pb2.NormReply.Header


class StepClipping:
    """Answers `Norm`, on one server."""

    def __init__(self, core: Core, pushes: Pushes) -> None:
        self._core = core
        self._pushes = pushes

    def answer(self, header: ps_pb2.NormRequest.Header, _: Tensors) -> tuple[ps_pb2.NormReply.Header, Tensors]:
        """Answer a call of `Norm`."""
        core, who = self._core, header.caller
        if header.is_former:
            former = self._former(who.worker)
            core.wait_for_copy()
            return former, ()
        holdings, rounds = core.known(who), core.state.rounds
        if not (holdings.job.clips_on_servers or core.keeps_pushes) or not header.squared_norm >= 0:
            raise UsageError(f"worker {who.worker}: a norm of {header.squared_norm} is of no use to this job")
        if header.is_told:
            core.door.wait(who.worker, who.incarnation, header.sequence)
            with core.gate.open():
                if not core.door.admits(who.worker, who.incarnation, header.sequence):
                    return Reply(is_held=True), ()
                with core.changed:
                    if rounds.version == header.step:
                        rounds.sum = header.step, header.squared_norm
                self._pushes.apply_if_complete()
        found: list[ps_pb2.NormReply.Header] = []

        def is_over() -> bool:
            reply = self._look(header)
            found.extend([] if reply is None else [reply])
            return reply is not None

        with core.changed:
            if not callers.wait_for(core.changed, is_over, header.timeout_ms / 1000):
                raise DeadlineError(too_late(holdings, rounds, header.timeout_ms))
        core.wait_for_copy()
        return found[0], ()

    def _former(self, worker: int) -> ps_pb2.NormReply.Header:
        """Which push of the present step the former life of a worker has left here."""
        state = self._core.state
        if state.holdings is None:
            raise NotReadyError("no worker has declared a job yet")
        with self._core.changed:
            update = state.rounds.waiting_of(worker)
            return Reply(
                is_lost=update is None,
                version=state.rounds.version,
                incarnation=state.ledger.incarnation(worker),
                sequence=0 if update is None else update.sequence,
                has_left=bool(state.rounds.away_of({worker}) - state.rounds.gone),
            )

    def _look(self, header: ps_pb2.NormRequest.Header) -> ps_pb2.NormReply.Header | None:
        """Under `changed`: the answer, or None while it cannot be given yet."""
        core, who = self._core, header.caller
        holdings, rounds = core.state.held, core.state.rounds
        version = core.reached(holdings, who, header.step + 1, wants_dense=False)
        step, total = rounds.sum
        is_sum = step == header.step
        if version is not None:
            outcome = self._pushes.outcome(holdings, version)
            return Reply(is_sum=is_sum, squared_norm=total if is_sum else 0.0, outcome=outcome)
        if not core.state.ledger.has(who.worker, header.sequence):
            return Reply(is_lost=True)
        if who.worker not in rounds.pushed():
            raise loaded_meanwhile(who.worker, header.step)
        if rounds.squared_norm is None or header.is_told:
            return None
        lives = [core.state.ledger.incarnation(worker) for worker in sorted(rounds.pushed())]
        return Reply(is_sum=is_sum, squared_norm=total if is_sum else rounds.squared_norm, lives=lives)


def norm_of_step(core: Core, updates: Sequence[PushedUpdate]) -> float | None:
    """The squared norm of the mean of a step whose pushes have all come; None: the other servers' parts are awaited.

    The caller has `applying`. A job without a largest norm, and a step that has passes only, need none: it is 0. Where
    servers have copies each awaits the word of a worker all the same: it says that all servers have all pushes.
    """
    job, rounds = core.state.held.job, core.state.rounds
    trained = [update for update in updates if not update.is_pass]
    has_norm = job.clips_on_servers and bool(trained)
    if not has_norm and not core.keeps_pushes:
        return 0.0
    if rounds.squared_norm is None:
        found = mean_squared_norm(trained, job, core.state.held.native) if has_norm else 0.0
        with core.changed:
            rounds.squared_norm = found
            if job.num_servers == 1:
                rounds.sum = rounds.version, found
            core.tell()
    with core.changed:
        step, total = rounds.sum
        return total if step == rounds.version else None

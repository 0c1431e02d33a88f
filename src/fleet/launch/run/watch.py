"""One attempt at a job, on this machine: start, watch, stop.

Everything that can happen arrives in one queue: a child's exit, a signal to the launcher, news from other machines. The
first failure ends the attempt, unless the job is durable (`lives`); so does the last worker's success. Whatever way it
ends, nothing is left.
"""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import Any

from fleet.job import comebacks
from fleet.job.endings import exit_code, how_it_ended
from fleet.job.lives import Lives
from fleet.job.restart_policy import is_unfit
from fleet.launch.durable import finished
from fleet.launch.meet.messages import AllDone, NodeFailed, Regroup, Scaled
from fleet.launch.meet.team import Team
from fleet.launch.planning.durable_job import recovery_s
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.processes.child import Child
from fleet.launch.run import report, unserved
from fleet.launch.run.contract import (
    AGAIN_S,
    LOOK_EVERY_S,
    PATIENCE_S,
    REAP_EVERY_S,
    Calm,
    Changer,
    Signalled,
    Striker,
)
from fleet.launch.run.crew import STDOUT, Crew
from fleet.launch.run.follow import LogFollower
from fleet.launch.run.outcome import RoundOutcome, failed_elsewhere, is_any_final, is_before, stopped_by
from fleet.launch.run.output import is_one_place
from fleet.launch.run.saving import SaveAndStop
from fleet.launch.run.station import Station
from fleet.launch.run.waits import Forsaken, Waits
from fleet.launch.standby.orders import Orders
from fleet.observe.stall.words import EXIT_CODE as STALLED

log = logging.getLogger("fleetrun")

GRACE_S = 5.0
"""How long a process may take to end after it was told to; then it is killed."""
END_S = 60.0
"""How long servers may take to end once the job has finished: nobody is in a hurry, and the machine may be busy."""
SETTLE_S = 2.0
"""How long to wait for a process that has begun to end, before the others are stopped."""
HEARSAY_S = SETTLE_S + 1.0
"""How long to wait for another machine that failed before us to say so: it waits itself until its process is gone."""
TICK_S = 0.05
CHANGE_S = 0.2
"""How soon a wish for another number of servers or workers is seen."""
STDERR = 2

Event = Child | Signalled | NodeFailed | Regroup | AllDone | Orders | Scaled | Forsaken


class Attempt:
    """Runs a plan to its end."""

    def __init__(
        self,
        plan: LaunchPlan,
        crew: Crew,
        team: Team,
        events: SimpleQueue[Any],
        chaos: Striker | None = None,
        changers: Sequence[Changer] = (),
        show: Callable[[Attempt], None] = lambda _: None,
        station: Station | None = None,
    ) -> None:
        """`crew` tells `events` who has ended, and so does `team` what happens elsewhere."""
        self._plan, self._crew, self._team, self._events = plan, crew, team, events
        self.lives: Lives[Child] = Lives(plan.max_lives)
        self._chaos: Striker = chaos or Calm()
        self._changers = changers
        self._station = station
        self._show = show
        """Called once all processes have started."""
        self._was_signalled = False
        self._saving = SaveAndStop(crew)
        self._waits = Waits(crew.children, plan.followed)
        self._reap_at = time.monotonic() + REAP_EVERY_S
        self._all_done_at: float | None = None

    def signalled(self, number: int) -> None:
        """The launcher was told to stop; may be called by a signal handler."""
        self._was_signalled = number != signal.SIGUSR1
        self._events.put(Signalled(number))

    def run(self) -> RoundOutcome:
        """Start everything, wait for the end, leave nothing."""
        followed = self._plan.followed
        try:
            self._crew.start()
            if self._station is not None:
                self._station.begin(self._crew)
            shown_from = next(child.log_from for child in self._crew.children if child.plan is followed)
            self._chaos.start(self.children, self.lives.excuse)
            self._show(self)
            follower = LogFollower(followed.log_path, STDOUT, shown_from, lambda: self._was_signalled)
            outcome = self._watch()
        finally:
            self._clean_up()
        patience_s = None if outcome.code == 0 and outcome.is_final else PATIENCE_S
        follower.conclude(patience_s, lambda: self._was_signalled)
        if restarts := comebacks.summary(self.lives.returns):
            log.warning(restarts)
        return outcome

    def children(self) -> list[Child]:
        """The processes of this machine now; may be asked by any thread."""
        return list(self._crew.children)

    def _start_again(self, old: Child) -> None:
        """Start a process anew in the place of one that has died, while everything else goes on."""
        if self._was_signalled or self._saving.leaves(old):
            return
        try:
            new = self._crew.start_again(old)
        except OSError as error:
            log.warning("cannot start %s again, trying on: %s", old.plan.name, error.strerror or error)
            self.lives.put_off(old, AGAIN_S)
            return
        this = self.lives.began(old, new)
        see = "" if (old.status or 0) < 0 else f" (see {old.plan.log_path})"
        log.warning("%s %s%s; started again in its place (life %d)", this.name, this.how, see, this.life)

    def _watch(self) -> RoundOutcome:
        if not self._crew.workers:
            self._team.done()
        while not self._is_over():
            if self._saving.is_late:
                return self._obey(signal.SIGTERM)
            if (saved := self._saving.outcome) is not None:
                return self._end_all(saved)
            match event := self._next_event():
                case None:
                    pass
                case Signalled(number):
                    if not self._saving.asks(number):
                        return self._obey(number)
                case NodeFailed():
                    return self._fail(event)
                case Regroup():
                    return self._regroup(event)
                case AllDone():
                    self._all_done_at = time.monotonic()
                    if away := self.lives.away:
                        log.info("the workers have finished; waiting for %s to be back", ", ".join(away))
                case Scaled():
                    for one in self._changers:
                        one.hear(event)
                case Forsaken(text):
                    return self._end_all(RoundOutcome(1, (text,)))
                case Orders() if self._station is not None:
                    self._station.obey(event)
                case Child() if self._station is not None and self._station.takes(event):
                    pass
                case Child() if any(one.takes(event, self._crew) for one in self._changers):
                    self._look_for_the_end()
                case Child(status=0) if event.plan.role == "server" and not finished.is_stopped_early(event):
                    pass  # every worker has left it; if not, a worker will fail, and the report says this too
                case Child() if self._saving.has_ended(event):
                    self._look_for_the_end()
                case Child() if self.lives.died(event):
                    self._crew.release(event)
                    self._crew.sweep_after(event)
                case Child() if self._station is None or not self._station.spares(event):
                    return self._fail()
        return self._finish()

    def _is_over(self) -> bool:
        """Whether all workers of the job have finished, and every process that died is back.

        Servers of a durable job remove their files when they are told to stop, and one that is dead cannot.
        """
        if self._all_done_at is None:
            return False
        return not self.lives.away or time.monotonic() > self._all_done_at + recovery_s()

    def _next_event(self) -> Event | None:
        """What happened next, or None if nothing did for a while."""
        for child in self.lives.take_due():
            self._start_again(child)
        for one in () if self._saving.was_told else self._changers:
            one.look(self._crew, self.lives)
        look_s = min(LOOK_EVERY_S if self._all_done_at is None else TICK_S, self.lives.look())
        if self._changers:
            look_s = min(look_s, CHANGE_S)
        if self._station is not None:
            self._station.look()
        try:
            event: Event = self._events.get(timeout=look_s)
            return event
        except Empty:
            if time.monotonic() > self._reap_at:
                self._crew.reap_orphans()
                self._reap_at = time.monotonic() + REAP_EVERY_S
        lines, in_vain = self._waits.look()
        for line in lines:
            log.warning("%s", line)
        return in_vain

    def _look_for_the_end(self) -> None:
        """A worker has ended in order: if it was the last one here, its machine is done."""
        workers = self._crew.workers
        if workers and all(worker.status == 0 for worker in workers):
            self._team.done()
            if self._plan.layout.num_nodes > 1:
                log.info("the workers of this machine have finished; waiting for the other machines")

    def _obey(self, number: int) -> RoundOutcome:
        name = signal.Signals(number).name
        running = self._crew.running
        for child in running:  # before a word: the terminal may take its time
            child.signal(number)
        log.warning("%s: stopping %d processes", name, len(running))
        self._team.failed(stopped_by(number, self._plan.layout.host))
        self._stop(number)
        return RoundOutcome(128 + number)

    def _regroup(self, event: Regroup) -> RoundOutcome:
        log.warning("%s: stopping %d processes, to start again with it", event.why, len(self._crew.running))
        self._stop(signal.SIGTERM)
        return RoundOutcome(0, is_final=False)

    def _finish(self) -> RoundOutcome:
        self._chaos.stop()
        if not self.lives.is_durable:
            self._drain(unserved.have_ended(self._crew.children, SETTLE_S), END_S, until_signal=True)
            if any(child.has_failed for child in self._crew.children):
                return self._fail().at_last()
        for complaint in filter(
            None, (unserved.complaint(self._crew.children), *unserved.unstopped(self._crew.children))
        ):
            log.warning(complaint)
        finished.mark(self._crew.children, is_whole=self._plan.layout.num_nodes == 1)
        if servers := self._crew.running:
            self._stop(signal.SIGTERM, END_S)
            for server in servers:
                if server.status not in (0, -signal.SIGTERM, -signal.SIGKILL):
                    how = how_it_ended(server.status or 0)
                    log.warning("%s was told to stop: %s; see %s", server.plan.name, how, server.plan.log_path)
        finished.clear(self._crew.children)
        return RoundOutcome(0)

    def _end_all(self, outcome: RoundOutcome) -> RoundOutcome:
        """End the attempt here and on all machines, for good."""
        told = f"{outcome.complaints[0]} ({self._plan.layout.host})"
        self._team.failed(NodeFailed(told, outcome.code, time.time(), is_final=True))
        self._stop(signal.SIGTERM)
        return outcome

    def _fail(self, *elsewhere: NodeFailed) -> RoundOutcome:
        """End the attempt over a failure here or on other machines; whichever began first is the cause."""
        self._chaos.stop()
        heard: list[NodeFailed | Regroup] = list(elsewhere)
        # A child that has begun to end but is not gone may be the cause of what we saw; its exit comes in moments.
        self._drain(lambda: not any(child.is_leaving for child in self._crew.children), SETTLE_S, heard)
        failed = [child for child in self._crew.children if child.has_failed]
        if self.lives.is_durable:  # the others would have been started again
            failed = [child for child in self._crew.children if child in self.lives.given_up or child.status == STALLED]
        if not failed:
            self._stop(signal.SIGTERM)
            return failed_elsewhere(heard)
        cause, began_at = report.find_cause(failed)
        assert cause.status is not None
        what = f"{report.one_line(cause)} on {self._plan.layout.host} (pid {cause.pid})"
        code = exit_code(cause.status) or 1
        self._team.failed(NodeFailed(what, code, began_at, in_vain := self.lives.is_durable and is_unfit(cause)))
        if self._plan.layout.num_nodes > 1:
            self._drain(lambda: any(is_before(one, began_at) for one in heard), HEARSAY_S, heard)
        self._stop(signal.SIGTERM)
        followed = self._plan.followed if is_one_place(STDOUT, STDERR) else None
        others = [child for child in self._crew.children if child in failed or not child.has_failed]
        text = report.failure_report(cause, others, shown=followed)
        if any(is_before(one, began_at) for one in heard):
            return failed_elsewhere(heard, f"after it, on this machine: {text}")
        aborted = (
            report.abort_line(self._crew.children, len(self._plan.layout.workers)) if self._plan.has_banner else ""
        )
        complaints = tuple(
            filter(None, (text, self.lives.given_up.get(cause), aborted, *unserved.unstopped(self._crew.children)))
        )
        return RoundOutcome(code, complaints, in_vain or is_any_final(heard), is_unfit(cause))

    def _stop(self, number: int, limit_s: float = GRACE_S) -> None:
        """Tell everything to end, wait, then insist. A second signal to the launcher ends the waiting."""
        self._chaos.stop()
        started = time.monotonic()
        for child in self._crew.running:
            if not child.was_told_to_stop:
                child.signal(number)
        told_at = started + GRACE_S if limit_s > GRACE_S else math.inf

        def is_over() -> bool:
            nonlocal told_at
            if (running := self._crew.running) and time.monotonic() > told_at:
                names = ", ".join(child.plan.name for child in running)
                log.info("waiting for %s to end; killed after %.0f s", names, limit_s)
                told_at = math.inf
            return not running

        self._drain(is_over, limit_s, until_signal=True)
        for child in self._crew.running:
            waited_s = time.monotonic() - started
            log.warning("%s (pid %d) did not end within %.1f s; killed", child.plan.name, child.pid, waited_s)
            child.signal(signal.SIGKILL)
        self._drain(lambda: not self._crew.running, GRACE_S)

    def _drain(
        self,
        is_enough: Callable[[], bool],
        timeout_s: float,
        heard: list[NodeFailed | Regroup] | None = None,
        until_signal: bool = False,
    ) -> None:
        """Let events pass until `is_enough`, the time is up, or (if asked) the launcher is signalled again.

        What comes from other machines is kept in `heard`.
        """
        deadline = time.monotonic() + timeout_s
        while not is_enough() and time.monotonic() < deadline:
            try:
                event = self._events.get(timeout=TICK_S)
            except Empty:
                continue
            if isinstance(event, NodeFailed | Regroup) and heard is not None:
                heard.append(event)
            if isinstance(event, Signalled) and until_signal:
                return

    def _clean_up(self) -> None:
        with ExitStack() as steps:
            steps.callback(self._crew.clean_up)
            if self._station is not None:
                steps.callback(self._station.close)
            steps.callback(self._chaos.stop)  # the first to be called

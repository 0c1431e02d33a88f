"""The life of a job on this machine: meet, run a round, and if that ended too early, meet again.

Which rounds there are is decided where the machines meet (`host`); how a round goes is `watch`'s. Here are the loop
around both, the signals, and what is said between two rounds.
"""

import logging
import signal
import sys
import time
from contextlib import ExitStack

from fleet.jobfiles.ending import SAVED
from fleet.launch.arguments.options import Options
from fleet.launch.durable import folder as durable
from fleet.launch.durable.reshards import Reshards
from fleet.launch.durable.scaling import Scaling, note_limits
from fleet.launch.meet.job_token import own_token
from fleet.launch.meet.messages import JobOverError
from fleet.launch.meet.team import Round, Team
from fleet.launch.planning import banner
from fleet.launch.planning.plan import LaunchPlan, sharing_note
from fleet.launch.processes import guard
from fleet.launch.processes.guard import Guard
from fleet.launch.processes.logs import JobIdentity, ReadyProcess, open_log
from fleet.launch.rounds.prepare import Prepared, prepare
from fleet.launch.run.contract import Changer
from fleet.launch.run.crew import Crew
from fleet.launch.run.outcome import RoundOutcome, stopped_by
from fleet.launch.run.output import say
from fleet.launch.run.station import Station
from fleet.launch.run.watch import Attempt
from fleet.launch.tls import certificates as tls
from fleet.launch.watching.recorder import make_recorder
from fleet.launch.watching.tools import make_chaos, make_curves, make_ports, make_scale_rule, make_traces
from fleet.observe.timing.duration import in_words

log = logging.getLogger("fleetrun")


class Job:
    """Runs rounds until one ends well, or there is no other."""

    def __init__(self, options: Options, job_id: str, watchman: Guard) -> None:
        self._options = options
        self._job_id = job_id
        self._guard = watchman
        is_durable = options.durable is not None
        has_copies = options.standby is not None
        self._team = Team(own_token(), 0 if is_durable else options.max_restart, is_durable, has_copies)
        self._plan: LaunchPlan | None = None
        """The plan of the round that runs, or ran last."""
        self._num_failures = 0
        """How many rounds had failed when that one began."""
        self._began_at = time.monotonic()
        self._attempt: Attempt | None = None
        self._is_meeting = False
        self._signalled: int | None = None
        self._chaos = make_chaos(options)
        self._recorder = make_recorder(options, job_id)
        self._ports = make_ports(options)
        self._traces = make_traces(options)
        self._board = make_curves(options)
        self._rule = make_scale_rule(options)
        self._add_onlookers()

    def run(self) -> int:
        """Start everything, wait for the end, report; returns the exit code of the job.

        Signals that end a process stay in our hands afterwards: what comes after the outcome does not change it.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
                signal.signal(number, self._on_signal)
        guard.adopt_orphans()
        durable.make_folder(self._options)
        outcome: RoundOutcome | None = None
        with ExitStack() as resources:
            if self._ports is not None:
                resources.callback(self._ports.close)
            resources.callback(self._end_record, 1)  # unless it was ended in order
            resources.callback(self._team.close, lambda: self._signalled is not None)
            resources.callback(tls.remove_private_folder, self._job_id)
            while outcome is None or (not outcome.is_final and self._team.goes_on):
                try:
                    outcome = self._run_round()
                except JobOverError as over:
                    if outcome is None:
                        raise
                    log.error("%s", over)
                    code = (outcome.code or 1) if over.code is None else over.code
                    self._end_record(code)
                    return code
            self._tell_the_end(outcome)
            self._end_record(outcome.code)
        return outcome.code if self._chaos is None or self._plan is None else self._chaos.tell(self._plan, outcome.code)

    def _on_signal(self, number: int, _frame: object) -> None:
        if number == signal.SIGUSR1:
            if self._attempt is not None:
                self._attempt.signalled(number)
            return
        self._signalled = number
        if self._is_meeting:  # nothing of ours runs; what Python ignores in a callback is seen before the start
            sys.exit(128 + number)
        if self._attempt is not None:
            self._attempt.signalled(number)

    def _run_round(self) -> RoundOutcome:
        with ExitStack() as holds:
            plan, this, orders = self._meet(holds)
            token = self._team.token.value
            plan = plan.with_variables(tls.variables(self._options, plan.layout.num_nodes, token, self._job_id))
            # What lies in the folder of a machine that has just come is of another job.
            is_continued = this.restart > 0 and self._plan is not None
            logs = [open_log(process.log_path, holds, is_continued=is_continued) for process in plan.processes]
            locks = [durable.lock(self._options, process.folder, holds) for process in plan.processes]
            durable.begin(self._options, [process.folder for process in plan.processes])
            if self._recorder is not None:
                self._recorder.prepare(plan, this.restart, is_continued=is_continued)
            self._tell_of(plan, this)
            if self._traces is not None:
                plan = self._traces.prepare(plan, is_continued=is_continued)
            striker = None
            if self._chaos is not None:
                plan, striker = self._chaos.prepare(plan)
            self._plan = plan
            ready = list(map(ReadyProcess, plan.processes, logs, locks))
            identity = JobIdentity(self._job_id, token, this.restart)
            crew = Crew(ready, plan.followed, identity, self._guard, this.news.put)
            changers = self._changers(plan, holds)
            station = None
            if orders is not None:
                hosts = tuple(offer.host for offer in this.offers)
                station = Station(self._options, plan, orders, hosts, holds, self._team.tell)
            self._attempt = Attempt(plan, crew, self._team, this.news, striker, changers, self._show, station)
            if self._signalled is not None:
                self._attempt.signalled(self._signalled)
            try:
                outcome = self._attempt.run()
            finally:
                self._attempt = None
        for complaint in outcome.complaints:
            log.error("%s", complaint)
        if self._signalled is not None and not outcome.is_final:
            self._team.failed(stopped_by(self._signalled, plan.layout.host))
            return RoundOutcome(outcome.code or 128 + self._signalled)
        return outcome

    def _changers(self, plan: LaunchPlan, holds: ExitStack) -> list[Changer]:
        """Who starts and stops processes of a durable job while it runs."""
        options = self._options
        if options.durable is None:
            return []
        note_limits(options, plan.layout.num_nodes)
        reshards = Reshards(options, plan, holds)
        limits = options.worker_range
        return [reshards] if limits is None else [reshards, Scaling(options, plan, limits, holds, self._team.share)]

    def _show(self, attempt: Attempt) -> None:
        """Called when the processes of a round have started: from now on they can be watched."""
        if self._recorder is None:
            return
        self._recorder.follow(attempt.children, lambda: attempt.lives.returns)
        for line in () if self._ports is None else self._ports.open():
            log.info("%s", line)
            if self._options.quiet:  # whoever asks for a port wants to know which
                say(f"fleetrun: {line}")

    def _add_onlookers(self) -> None:
        """What else looks at the processes every second."""
        if self._recorder is not None:
            if (traces := self._traces) is not None:
                self._recorder.add(lambda _: traces.look())
            for one in (self._board, self._rule):
                if one is not None:
                    self._recorder.add(one.look)

    def _end_record(self, code: int) -> None:
        if self._recorder is not None and not self._recorder.is_over:
            self._recorder.end(code)
            if self._traces is not None and self._plan is not None:
                self._traces.end()
            if self._board is not None:
                self._board.close()

    def _meet(self, holds: ExitStack) -> Prepared:
        """Meet the others for the next round; a signal ends the waiting at once, and for all once there was a round."""
        self._is_meeting = True
        try:
            if self._signalled is not None:
                sys.exit(128 + self._signalled)
            return prepare(self._options, self._team, holds)
        except SystemExit as stop:
            if self._team.has_begun and isinstance(stop.code, int):
                host = self._team.address if self._plan is None else self._plan.layout.host
                self._team.failed(stopped_by(stop.code - 128, host))
            raise
        finally:
            self._is_meeting = False

    def _tell_of(self, plan: LaunchPlan, this: Round) -> None:
        num_failures, self._num_failures = self._num_failures, this.num_failures
        if self._plan is None:
            self._began_at = time.monotonic()
            announce(self._options, plan)
            joined = "joined a running job, " if this.restart else ""
            machine = f", machine {this.node_index} of {this.num_nodes}" if this.num_nodes > 1 else ""
            log.info("%sstarting %s%s; logs in %s", joined, plan.summary, machine, self._options.log_dir)
            if kept := durable.what_is_there(self._options):
                log.info("%s", kept)
            return
        machines = f"{this.num_nodes} machine{'s' if this.num_nodes > 1 else ''}"
        if this.num_failures > num_failures:
            where = f", with {machines}" if this.offers else ""
            log.warning("restarting the job, attempt %d of %d%s", this.num_failures, self._options.max_restart, where)
        else:
            log.warning("%s: starting the job again with %s; this is no failure and is not counted", this.why, machines)

    def _tell_the_end(self, outcome: RoundOutcome) -> None:
        code, took = outcome.code, in_words(time.monotonic() - self._began_at)
        if code == 0:
            durable.remove_layouts(self._options)
            log.info("finished in %s", took)
        elif self._signalled is not None or code == SAVED:
            log.warning("stopped after %s, exit code %d", took, code)
        else:
            log.error("failed after %s, exit code %d", took, code)
        if code != 0 and not outcome.is_unfit and (left := durable.what_is_left(self._options)):
            log.warning("%s", left)


def announce(options: Options, plan: LaunchPlan) -> None:
    """What is said before the first process starts, or a dry run shows what would."""
    if options.banner:
        say(banner.whole_banner(options, plan))
    if note := sharing_note(plan):
        log.warning("%s", note)

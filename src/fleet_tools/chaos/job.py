"""A job under chaos, in its launcher: an agent for each of its rounds, and the verdict at the end."""

import logging
import time

from fleet.launch.arguments.options import Options
from fleet.launch.planning.plan import LaunchPlan
from fleet_tools.chaos import report
from fleet_tools.chaos.agent import Agent, with_chaos
from fleet_tools.chaos.findings import notes_of
from fleet_tools.chaos.spec import Chaos

log = logging.getLogger("fleetrun")


class ChaosJob:
    """What `--chaos` asks for, from the first round to the last."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._agent: Agent | None = None
        """That of the round that runs, or ran last."""

    def prepare(self, plan: LaunchPlan) -> tuple[LaunchPlan, Agent]:
        """The plan of a round with the faults that its processes do themselves; the agent does the others."""
        chaos, seed = self._options.chaos, self._options.seed or 0
        assert isinstance(chaos, Chaos)
        if self._agent is None:
            began_at = time.time()
            for process in plan.processes:
                notes_of(process).remove()  # of another job
            if chaos.ends_processes and self._options.durable is None:
                log.warning("chaos without --durable: the job ends by the first kill")
        else:
            began_at = self._agent.began_at
        self._agent = Agent(chaos, seed, plan, began_at, before=self._agent)
        return with_chaos(plan, chaos, seed, began_at), self._agent

    def tell(self, plan: LaunchPlan, code: int) -> int:
        """Report; the code of the job, or 1 if that is 0 and an invariant is broken."""
        return code if self._agent is None else report.tell(self._agent, plan, code, is_quiet=self._options.quiet)

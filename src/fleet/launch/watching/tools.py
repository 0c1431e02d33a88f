"""What fleetrun asks of `fleet_tools` while a job runs, each only where an option asks for it."""

from collections.abc import Sequence
from typing import Protocol, cast

from fleet._lazy import tool
from fleet.launch.arguments.options import Options
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.processes.child import Child
from fleet.launch.run.contract import Striker


class ChaosRounds(Protocol):
    """Faults on purpose, from the first round to the last."""

    def prepare(self, plan: LaunchPlan) -> tuple[LaunchPlan, Striker]:
        """The plan of a round, with the faults that its processes do themselves, and who does the others."""

    def tell(self, plan: LaunchPlan, code: int) -> int:
        """Report; the exit code of the job."""


class OpenPorts(Protocol):
    """The ports of `--metrics_port` and `--dashboard`, taken before anything starts."""

    def open(self) -> list[str]:
        """Begin to answer, once the job has something to show; a line about each port."""

    def close(self) -> None:
        """Answer who has asked, and end."""


class TraceGatherer(Protocol):
    """Makes one file of what processes record."""

    def prepare(self, plan: LaunchPlan, *, is_continued: bool) -> LaunchPlan:
        """The plan, with what each process is to record."""

    def look(self) -> None:
        """See whether the trace is complete; called every second while the job runs."""

    def end(self) -> None:
        """The job is over: write what there is."""


class NumberRule(Protocol):
    """Decides how many workers there are to be."""

    def look(self, children: Sequence[Child]) -> None:
        """Ask for another number of workers if it is time."""


class Curves(Protocol):
    """Writes for TensorBoard."""

    def look(self, children: Sequence[Child]) -> None:
        """Write what is new of these processes."""

    def close(self) -> None:
        """The job is over."""


def make_chaos(options: Options) -> ChaosRounds | None:
    """The faults that `--chaos` asks for; None where there are none."""
    return None if options.chaos is None else cast("ChaosRounds", tool("chaos")(options))


def make_ports(options: Options) -> OpenPorts | None:
    """The ports at which the job can be watched; None where none is asked for."""
    is_asked = options.metrics_port is not None or options.dashboard is not None
    return cast("OpenPorts", tool("watch_ports")(options)) if is_asked else None


def make_traces(options: Options) -> TraceGatherer | None:
    """What gathers the trace that `--trace` asks for; None where none is."""
    return None if options.trace is None else cast("TraceGatherer", tool("traces")(options, options.trace))


def make_curves(options: Options) -> Curves | None:
    """What writes for TensorBoard; None where that is not asked for."""
    return None if options.tensorboard is None else cast("Curves", tool("curves")(options))


def make_scale_rule(options: Options) -> NumberRule | None:
    """What changes the number of workers as `--scale` says; None where that is not asked for."""
    return None if options.scale is None else cast("NumberRule", tool("scale_rule")(options))

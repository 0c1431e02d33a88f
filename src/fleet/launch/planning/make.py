"""Options and what the machines have agreed on -> plan: the same arguments give the same plan, on whatever machine."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.launch.arguments.options import Options
from fleet.launch.planning.collective_plan import collective_plan
from fleet.launch.planning.devices import num_local_workers
from fleet.launch.planning.layout import JobLayout, Needs
from fleet.launch.planning.machine import Machine
from fleet.launch.planning.needs import collective_needs
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.planning.server_needs import server_needs
from fleet.launch.planning.server_plan import server_plan


def find_needs(options: Options, machine: Machine) -> Needs:
    """What this machine must hold, and where it meets the others; a FleetError of one line if that cannot work."""
    if options.is_server_job:
        return server_needs(options)
    return collective_needs(options, num_local_workers(options, machine.worker_gpus))


def make_plan(options: Options, machine: Machine, layout: JobLayout, network: Mapping[str, str]) -> LaunchPlan:
    """The processes of this machine, of a job laid out so; `network` has the variables of the chosen interface."""
    make = server_plan if options.is_server_job else collective_plan
    return make(options, machine, layout, network)

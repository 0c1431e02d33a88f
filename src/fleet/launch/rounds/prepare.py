"""Options -> the plan of the next round: look at this machine, hold its ports, meet the others, plan.

`planning` says what is needed and what is to be started, `meet` holds ports and finds the others.
"""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fleet.launch.arguments.options import Options
from fleet.launch.durable import folder
from fleet.launch.durable.scaling import first_workers
from fleet.launch.meet.agree import agree
from fleet.launch.meet.beginning import begin
from fleet.launch.meet.team import Round, Team
from fleet.launch.planning.machine import look
from fleet.launch.planning.make import find_needs, make_plan
from fleet.launch.planning.network import check_given, network_variables
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.planning.standby_job import with_copies
from fleet.launch.standby.kept import look as look_for_kept
from fleet.launch.standby.orders import Orders


class Prepared(NamedTuple):
    """A round that can be started."""

    plan: LaunchPlan
    round: Round
    orders: Orders | None = None
    """The first ones, in a job whose servers have copies."""


def prepare(options: Options, team: Team, holds: ExitStack) -> Prepared:
    """Everything up to the plan; this machine's ports are left in `holds`.

    Any mistake is a FleetError of one line, and then nothing has been started.
    """
    machine = look(options)
    check_given(options, has_gpus=machine.has_gpus)
    present = folder.present_layout(options) if options.is_server_job else None
    if present is not None:
        options = replace(options, server_num=len(present.endpoints))
    elif options.is_server_job:
        folder.refuse_other_number(options)
    kept = None
    if options.standby is not None and options.durable is not None and not options.dry_run:
        durable = options.durable
        kept = look_for_kept(Path(durable), lambda path: folder.has_journal(durable, path.name))
    layout, this = agree(find_needs(options, machine), team, holds, is_dry=options.dry_run, kept=kept)
    orders = None
    if kept is not None:
        layout, orders = begin(layout, this)
    if present is not None:
        layout = replace(layout, number=present.number)
    network = network_variables(layout, has_gpus=machine.has_gpus)
    plan = make_plan(options, machine, layout, network)
    if options.worker_range is not None:
        plan = plan.with_workers(first_workers(options, options.worker_range, plan.layout))
    return Prepared(plan if orders is None else with_copies(options, plan, orders), this, orders)

"""`fleetrun scale DIR --workers N --servers M`: have a job that runs on this machine go on with other numbers."""

import time
from pathlib import Path

import click

from fleet import env
from fleet.errors import CommunicationError, DeadlineError, UsageError
from fleet.jobfiles.scaling import ScaleNotes
from fleet.launch.arguments.values import WholeNumber
from fleet.launch.run.output import say
from fleet_tools.commands.reshard_command import go_on_with, running_servers

WAIT_S = 3600.0
"""How long workers may take to be there, or to be gone: one that leaves finishes its step first."""
_LOOK_S = 0.1

EPILOG = """
\b
Examples:
  fleetrun --server_num 2:4 --worker_num 1:8 --durable kept train.py  a job, which begins with 2 servers and 1 worker
  fleetrun scale kept --workers 8                                     goes on with 8 workers
  fleetrun scale kept --servers 4                                     and with 4 servers

It returns when that is so. The job trains on meanwhile; docs/fleetrun.md says more. In sync mode set
strategy.gradient_scale_configs.scale_strategy = "sum", so that samples count alike however many workers there are.
"""


@click.command(epilog=EPILOG, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@click.option("--workers", type=WholeNumber(1), help="How many workers there are to be.")
@click.option("--servers", type=WholeNumber(1), help="How many servers there are to be, as by fleetrun reshard.")
@click.argument("folder", metavar="[DIR]", required=False)
def scale(workers: int | None, servers: int | None, folder: str | None) -> int:
    """Change how many workers and servers a durable job has, on all of its machines; DIR is its folder on this one."""
    folder = folder or env.FLEET_DURABLE.get()
    if folder is None:
        raise UsageError("fleetrun scale needs the folder of the job: fleetrun scale DIR --workers N")
    if workers is None and servers is None:
        raise UsageError(f"fleetrun scale {folder}: nothing is to change; add --workers N or --servers N")
    if workers is not None:
        _scale_workers(folder, workers)
    return 0 if servers is None else go_on_with(folder, servers)


def _scale_workers(folder: str, workers: int) -> None:
    running_servers(Path(folder))
    notes = ScaleNotes(folder)
    limits = notes.limits("workers")
    if limits is None:
        raise UsageError(
            f"the job in {folder} has one number of workers for all its time; start it with --worker_num A:B, such as "
            f"1:{max(8, workers)}"
        )
    if not limits.least <= workers <= limits.most:
        raise UsageError(
            f"{workers} workers: --worker_num of the job in {folder} leaves room for {limits}; stay within that"
        )
    number, deadline = notes.wish(workers), time.monotonic() + WAIT_S
    while (answer := notes.answer(number)) is None:
        if not notes.folder.exists():
            raise CommunicationError("the job has ended")
        running_servers(Path(folder))  # it may also have been stopped, to go on later with so many
        if (newest := notes.wanted()) is not None and newest.number != number:
            raise CommunicationError(f"{newest.workers} workers are wanted by now; look who else changes their number")
        if time.monotonic() > deadline:
            raise DeadlineError(f"waited {WAIT_S:g} s for {workers} workers")
        time.sleep(_LOOK_S)
    if answer:
        raise CommunicationError(f"the workers stay as they are: {answer}")
    say(f"fleetrun: workers: {workers}")

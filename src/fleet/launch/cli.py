"""The command line of fleetrun: reads the arguments, one clear line for each mistake, then runs the job."""

import copy
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

import click

from fleet._lazy import offered, tool
from fleet.errors import CommunicationError, DeadlineError, FleetError, NotSupportedError
from fleet.launch.arguments.misplaced import refuse_misplaced
from fleet.launch.arguments.options import Options
from fleet.launch.arguments.parser import ELSEWHERE, parse
from fleet.launch.arguments.values import with_optional_value
from fleet.launch.meet.messages import JobOverError
from fleet.launch.run.output import EventFormatter, PatientHandler, say

COMMANDS = "fleet.commands"
"""Entry points of this group are commands of click, such as `fleetrun plan`; those of Fleet are in `fleet_tools`."""


class Dialect(NamedTuple):
    """The name by which fleetrun was called, and what its help says under that name."""

    name: str
    summary: str
    epilog: str


def main(arguments: list[str] | None = None, dialect: Dialect | None = None) -> None:
    """Do what the arguments ask, those of the process unless some are given, and exit."""
    _open_standard_streams()
    code = run(sys.argv[1:] if arguments is None else arguments, dialect)
    try:
        sys.stdout.flush()
    except (AttributeError, OSError):  # closed, or nobody reads it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter's own flush changes the exit code
    sys.exit(code)


def _open_standard_streams() -> None:
    """Put /dev/null where stdin, stdout or stderr is closed, or a file we open later would take its place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def run(arguments: list[str], dialect: Dialect | None = None) -> int:
    """Do what the arguments ask; returns the exit code. With a dialect, the help speaks it."""
    name, parser = "fleetrun", parse
    if dialect is not None:
        name, parser = dialect.name, copy.copy(parse)
        parser.help, parser.epilog = dialect.summary, dialect.epilog
    try:
        if sys.platform != "linux":
            raise NotSupportedError(f"fleetrun needs Linux, this is {sys.platform}")
        if arguments and arguments[0].isidentifier() and (command := offered(COMMANDS, arguments[0])) is not None:
            return int(command.main(arguments[1:], prog_name=f"{name} {arguments[0]}", standalone_mode=False) or 0)
        arguments = with_optional_value(parser, arguments, "--dashboard", "0")
        arguments = with_optional_value(parser, arguments, "--tensorboard", "", takes_next=False)
        options = parser.main(arguments, prog_name=name, standalone_mode=False)
        if not isinstance(options, Options):  # --help or --version has been shown
            return int(options or 0)
        if options.script:
            refuse_misplaced(parser, arguments, len(options.script_args), name, is_module=options.module)
        return _launch(options) if options.render is None else _render(options, arguments)
    except click.NoSuchOption as error:
        return _complain(
            f"{error.option_name}: {ELSEWHERE.get(error.option_name.replace('-', '_'), error.format_message())}"
        )
    except click.ClickException as error:
        return _complain(error.format_message())
    except JobOverError as error:
        return _complain(str(error), code=1 if error.code is None else error.code)
    except (DeadlineError, CommunicationError) as error:
        return _complain("\n".join(filter(None, [str(error), error.see])), code=1)
    except FleetError as error:  # one line: what is wrong with the arguments, and what to write instead
        return _complain(str(error))
    except (click.Abort, KeyboardInterrupt):
        return 130


def _render(options: Options, arguments: Sequence[str]) -> int:
    from fleet.launch.planning.mistakes import refuse_contradictions

    refuse_contradictions(options)
    sys.stdout.write(tool("render")(options, arguments))
    return 0


def _complain(message: str, code: int = 2) -> int:
    say(f"fleetrun: {message}")
    return code


def _launch(options: Options) -> int:
    # Imported here so that --help and mistakes in single arguments answer at once.
    from fleet.launch.planning import banner
    from fleet.launch.planning.mistakes import refuse_mistakes
    from fleet.launch.processes.guard import Guard, new_job_id

    refuse_mistakes(options)
    if options.banner is None:
        options = replace(options, banner=not options.quiet and banner.is_of_the_guides(options.script))
    _set_up_logging(logging.WARNING if options.quiet else logging.INFO)
    if options.dry_run:
        return _show_plan(options)
    from fleet.launch.rounds.job import Job

    job_id = new_job_id()
    with ExitStack() as resources:
        _leave_on_signals()
        guard = Guard(job_id)
        resources.callback(guard.dismiss)
        return Job(options, job_id, guard).run()


def _show_plan(options: Options) -> int:
    from fleet.launch.meet.job_token import own_token
    from fleet.launch.meet.team import Team
    from fleet.launch.planning import banner
    from fleet.launch.rounds.job import announce
    from fleet.launch.rounds.prepare import prepare

    with ExitStack() as holds:
        plan = prepare(options, Team(own_token(), 0), holds).plan
    announce(options, plan)
    say(f"{banner.variable_table(plan.processes[0].variables)}\n{banner.dry_run_table(plan)}", sys.stdout)
    return 0


def _leave_on_signals() -> None:
    """While we wait for other machines, SIGTERM and SIGHUP end us in order; a running job has handlers of its own."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def _set_up_logging(level: int) -> None:
    handler = PatientHandler(2)
    handler.setFormatter(EventFormatter())
    handler.setLevel(level)
    log = logging.getLogger("fleetrun")
    log.setLevel(logging.INFO)
    log.handlers[:] = [handler]
    log.propagate = False

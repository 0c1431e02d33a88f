"""`fleetrun view LOG_DIR` and `fleetrun top LOG_DIR`: look at a job, also at one that has ended or runs elsewhere."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from fleet.errors import UsageError
from fleet.launch.run.output import say
from fleet.launch.watching import terminal
from fleet.launch.watching.access import own_access
from fleet.launch.watching.door import WatchDoor
from fleet.launch.watching.routes import page_routes
from fleet.observe.metrics.picture import observed, read_picture

_SETTINGS = {"max_content_width": 110, "help_option_names": ["-h", "--help"]}


@click.command(context_settings=_SETTINGS)
@click.option("--port", default="0", metavar="PORT", help="Where the page is.  [default: a free port]")
@click.argument("log_dir", default="log")
def view(log_dir: str, port: str) -> int:
    """Show the page of the job whose log folder is LOG_DIR, until Ctrl-C."""
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"--port must be a whole number from 0 to 65535, got {port}")
    folder = Path(log_dir).absolute()
    observed(folder)
    for problem in read_picture(folder).problems:
        say(f"fleetrun: {folder / 'observe'}: {problem}")
    door = WatchDoor(int(port), "--port", own_access(), page_routes(folder))
    is_over = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        is_over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    door.open()
    say(f"fleetrun: {log_dir} is shown at {door.url}/ until Ctrl-C")
    while not is_over.wait(1.0):
        pass
    door.close()
    return 0


@click.command(context_settings=_SETTINGS)
@click.option("--once", is_flag=True, help="Print the job as it is now, and end.")
@click.argument("log_dir", default="log")
def top(log_dir: str, once: bool) -> int:
    """Show the job whose log folder is LOG_DIR as a table that follows it, until it ends or Ctrl-C."""
    folder = Path(log_dir).absolute()
    observed(folder)
    if once or not sys.stdout.isatty():
        terminal.print_once(folder)
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        terminal.follow(folder)
    return 0


COMMANDS = {"view": view, "top": top}

"""`fleetrun view`, `top` and `trace LOG_DIR`: look at a job, also at one that has ended or runs elsewhere."""

import contextlib
import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from fleet.errors import UsageError
from fleet.launch.run.output import say
from fleet.observe.trace_files import own_files
from fleet.observe.tracing.window import Window
from fleet_tools.traces.gathering import NAME, in_a_line, write_trace
from fleet_tools.traces.reading import read_trace
from fleet_tools.watching import terminal
from fleet_tools.watching.access import own_access
from fleet_tools.watching.door import WatchDoor
from fleet_tools.watching.picture import observed, read_picture
from fleet_tools.watching.routes import page_routes

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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--out", metavar="FILE", help=f"Where to write it.  [default: {NAME} in the first folder]")
@click.argument("log_dirs", nargs=-1, required=True)
def trace(log_dirs: tuple[str, ...], out: str | None) -> int:
    """Join what a job of several machines has recorded (fleetrun --trace), from each machine's LOG_DIR, into one file.

    Clocks are compared by the calls between workers and servers; the file says how wrong that can be.
    """
    folders = [Path(one) for one in log_dirs]
    for folder in folders:
        if not own_files(folder):
            raise UsageError(f"{folder}: no spans of a job are in it; was it started with --trace?")
    processes = read_trace(folders)
    path = folders[0] / NAME if out is None else Path(out)
    window = _window(own_files(folders[0])[0])
    if (problem := write_trace(path, processes, window)) is not None:
        raise UsageError(f"{path} cannot be written: {problem}")
    say(in_a_line(str(path), processes, window))
    return 0


def _window(path: Path) -> Window:
    try:
        with path.open() as file:
            return Window.parse(str(json.loads(file.readline())["window"]))
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{path} is damaged: {error}") from None

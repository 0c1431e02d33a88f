"""`fleetrun trace LOG_DIR...`: one trace from the log folders of several machines."""

from __future__ import annotations

import json
from pathlib import Path

import click

from fleet.errors import UsageError
from fleet.launch.run.output import say
from fleet.launch.watching.traces import NAME, in_a_line, write_trace
from fleet.observe.traces.reading import read_trace
from fleet.observe.traces.trace_files import own_files
from fleet.observe.tracing.window import Window


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--out", metavar="FILE", help=f"Where to write it.  [default: {NAME} in the first folder]")
@click.argument("log_dirs", nargs=-1, required=True)
def command(log_dirs: tuple[str, ...], out: str | None) -> int:
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

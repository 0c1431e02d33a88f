"""Gathers what `--trace` has processes record into one file, LOG_DIR/trace.json, as soon as all of them have.

A trace that cannot be had, or not written, is a line in the launcher's log; the job never ends by it.
"""

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from fleet import env
from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet.launch.planning.plan import LaunchPlan
from fleet.launch.run.output import say
from fleet.observe.trace_files import EVERY_S
from fleet.observe.tracing.window import Window
from fleet_tools.traces import otlp
from fleet_tools.traces.chrome import chrome_trace
from fleet_tools.traces.reading import Traced, is_complete, read_trace

NAME = "trace.json"
SERVERS_S = 2 * EVERY_S + 0.5
"""How long after the workers servers have written theirs."""

log = logging.getLogger("fleetrun")


class Traces:
    """The trace of a job, gathered by the launcher of one machine."""

    def __init__(self, options: Options, window: Window) -> None:
        if env.FLEET_METRICS.get() == "0":
            raise UsageError("--trace has nothing to record with FLEET_METRICS=0; leave out one of them")
        self._options, self._window = options, window
        self._log_dir = Path(options.log_dir).absolute()
        self._num_workers = 0
        self._complete_at: float | None = None
        self._is_told = False
        self._one_at_a_time = threading.Lock()
        self._send_spans = otlp.own_sender()

    def prepare(self, plan: LaunchPlan, *, is_continued: bool) -> LaunchPlan:
        """Forget the trace of an earlier job; the plan, with what each process is to record."""
        if not is_continued:  # the recorder forgets the parts: those of this machine, where several share a folder
            with contextlib.suppress(OSError):
                (self._log_dir / NAME).unlink()
        self._num_workers = len(plan.layout.local_workers)
        return plan.with_variables({env.FLEET_TRACE.name: str(self._window)})

    def look(self) -> None:
        """Write the trace if all workers have come to its end; called every second while the job runs."""
        if self._is_told or not self._num_workers:
            return
        if self._complete_at is None and is_complete(self._log_dir, self._num_workers):
            self._complete_at = time.monotonic()
        if self._complete_at is not None and time.monotonic() - self._complete_at >= SERVERS_S:
            self.end()

    def end(self) -> None:
        """The job is over: write what there is, also what came after the first time."""
        try:
            with self._one_at_a_time:  # the thread that looks may still be at it when the job is over
                to_send = self._gather()
            if self._send_spans is not None and to_send and (failed := self._send_spans(to_send)) is not None:
                log.warning("the trace was not sent to %s: %s", env.OTEL_EXPORTER_OTLP_ENDPOINT.text(), failed)
        except Exception as error:  # a trace is never the reason why a job fails
            self._is_told = True
            log.warning("the trace could not be made: %s", error)

    def _gather(self) -> Sequence[Traced]:
        """Write the trace; what is to be sent of it, the first time."""
        processes = read_trace([self._log_dir])
        if not any(one.spans for one in processes if one.role == "worker"):
            if not self._is_told and self._num_workers:
                log.warning("%s", _nothing(processes, self._window))
            self._is_told = True
            return ()
        problem = write_trace(self._log_dir / NAME, processes, self._window)
        if self._is_told:
            return ()
        self._is_told = True
        if problem is not None:
            log.warning("the trace could not be written: %s; its parts are in %s", problem, self._log_dir / "observe")
            return ()
        line = in_a_line(os.path.join(self._options.log_dir, NAME), processes, self._window)
        log.info("%s", line)
        if self._options.quiet:  # whoever asks for a trace wants to know where it is
            say(f"fleetrun: {line}")
        return processes


def write_trace(path: Path, processes: Sequence[Traced], window: Window) -> OSError | None:
    """Put a trace into a file, whole or not at all; the error if it cannot be had."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(json.dumps(chrome_trace(processes, window.in_words), separators=(",", ":")))
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        return error
    return None


def in_a_line(where: str, processes: Sequence[Traced], window: Window) -> str:
    """Where a trace is, and of what."""
    shown = [one for one in processes if not one.is_empty]
    num_spans = sum(len(one.spans) + len(one.wires) + len(one.requests) for one in shown)
    made = max((one.num_steps for one in shown if one.role == "worker"), default=0)
    short = f" (the job ended after step {made})" if 0 < made < window.last else ""
    return (
        f"trace of {window.in_words}{short}: open {where} at ui.perfetto.dev; {num_spans:,} spans of {len(shown)} "
        "processes"
    )


def _nothing(processes: Sequence[Traced], window: Window) -> str:
    made = max((one.num_steps for one in processes if one.role == "worker"), default=None)
    if made is None:
        return f"--trace {window}: no worker has called fleet.init(), so there is no trace"
    return f"--trace {window}: no worker came to step {window.first}, the furthest made {made}; there is no trace"

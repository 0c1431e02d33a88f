"""What failed, said so that the reader need not search: the cause first, with the end of its log."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

from fleet.launch.child import Child, exit_code
from fleet.launch.follow import tail

NUM_LINES = 20


def how_it_ended(status: int) -> str:
    """`exit code 3`, or `signal SIGKILL (9), exit code 137`."""
    if status >= 0:
        return f"exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    return f"signal {name} ({-status}), exit code {exit_code(status)}"


def find_cause(children: Sequence[Child]) -> Child:
    """Which failure came first: by the time an exception was raised where the child told it, else by its exit.

    A worker that raises takes a while to leave, and its peers may notice the closed connection and leave before it.
    """
    failed = [child for child in children if child.status not in (None, 0) and not child.was_told_to_stop]
    return min(failed, key=lambda child: _raised_at(child.error_path) or child.exited_at or 0.0)


def _raised_at(path: Path) -> float | None:
    try:
        return float(json.loads(path.read_text())["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def one_line(child: Child) -> str:
    """`worker 1 failed: exit code 3`."""
    assert child.status is not None
    return f"{child.plan.name} failed: {how_it_ended(child.status)}"


def failure_report(cause: Child, children: Sequence[Child]) -> str:
    """The text shown at the end of a failed job."""
    assert cause.exited_at is not None
    ran_s = cause.exited_at - cause.started_at
    lines = [f"{one_line(cause)} (pid {cause.pid}, after {ran_s:.1f} s)"]
    log_lines = tail(cause.plan.log_path, NUM_LINES)
    if log_lines:
        lines.append(f"the last {len(log_lines)} lines of {cause.plan.log_path}:")
        lines += [f"  | {line}" for line in log_lines]
    else:
        lines.append(f"{cause.plan.log_path} is empty")
    others = [child for child in children if child is not cause]
    also = [child for child in others if child.status not in (None, 0) and not child.was_told_to_stop]
    stopped = [child for child in others if child.was_told_to_stop]
    lines += [f"after it, {one_line(child)} (pid {child.pid}, see {child.plan.log_path})" for child in also]
    if stopped:
        lines.append(f"stopped because of it: {', '.join(child.plan.name for child in stopped)}")
    return "\n".join(lines)

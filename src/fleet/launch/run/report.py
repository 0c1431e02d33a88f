"""What failed, said so that the reader need not search: the cause first, with the end of its log."""

import math
import signal
from collections.abc import Sequence

from fleet import env
from fleet.job.endings import how_it_ended
from fleet.launch.planning.plan import ProcessPlan
from fleet.launch.processes.child import Child
from fleet.launch.processes.logs import tail
from fleet.launch.run import torch_alone

NUM_LINES = 20


SUDDEN_S = 2.0
"""How much later than its consequences the launcher may notice a sudden death."""


def find_cause(failed: Sequence[Child]) -> tuple[Child, float]:
    """The child that began to end first, of those that failed, and when that was.

    A process that raised or exited has noted the moment. One that was killed has not, and is noticed when the launcher
    comes to it, which on a busy machine is after its peers have noted their loss: so a sudden death shortly after the
    first note counts as before it. An abort does not: libraries abort over a lost peer.
    """
    first_note = min((child.noted_at for child in failed if child.noted_at is not None), default=math.inf)

    def began_at(child: Child) -> float:
        if child.noted_at is not None:
            return child.noted_at
        exited_at = child.exited_at or 0.0
        is_sudden = child.status != -signal.SIGABRT
        return min(exited_at, first_note - 1e-3) if is_sudden and exited_at < first_note + SUDDEN_S else exited_at

    cause = min(failed, key=lambda child: (began_at(child), child.exited_at or 0.0))
    return cause, began_at(cause)


def one_line(child: Child) -> str:
    """`worker 1 failed: exit code 3`."""
    assert child.status is not None
    return f"{child.plan.name} failed: {how_it_ended(child.status)}"


def abort_line(children: Sequence[Child], num_workers: int) -> str:
    """What scripts that read the output of PaddlePaddle's launcher look for; empty if no worker failed."""
    ranks = [child.plan.index for child in children if child.plan.role == "worker" and child.has_failed]
    if not ranks:
        return ""
    return (
        f"ABORT!!! Out of all {num_workers} trainers, the trainer process with rank={ranks} was aborted. "
        "Please check its log."
    )


def failure_report(cause: Child, children: Sequence[Child], shown: ProcessPlan | None = None) -> str:
    """The text shown at the end of a failed job; the log of `shown` stands above it already."""
    assert cause.exited_at is not None
    ran_s = cause.exited_at - cause.started_at
    lines = [f"{one_line(cause)} (pid {cause.pid}, after {ran_s:.1f} s)"]
    log_lines = tail(cause.plan.log_path, NUM_LINES, start=cause.log_from)
    if log_lines and cause.plan is shown:
        lines.append(f"its last lines are above, all of them in {cause.plan.log_path}")
    elif log_lines:
        how_many = f"{len(log_lines)} lines" if len(log_lines) > 1 else "line"
        lines.append(f"the last {how_many} of {cause.plan.log_path}:")
        lines += [f"  | {line}" for line in log_lines]
    else:
        lines.append(f"{cause.plan.log_path} is empty")
    others = [child for child in children if child is not cause]
    if env.PADDLE_PSERVERS_IP_PORT_LIST.name in cause.plan.variables and (hint := torch_alone.remedy(log_lines)):
        lines.append(hint)
    also = [child for child in others if child.has_failed]
    lines += [f"after it, {one_line(child)} (pid {child.pid}, see {child.plan.log_path})" for child in also]
    if ended := [child.plan.name for child in others if child.plan.role == "server" and _ended_by_itself(child)]:
        lines.append(f"ended by itself before that: {', '.join(ended)}")
    if stopped := [child.plan.name for child in others if child.was_told_to_stop]:
        lines.append(f"stopped because of it: {', '.join(stopped)}")
    return "\n".join(lines)


def _ended_by_itself(child: Child) -> bool:
    return child.status == 0 and not child.was_told_to_stop

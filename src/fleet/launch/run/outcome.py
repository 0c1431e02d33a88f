"""How one attempt at a job ended, here or on another machine."""

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleet.launch.meet.messages import NodeFailed, Regroup


@dataclass(frozen=True)
class RoundOutcome:
    """How one attempt ended."""

    code: int
    complaints: tuple[str, ...] = ()
    """Said after the last line of the followed process."""
    is_final: bool = True
    """It is not to be tried again, whatever is left of `--max_restart`."""
    is_unfit: bool = False
    """A process was refused, or has refused what it found: the same command would meet the same."""

    def at_last(self) -> "RoundOutcome":
        """The same behind the end of all workers: there is nothing to be tried again."""
        return replace(self, is_final=True)


def stopped_by(number: int, host: str) -> NodeFailed:
    """What other machines hear when a user stops the launcher of this one."""
    name = signal.Signals(number).name
    return NodeFailed(f"fleetrun was stopped by {name} on {host}", 128 + number, time.time(), is_final=True)


def is_before(one: NodeFailed | Regroup, began_at: float) -> bool:
    """Whether it explains a failure that began then; when all are stopped to start again, that explains everything."""
    return isinstance(one, Regroup) or one.began_at < began_at


def is_any_final(heard: Sequence[NodeFailed | Regroup]) -> bool:
    """Whether one of them is not to be followed by another attempt."""
    return any(isinstance(one, NodeFailed) and one.is_final for one in heard)


def failed_elsewhere(heard: Sequence[NodeFailed | Regroup], *more: str) -> RoundOutcome:
    """The end of an attempt that another machine has ended."""
    if any(isinstance(one, Regroup) for one in heard):
        return RoundOutcome(0, is_final=False)
    cause = min((one for one in heard if isinstance(one, NodeFailed)), key=lambda failure: failure.began_at)
    what = f"the job failed on another machine: {cause.what}"
    return RoundOutcome(cause.code, (what, *more), is_final=is_any_final(heard))

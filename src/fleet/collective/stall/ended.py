"""A worker that ended before the others: said in one line where Gloo speaks of a crash that was none."""

import re
import sys
from collections.abc import Callable, Mapping
from types import TracebackType

from fleet.errors import CommunicationError

_LOST = re.compile(r"closed by peer|reset by peer|broken pipe|lost a member|remote process exited", re.IGNORECASE)
"""What backends say when a peer has gone, by whatever way."""


def explain_lost_peers(
    worker: int, count: Callable[[], int], left: Callable[[], Mapping[int, int]]
) -> Callable[[], None]:
    """From now on an uncaught error about a lost peer names the worker that had ended by itself, if one had.

    `count`: the batches that this worker has begun; `left`: how many each worker had when it left, of those that have.
    What comes back undoes it.
    """
    show = sys.excepthook

    def explained(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        line = explanation(worker, count(), left()) if _is_lost_peer(error) else None
        if line is not None:
            kind, error = CommunicationError, CommunicationError(line)
        show(kind, error, trace)

    def undo() -> None:
        if sys.excepthook is explained:
            sys.excepthook = show

    sys.excepthook = explained
    return undo


def explanation(worker: int, num_batches: int, left: Mapping[int, int]) -> str | None:
    """Who ended with how many batches, and what to do; None if nobody has left.

    >>> explanation(0, 8, {1: 7}).partition(":")[0]
    'worker 1 ended after 7 batches while worker 0 is in batch 8'
    """
    if not left:
        return None
    first = min(left, key=lambda one: (left[one], one))
    others = f" (and {len(left) - 1} more workers)" if len(left) > 1 else ""
    plural = "" if left[first] == 1 else "es"
    ended = f"worker {first}{others} ended after {left[first]} batch{plural} while worker {worker}"
    if left[first] < num_batches:
        return (
            f"{ended} is in batch {num_batches}: give every worker the same number of batches, or let "
            "fleet.data.shard(..., uneven='pad', 'drop' or 'join') see to it"
        )
    together = "what all workers do together, such as a save, all of them must call"
    return f"{ended} still waits for it after {num_batches}: {together}"


def _is_lost_peer(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and _LOST.search(str(error)) is not None

"""What happens to a process now and then: a checkpoint, a recovery, a snapshot. One line each, for the page."""

import time
from typing import Literal

from fleet.jobfiles.figures import append, events_file, own_base

Event = Literal[
    "checkpoint", "loaded", "recovered", "promoted", "snapshot", "shrink", "reshard", "stall", "damage", "base"
]


def note(event: Event, text: str) -> None:
    """Note an event of this process; nothing happens where nobody would read it."""
    base = own_base()
    if base is not None:
        append(events_file(base.parent, base.name), {"time": time.time(), "event": event, "text": text})

"""Which actions the real thing is made to follow: those that a seed draws, and all short sequences."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modelled import copies, servers, workers
from modelled.checker import Action
from modelled.compare import Pair
from modelled.state import Size

WALKED = (
    Size(("PSL", "PL"), deaths=2, restarts=2),
    Size(("PL", "PPSL"), is_sync=True, deaths=2, restarts=2),
    Size(("SPL", "PSL"), deaths=3, restarts=1),
    Size(("PPL", "PPL"), is_sync=True, deaths=3, restarts=1),
)
SHORT = (
    (Size(("PSL",), deaths=1), 7, 12),
    (Size(("L", "PL"), is_sync=True, deaths=1, restarts=1), 4, 7),
)
"""Of these all sequences of so many actions are followed, behind the moment when everybody has joined: in `make test`,
and by `make model`."""
NUM_WALKS, ALL_WALKS = 6, 250
"""Of each size, in both."""
MOST_ACTIONS = 400
JOINING = ("again", "join")
FAULTS = (workers.DIES, servers.RESTARTS, copies.BURNS, copies.DOUBTED)


@contextmanager
def pair(size: Size) -> Iterator[Pair]:
    """Both at the beginning, with files that are removed behind."""
    before = os.environ.get("FLEET_DURABLE")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="fleet-modelled-", dir=memory))
    os.environ["FLEET_DURABLE"] = str(folder)
    made = Pair(size, folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)
        del os.environ["FLEET_DURABLE"]
        if before is not None:
            os.environ["FLEET_DURABLE"] = before


def walk(size: Size, seed: int) -> int:
    """Follow what a seed draws, with messages that come again or late, to the end; how many actions that were."""
    draw = random.Random(f"walk {seed}")
    with pair(size) as both:
        for _ in range(MOST_ACTIONS):
            if draw.random() < 0.25 and (known := both.repeat()):
                both.take_again(draw.choice(known))
            if not (steps := both.steps()):
                break
            orderly = [step for step in steps if step[0][0] not in FAULTS]
            both.take(draw.choice(orderly if orderly and draw.random() < 0.9 else steps))  # faults come late, too
        return len(both.trace)


def sequences(size: Size, length: int) -> int:
    """Follow every sequence of so many actions from where everybody has joined; how many there are."""
    num = 0
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        chosen = waiting.pop()
        with pair(size) as both:
            _join_all(both)
            for number in range(length):
                if not (steps := both.steps()):
                    break
                if number == len(chosen):
                    waiting += [(*chosen, other) for other in range(1, len(steps))]
                    chosen = (*chosen, 0)
                both.take(steps[chosen[number]])
        num += 1
    return num


def _join_all(both: Pair) -> None:
    """Go to where everybody has joined and nobody has begun anything, without faults."""

    def helps(action: Action) -> bool:
        name, first, *_ = action
        return name == servers.TAKES_LIFE or (name not in FAULTS and both.now.workers[first].stage in JOINING)

    while any(worker.stage in JOINING for worker in both.now.workers):
        both.take(next(step for step in both.steps() if helps(step[0])))

"""Damages what Fleet has saved, CHECKPOINTS times for each kind (`make fuzz`), and loads it.

A load must refuse in one line that names the file, and leave everything as it was; or load what was saved, exactly, if
the damage is in a file of tensors that it does not need, or the side file with the checksums is gone.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fleet.errors import FleetError
from fleet_programs.io.listing import LISTING
from support.durable.damage import damage, files_of
from support.durable.saved_kinds import KINDS, Subject

DOCUMENTS = {"__model__", "line.pdmodel"}
BAD = ("silent", "raw", "taken over", "vague", "unnoticed")


@dataclass
class Outcome:
    """What came of the loads of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)

    def note(self, what: str, about: str) -> None:
        self.counts[what] += 1
        if what in BAD:
            self.bad.append(f"{what}: {about}")


def sweep(name: str, count: int, seed: int = 0) -> Outcome:
    """Damage and load one kind of saved thing so many times."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as root, KINDS[name](Path(root)) as subject:
        subject.reset()
        before = subject.state()
        subject.renew()
        subject.load()
        right = subject.state()
        assert right != before, "a load would not be noticed"
        subject.reset()
        assert subject.state() == before, "the state before cannot be had back"
        for number in range(count):
            rng = Random(f"{name}/{seed}/{number}")
            subject.renew()
            kind, touched = damage(rng, subject.work, subject.other)
            outcome.note(*_tried(subject, before, right, kind, touched))
            if subject.state() != before:
                subject.reset()
        assert files_of(subject.good), "the original must stay"
    return outcome


def _tried(subject: Subject, before: object, right: object, kind: str, touched: list[str]) -> tuple[str, str]:
    about = f"{kind} {touched}"
    try:
        subject.load()
    except FleetError as error:
        text = str(error)
        if subject.state() != before:
            return "taken over", f"{about}: {text}"
        is_named = any(Path(name).name in text for name in touched) or str(subject.work) in text
        return "refused" if is_named and "\n" not in text else "vague", f"{about}: {text}"
    except Exception as error:
        return "raw", f"{about}: {error!r:.200}"
    if subject.state() != right:
        return "silent", about
    is_document = any(name.endswith(".json") or name in DOCUMENTS for name in touched)
    return "unnoticed" if is_document and not (kind == "missing" and touched == [LISTING]) else "the same", about


def main(count: int, only: Sequence[str] = ()) -> int:
    """Sweep all kinds, say what came of it, and how many loads were wrong."""
    wrong = 0
    for name in only or KINDS:
        outcome = sweep(name, count)
        wrong += len(outcome.bad)
        print(f"{name}: {', '.join(f'{number} {what}' for what, number in sorted(outcome.counts.items()))}", flush=True)
        for line in outcome.bad[: int(os.environ.get("SHOWN", "5"))]:
            print(f"    {line}")
    return wrong


if __name__ == "__main__":
    os.environ.setdefault("FLEET_DEVICE", "cpu")
    sys.exit(main(int(os.environ.get("CHECKPOINTS", "1000")), sys.argv[1:]) > 0)

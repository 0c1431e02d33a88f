"""Sessions and histories of shoppers, of the form that recommenders of 1.x read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_ITEMS, _KINDS = 60, 6


def sessions(folder: Path) -> None:
    """`train_data/` and `test_data/`: a line has the ids of one session, of one kind; `vocab.txt` has their number."""
    random = np.random.default_rng(6)
    (folder / "vocab.txt").write_text(f"{_ITEMS}\n")
    for part, count in (("train", 1000), ("test", 50)):
        place = folder / f"{part}_data"
        place.mkdir(exist_ok=True)
        lines = [_session(random) for _ in range(count)]
        (place / "part_0.txt").write_text("".join(f"{' '.join(map(str, line))}\n" for line in lines))


def histories(folder: Path) -> None:
    """DIN: histories, their categories, an item, its category, and whether it was bought: if it is of the same kind."""
    random = np.random.default_rng(7)
    place = folder / "data"
    place.mkdir(exist_ok=True)
    (place / "config.txt").write_text(f"100\n{_ITEMS}\n{_KINDS}\n")
    lines = []
    for _ in range(1600):
        seen, item = _session(random), int(random.integers(0, _ITEMS))
        label = int(seen[0] % _KINDS == item % _KINDS)
        if not label and random.random() < 0.5:
            item, label = item - item % _KINDS + seen[0] % _KINDS, 1
        kinds = [one % _KINDS for one in seen]
        lines.append(f"{' '.join(map(str, seen))};{' '.join(map(str, kinds))};{item};{item % _KINDS};{label}\n")
    (place / "paddle_train.txt").write_text("".join(lines))


def _session(random: np.random.Generator) -> list[int]:
    kind, length = int(random.integers(0, _KINDS)), int(random.integers(3, 8))
    return [int(random.integers(0, _ITEMS // _KINDS)) * _KINDS + kind for _ in range(length)]

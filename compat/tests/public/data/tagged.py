"""Sentences whose words are tagged, of the form that taggers of 1.x read."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def named_entities(folder: Path) -> None:
    """Lines of `text;words;labels;mentions`: nearly every word is an entity, of one of two kinds."""
    random = np.random.default_rng(9)
    for part, count in (("train", 600), ("test", 40)):
        place = folder / f"data/{part}_files"
        place.mkdir(parents=True, exist_ok=True)
        lines = []
        for _ in range(count):
            words = random.integers(0, 60, int(random.integers(4, 9))).tolist()
            labels = [1 + 2 * (word % 2) if word < 54 else 0 for word in words]
            mentions = [1 + word % 2 if word < 54 else 0 for word in words]
            lines.append(";".join(["x", *(" ".join(map(str, one)) for one in (words, labels, mentions))]) + "\n")
        (place / "part_0").write_text("".join(lines))

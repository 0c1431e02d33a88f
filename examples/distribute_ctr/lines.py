"""The pipe of train.py: Criteo's lines on standard input, MultiSlot text on standard output.

A line of Criteo's is a label, 13 counts and 26 categories in hexadecimal, separated by tabs, with gaps. A dataset
starts this program once for every file, so it imports neither torch nor numpy.
"""

import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from fleet_programs import MultiSlotDataGenerator

COUNTS, CATEGORIES = 13, 26


class CriteoLines(MultiSlotDataGenerator):
    """The slots of train.py, in its order: dense_input, C1 to C26, label."""

    def generate_sample(self, line: str | None) -> Callable[[], Iterator[Any]]:
        """One record of a line."""
        assert line is not None
        label, *fields = line.rstrip("\n").split("\t")
        counts, categories = fields[:COUNTS], fields[COUNTS:]

        def samples() -> Iterator[Any]:
            ids = [(f"C{place}", [hashed(place, text)]) for place, text in enumerate(categories, 1)]
            yield ("dense_input", [small(text) for text in counts]), *ids, ("label", [int(label)])

        return samples


def small(count: str) -> float:
    """A count by its order of magnitude; a gap is 0."""
    number = float(count or 0)
    return math.copysign(math.log1p(abs(number)), number)


def hashed(place: int, text: str) -> int:
    """The id of a category: the same text in two columns is two ids."""
    return place << 32 | zlib.crc32(text.encode())


if __name__ == "__main__":
    CriteoLines().run_from_stdin()

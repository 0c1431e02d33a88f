"""Which steps a trace records, as `--trace 20:40` says it."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.errors import UsageError

MOST_STEPS = 10_000


@dataclass(frozen=True)
class Window:
    """The steps of a worker from `first` to `last`, both of them; its first step is 1. Prints as it was written."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}:{self.last}"

    @property
    def in_words(self) -> str:
        """`step 5`, or `steps 20 to 40`."""
        return f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"

    @classmethod
    def parse(cls, text: str) -> Window:
        """Read `A:B` or `N`; UsageError if it is neither."""
        numbers = text.split(":")
        if len(numbers) > 2 or not all(one.isascii() and one.isdigit() and len(one) < 16 for one in numbers):
            raise UsageError(f"--trace {text!r} is neither a step, such as 20, nor a range of steps, such as 20:40")
        window = cls(int(numbers[0]), int(numbers[-1]))
        if window.first < 1:
            raise UsageError(f"--trace {text}: the first step of a job is 1; write 1 or more before the colon")
        if window.first > window.last:
            raise UsageError(f"--trace {text}: the first step comes first; write {window.last}:{window.first}")
        if window.last - window.first >= MOST_STEPS:
            raise UsageError(
                f"--trace {text}: {window.last - window.first + 1:,} steps are too many to look at; record at most "
                f"{MOST_STEPS:,}"
            )
        return window

"""Gradient merge: the gradients of several batches make one update."""

from dataclasses import dataclass


@dataclass
class Merge:
    """Counts the batches of an update; one that needs a single batch is the ordinary case."""

    k_steps: int = 1
    avg: bool = True
    count: int = 0
    """Batches whose gradients have been added up so far."""

    @property
    def is_last(self) -> bool:
        """Whether the next batch completes an update."""
        return self.count + 1 >= self.k_steps

    @property
    def factor(self) -> float:
        """What the sum of the gradients is multiplied by."""
        return 1.0 / self.k_steps if self.avg else 1.0

    def add(self) -> bool:
        """Count one more batch that has run backward; returns whether it is time to update."""
        self.count = (self.count + 1) % self.k_steps
        return self.count == 0

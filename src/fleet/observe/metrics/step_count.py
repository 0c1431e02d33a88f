"""What a step is, for all of Fleet: what a script does with one batch, however many optimizers step in it.

In a loop over `fleet.data` or `fleet.steps` a step is over when the loop hands out its next batch. Batches whose
gradients are accumulated make one step together, for a step begins when an optimizer steps. In any other loop a step is
over when an optimizer steps that has stepped in it already: several optimizers that step once a batch each, as those
of a generator and its discriminator, make one step of it.

Where workers run out of batches at different times and the others' steps wait for them, the steps of the others count
too once the epoch is over: the count is then the same on all workers.
"""


class StepCount:
    """Counts the steps of one worker. Used from the thread that trains."""

    def __init__(self, num_optimizers: int = 1) -> None:
        self.num = 0
        """How many steps have begun: those behind the script, and from its first optimizer on the present one."""
        self.num_of_others = 0
        """How many of them other workers made while this one had no batch left."""
        self._num_optimizers = num_optimizers
        self._stepped: set[int] = set()
        self._loop: int | None = None  # whose batch the step began with
        self._num_loops = 0
        self._open: set[int] = set()
        self._fresh: set[int] = set()  # loops that have handed out a batch since the step began

    def go_to(self, num: int, num_of_others: int = 0) -> None:
        """So many steps lie behind the script, of a former life or of the run whose checkpoint it has loaded."""
        self.num, self.num_of_others = num, num_of_others

    def follow(self, num: int) -> None:
        """Count the steps that other workers have made, up to `num`: this one had no batch left."""
        self.go_to(num, self.num_of_others + num - self.num)

    def open_loop(self) -> int:
        """A loop over data begins; the number it has from now on."""
        self._num_loops += 1
        self._open.add(self._num_loops)
        return self._num_loops

    def hand_out(self, loop: int) -> None:
        """A loop hands out a batch."""
        self._fresh.add(loop)

    def close_loop(self, loop: int) -> None:
        """A loop is over, or was left."""
        self._open.discard(loop)
        self._fresh.discard(loop)

    def enter(self, optimizer: object) -> bool:
        """An optimizer steps; whether a new step begins with it."""
        is_again = id(optimizer) in self._stepped
        if self._loop is None:
            is_new = not self._stepped or is_again or bool(self._fresh)
        else:
            is_over = self._loop in self._fresh or self._loop not in self._open
            is_new = is_over or (is_again and bool(self._fresh))
        if is_new:
            self.num += 1
            self._stepped.clear()
            self._loop = max(self._fresh, default=None)  # of loops inside each other, the inner one
        self._fresh.clear()
        self._stepped.add(id(optimizer))
        return is_new

    @property
    def num_own(self) -> int:
        """How many steps this worker has made itself, as its script would count them."""
        return self.num - self.num_of_others

    @property
    def is_behind_loop(self) -> bool:
        """Whether a loop over data was left, and the present step is not of another that goes on."""
        return bool(self._num_loops) and not self.is_in_loop

    @property
    def is_in_loop(self) -> bool:
        """Whether the present step began with a batch of a loop over data that goes on."""
        return self._loop in self._open

    @property
    def is_whole(self) -> bool:
        """Whether every optimizer of the job has stepped in the present step."""
        return len(self._stepped) >= self._num_optimizers

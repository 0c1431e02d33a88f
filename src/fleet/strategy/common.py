"""Fields for every kind of job, collective or with servers."""

from __future__ import annotations

from fleet.strategy.field import switch, text
from fleet.strategy.record import Record


class CommonFields(Record):
    """The part of the strategy that holds with servers and without."""

    nonfinite_gradients = text(
        "error",
        "says what a NaN or an Inf in a gradient does: it is an error, or the step is skipped and counted. With "
        "servers nothing is sent in the first case, and in the second such rows and dense steps are left out.",
        "error",
        "skip",
    )
    sync_batch_norm = switch(False, "computes batch-norm statistics over the batch of all workers.")

"""First values of rows where there is no server: what an inference copy says about ids without a row."""

import numpy as np
from numpy.typing import NDArray

from fleet.checkpoint import Unseen
from fleet.ps.held.holdings import make_table
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.named_spec import InitializerSpec, RuleSpec
from fleet.ps.job.spec import TableSpec


def unseen_of(spec: TableSpec) -> Unseen:
    """What an inference copy says about ids of a table that have no row."""
    first = spec.initializer
    return Unseen(spec.unseen, first.name, dict(first.args), spec.seed, spec.dtype, spec.max_norm, spec.norm_type)


class UnseenRows:
    """Rows of ids that a table of an inference copy lacks, the same as a server would answer."""

    def __init__(self, table: str, width: int, unseen: Unseen) -> None:
        self._width = width
        self._first = None
        if unseen.reads == "initial":
            initializer = InitializerSpec(unseen.initializer, tuple(unseen.args.items()))
            spec = TableSpec(
                table,
                width,
                RuleSpec("sgd"),
                initializer,
                AlwaysEntry(),
                unseen.dtype,
                seed=unseen.seed,
                max_norm=unseen.max_norm,
                norm_type=unseen.norm_type,
            )
            self._first = make_table(spec)

    def __call__(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """A row for each key: zeros, or the value that it would begin with."""
        return np.zeros((len(keys), self._width), np.float32) if self._first is None else self._first.pull(keys)

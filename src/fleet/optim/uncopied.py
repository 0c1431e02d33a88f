"""Optimizers that belong to a job, and are neither copied nor pickled."""

from __future__ import annotations

from typing import Any, NoReturn

from fleet.errors import UsageError


class Uncopied:
    """Refuses `copy.deepcopy`, `pickle` and `torch.save`: what came of them would be bound to nothing."""

    def __getstate__(self) -> NoReturn:
        raise UsageError(
            "the optimizer of fleet.distributed_optimizer() belongs to this job and cannot be copied or pickled; save "
            "its state with fleet.Checkpoint, or its param_groups alone with state_dict()"
        )

    def __setstate__(self, state: Any) -> NoReturn:
        raise UsageError("an optimizer of fleet.distributed_optimizer() cannot be unpickled; make it anew")

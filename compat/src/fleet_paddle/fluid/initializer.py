"""Initialisers with arguments that only version 1.x had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fleet.errors import NotSupportedError
from fleet_programs.parameters import initializer


class Constant(initializer.Constant):
    """Every element is `value`. Where it is filled first changes nothing, so `force_cpu` says nothing."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:  # noqa: ARG002
        super().__init__(value)


class Uniform(initializer.Uniform):
    """Uniformly distributed between `low` and `high`; values of its own for a diagonal are not built."""

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        seed: int = 0,
        diag_num: int = 0,
        diag_step: int = 0,
        diag_val: float = 1.0,
    ) -> None:
        if diag_num:
            raise NotSupportedError(
                f"Uniform: diag_num must be 0, got {diag_num} (diag_step={diag_step}, diag_val={diag_val}); give all "
                "values: NumpyArrayInitializer(array)"
            )
        super().__init__(low, high, seed)


@contextmanager
def init_on_cpu() -> Iterator[None]:
    """Variables of the block were filled in host memory, as schedules of old scripts ask for; values are the same."""
    yield


def force_init_on_cpu() -> bool:
    """Whether variables are filled in host memory: where the Executor is, whatever a script asks for."""
    return False

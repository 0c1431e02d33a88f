"""Synchronous: a step ends when every worker's gradients are in, and everybody goes on from the same parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet.ps.client import Gradients
from fleet.ps.modes.base import Mode, Setup

if TYPE_CHECKING:
    from fleet.ps.lookup import Lookup


class Sync(Mode):
    """Servers add gradients in the order of the workers and apply the mean once; N workers equal one with N batches."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._version = setup.version
        """Steps done by all workers, which is the step that comes next."""

    def pull(self, lookups: Sequence[Lookup]) -> None:
        self._note(self._client.pull(lookups, version=self._version), lookups)

    def step(self, gradients: Gradients, following: Sequence[Lookup]) -> None:
        """Push, then pull what the next batch needs: the servers answer when the step is complete.

        Rows of the next batch, where they are known, ride on the same request as the dense parameters.
        """
        gradients.step = self._version
        sent = self._client.push(gradients)
        self._version += 1
        if self._flat is None and not following:
            sent.results()
            return
        pending = self._client.pull(following, version=self._version, dense=self._flat is not None)
        sent.results()
        version, dense = pending.finish(self._setup.device, True)
        self._load(dense, version)

    def restart_at(self, version: int) -> None:
        self._version = version
        super().restart_at(version)

    def flush(self) -> None:
        """Return when the other workers, too, have pushed the last step.

        With dense parameters `step` has waited for that; without any it has not, and a checkpoint would lack it.
        """
        if self._flat is None:
            self._client.pull((), version=self._version).results()

"""The contract of a policy: how a mode pulls and pushes.

A worker calls, in this order, for every batch:

    pull(lookups)          ask for rows; where `pulls_ahead`, this may happen while the batch before is computed
    finish(lookups)        wait for them
    step(gradients, next)  gradients are there; on return the dense parameters are those of the next batch, and
                           the pull of `next`, the lookups of a batch that is known already, may be under way

and `flush()` when everything it sent must have arrived, `stop()` once at the end. All from one thread.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fleet.errors import CommunicationError
from fleet.ps.wire.messages import Tensors
from fleet.ps.worker.asking.lookup import Lookup
from fleet.ps.worker.calling.client import Client
from fleet.ps.worker.calling.pending import PendingPull
from fleet.ps.worker.parts.meters import measured
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.sending.gradients import Gradients
from fleet.strategy.parameter_server import ASyncConfigs

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setup:
    """What a policy works with."""

    client: Client
    flat: FlatParameters | None
    """None: the servers hold no dense parameters."""
    device: torch.device
    version: int
    """The servers' version when this worker began."""
    configs: ASyncConfigs
    """What `strategy.a_sync_configs` says of queues and merging, and of windows in geo mode."""
    num_optimizers: int = 1
    """How many there are, each of which makes a step of each batch."""


class PushPolicy(ABC):
    """How one worker keeps step with the servers."""

    pulls_ahead = False
    """Whether rows of the next batch may be asked for before the gradients of this one are out."""
    trains_locally = False
    """Whether the worker's own optimizer updates the dense parameters."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._client = setup.client
        self._flat = setup.flat
        self._pending: dict[int, PendingPull] = {}
        self._expects_pull = False
        self.version = setup.version
        """The version of the dense parameters that the model has."""

    @property
    def num_groups(self) -> int:
        """How many groups of dense parameters the servers hold."""
        return 0 if self._flat is None else len(self._client.job.dense.groups)

    def pull(self, lookups: Sequence[Lookup]) -> None:
        """Ask for the rows of some lookups, in one request to each server."""
        self._note(self._client.pull(lookups), lookups)

    def expect_pull(self) -> None:
        """Note that `fleet.prefetch` is at work: each step is followed at once by the pull of a later batch."""
        self._expects_pull = True

    def expect_no_pull(self) -> None:
        """Note that `fleet.prefetch` has ended: no pull comes ahead of its batch any more."""
        self._expects_pull = False

    def is_pending(self, lookup: Lookup) -> bool:
        """Whether the rows have been asked for."""
        return id(lookup) in self._pending

    def forget(self, lookup: Lookup) -> None:
        """Drop a lookup whose rows will not be used after all."""
        self._pending.pop(id(lookup), None)

    def forget_rows(self, table: int) -> None:  # noqa: B027 - geo has copies of each table
        """Drop what the policy has of the rows of a table: they have been replaced on the servers."""

    def finish(self, lookups: Sequence[Lookup], with_grad: bool) -> None:
        """Wait until the rows of the lookups are there."""
        for lookup in lookups:
            pending = self._pending.pop(id(lookup), None)
            if pending is not None and lookup.rows is None:
                pending.finish(self._setup.device, with_grad)

    @abstractmethod
    def step(self, gradients: Gradients, following: Sequence[Lookup]) -> None:
        """Send the gradients of a step, as the policy does."""

    @abstractmethod
    def flush(self) -> None:
        """Return when everything sent so far has been applied."""

    def stop(self) -> None:
        """Send what is left; on return the dense parameters are the servers'."""
        self.flush()
        self.refresh()

    def close(self) -> None:
        """Let go of everything, whatever happened before; what was not sent is lost."""
        self._pending.clear()

    def take_part(self, *, loads: bool = True) -> int | None:  # noqa: ARG002 - only where workers wait for each other
        """Where workers come and go: have the others' steps wait for this one; the next step, None: nobody waits.

        `loads`: go on from the parameters of that step, rather than make a former one again.
        """
        return None

    def step_aside(self) -> None:  # noqa: B027 - only where workers wait for each other
        """Where workers come and go: have no step wait for this worker; what it has sent has arrived."""

    def refresh(self, *, is_exact: bool = True) -> None:
        """Read the dense parameters from the servers: in full, or in the format that they have after a step."""
        if self._flat is not None:
            version, dense = self._client.pull((), dense=True, is_exact=is_exact).finish(self._setup.device, False)
            self.take_over(dense, version)

    def take_over(self, dense: Sequence[Tensors], version: int) -> None:
        """Go on with these dense parameters of the servers."""
        self._load(dense, version)

    def restart_at(self, version: int) -> None:  # noqa: ARG002 - sync mode needs it
        """Start over: the servers were given another state, of this version."""
        self._pending.clear()
        self.refresh()

    def _warn_of_loss(self, num_steps: int) -> None:
        if num_steps:
            _log.warning(
                "the gradients of %d steps of worker %d were not sent; call fleet.stop_worker() when training ends",
                num_steps,
                self._client.worker,
            )

    def _note(self, pending: PendingPull, lookups: Sequence[Lookup]) -> None:
        for lookup in lookups:
            self._pending[id(lookup)] = pending

    def _load(self, dense: Sequence[Tensors], version: int) -> None:
        """Write each server's dense parameters into the model."""
        if self._flat is None:
            return
        with measured("dense"):
            for server, tensors in enumerate(dense):
                if len(tensors) != self.num_groups:
                    raise CommunicationError(f"server {server} sent {len(tensors)} of {self.num_groups} dense groups")
                for group, tensor in enumerate(tensors):
                    self._flat.load_values(server, group, tensor)
        self.version = version

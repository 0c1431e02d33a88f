"""What `Fleet` asks of a job; and where other ways to write a model than modules are registered.

    fleet.runtime.jobs.register(kind)

`fleet.distributed_optimizer` asks each kind whether an optimizer is its own; if so, the job that the kind makes answers
the calls of `fleet` from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from pathlib import Path

    from fleet.ps.job.placement import Dispatch, Dispatcher
    from fleet.ps.worker.worker import Worker
    from fleet.runtime.modules.servers import Servers
    from fleet.strategy import DistributedStrategy


class ServerJob(Protocol):
    """What `Fleet` asks of a job with servers: of modules (`ModuleJob`), or of a kind that has registered itself."""

    def init_worker(
        self, servers: Servers, strategy: DistributedStrategy, dispatcher: Dispatcher | Dispatch | None
    ) -> None:
        """Join the servers, or see to it that this happens; NotReadyError if it is too early, or has happened."""

    def stop_worker(self) -> None:
        """Send what is queued and leave the servers; nothing happens where this worker has not joined, or has left."""

    @property
    def has_joined(self) -> bool:
        """Whether this worker has joined the servers, also if it has left them since."""

    def worker(self, what: str) -> Worker:
        """The worker that has joined the servers; NotReadyError, which names `what` needs it, if there is none."""

    def save_persistables(self, *arguments: Any, **named: Any) -> Path | None:
        """Write a checkpoint."""

    def save_inference_model(self, *arguments: Any, **named: Any) -> Path | list[str]:
        """Write values only."""

    def let_go(self) -> None:
        """Close the connections without a word; what was not sent is lost."""

    def read_trainer_variables(self, dirname: str | PathLike[str]) -> Callable[[], None]:
        """Read and check what a checkpoint has that is not on servers; a call of the result takes it over."""


class RegisteredJob(ServerJob, Protocol):
    """A job in this process, of a kind that has registered itself."""

    def distribute(self, optimizer: Any, strategy: Any) -> Any:
        """What the user calls in the place of the optimizer; an error where the job cannot honour the strategy."""

    def leave(self) -> None:
        """Take leave of the servers as the script ends."""


class Minimizing(Protocol):
    """An optimizer of a registered kind, whose models are no modules: it is told what to minimize."""

    @property
    def minimize(self) -> Callable[..., Any]:
        """Makes what trains the model; called once."""


class JobKind(Protocol):
    """A way to write models that Fleet itself does not know."""

    def owns(self, optimizer: object) -> bool:
        """Whether an optimizer trains models of this kind."""

    def begin(self, servers: Servers, is_collective: bool) -> RegisteredJob:
        """The job of this process, with nothing to train yet."""


kinds: list[JobKind] = []
"""The kinds that have registered themselves."""


def register(kind: JobKind) -> None:
    """Let `fleet` ask this kind too; once for each process."""
    kinds.append(kind)


def kind_of(optimizer: object) -> JobKind | None:
    """The registered kind that an optimizer belongs to; None: one of torch."""
    return next((kind for kind in kinds if kind.owns(optimizer)), None)

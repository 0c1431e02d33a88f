"""The objects of a run whose state is their own business: schedulers, the position in the data, the user's extras."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from fleet.errors import CheckpointError, FleetError, UsageTypeError
from fleet.runtime.training.elements import CheckpointSource
from fleet.runtime.training.trees import Add, decode, encode

log = logging.getLogger(__name__)

T = TypeVar("T")


@runtime_checkable
class Stateful(Protocol):
    """Anything that can say what it needs to go on, and go on from that."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state_dict: Any, /) -> Any: ...


@runtime_checkable
class FromAllPositions(Protocol):
    """Data that goes on from the positions of all workers of a run, and so with another number of them."""

    def load_state_dicts(self, state_dicts: Sequence[Any], /) -> Any:
        """Go on from what `state_dict` gave on every worker of the run that was saved."""


class RunWorkers(Protocol):
    """The workers of a run as one of them sees the others: a world of `fleet.collective`, or meetings on a server."""

    rank: int
    size: int

    def gather_bytes(self, own: bytes) -> list[bytes]:
        """What every worker gave, by index; all of them call it."""


def together(workers: RunWorkers, what: Callable[[], T]) -> T:
    """Do something on every worker; if it fails on one, it fails on all, with that one's reason."""
    failure: Exception | None = None
    try:
        result = what()
    except Exception as error:
        failure = error
    text = b"" if failure is None else (str(failure) or repr(failure)).encode()
    texts = workers.gather_bytes(text)
    if failure is not None:
        raise failure
    for worker, text in enumerate(texts):
        if text:
            raise CheckpointError(f"worker {worker}: {text.decode()}")
    return result


@contextmanager
def damage(where: str) -> Iterator[None]:
    """Inside, a manifest that lacks something it must have is a CheckpointError."""
    try:
        yield
    except FleetError:
        raise
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise CheckpointError(f"{where} is damaged: its manifest lacks {error}") from error


@dataclass(frozen=True)
class RunObjects:
    """The objects of a run on one of its workers. Of all but the data, worker 0's state is saved for all."""

    schedulers: tuple[Stateful, ...]
    data: Stateful | None
    extras: Mapping[str, Stateful]

    @classmethod
    def of(
        cls, scheduler: Stateful | Sequence[Stateful] | None, data: Stateful | None, extras: Mapping[str, Stateful]
    ) -> RunObjects:
        """The objects that the user gave; UsageTypeError for one that has no state to give."""
        several = () if scheduler is None else scheduler if isinstance(scheduler, list | tuple) else (scheduler,)
        made = cls(tuple(several), data, dict(extras))
        for name, one in made._named():
            if not isinstance(one, Stateful):
                raise UsageTypeError(f"{name} must have state_dict and load_state_dict, got a {type(one).__name__}")
        return made

    def _named(self) -> Iterator[tuple[str, object]]:
        yield from (("scheduler", one) for one in self.schedulers)
        if self.data is not None:
            yield "data", self.data
        yield from ((f"extras[{name!r}]", one) for name, one in self.extras.items())

    def names(self) -> list[str]:
        """What is here, to be compared between workers."""
        return [f"{len(self.schedulers)} schedulers", f"data {self.data is not None}", *sorted(self.extras)]

    def shared(self, add: Add) -> dict[str, Any]:
        """The state of schedulers and extras as JSON; tensors go to `add`."""
        return {
            "schedulers": [
                encode(one.state_dict(), f"scheduler/{number}", add, "scheduler.state_dict()")
                for number, one in enumerate(self.schedulers)
            ],
            "extras": {
                name: encode(one.state_dict(), f"extras/{name}", add, f"extras[{name!r}].state_dict()")
                for name, one in self.extras.items()
            },
        }

    def position(self, key: str, add: Add, behind: tuple[object, Any] | None = None) -> Any:
        """Where this worker is in the data, as JSON; tensors go to `add` under names below `key`.

        `behind`: data that was read ahead of what was trained on, and where it was before.
        """
        if self.data is None:
            return None
        state = behind[1] if behind is not None and behind[0] is self.data else self.data.state_dict()
        return encode(state, key, add, "data.state_dict()")

    def check(self, source: CheckpointSource, own: Mapping[str, Any], is_first: bool) -> None:
        """Every object of the run must be in the checkpoint; one that is only in the checkpoint is logged once."""
        where, shared = source.where, source.manifest.shared
        if len(shared["schedulers"]) < len(self.schedulers):
            raise CheckpointError(
                f"{where} has {len(shared['schedulers'])} learning-rate schedulers, this run {len(self.schedulers)}; "
                "leave out scheduler=, or load another checkpoint"
            )
        if self.data is not None and own["data"] is None:
            raise CheckpointError(f"{where} has no position of the data; leave out data=, or load another checkpoint")
        for name in self.extras:
            if name not in shared["extras"]:
                raise CheckpointError(f"{where} has no extras[{name!r}]; leave it out, or load another checkpoint")
        unused = [f"extras[{name!r}]" for name in shared["extras"] if name not in self.extras]
        unused += ["scheduler"] * (len(shared["schedulers"]) > len(self.schedulers))
        unused += ["data"] * (self.data is None and own["data"] is not None)
        if unused and is_first:
            log.warning("%s has more than was asked for: %s was not loaded", where, ", ".join(unused))

    def load(self, workers: RunWorkers, source: CheckpointSource, own: Mapping[str, Any]) -> None:
        """Give all objects their state, on every worker. If one refuses it, those before it get their own back."""
        before: list[tuple[Stateful, Any]] = []

        def load() -> None:
            where = source.where
            with damage(where):
                loads = list(self._loads(source, own))
            for name, one, load_one in loads:
                try:
                    before.append((one, copy.deepcopy(one.state_dict())))
                    load_one()
                except Exception as error:
                    raise CheckpointError(f"{where}: {name} does not take its state back: {error!r}") from error

        try:
            together(workers, load)
        except Exception:
            for one, state in reversed(before):
                with suppress(Exception):  # the first error is the one to raise, and the other objects must go back too
                    one.load_state_dict(state)
            raise

    def _loads(
        self, source: CheckpointSource, own: Mapping[str, Any]
    ) -> Iterator[tuple[str, Stateful, Callable[[], Any]]]:
        """The name of each object, the object, and the call that gives it what was saved."""
        shared = source.manifest.shared

        def state_of(tree: Any) -> Any:
            return decode(tree, source.tensor, source.where)

        for one, tree in zip(self.schedulers, shared["schedulers"], strict=False):
            yield f"the scheduler {type(one).__name__}", one, partial(one.load_state_dict, state_of(tree))
        if isinstance(self.data, FromAllPositions):
            states = [state_of(worker["data"]) for worker in source.manifest.workers]
            yield "data", self.data, partial(self.data.load_state_dicts, states)
        elif self.data is not None:
            yield "data", self.data, partial(self.data.load_state_dict, state_of(own["data"]))
        for name, one in self.extras.items():
            yield f"extras[{name!r}]", one, partial(one.load_state_dict, state_of(shared["extras"][name]))

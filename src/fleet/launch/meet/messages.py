"""What launchers say to each other, as data: the contract of this room."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fleet import net
from fleet.errors import CommunicationError
from fleet.launch.standby.kept import KeptHere
from fleet.net import Endpoint

_MAX_AGE_S = 1e9


@dataclass(frozen=True)
class Offer:
    """What one machine brings to the job."""

    host: str
    servers: tuple[Endpoint, ...]
    workers: tuple[Endpoint, ...]
    master: Endpoint | None
    terms: str
    """What must be the same on every machine, in words."""
    copies: tuple[Endpoint, ...] = ()
    """Where copies of the servers of the machine before this one listen."""
    door: Endpoint | None = None
    """Where the others come if this launcher has to be the meeting point."""
    kept: KeptHere = field(default_factory=KeptHere)
    """What an earlier run of a job with copies has left there."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {
            "host": self.host,
            "servers": [str(endpoint) for endpoint in self.servers],
            "workers": [str(endpoint) for endpoint in self.workers],
            "master": None if self.master is None else str(self.master),
            "terms": self.terms,
            "copies": [str(endpoint) for endpoint in self.copies],
            "door": None if self.door is None else str(self.door),
            "kept": self.kept.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Offer:
        """Read what another launcher sent; CommunicationError if it is not an offer."""
        try:
            return cls(
                host=net.parse_host(data["host"]),
                servers=tuple(Endpoint.parse(text) for text in data["servers"]),
                workers=tuple(Endpoint.parse(text) for text in data["workers"]),
                master=None if data["master"] is None else Endpoint.parse(data["master"]),
                terms=str(data["terms"]),
                copies=tuple(Endpoint.parse(text) for text in data["copies"]),
                door=None if data["door"] is None else Endpoint.parse(data["door"]),
                kept=KeptHere.from_json(data["kept"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CommunicationError(f"not an offer of fleetrun: {error}") from error


@dataclass(frozen=True)
class NodeFailed:
    """A process of a machine failed, or the machine is gone."""

    what: str
    code: int
    began_at: float
    """When, by this machine's clock: the earliest of several is the cause."""
    is_final: bool = False
    """The user stopped it, or it would fail again: the job is not to be started again."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        # How long ago, not when: machines need not agree on the time.
        age_s = time.time() - self.began_at
        return {"say": "failed", "what": self.what, "code": self.code, "age_s": age_s, "is_final": self.is_final}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeFailed:
        """Read what another launcher sent; what is odd about it must not hide that something failed."""
        code, age_s = data.get("code"), data.get("age_s")
        if not (isinstance(age_s, int | float) and 0 <= age_s < _MAX_AGE_S):
            age_s = 0.0
        return cls(
            what=str(data.get("what")),
            code=code if isinstance(code, int) and 0 < code < 256 else 1,
            began_at=time.time() - age_s,
            is_final=data.get("is_final") is True,
        )


@dataclass(frozen=True)
class Scaled:
    """The job is to have so many workers in all; or what a machine has made of that."""

    workers: int
    wisher: int
    """The machine on which somebody wants them."""
    number: int
    """That of the wish, on its machine."""
    by: int | None = None
    """The machine that has its part of them; None: this is the wish."""
    failure: str = ""
    """Why it has not; "": it has."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {"say": "scale", **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Scaled:
        """Read what another launcher sent; CommunicationError if it makes no sense."""
        try:
            workers, wisher, number = (int(data[name]) for name in ("workers", "wisher", "number"))
            return cls(workers, wisher, number, None if data["by"] is None else int(data["by"]), str(data["failure"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CommunicationError(f"not a number of workers: {error}") from error


@dataclass(frozen=True)
class AllDone:
    """The workers of every machine have finished."""


@dataclass(frozen=True)
class Regroup:
    """Everybody stops and meets again, though nothing failed: a machine has come."""

    why: str


class JobOverError(CommunicationError):
    """There is no other round; `code` is what to exit with, None for that of the last round."""

    def __init__(self, reason: str, code: int | None) -> None:
        super().__init__(reason)
        self.code = code

"""What an earlier run of a job with copies has left on a machine, and which machine each server goes on from.

The newest term that any machine knows says who was a server and who its copy; every machine remembers which endpoints
were its own. A server goes on where it was, or where its copy was if that machine is not there any more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.errors import UsageError
from fleet.jobfiles import whole
from fleet.jobfiles.terms import Term, Terms

_SERVER = re.compile(r"server-(\d+)")
_NAME = "here.json"


@dataclass(frozen=True)
class KeptHere:
    """What one machine has of an earlier run."""

    term: Term | None = None
    """The newest that it knows."""
    endpoints: tuple[str, ...] = ()
    """Where its servers and copies listened."""
    servers: Mapping[int, str] = field(default_factory=dict, hash=False)
    """Servers whose journals are here, as servers' or copies', and where each would listen now."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        return {
            "term": None if self.term is None else self.term.to_json(),
            "endpoints": list(self.endpoints),
            "servers": [list(item) for item in self.servers.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeptHere:
        """Read what another launcher sent; ValueError, TypeError or KeyError if it makes no sense."""
        return cls(
            None if data["term"] is None else Term.from_json(data["term"]),
            tuple(map(str, data["endpoints"])),
            {int(server): str(endpoint) for server, endpoint in data["servers"]},
        )


def remember(durable: Path, endpoints: Sequence[str]) -> None:
    """Write down, before they are started, where the servers and copies of this machine listen."""
    whole.put(Terms(durable).folder / _NAME, {"endpoints": list(endpoints)}, is_new=False)


def look(durable: Path, has_journal: Any) -> KeptHere:
    """What is kept in a folder, with no endpoints of today yet; `has_journal` is asked where no term tells."""
    terms = Terms(durable)
    term = terms.newest_decided()
    found = whole.read(terms.folder / _NAME)
    endpoints = tuple(map(str, found["endpoints"])) if found is not None else ()
    folders = [(int(match[1]), path) for path in durable.glob("server-*") if (match := _SERVER.fullmatch(path.name))]
    indexes = sorted(index for index, path in folders if path.is_dir() and (term is not None or has_journal(path)))
    return KeptHere(term, endpoints, dict.fromkeys(indexes, ""))


def homes(kept: Sequence[KeptHere], num_servers: int) -> list[int] | None:
    """Which machine each server goes on on; None if nobody has anything. UsageError if one is nowhere."""
    if not any(one.servers for one in kept):
        return None
    terms = [one.term for one in kept if one.term is not None]
    newest = max(terms, key=lambda term: term.number, default=None)
    if newest is not None and len(newest.servers) != num_servers:
        raise UsageError(
            f"--durable: the job there has {len(newest.servers)} servers, not {num_servers}; go on with as many on "
            "each machine as before, or choose empty folders"
        )
    return [_home(kept, newest, server) for server in range(num_servers)]


def _home(kept: Sequence[KeptHere], newest: Term | None, server: int) -> int:
    wanted = ("",) if newest is None else (newest.servers[server], newest.copies[server])
    for endpoint in wanted:
        for machine, one in enumerate(kept):
            if server in one.servers and (newest is None or (endpoint and endpoint in one.endpoints)):
                return machine
    raise UsageError(
        f"--durable: no machine that has come has server {server} or a whole copy of it; start fleetrun on the machine "
        "that has, with its folder, or choose empty folders on all and load a checkpoint"
    )

"""Directories: where the servers of a job say at which address they listen now, and workers look it up.

A server that comes back elsewhere, on another machine or another port, is found there. A directory is named by a text
such as `file:/shared/job`; what stands before the colon says which kind it is, and an engine can add a kind of its own
(`add_kind`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleet.errors import EndpointError
from fleet.net.endpoint import Endpoint


class Directory(Protocol):
    """Where servers listen now. Asked by many threads at once, and whenever a server cannot be reached."""

    def find(self, server: int) -> Endpoint | None:
        """The endpoint of a server; None if it has not said. OSError or FleetError if the directory cannot be asked."""
        ...

    def announce(self, server: int, endpoint: Endpoint) -> None:
        """Take note that a server listens there from now on; EndpointError if that cannot be done."""
        ...


class FileDirectory(Directory):
    """A folder that all processes of a job see: `server-0` in it holds the HOST:PORT of server 0."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def find(self, server: int) -> Endpoint | None:
        try:
            text = (self._folder / f"server-{server}").read_text()
        except FileNotFoundError:
            return None
        return Endpoint.parse(text, str(self._folder / f"server-{server}"))

    def announce(self, server: int, endpoint: Endpoint) -> None:
        path = self._folder / f"server-{server}"
        new = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            new.write_text(f"{endpoint}\n")
            os.replace(new, path)
        except OSError as error:
            raise EndpointError(
                f"server {server} cannot say in {path} where it listens: {error.strerror or error}; give FLEET_SERVERS "
                "a folder that every process of the job can write to"
            ) from None


_KINDS: dict[str, Callable[[str], Directory]] = {"file": FileDirectory}


def add_kind(kind: str, make: Callable[[str], Directory]) -> None:
    """Have `KIND:TEXT` name a directory that `make(TEXT)` makes, in this process."""
    _KINDS[kind] = make


def is_directory(text: str) -> bool:
    """Whether this names a directory, and not an endpoint.

    >>> is_directory("file:/shared/job"), is_directory("file:6170"), is_directory("10.0.0.1:6170,10.0.0.2:6170")
    (True, False, False)
    """
    kind, colon, rest = text.partition(":")
    return bool(colon) and kind in _KINDS and not rest.split(",")[0].isdigit()


def open_directory(text: str) -> Directory:
    """The directory of this name."""
    kind, _, rest = text.partition(":")
    return _KINDS[kind](rest)


@dataclass(frozen=True, order=True)
class Listed(Endpoint):
    """A server whose endpoint a directory tells; prints as `DIRECTORY#SERVER`, and `host` is the directory's name."""

    server: int = 0

    def __str__(self) -> str:
        return f"{self.host}#{self.server}"

    @property
    def directory(self) -> Directory:
        """The directory that lists it."""
        return open_directory(self.host)


def parse_place(text: str, what: str = "endpoint") -> Endpoint:
    """Read a server's endpoint, or its place in a directory, as they print."""
    directory, mark, server = text.rpartition("#")
    if mark and server.isdigit() and is_directory(directory):
        return Listed(directory, 0, int(server))
    return Endpoint.parse(text, what)

"""Where the batches of a stream lie: a folder, by names that sort as they were made.

    stream.json                                     what the stream is of, and its newest base
    batches/STREAM/shard-00000/00000000000000000042    one batch, written under another name and linked
    bases/base-000001/                              an inference copy, whatever the batches lie in

Another kind of sink is a class with the methods of `Sink`, and its scheme in `KINDS`; brokers are in `fleet_tools`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from errno import ENOSYS, EOPNOTSUPP, EPERM
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from fleet._lazy import tool
from fleet.errors import UsageError

LOOK_S = 0.02
"""How often is looked for a batch where nobody says that there is one."""


class Sink(Protocol):
    """Batches by shard and number. What it cannot do is an OSError, which may pass."""

    url: str
    home: Path
    """The only folder that is written to."""
    bases: Path
    """The folder of bases, which servers and followers share."""

    def put(self, stream: str, shard: int, number: int, blob: bytes) -> None:
        """Keep a batch: whole, or not at all; FileExistsError if there is another of that number."""

    def get(self, stream: str, shard: int, number: int) -> bytes | None:
        """The bytes of a batch; None if it is not there."""

    def span(self, stream: str, shard: int) -> tuple[int, int]:
        """The first and the last number of a shard that are there; (0, 0) if none is."""

    def drop(self, stream: str, shard: int, before: int) -> None:
        """Remove the batches of a shard with lower numbers."""

    def drop_others(self, stream: str) -> None:
        """Remove all batches of other streams."""

    def put_head(self, text: str) -> None:
        """Replace `stream.json`."""

    def head(self) -> bytes | None:
        """What `stream.json` has; None if there is none."""

    def wait(self, timeout_s: float) -> None:
        """Return when a batch may have come, or the head may have changed; after this time at the latest."""

    def close(self) -> None:
        """Let go of connections."""


class FolderSink:
    """A folder of files, that servers and followers share."""

    def __init__(self, path: str) -> None:
        self.url = path
        self.home = Path(path)
        self.bases = self.home / "bases"

    def put(self, stream: str, shard: int, number: int, blob: bytes) -> None:
        """Write a file under another name, and link it."""
        path = self._file(stream, shard, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._write(path, blob, _link)
        except FileExistsError:
            if path.read_bytes() != blob:  # else it was put before, and the answer was lost
                raise

    def get(self, stream: str, shard: int, number: int) -> bytes | None:
        """Read a file."""
        try:
            return self._file(stream, shard, number).read_bytes()
        except FileNotFoundError:
            return None

    def span(self, stream: str, shard: int) -> tuple[int, int]:
        """Look at the names."""
        numbers = self._numbers(stream, shard)
        return (min(numbers), max(numbers)) if numbers else (0, 0)

    def drop(self, stream: str, shard: int, before: int) -> None:
        """Delete files."""
        for number in self._numbers(stream, shard):
            if number < before:
                self._file(stream, shard, number).unlink(missing_ok=True)

    def drop_others(self, stream: str) -> None:
        """Delete the folders of other streams."""
        with suppress(FileNotFoundError):
            for one in (self.home / "batches").iterdir():
                if one.name != stream:
                    shutil.rmtree(one, ignore_errors=True)

    def put_head(self, text: str) -> None:
        """Write it under another name, and rename it."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._write(self.home / "stream.json", text.encode())

    def head(self) -> bytes | None:
        """Read it."""
        try:
            return (self.home / "stream.json").read_bytes()
        except FileNotFoundError:
            return None

    def wait(self, timeout_s: float) -> None:
        """Sleep a moment; `fleet_serve.following.notices` knows better."""
        time.sleep(min(LOOK_S, timeout_s))

    def close(self) -> None:
        """Nothing is open between two calls."""

    def folder(self, stream: str, shard: int) -> Path:
        """Where the batches of a shard are."""
        return self.home / "batches" / stream / f"shard-{shard:05}"

    def _file(self, stream: str, shard: int, number: int) -> Path:
        return self.folder(stream, shard) / f"{number:020}"

    def _numbers(self, stream: str, shard: int) -> list[int]:
        try:
            names = os.listdir(self.folder(stream, shard))
        except FileNotFoundError:
            return []
        return [int(name) for name in names if name.isdecimal()]

    @staticmethod
    def _write(path: Path, data: bytes, put: Callable[[Path, Path], None] = os.replace) -> None:
        """Not forced to the disk: what a loss of power takes, the next base brings."""
        new = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
        try:
            new.write_bytes(data)
            put(new, path)
        finally:
            with suppress(OSError):
                new.unlink()


def _link(new: Path, path: Path) -> None:
    try:
        os.link(new, path)
    except OSError as error:
        if error.errno not in (EPERM, EOPNOTSUPP, ENOSYS):
            raise
        os.replace(new, path)  # a file system without links


def _folder(url: str) -> Sink:
    parts = urlsplit(url)
    if parts.scheme and (parts.netloc not in ("", "localhost") or parts.query or parts.fragment):
        raise UsageError(f"{url!r} names no folder of this machine; write it as file:///folder")
    path = unquote(parts.path) if parts.scheme else url
    if not path:
        raise UsageError(f"{url!r} names no folder; write a path, or file:///folder")
    return FolderSink(os.path.abspath(path))


def _of_broker(url: str) -> Sink:
    made: Sink = tool("sink")(url)
    return made


KINDS: dict[str, Callable[[str], Sink]] = {
    "": _folder,
    "file": _folder,
    **dict.fromkeys(("nats", "redis", "rediss"), _of_broker),
}
"""What opens a sink, by the scheme of its URL."""


def open_sink(url: str) -> Sink:
    """The sink that a URL names; nothing is looked at yet. UsageError if there is no such kind."""
    try:
        scheme = urlsplit(url).scheme if "://" in url else ""
    except ValueError:  # such as http://[
        scheme = "?"
    if scheme not in KINDS:
        known = ", ".join(f"{kind}://" for kind in sorted(KINDS) if kind)
        raise UsageError(f"{url!r}: a stream of changes cannot lie there; give a folder, or a URL that begins {known}")
    return KINDS[scheme](url)

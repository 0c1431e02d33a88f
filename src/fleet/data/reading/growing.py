"""A folder that grows: files are noticed as they come, and each is read once, by one worker.

Nobody tells anybody anything: a file belongs to the worker that a hash of its name says. What was read is known by
name.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleet.checks import seconds_of
from fleet.data.columns.blocks import Block, FileFormat
from fleet.data.places.opening import Paths, list_files
from fleet.data.places.urls import fixed_part, is_url
from fleet.data.reading.piece_batches import Piece, Work
from fleet.data.reading.piece_order import EpochPieces, FileSet, Index, block_bytes, random_order
from fleet.errors import NotSupportedError, UsageError

DONE = "_DONE"
"""A file of this name in a folder says that no more will come."""


@dataclass(frozen=True)
class Follow:
    """How a folder is watched: looked at every `every_s` seconds, until nothing new has come for `idle_s`.

    None: until a file named `_DONE` lies there. A file is taken when two looks found it with the same size.
    """

    idle_s: float | None = None
    every_s: float = 1.0

    def __post_init__(self) -> None:
        seconds_of("every_s", self.every_s, above=0)
        if self.idle_s is not None:
            seconds_of("idle_s", self.idle_s, above=0)

    @classmethod
    def of(cls, given: object) -> Follow | None:
        """What `follow=` says: False, True, the seconds to wait for another file, or all of it."""
        if isinstance(given, Follow):
            return given
        if isinstance(given, bool):
            return cls() if given else None
        return cls(idle_s=seconds_of("follow", given, above=0))


class FilePart(NamedTuple):
    """How much of a file was read: all blocks before one, and some rows of that. `size` is the file's."""

    size: int
    block: int
    rows: int


class GrowingPieces(EpochPieces):
    """The blocks of files in the order in which they have come; what is finished is forgotten."""

    def __init__(self, seed: int | None) -> None:
        super().__init__([], None)
        self._seed = seed
        self._num = 0
        self._held: dict[int, tuple[Block, int]] = {}

    def add(self, block: Block, key: int) -> int:
        """A block, and the hash of its file's name; returns its number."""
        self._held[self._num] = block, key
        self._num += 1
        return self._num - 1

    def forget(self, piece: int) -> None:
        """It is read to its end."""
        del self._held[piece]

    def blocks(self, piece: int) -> list[Block]:
        return [self._held[piece][0]]

    def row_order(self, piece: int, num_rows: int, part: int = 0) -> Index | None:
        if self._seed is None:
            return None
        block, key = self._held[piece]
        return random_order(num_rows, self._seed, key, block.first, part)


class GrowingWork(Work):
    """What one worker reads of a folder that grows."""

    most_ahead = None

    def __init__(
        self,
        watched: Watched,
        files: FileSet,
        format_of: Callable[[str], FileFormat],
        follow: Follow,
        workers: tuple[int, int],
    ) -> None:
        """`workers`: which this is, and how many there are."""
        self._watched, self._files, self._format_of, self._follow = watched, files, format_of, follow
        self._worker, self._workers = workers
        self.pieces = GrowingPieces(files.seed if files.shuffle else None)
        self.done: set[int] = set()
        """Files that were read to their end, by the hash of their names."""
        self.parts: dict[int, FilePart] = {}
        self._of: dict[int, tuple[int, int, bool]] = {}
        """For each unfinished piece: its file, its block there, and whether that is the last."""
        self._taken: set[int] = set()
        self._stopped = threading.Event()
        self._packed: tuple[int, str] = 0, ""

    def restore(self, done: set[int], parts: Mapping[int, FilePart]) -> None:
        """Go on where these were read."""
        self.done, self.parts = set(done), dict(parts)

    def packed_done(self) -> str:
        """The files that were read, as text: eleven letters for each."""
        if self._packed[0] != len(self.done):
            text = b"".join(key.to_bytes(8, "little") for key in sorted(self.done))
            self._packed = len(self.done), base64.b64encode(text).decode()
        return self._packed[1]

    def wanted(self) -> Iterator[Piece]:
        self._stopped = threading.Event()  # before a thread asks: `stop` may come first
        return self._coming(self._stopped)

    def _coming(self, stopped: threading.Event) -> Iterator[Piece]:
        for number in list(self._of):
            yield self._piece(number)
        sizes: dict[str, int] = {}
        last_new = time.monotonic()
        while not stopped.is_set():
            is_complete = self._watched.is_complete()  # before the look: what lies there then is all there is
            found = self._watched.look()
            for name, (path, size) in found.items():
                is_whole = is_complete or (sizes.get(name) == size and size > 0)  # somebody has only opened it
                if is_whole and self._is_ours(key := key_of(name)):
                    last_new = time.monotonic()
                    for number in self._take(key, path, size):
                        yield self._piece(number)
            if is_complete:
                return
            if self._grew(sizes, found):
                last_new = time.monotonic()
            elif self._follow.idle_s is not None and time.monotonic() - last_new >= self._follow.idle_s:
                return
            stopped.wait(self._follow.every_s)

    def _is_ours(self, key: int) -> bool:
        """Whether a file is to be read here, and was not yet."""
        return key % self._workers == self._worker and key not in self.done and key not in self._taken

    def _grew(self, sizes: dict[str, int], found: Mapping[str, tuple[str, int]]) -> bool:
        """Whether anything has changed since the last look, whose sizes these are; they become those of this one."""
        now = {name: size for name, (_, size) in found.items()}
        if now == sizes:
            return False
        sizes.clear()
        sizes.update(now)
        return True

    def _take(self, key: int, path: str, size: int) -> list[int]:
        """The pieces of a file that are not read yet."""
        part = self.parts.get(key, FilePart(size, 0, 0))
        if part.size != size:
            raise UsageError(
                f"{path} had {part.size:,} bytes when it was half read and has {size:,} now; files of a folder that is "
                "followed must not change once they are written"
            )
        self._files.sizes[path] = size
        self._files.formats[path] = self._format_of(path)
        self._taken.add(key)
        blocks = self._files.formats[path].cut(path, block_bytes(size))
        if part.block >= len(blocks):
            self.done.add(key)
            self.parts.pop(key, None)
            return []
        numbers = []
        for place in range(part.block, len(blocks)):
            number = self.pieces.add(blocks[place], key)
            self._of[number] = key, place, place + 1 == len(blocks)
            numbers.append(number)
        return numbers

    def _piece(self, number: int) -> Piece:
        key, place, _ = self._of[number]
        part = self.parts.get(key)
        return Piece(number, part.rows if part is not None and part.block == place else 0)

    def note(self, finished: list[int], begun: Piece | None) -> None:
        for number in finished:
            size = self._size_of(number)
            self.pieces.forget(number)
            key, place, is_last = self._of.pop(number)
            if is_last:
                self.parts.pop(key, None)
                self.done.add(key)
            else:
                self.parts[key] = FilePart(size, place + 1, 0)
        if begun is not None:
            key, place, _ = self._of[begun.number]
            self.parts[key] = FilePart(self._size_of(begun.number), place, begun.taken)

    def _size_of(self, number: int) -> int:
        return self._files.sizes[self.pieces.blocks(number)[0].path]

    def stop(self) -> None:
        self._stopped.set()


class Watched:
    """Folders and globs of this machine. A file is known by its name below the folder, wherever that is mounted."""

    def __init__(self, paths: Paths) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not given:
            raise UsageError("no folder to follow: the list of paths is empty")
        self._patterns: dict[str, str] = {}
        for one in given:
            path = os.path.expanduser(os.fspath(one))
            if is_url(path):
                raise NotSupportedError(f"follow= watches folders of this machine, and {path} is a URL; mount it")
            root = fixed_part(path) if glob.has_magic(path) else path
            if not os.path.isdir(root):
                raise UsageError(f"follow= watches a folder or a glob, and {root} is no folder; make it first")
            self._patterns[path] = root

    @property
    def names(self) -> str:
        """What is watched, for a position."""
        return ", ".join(path[len(os.path.dirname(root)) :].lstrip("/") for path, root in self._patterns.items())

    def is_complete(self) -> bool:
        """Whether somebody has said, in each folder, that no more will come."""
        return all(os.path.exists(os.path.join(root, DONE)) for root in self._patterns.values())

    def look(self) -> dict[str, tuple[str, int]]:
        """The files that lie there, by name: their paths and sizes."""
        found: dict[str, tuple[str, int]] = {}
        seen: set[str] = set()
        roots = list(dict.fromkeys(self._patterns.values()))
        for pattern, root in self._patterns.items():
            place = roots.index(root)
            folder = f"//{place}/" if place else ""  # names of the second folder are not those of the first
            for path, size in _listed(pattern):
                if (absolute := os.path.abspath(path)) not in seen:  # by another pattern
                    seen.add(absolute)
                    found[folder + os.path.relpath(path, root)] = path, size
        return found


def _listed(pattern: str) -> Sequence[tuple[str, int]]:
    try:
        return list_files(pattern)
    except (UsageError, FileNotFoundError):  # none yet, or one that went while it was looked at
        return []


def key_of(name: str) -> int:
    """Which file this is, in eight bytes.

    >>> key_of("2024-01-01/part-0.tsv") == key_of("2024-01-01/part-0.tsv") < 2**64
    True
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")

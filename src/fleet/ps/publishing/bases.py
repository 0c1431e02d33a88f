"""The bases of a stream: inference copies, of which each server writes its part while training goes on.

    bases/wanted-00001-STREAM             server 1 has lost its place: somebody who follows cannot go on by batches
    bases/.base-000002.writing-1a2b3c4d/  what server 0 has begun, and all servers write into
        of-STREAM                         whose base it is to be
        TABLE.part-001-of-002.values.npy  as in any inference copy
        shard-00001.safetensors           the dense blocks of server 1; and that its part is complete, at which batch
    bases/base-000002/                    what server 0 has made of it; then `stream.json` names it

Server 0 begins and commits. Whoever is killed finds in these files where it was.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet import checkpoint
from fleet.checkpoint.files.pieces import decode, metadata_of
from fleet.checkpoint.folders.folder import remove
from fleet.checkpoint.folders.inference import DENSE_DTYPES
from fleet.errors import CheckpointError
from fleet.observe.metrics import events
from fleet.ps.durable.storage import ServerContents, export
from fleet.ps.held.unseen import unseen_of
from fleet.ps.publishing.changes import dense_blocks
from fleet.stream import StreamBase, StreamHead, TableHead
from fleet.stream.head import DenseHead

if TYPE_CHECKING:
    from fleet.ps.held.holdings import Holdings
    from fleet.stream.sinks import Sink

KEPT = 2
"""How many bases stay; batches stay as long as one of these bases may need them."""
ASKED_EVERY_S = 30.0
"""How often followers alone may have a base written."""

_NAME = re.compile(r"base-(\d{6,})")
_WRITING = re.compile(r"\.base-\d{6,}\.writing-[0-9a-f]{8}")
_LEFT = re.compile(r"\.base-\d{6,}\.(writing|trash)-[0-9a-f]{8}")
_log = logging.getLogger(__name__)


class BasePart(NamedTuple):
    """What one server says of its part."""

    number: int
    version: int
    forgotten: int
    """How often rows had been forgotten when it was begun."""
    tables: tuple[checkpoint.TablePart, ...]
    dense: dict[tuple[str, int], NDArray[np.float32]]
    kept: dict[str, NDArray[Any]]


def want(bases: Path, server: int, stream: str) -> None:
    """Have server 0 begin a base."""
    bases.mkdir(parents=True, exist_ok=True)
    (bases / f"wanted-{server:05}-{stream}").touch()


def want_no_more(bases: Path, server: int, stream: str) -> None:
    """A server begins to write its part in a base."""
    (bases / f"wanted-{server:05}-{stream}").unlink(missing_ok=True)


def wanted_by_servers(bases: Path, stream: str) -> list[Path]:
    """What says which servers have begun no part yet in the base that they want."""
    return list(bases.glob(f"wanted-[0-9]*-{stream}"))


def begun(bases: Path, stream: str = "") -> Path | None:
    """The folder that servers of a stream, or of any, write their parts into now."""
    mark = f"of-{stream}" if stream else ""
    found = [one for one in bases.glob(".base-*") if _WRITING.fullmatch(one.name) and (one / mark).exists()]
    return max(found, default=None)


def write_part(
    holdings: Holdings, number: int, version: int, forgotten: int, stream: str, writing: Path, moved: Callable[[], None]
) -> None:
    """Write what a server holds: at least what the batches up to `number` have; tables are locked shard by shard."""
    said = writing / _part_name(holdings.server)
    said.unlink(missing_ok=True)
    text = export(ServerContents(holdings, holdings.tables, (), ()), writing, moved)
    tensors: dict[str, NDArray[Any]] = {
        f"dense/{at}/{name}": part for (name, at), part in dense_blocks(holdings).items()
    }
    for spec, bits in zip(holdings.job.kept_on(holdings.server), holdings.kept, strict=True):
        if spec.dtype == "bfloat16":
            tensors[f"kept/{spec.name}"] = (bits.astype(np.uint32) << 16).view(np.float32)
        elif spec.dtype in DENSE_DTYPES and spec.dtype not in ("bool", "complex64"):
            tensors[f"kept/{spec.name}"] = bits.view(np.dtype(spec.dtype)).reshape(spec.shape)
    metadata = {"stream": stream, "number": str(number), "version": str(version), "tables": text}
    metadata["forgotten"] = str(forgotten)
    new = writing / f".{said.name}.new"
    new.unlink(missing_ok=True)
    checkpoint.write_piece(new, tensors, metadata)
    new.replace(said)


def _part_name(server: int) -> str:
    return f"shard-{server:05}.safetensors"


class BaseKeeper:
    """What server 0 does: begins bases that are wanted, commits those that are complete, removes old ones."""

    def __init__(self, holdings: Holdings, sink: Sink, stream: str, every_s: float) -> None:
        self._job, self._sink, self._stream, self._every_s = holdings.job, sink, stream, every_s
        self._bases = sink.bases
        self._wanted: list[Path] = []
        self._begun_at = 0.0
        self._kept: list[StreamBase] = []
        self._forgotten = 0
        """How often rows had been forgotten before the oldest base that is kept."""
        self.num_written = 0
        """How many bases were completed in this life."""

    def begin(self) -> None:
        """Throw away what a former life has left half done, and have a base written where that was not announced."""
        text, writing = self._sink.head(), begun(self._bases)
        head = None if text is None else StreamHead.from_text(text, str(self._sink.home))
        newest = max((one.name for one in self._bases.glob("base-*")), default="")
        if writing is not None or head is None or (head.stream, head.base.folder) != (self._stream, newest):
            want(self._bases, 0, self._stream)
        if writing is not None:
            checkpoint.abort(writing)
        if head is not None and head.stream == self._stream and head.forgotten:
            self._keep_alone(head.base, head.forgotten)  # a former life may have been killed before it had

    def look(self) -> Path | None:
        """Begin a base that is wanted; the folder of one that has all its parts, for `complete`."""
        writing = begun(self._bases, self._stream)
        if writing is None:
            self._begin_if_wanted()
        elif all((writing / _part_name(server)).exists() for server in range(self._job.num_servers)):
            return writing
        return None

    def complete(self, writing: Path) -> None:
        """Commit a base that has all its parts; CheckpointError or OSError where that cannot be done now."""
        try:
            self._commit(writing)
        except BaseException:
            want(self._bases, 0, self._stream)
            checkpoint.abort(writing)  # all parts are written again
            raise

    def _begin_if_wanted(self) -> None:
        wanted = sorted(self._bases.glob("wanted-by-*"))
        may_ask = not self._begun_at or time.monotonic() - self._begun_at > ASKED_EVERY_S
        if not wanted_by_servers(self._bases, self._stream) and not (wanted and may_ask):
            return
        self._bases.mkdir(parents=True, exist_ok=True)
        names = [found[1] for one in self._bases.iterdir() if (found := _NAME.search(one.name))]
        name = f"base-{max(map(int, names), default=0) + 1:06}"
        (checkpoint.begin(self._bases / name, checkpoint.InferenceIndex) / f"of-{self._stream}").touch()
        self._wanted, self._begun_at = wanted, time.monotonic()

    def _commit(self, writing: Path) -> None:
        parts = [_read_part(writing, server, self._stream) for server in range(self._job.num_servers)]
        for server in range(self._job.num_servers):
            (writing / _part_name(server)).unlink()
        (writing / f"of-{self._stream}").unlink()
        folder = self._bases / writing.name[1:].partition(".")[0]
        index = checkpoint.InferenceIndex(
            max(part.version for part in parts),
            self._job.num_servers,
            tuple(table for part in parts for table in part.tables),
            tuple(checkpoint.export_dense(writing, self._joined(parts))),
            versions=tuple(part.version for part in parts),
        )
        checkpoint.commit(writing, folder, index)
        base, forgotten = StreamBase(folder.name, tuple(part.number for part in parts)), min(p.forgotten for p in parts)
        self._sink.put_head(self.head(base, forgotten).to_text())
        for one in self._wanted:
            one.unlink(missing_ok=True)
        self._wanted, self._kept, self.num_written = [], [*self._kept, base][-KEPT:], self.num_written + 1
        events.note("base", f"{folder.name}, behind batches {list(base.numbers)}")
        if forgotten > self._forgotten:
            self._keep_alone(base, forgotten)
        else:
            self._clear(KEPT)

    def _keep_alone(self, base: StreamBase, forgotten: int) -> None:
        """Remove all that is older than a base: it has rows that were forgotten."""
        self._kept, self._forgotten = [base], forgotten
        self._clear(1)

    def head(self, base: StreamBase, forgotten: int = 0) -> StreamHead:
        """What `stream.json` says with a base."""
        job = self._job
        tables = {spec.name: TableHead(spec.width, unseen_of(spec)) for spec in job.tables}
        dense = {name: DenseHead(shape) for name, shape in job.dense.shapes}
        return StreamHead(self._stream, job.num_servers, tables, dense, self._every_s, base, forgotten)

    def _joined(self, parts: Sequence[BasePart]) -> dict[str, NDArray[Any]]:
        """Whole dense parameters, and tensors that servers keep."""
        found: dict[str, NDArray[Any]] = {}
        for name, shape in self._job.dense.shapes:
            whole = np.empty(prod(shape), np.float32)
            for part in parts:
                for (parameter, begin), values in part.dense.items():
                    if parameter == name:
                        whole[begin : begin + len(values)] = values
            found[name] = whole.reshape(shape)
        for part in parts:
            found |= part.kept
        return found

    def _clear(self, num_kept: int) -> None:
        """Remove what no follower needs any more; what cannot be removed now is removed after the next base."""
        kept = {base.folder for base in self._kept}
        oldest = self._kept[0].numbers if len(self._kept) == num_kept else ()
        with suppress(OSError, CheckpointError):
            for shard, number in enumerate(oldest):
                self._sink.drop(self._stream, shard, number)
            if len(self._kept) == num_kept:  # those who follow another stream have had time to see that it is over
                self._sink.drop_others(self._stream)
                for one in self._bases.iterdir():
                    if _LEFT.fullmatch(one.name):
                        checkpoint.abort(one)
                    elif _NAME.fullmatch(one.name) and one.name not in kept:
                        remove(one, checkpoint.InferenceIndex)


def _read_part(writing: Path, server: int, stream: str) -> BasePart:
    path = writing / _part_name(server)
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}; the base is written again") from error
    metadata, dense, kept = metadata_of(data, str(path)), {}, {}
    if metadata.get("stream") != stream:
        raise CheckpointError(f"{path} is of another stream than {stream}; the base is written again")
    for name, array in decode(data, str(path)).items():
        kind, _, rest = name.partition("/")
        if kind == "kept":
            kept[rest] = array
        else:
            begin, _, parameter = rest.partition("/")
            dense[parameter, int(begin)] = array
    tables = checkpoint.parts_from_text(metadata["tables"], str(path))
    number, version, forgotten = (int(metadata[name]) for name in ("number", "version", "forgotten"))
    return BasePart(number, version, forgotten, tables, dense, kept)

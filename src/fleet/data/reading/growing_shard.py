"""A worker's batches of a folder that grows: each file is read once, and another loop reads what has come since."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fleet.data.columns.blocks import FileFormat
from fleet.data.columns.records import Batch
from fleet.data.reading.file_shard import FileDataset, PieceShard
from fleet.data.reading.growing import FilePart, Follow, GrowingWork, Watched
from fleet.data.reading.piece_batches import PieceReader, Reading
from fleet.data.shards.workers import Workers
from fleet.errors import NotSupportedError, UsageError, UsageTypeError


class GrowingShard(PieceShard):
    """What `fleet.data.files(..., follow=...)` returns.

    The position is which files this worker has read, by their names, and how far it is in the one that it reads. With
    those of all workers, any number of them goes on: each file is read once.
    """

    _kind, _read = "growing folder", "a folder that grows"
    _same_again = "follow the same folder, with the same shuffle and seed, or begin again without this state"

    def __init__(
        self,
        reader: PieceReader,
        workers: Workers,
        watched: Watched,
        format_of: Callable[[str], FileFormat],
        follow: Follow,
    ) -> None:
        self._watched, self._made_of = watched, (reader.files, format_of, follow)
        self._work = self._new_work(workers)
        super().__init__(reader, workers, uneven="join")

    def _new_work(self, workers: Workers) -> GrowingWork:
        return GrowingWork(self._watched, *self._made_of, (workers.index, workers.num))

    def __len__(self) -> int:
        raise UsageTypeError("a folder that grows has no number of batches; count them as they come")

    def dataset(self) -> FileDataset:
        """NotSupportedError: processes of a loader would not know what the others have read."""
        raise NotSupportedError("a folder that grows is read by the threads of this process; loop over it itself")

    def state_dict(self) -> dict[str, Any]:
        """This worker's position, as plain values for JSON: eleven letters for each file that it has read."""
        parts = {str(key): list(part) for key, part in self._work.parts.items()}
        here = {"worker": self._workers.index, "workers": self._workers.num}
        return {**super().state_dict(), **here, "files": self._work.packed_done(), "parts": parts}

    def load_state_dicts(self, states: Sequence[Mapping[str, Any]]) -> None:
        given = self._checked(states)
        workers = {one["workers"] for one in given}
        if len(workers) != 1 or sorted(one["worker"] for one in given) != list(range(*workers)):
            told = ", ".join(f"worker {one['worker']} of {one['workers']}" for one in given) or "nobody"
            raise UsageError(f"the states of all workers of a run are needed, each once; these are of {told}")
        done: set[int] = set()
        parts: dict[int, FilePart] = {}
        for one in given:
            done |= _keys_of(one["files"])
            parts |= _parts_of(one["parts"])
        self._go_to(max(one["epoch"] for one in given), sum(one[self._unit] for one in given) // self._workers.num)
        self._restore(done, parts)
        self._ask()

    def _go_on(self, state: Mapping[str, Any]) -> None:
        done, parts = _keys_of(state["files"]), _parts_of(state["parts"])
        self._go_to(state["epoch"], state[self._unit])
        self._restore(done, parts)

    def _restore(self, done: set[int], parts: Mapping[int, FilePart]) -> None:
        self._work = self._new_work(self._workers)
        self._work.restore(done, parts)

    def _begin(self) -> None:
        self._is_begun = True
        self._iterator = Reading(self._reader, self._work.pieces, self._work)

    def to_evaluate(self) -> Iterator[Batch]:
        raise NotSupportedError(
            "a folder that grows cannot be evaluated: files are read once; give files that are there"
        )

    def _settings(self) -> dict[str, Any]:
        return {"folder": self._watched.names, "shuffle": self._reader.files.shuffle, "seed": self._reader.files.seed}


def _keys_of(text: Any) -> set[int]:
    try:
        data = base64.b64decode(text, validate=True)
        return {int.from_bytes(data[place : place + 8], "little") for place in range(0, len(data), 8)}
    except (TypeError, ValueError) as error:
        raise UsageError(f"files of a reader's state cannot be read ({error}); the state is damaged") from error


def _parts_of(stored: Any) -> dict[int, FilePart]:
    try:
        return {int(key): FilePart(*map(int, part)) for key, part in stored.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"parts of a reader's state cannot be read ({error}); the state is damaged") from error

"""A worker's batches of what may never end, such as a folder that grows: another loop reads what has come since."""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fleet.data.columns.blocks import FileFormat
from fleet.data.columns.records import Batch
from fleet.data.reading.file_shard import FileDataset, PieceShard
from fleet.data.reading.growing import FilePart, Follow, GrowingWork, Watched
from fleet.data.reading.piece_batches import PieceReader, Reading
from fleet.data.shards.workers import Workers
from fleet.errors import NotSupportedError, UsageError, UsageTypeError


class EndlessShard(PieceShard):
    """What may never end, and is read once: another loop reads what has come since."""

    _work: Any

    def __init__(self, reader: PieceReader, workers: Workers) -> None:
        self._work = self._new_work(workers)
        super().__init__(reader, workers, uneven="join")

    @abstractmethod
    def _new_work(self, workers: Workers) -> Any:
        """What this worker reads, from the beginning on."""

    @abstractmethod
    def _far(self) -> dict[str, Any]:
        """How far it is, for the position."""

    @abstractmethod
    def _joined(self, states: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """How far all workers were together."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Go on there."""

    def __len__(self) -> int:
        raise UsageTypeError(f"{self._read} has no number of batches; count them as they come")

    def dataset(self) -> FileDataset:
        """NotSupportedError: processes of a loader would not know what the others have read."""
        raise NotSupportedError(f"{self._read} is read by the threads of this process; loop over it itself")

    def state_dict(self) -> dict[str, Any]:
        """This worker's position, as plain values for JSON."""
        here = {"worker": self._workers.index, "workers": self._workers.num}
        return {**super().state_dict(), **here, **self._far()}

    def load_state_dicts(self, states: Sequence[Mapping[str, Any]]) -> None:
        given = self._checked(states)
        workers = {one["workers"] for one in given}
        if len(workers) != 1 or sorted(one["worker"] for one in given) != list(range(*workers)):
            told = ", ".join(f"worker {one['worker']} of {one['workers']}" for one in given) or "nobody"
            raise UsageError(f"the states of all workers of a run are needed, each once; these are of {told}")
        joined = self._joined(given)
        self._go_to(max(one["epoch"] for one in given), sum(one[self._unit] for one in given) // self._workers.num)
        self._restore(joined)
        self._ask()

    def _go_on(self, state: Mapping[str, Any]) -> None:
        joined = self._joined([state])
        self._go_to(state["epoch"], state[self._unit])
        self._restore(joined)

    def _begin(self) -> None:
        self._is_begun = True
        self._iterator = Reading(self._reader, self._work.pieces, self._work)

    def to_evaluate(self) -> Iterator[Batch]:
        raise NotSupportedError(
            f"{self._read} cannot be evaluated: what it has is read once; give files that are there"
        )


class GrowingShard(EndlessShard):
    """What `fleet.data.files(..., follow=...)` returns for a folder.

    The position is which files this worker has read, by their names (eleven letters for each), and how far it is in the
    one that it reads. With those of all workers, any number of them goes on: each file is read once.
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
        super().__init__(reader, workers)

    def _new_work(self, workers: Workers) -> GrowingWork:
        return GrowingWork(self._watched, *self._made_of, (workers.index, workers.num))

    def _far(self) -> dict[str, Any]:
        parts = {str(key): list(part) for key, part in self._work.parts.items()}
        return {"files": self._work.packed_done(), "parts": parts}

    def _joined(self, states: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        done: set[int] = set()
        parts: dict[int, FilePart] = {}
        for one in states:
            done |= _keys_of(one["files"])
            parts |= _parts_of(one["parts"])
        return {"done": done, "parts": parts}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._work = self._new_work(self._workers)
        self._work.restore(state["done"], state["parts"])

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

"""Which keys of which tables were changed or deleted since a mark: of each consumer, such as increments of a save.

A mark is a change of the table of changes (`fleet.ps.steps.changes`), so a live server, a replayed journal and a second
copy have the same sets. The keys themselves are noted by the tables, where rows change (csrc/table/touched.cc).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet import _native
from fleet.ps.journal.records import RecordPart
from fleet.ps.wire.messages import Tensor

MARKS = -1
"""In place of a table's index where it is asked which shards have a record already: shard 0 stands for all marks."""
MOST_CONSUMERS = 4
"""One more ends that which has asked longest ago: nobody says that a folder is saved into no longer."""
_NO_KEYS = np.zeros(0, np.int64)


class TableKeys(NamedTuple):
    """Keys of one table that were changed or deleted, each once, in no order."""

    keys: NDArray[np.int64]
    is_all: bool = False
    """Whether everything may have changed; then there are no keys."""


class Marked(NamedTuple):
    """What a mark asks for."""

    consumer: str
    parent: str
    """The mark whose successor this is; empty: everything counts as changed."""
    mark: str
    """Empty: the consumer needs its sets no longer."""


@dataclass
class _Consumer:
    """The sets of one consumer: what changed between its last two marks, and, in the tables, what did since."""

    watchers: Sequence[int]
    """Its number in each table."""
    before: str = ""
    last: str = ""
    between: list[TableKeys] = field(default_factory=list)


class Touched:
    """The sets of all consumers of one server. Used within the closed gate, or by the one thread of a replay."""

    def __init__(self, tables: Sequence[_native.Table] = ()) -> None:
        self._tables = tables
        self._consumers: dict[str, _Consumer] = {}

    def mark(self, asked: Marked) -> list[TableKeys]:
        """What changed in each table since the mark `parent`, up to this one.

        The last mark is known, and the one before: where what the last has marked came to nothing, it is joined.
        """
        mine = self._consumers.pop(asked.consumer, None)
        if not asked.mark:
            if mine is not None:
                self._end(mine)
            return []
        if mine is None:
            mine = _Consumer([table.watch() for table in self._tables])
        self._consumers[asked.consumer] = mine  # who has asked last stands last
        if len(self._consumers) > MOST_CONSUMERS:
            self._end(self._consumers.pop(next(iter(self._consumers))))
        since = self._since(mine, forget=True)
        if asked.parent and asked.parent == mine.last:
            mine.between = since
        elif asked.parent and asked.parent == mine.before:
            mine.between = [_joined(*both) for both in zip(mine.between, since, strict=True)]
        else:
            mine.between = [TableKeys(_NO_KEYS, is_all=True) for _ in self._tables]
        mine.before, mine.last = asked.parent, asked.mark
        return list(mine.between)

    def last_mark(self, consumer: str) -> str:
        """The last mark that a consumer has made; empty if there is none."""
        mine = self._consumers.get(consumer)
        return "" if mine is None else mine.last

    def parts(self) -> list[RecordPart]:
        """All sets, for a snapshot; `restore` takes them."""
        found = []
        for name, mine in self._consumers.items():
            sets = [*mine.between, *self._since(mine, forget=False)]
            head = {"consumer": name, "before": mine.before, "last": mine.last, "all": [one.is_all for one in sets]}
            found.append(RecordPart(json.dumps(head).encode(), [one.keys for one in sets]))
        return found

    def restore(self, parts: Sequence[RecordPart]) -> None:
        """Take over what `parts` gave; the tables have all of their rows already."""
        self.clear()
        num = len(self._tables)
        for part in parts:
            head = json.loads(part.header)
            sets = [TableKeys(_keys(one), is_all) for one, is_all in zip(part.tensors, head["all"], strict=True)]
            watchers = [table.watch() for table in self._tables]
            self._consumers[head["consumer"]] = _Consumer(watchers, head["before"], head["last"], sets[:num])
            for table, watcher, (keys, is_all) in zip(self._tables, watchers, sets[num:], strict=True):
                table.touch(watcher, None if is_all else keys)

    def clear(self) -> None:
        """End all consumers: no set has a key any more, and who asks next is told that all may have changed."""
        while self._consumers:
            self._end(self._consumers.popitem()[1])

    def _since(self, mine: _Consumer, *, forget: bool) -> list[TableKeys]:
        found = [table.touched(one, forget) for table, one in zip(self._tables, mine.watchers, strict=True)]
        return [TableKeys(_NO_KEYS if is_all else keys, is_all) for keys, is_all in found]

    def _end(self, mine: _Consumer) -> None:
        for table, watcher in zip(self._tables, mine.watchers, strict=True):
            table.unwatch(watcher)


def mark_part(consumer: str, parent: str, mark: str) -> RecordPart:
    """The record of a mark, as `Core.change(Kind.MARK, ...)` takes it."""
    return RecordPart(json.dumps(Marked(consumer, parent, mark)._asdict()).encode())


def read_mark(part: RecordPart) -> Marked:
    """What `mark_part` has made."""
    return Marked(**json.loads(part.header))


def _joined(first: TableKeys, later: TableKeys) -> TableKeys:
    if first.is_all or later.is_all:
        return TableKeys(_NO_KEYS, is_all=True)
    return TableKeys(np.union1d(first.keys, later.keys))


def _keys(tensor: Tensor) -> NDArray[np.int64]:
    return np.array(tensor if isinstance(tensor, np.ndarray) else np.frombuffer(tensor, np.int64)).reshape(-1)

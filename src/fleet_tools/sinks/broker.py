"""A sink of a stream of changes in a broker.

    STREAM.00000/42            one batch of shard 0, put once; or, of one that is larger than a value may be:
    STREAM.00000/42            which parts it has: a name of their own, for two lives may put a batch at the same time
    STREAM.00000/42.1a2b.0     the first of them, put before

Bases lie in a folder that servers and followers share: `?bases=/folder` of the URL.
"""

from __future__ import annotations

import os
from pathlib import Path

from fleet_tools.sinks.contract import Store

_PARTS = b"fleet parts 1 "


class BrokerSink:
    """See `fleet.stream.sinks.Sink`."""

    def __init__(self, url: str, home: Path, store: Store) -> None:
        self.url, self.home, self.bases = url, home, home / "bases"
        self._store = store

    def put(self, stream: str, shard: int, number: int, blob: bytes) -> None:
        """Parts first, where it needs some; what leads to them last."""
        store, folder, name, small = self._store, _folder(stream, shard), str(number), blob
        if len(blob) > store.most_bytes or blob.startswith(_PARTS):
            own = f"{number}.{os.urandom(8).hex()}"
            parts = [blob[at : at + store.most_bytes] for at in range(0, len(blob), store.most_bytes)]
            for index, part in enumerate(parts):
                store.add(folder, f"{own}.{index}", part)
            small = _PARTS + f"{own} {len(parts)}".encode()
        if not store.add(folder, name, small) and self.get(stream, shard, number) != blob:
            raise FileExistsError(f"{self.url} has another batch {number} of shard {shard}")

    def get(self, stream: str, shard: int, number: int) -> bytes | None:
        """None also where parts are no more."""
        folder = _folder(stream, shard)
        blob = self._store.get(folder, str(number))
        if blob is None or not blob.startswith(_PARTS):
            return blob
        own, num = blob[len(_PARTS) :].decode("latin1").split(" ")
        parts = [self._store.get(folder, f"{own}.{index}") for index in range(int(num))]
        return None if None in parts else b"".join(part for part in parts if part is not None)

    def span(self, stream: str, shard: int) -> tuple[int, int]:
        """Look at the names."""
        numbers = [int(name) for name in self._store.names(_folder(stream, shard)) if name.isdecimal()]
        return (min(numbers), max(numbers)) if numbers else (0, 0)

    def drop(self, stream: str, shard: int, before: int) -> None:
        """Remove batches and their parts, those too that nothing leads to."""
        folder = _folder(stream, shard)
        names = self._store.names(folder)
        if old := [name for name in names if int(name.partition(".")[0]) < before]:
            self._store.remove(folder, old)

    def drop_others(self, stream: str) -> None:
        """Remove all batches of other streams."""
        for folder in self._store.folders():
            if folder.rpartition(".")[0] != stream and (names := self._store.names(folder)):
                self._store.remove(folder, names)

    def put_head(self, text: str) -> None:
        """Replace it."""
        self._store.put_head(text.encode())

    def head(self) -> bytes | None:
        """Read it."""
        return self._store.head()

    def wait(self, timeout_s: float) -> None:
        """The broker says when something was added."""
        self._store.wait(timeout_s)

    def close(self) -> None:
        """Leave the broker."""
        self._store.close()


def _folder(stream: str, shard: int) -> str:
    return f"{stream}.{shard:05}"

"""A worker's batches of streams: its partitions, each record once, and a position that goes with every push."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleet._lazy import tool
from fleet.data.columns.blocks import Problems
from fleet.data.columns.records import Batch
from fleet.data.columns.schema import Schema
from fleet.data.reading.feed import Feed, FeedPartition, FeedWork, LivePosition
from fleet.data.reading.growing_shard import EndlessShard
from fleet.data.reading.piece_batches import PieceReader
from fleet.data.reading.piece_order import FileSet
from fleet.data.shards.order import block
from fleet.data.shards.workers import Workers
from fleet.data.streams.contract import StreamUrl
from fleet.observe.metrics.registry import registry


class FeedShard(EndlessShard):
    """What `fleet.data.files("nats://...")` and `fleet.data.files("kafka://...")` return.

    Partition `p` of all belongs to worker `p % workers`. The position is where each of its partitions is; with those of
    all workers, any number of them goes on: each record is read once.
    """

    _kind, _read = "stream", "a stream"
    _same_again = "read the same streams, with the same shuffle and seed, or begin again without this state"

    def __init__(
        self,
        urls: Sequence[StreamUrl],
        workers: Workers,
        schema: Schema,
        batch_size: int,
        shuffle: bool,
        seed: int,
        bad: float,
        feed: Feed,
    ) -> None:
        self._format = tool("stream_lines")(schema, feed, workers.index)
        self._feed, self._urls = feed, urls
        self._order = {"shuffle": shuffle, "seed": seed}
        self._parts = tool("stream_chunks")(feed).divided(urls, workers)
        files = FileSet({}, dict.fromkeys(self._parts.known, self._format), shuffle, seed)
        super().__init__(PieceReader(files, schema, batch_size, 1, Problems(bad)), workers)

    def _new_work(self, workers: Workers) -> FeedWork:
        return FeedWork(
            self._feed,
            [FeedPartition(*one) for one in self._parts.own()],
            self._order["seed"] if self._order["shuffle"] else None,
            None if self._feed.most is None else block(self._feed.most, workers.index, workers.num)[1],
        )

    def _far(self) -> dict[str, Any]:
        return {**self._work.position(), "partitions": self._parts.listed}

    def live_state(self) -> LivePosition:
        """`state_dict()` that also learns which chunks the batches behind it are made of, for a push with them."""
        live: LivePosition = self._work.position(is_live=True)
        live.update({**super().state_dict(), **live})
        return live

    def _joined(self, states: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        if len(states) == 1 and states[0]["workers"] == self._workers.num:
            return states[0]
        left = sum(one["left"] or 0 for one in states)
        return {
            "partitions": self._parts.joined(one["partitions"] for one in states),
            "positions": {path: place for one in states for path, place in one["positions"].items()},
            "chunks": [chunk for one in states for chunk in one["chunks"]],
            "left": None if self._feed.most is None else block(left, self._workers.index, self._workers.num)[1],
            "last": "",
            "over": all(one["over"] for one in states),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        paths = (*state["positions"], *(chunk[0] for chunk in state["chunks"]))
        self._parts.take(state["partitions"], paths, self._same_again)
        self._work = self._new_work(self._workers)
        self._work.restore(state)

    def _go_to(self, epoch: int, count: int) -> None:
        if epoch != self._epoch:
            self._work.renew()
        super()._go_to(epoch, count)

    def _batches(self) -> Iterator[Batch]:
        registry.add(self._format.samples)
        try:
            yield from super()._batches()
        finally:
            self._work.close()
            registry.remove(self._format.samples)

    def _settings(self) -> dict[str, Any]:
        return {"streams": ", ".join(map(str, self._urls)), **self._order}

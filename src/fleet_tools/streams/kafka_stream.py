"""Topics of Kafka. Options of the URL are settings of librdkafka, such as `?security.protocol=SASL_SSL&...`.

One consumer has all partitions that are read here; it is in no group, and commits nothing. What comes of a partition
that is not asked for waits, and beyond some of it the partition is paused.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fleet.data.streams.contract import (
    ANSWER_S,
    MOST_AT_ONCE,
    MOST_BYTES_AT_ONCE,
    Stream,
    StreamRecord,
    StreamUrl,
)
from fleet.errors import UsageError
from fleet_tools.streams.opening import lost

_POLL_S = 0.02
_OURS = {"group.id": "fleet", "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error"}
_USUAL = {"log_level": 0, "fetch.wait.max.ms": 100}


@dataclass
class _Held:
    """What has come of one partition and was not asked for."""

    position: int
    """Where the next answer begins."""
    records: deque[StreamRecord] = field(default_factory=deque)
    num_bytes: int = 0
    is_at_end: bool = False
    is_paused: bool = False
    is_lost: bool = False

    def has(self, times: int) -> bool:
        """Whether this is enough for so many answers."""
        return len(self.records) >= times * MOST_AT_ONCE or self.num_bytes >= times * MOST_BYTES_AT_ONCE


class KafkaStream(Stream):
    """A topic, connected until `close`."""

    def __init__(self, url: StreamUrl) -> None:
        self.name = str(url)
        self._topic = url.name
        self._held: dict[int, _Held] = {}
        self._is_down = False
        hosts = {"bootstrap.servers": url.hosts, "error_cb": self._told}
        try:
            self._consumer = Consumer({**_USUAL, **dict(url.options), **hosts, **_OURS})
        except (KafkaException, ValueError) as error:
            raise UsageError(
                f"{self.name}: {_text(error)}; the options of the URL are settings of librdkafka"
            ) from error
        try:
            found = self._consumer.list_topics(self._topic, timeout=2 * ANSWER_S).topics[self._topic]
        except KafkaException as error:
            self.close()
            raise ConnectionError(f"no Kafka broker answers ({_text(error)})") from error
        if found.error is not None or not found.partitions:
            self.close()
            raise UsageError(f"{self.name}: the broker has no topic {self._topic!r}; make it there, or mend the URL")
        self.partitions = [str(number) for number in sorted(found.partitions)]

    def _told(self, error: KafkaError) -> None:
        self._is_down |= error.code() == KafkaError._ALL_BROKERS_DOWN

    def bounds(self, partition: str) -> tuple[int, int]:
        try:
            asked = TopicPartition(self._topic, int(partition))
            first, end = self._consumer.get_watermark_offsets(asked, timeout=ANSWER_S, cached=False)
        except KafkaException as error:
            raise ConnectionError(f"no Kafka broker answers ({_text(error)})") from error
        self._is_down = False
        return first, end

    def read(self, partition: str, position: int) -> tuple[list[StreamRecord], int]:
        number = int(partition)
        held = self._held.get(number)
        if held is None or held.position != position:
            place = TopicPartition(self._topic, number, position)
            if held is not None:
                self._consumer.incremental_unassign([place])
            self._consumer.incremental_assign([place])
            held = self._held[number] = _Held(position)
        self._poll(0)
        asked = time.monotonic()
        while not held.has(1) and not held.is_at_end and not held.is_lost:
            num = len(held.records)
            self._poll(_POLL_S)
            if len(held.records) > num:
                asked = time.monotonic()
            elif time.monotonic() - asked > ANSWER_S:
                self.bounds(partition)
                if held.records:
                    break
                raise ConnectionError("Kafka answers, but not with the records that it has")
        if self._is_down:
            self.bounds(partition)
        if held.is_lost:
            del self._held[number]
            self._consumer.incremental_unassign([TopicPartition(self._topic, number)])
            raise lost(f"{self.name}/{partition}", position, self.bounds(partition)[0])
        return self._taken(number, held)

    def _taken(self, number: int, held: _Held) -> tuple[list[StreamRecord], int]:
        records: list[StreamRecord] = []
        num_bytes = 0
        while held.records and len(records) < MOST_AT_ONCE and num_bytes < MOST_BYTES_AT_ONCE:
            records.append(held.records.popleft())
            num_bytes += len(records[-1].value)
        held.num_bytes -= num_bytes
        if records:
            held.position = records[-1].position + 1
        if held.is_paused and not held.has(1):
            held.is_paused = False
            self._consumer.resume([TopicPartition(self._topic, number)])
        return records, held.position

    def _poll(self, wait_s: float) -> None:
        """Take what has come."""
        for message in self._consumer.consume(500, wait_s):
            held = self._held.get(message.partition() or 0)
            if held is None:
                continue
            if (error := message.error()) is None:
                value = message.value() or b""
                held.records.append(StreamRecord(message.offset() or 0, message.timestamp()[1] / 1e3, value))
                held.num_bytes += len(value)
                held.is_at_end = False
            elif error.code() == KafkaError._PARTITION_EOF:
                held.is_at_end = True
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                held.is_lost = True
            self._is_down &= error is not None
        for number, held in self._held.items():
            if held.has(2) and not held.is_paused:
                held.is_paused = True
                self._consumer.pause([TopicPartition(self._topic, number)])

    def close(self) -> None:
        self._held.clear()
        self._consumer.close()


def _text(error: Exception) -> Any:
    """What librdkafka says, without its numbers."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else first

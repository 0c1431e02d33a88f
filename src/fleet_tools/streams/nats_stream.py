"""Streams of NATS JetStream. The partitions of a stream are the subjects that it is made of, or `?subjects=a.0,a.1`.

A partition has a consumer that acknowledges nothing and
that the server may forget: it is made again at our position, also when a record has not come.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from fleet.data.streams.contract import (
    ANSWER_S,
    MOST_AT_ONCE,
    MOST_BYTES_AT_ONCE,
    Stream,
    StreamRecord,
    StreamUrl,
)
from fleet.errors import UsageError
from fleet_tools.streams.nats_client import NatsConnection
from fleet_tools.streams.opening import lost, made_anew, options_of

T = TypeVar("T")
FORGET_S = 300.0
"""How long the server remembers a consumer that asks for nothing."""


class _Consumer:
    """The server's reader of one partition."""

    def __init__(self, position: int) -> None:
        self.name, self.inbox = "", ""
        self.subscription: Any = None
        self.position = position
        self.num_pending = 0
        self.is_too_large = False
        """Whether the next record has more bytes than were asked for."""
        self.records: list[StreamRecord] = []
        self._wanted = self._num_delivered = 0
        self._ended = asyncio.Event()

    async def take(self, message: Any) -> None:
        """A message has come: a record, or the server's word that this answer has no more."""
        parts = message.reply.split(".")
        is_record = parts[:2] == ["$JS", "ACK"]
        if is_record:
            sent, number, time_ns, pending = map(int, parts[5:9] if len(parts) == 9 else parts[7:11])
            self._num_delivered += 1
            if number == self._num_delivered:
                self.records.append(StreamRecord(sent, time_ns / 1e9, message.data))
                self.num_pending = pending
        else:
            self.is_too_large = (message.headers or {}).get("Status") == "409"
        if not is_record or number != self._num_delivered or len(self.records) >= self._wanted:
            self._ended.set()

    async def fetch(self, client: Any, stream: str, num: int, num_bytes: int) -> list[StreamRecord]:
        """So many records that are pending, or fewer."""
        self.records, self._wanted = [], num
        self._ended.clear()
        request: dict[str, int] = {"batch": num, "expires": int(ANSWER_S * 1e9)}
        if num > 1:
            request["max_bytes"] = num_bytes
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{self.name}"
        await client.publish(subject, json.dumps(request).encode(), self.inbox)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), ANSWER_S)
        return self.records


class NatsStream(Stream):
    """A stream, connected until `close`."""

    def __init__(self, url: StreamUrl) -> None:
        self.name = str(url)
        self._url = url
        self._consumers: dict[str, _Consumer] = {}
        self._end = 0
        """Behind the last record of the stream, whatever its subject, when it was last looked at."""
        self.made = ""
        self._connection = NatsConnection(url)
        try:
            self._connection.connect()
            subjects = options_of(url, ["subjects"]).get("subjects")
            there = self._do(self._info()).config.subjects
            self.partitions = subjects.split(",") if subjects else sorted(there)
        except BaseException:
            self.close()
            raise

    async def _info(self) -> Any:
        info = await self._connection.js.stream_info(self._url.name)
        if self.made not in ("", made := str(info.created)):
            raise made_anew(self.name)
        self.made = made
        return info

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._connection.do(work)
        except NotFoundError as error:
            raise UsageError(
                f"{self.name}: the broker has no stream {self._url.name!r}; make it there, or mend the URL"
            ) from error

    def bounds(self, partition: str) -> tuple[int, int]:  # noqa: ARG002 - positions count the whole stream
        state = self._asked(self._info()).state
        return state.first_seq, state.last_seq + 1

    def read(self, partition: str, position: int) -> tuple[list[StreamRecord], int]:
        return self._asked(self._read(partition, position))

    def _asked(self, work: Coroutine[Any, Any, T]) -> T:
        """Run; where the connection is gone there is another one for the next try."""
        try:
            return self._do(work)
        except ConnectionError:
            self._consumers.clear()
            if not self._connection.is_connected:
                self._connection.connect()  # to another server of the list, or to one that has come back
            raise

    async def _read(self, partition: str, position: int) -> tuple[list[StreamRecord], int]:
        stream, end = self._url.name, self._end
        one = self._consumers.pop(partition, None)
        if one is not None and not one.num_pending:
            try:
                one.num_pending = (await self._connection.js.consumer_info(stream, one.name)).num_pending
            except NotFoundError:  # forgotten, or the server has begun anew
                one = None
        if one is None or one.position != position:
            one = await self._consumer(partition, position, one)
        records: list[StreamRecord] = []
        if num := min(one.num_pending, MOST_AT_ONCE):
            records = await one.fetch(self._connection.client, stream, num, MOST_BYTES_AT_ONCE)
            if one.is_too_large and not records:
                records = await one.fetch(self._connection.client, stream, 1, 0)
        state = (await self._info()).state
        self._end = state.last_seq + 1
        behind = records[-1].position + 1 if records else position
        if state.first_seq > position and not 0 < len(records) == behind - position:
            raise lost(f"{self.name}/{partition}", position, state.first_seq)
        if num and not records:
            raise TimeoutError("records that it has did not come")
        one.position = behind if one.num_pending else max(behind, end)
        if records or not num:
            self._consumers[partition] = one
        return records, one.position

    async def _consumer(self, partition: str, position: int, old: _Consumer | None) -> _Consumer:
        if old is not None:
            await old.subscription.unsubscribe()
        one = _Consumer(position)
        one.inbox = self._connection.client.new_inbox()
        one.subscription = await self._connection.client.subscribe(one.inbox, cb=one.take)
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=max(position, 1),
            filter_subject=partition,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=FORGET_S,
            mem_storage=True,
        )
        made = await self._connection.js.add_consumer(self._url.name, config)
        one.name, one.num_pending = made.name, made.num_pending
        return one

    def close(self) -> None:
        self._connection.close()

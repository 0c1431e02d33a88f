"""NATS JetStream as a place for batches: a stream `fleet-NAME`, which is made unless it is there; a value is a subject.

    fleet.NAME.head               the head: its last message counts
    fleet.NAME.in.FOLDER.VALUE    put once: only as the first message of its subject
    fleet.NAME.news               not kept: something was added

A dot in a name begins a part of a subject, so it is written as a colon.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from nats.errors import Error as NatsError
from nats.js.api import StreamConfig
from nats.js.errors import APIError, BadRequestError, NotFoundError

from fleet.data.streams.contract import ANSWER_S, StreamUrl
from fleet_tools.sinks.contract import Store
from fleet_tools.streams.nats_client import NatsConnection

T = TypeVar("T")
_OTHER_SEQUENCE = 10071
"""What JetStream says where a subject has a message already."""
_FOR_HEADERS = 4096


class NatsStore(Store):
    """One connection, made when it is needed, and again when it was lost."""

    def __init__(self, url: StreamUrl) -> None:
        self._url, self._stream, self._before = url, f"fleet-{url.name}", f"fleet.{url.name}"
        self._connection: NatsConnection | None = None
        self._news = asyncio.Event()
        self._has_stream = self._has_news = False
        self._connecting = threading.Lock()

    @property
    def most_bytes(self) -> int:  # type: ignore[override]
        """As the server says: 1 MiB, unless its settings have another limit."""
        return int(self._asked(self._most_bytes))

    def put_head(self, blob: bytes) -> None:
        self._asked(lambda js: js.publish(f"{self._before}.head", blob, timeout=ANSWER_S))

    def head(self) -> bytes | None:
        return self._last(f"{self._before}.head")

    def add(self, folder: str, name: str, blob: bytes) -> bool:
        return self._asked(lambda js: self._add(js, self._subject(folder, name), blob))

    async def _add(self, js: Any, subject: str, blob: bytes) -> bool:
        first = {"Nats-Expected-Last-Subject-Sequence": "0"}
        try:
            await js.publish(subject, blob, timeout=ANSWER_S, headers=first)
        except APIError as error:
            if error.err_code == _OTHER_SEQUENCE:
                return False
            raise
        await self._now.client.publish(f"{self._before}.news", b"")
        return True

    def get(self, folder: str, name: str) -> bytes | None:
        return self._last(self._subject(folder, name))

    def _last(self, subject: str) -> bytes | None:
        try:
            found = self._asked(lambda js: js.get_last_msg(self._stream, subject, direct=True))
        except NotFoundError:
            return None
        return found.data or b""

    def names(self, folder: str) -> list[str]:
        return [_plain(subject.rpartition(".")[2]) for subject in self._subjects(self._subject(folder, "*"))]

    def folders(self) -> list[str]:
        found = self._subjects(f"{self._before}.in.*.*")
        return sorted({_plain(subject.split(".")[-2]) for subject in found})

    def remove(self, folder: str, names: list[str]) -> None:
        for name in names:
            subject = self._subject(folder, name)
            self._asked(partial(self._purge, subject=subject))

    async def _purge(self, js: Any, subject: str) -> None:
        await js.purge_stream(self._stream, subject=subject)

    def wait(self, timeout_s: float) -> None:
        began = time.monotonic()
        try:
            self._asked(lambda _: self._wait(timeout_s))
        except (OSError, NatsError):  # whoever asks for a batch says what is wrong
            time.sleep(max(0.0, began + timeout_s - time.monotonic()))

    async def _wait(self, timeout_s: float) -> None:
        if not self._has_news:

            async def told(_: Any) -> None:
                self._news.set()

            await self._now.client.subscribe(f"{self._before}.news", cb=told)
            self._has_news = True
            return  # what came before is looked for once more
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout_s)
        self._news.clear()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _now(self) -> NatsConnection:
        assert self._connection is not None
        return self._connection

    async def _most_bytes(self, _: Any) -> int:
        return int(self._now.client.max_payload) - _FOR_HEADERS

    def _subjects(self, pattern: str) -> list[str]:
        found = self._asked(lambda js: js.stream_info(self._stream, subjects_filter=pattern))
        return list(found.state.subjects or {})

    def _asked(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Run, with a connection and a stream; OSError if that cannot be had, NotFoundError if nothing is there."""
        with self._connecting:
            if self._connection is None:
                self._connection = NatsConnection(self._url)
            if not self._connection.is_connected:
                self._has_stream = self._has_news = False
                self._connection.connect()
            if not self._has_stream:
                self._connection.do(self._make())
                self._has_stream = True
        return self._connection.do(work(self._connection.js))

    async def _make(self) -> None:
        js = self._now.js
        with suppress(NotFoundError):
            await js.stream_info(self._stream)
            return
        subjects = [f"{self._before}.head", f"{self._before}.in.>"]
        with suppress(BadRequestError):  # another server has made it just now
            await js.add_stream(
                StreamConfig(name=self._stream, subjects=subjects, max_msgs_per_subject=1, allow_direct=True)
            )

    def _subject(self, folder: str, name: str) -> str:
        return f"{self._before}.in.{_written(folder)}.{_written(name)}"


def _written(name: str) -> str:
    return name.replace(".", ":")


def _plain(name: str) -> str:
    return name.replace(":", ".")

"""A connection to NATS: its client lives in an event loop, which has a thread. Calls wait for an answer a while."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError

from fleet.data.streams.contract import ANSWER_S, StreamUrl
from fleet.errors import UsageError

T = TypeVar("T")
_TRIES = {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0.1}
"""Whoever asks has more patience, and tries again."""


class NatsConnection:
    """Connected from `connect` to `close`. From any thread, one at a time."""

    def __init__(self, url: StreamUrl) -> None:
        self._url = url
        self.client: Any = None
        self.js: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fleet-nats", daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """Whether it was not lost, as far as is known."""
        return self.client is not None and bool(self.client.is_connected)

    def connect(self) -> None:
        """Connect to one server of the list; what was connected before is left."""
        self.do(self._connect())

    async def _connect(self) -> None:
        async def told(_: Exception) -> None:
            """What matters is raised by the call that needs it."""

        login = f"{self._url.login}@" if self._url.login else ""
        servers = [f"nats://{login}{host}" for host in self._url.hosts.split(",")]
        client: Any = Client()
        try:
            await client.connect(servers, error_cb=told, connect_timeout=2, **_TRIES)
        except BaseException:
            await client.close()  # it may have a socket
            raise
        self.client, self.js = client, client.jetstream(timeout=ANSWER_S)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in the loop's thread; ConnectionError where no server answers, NotFoundError if nothing is there."""
        asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return asked.result(4 * ANSWER_S)
        except NotFoundError:
            raise
        except APIError as error:
            raise ConnectionError(f"NATS refused: {error.description}") from error
        except (NatsError, OSError, TimeoutError) as error:
            asked.cancel()
            if "authorization violation" in str(error).lower():
                raise UsageError(
                    f"{self._url}: the broker refuses the user or the password; give nats://USER:PASSWORD@HOST:PORT/..."
                ) from error
            raise ConnectionError(f"no NATS server answers ({str(error) or type(error).__name__})") from error

    def close(self) -> None:
        """Leave; idempotent."""
        if self._loop.is_closed():
            return
        if self.client is not None:
            with suppress(ConnectionError):
                self.do(self.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

"""Redis as a place for batches: a hash for each folder, whose fields are put once (HSETNX).

fleet:NAME:head      the head
fleet:NAME:folders   a set: the folders
fleet:NAME:in:FOLDER a hash: values by name
fleet:NAME:news      a channel: something was added
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import redis

from fleet.data.streams.contract import ANSWER_S, StreamUrl
from fleet.errors import UsageError
from fleet_tools.sinks.contract import Store

T = TypeVar("T")


class RedisStore(Store):
    """One connection for calls, another for news."""

    most_bytes = 8 << 20  # Redis serves nobody else meanwhile

    def __init__(self, url: StreamUrl) -> None:
        self._before, number = f"fleet:{url.name}:", dict(url.options).get("db", "0")
        if not number.isdecimal():
            raise UsageError(f"{url}: db={number!r} is no number of a database of Redis; write ?db=0, or leave it out")
        login = f"{url.login}@" if url.login else ""
        self._client: Any = redis.Redis.from_url(
            f"{url.kind}://{login}{url.hosts}/{number}", socket_timeout=ANSWER_S, socket_connect_timeout=2.0
        )
        self._news: Any = None

    def put_head(self, blob: bytes) -> None:
        _asked(lambda: self._client.set(f"{self._before}head", blob))

    def head(self) -> bytes | None:
        found: bytes | None = _asked(lambda: self._client.get(f"{self._before}head"))
        return found

    def add(self, folder: str, name: str, blob: bytes) -> bool:
        asked = self._client.pipeline(transaction=False)
        asked.sadd(f"{self._before}folders", folder)
        asked.hsetnx(self._key(folder), name, blob)
        asked.publish(f"{self._before}news", b"")
        return bool(_asked(asked.execute)[1])

    def get(self, folder: str, name: str) -> bytes | None:
        found: bytes | None = _asked(lambda: self._client.hget(self._key(folder), name))
        return found

    def names(self, folder: str) -> list[str]:
        return [name.decode() for name in _asked(lambda: self._client.hkeys(self._key(folder)))]

    def folders(self) -> list[str]:
        return [name.decode() for name in _asked(lambda: self._client.smembers(f"{self._before}folders"))]

    def remove(self, folder: str, names: list[str]) -> None:
        _asked(lambda: self._client.hdel(self._key(folder), *names))
        if not self.names(folder):
            _asked(lambda: self._client.srem(f"{self._before}folders", folder))

    def wait(self, timeout_s: float) -> None:
        began = time.monotonic()
        try:
            if self._news is None:
                self._news = self._client.pubsub()
                self._news.subscribe(f"{self._before}news")
                return  # what came before is looked for once more
            self._news.get_message(timeout=timeout_s)
        except redis.exceptions.RedisError:  # whoever asks for a batch says what is wrong
            self._news = None
            time.sleep(max(0.0, began + timeout_s - time.monotonic()))

    def close(self) -> None:
        with suppress(redis.exceptions.RedisError):
            if self._news is not None:
                self._news.close()
            self._client.close()

    def _key(self, folder: str) -> str:
        return f"{self._before}in:{folder}"


def _asked(call: Callable[[], T]) -> T:
    try:
        return call()
    except redis.exceptions.AuthenticationError as error:
        raise OSError(f"Redis refuses the user or the password ({error}); give redis://USER:PASSWORD@...") from error
    except redis.exceptions.ResponseError as error:
        raise OSError(f"Redis refuses: {error}") from error
    except redis.exceptions.RedisError as error:
        raise ConnectionError(f"no Redis server answers ({error})") from error

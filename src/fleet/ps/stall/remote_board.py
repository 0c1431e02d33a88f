"""A worker's way to the notes on server 0, over a connection of its own."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import TimeoutError as LateError
from typing import Any

from fleet.errors import CommunicationError, FleetError, MovedError
from fleet.jobfiles.terms import own_term
from fleet.observe.stall.watch import Board
from fleet.ps.proto import ps_pb2
from fleet.ps.wire.transport import Transport

LIMIT_S = 3.0
RETRY_S = 0.05
# How many workers may look for an answer of server 0 within RETRY_S.
NUM_QUICK = 50

Act = ps_pb2.BoardRequest.Act


class RemoteBoard(Board):
    """One worker's way to the board. `connect` makes a transport to server 0, whichever that is now."""

    def __init__(self, connect: Callable[[], Transport], worker: int, num_workers: int) -> None:
        self._connect = connect
        self._transport: Transport | None = None
        self._worker = worker
        self._retry_s = RETRY_S * max(1.0, num_workers / NUM_QUICK)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def put(self, key: str, value: str, limit_s: float | None = None) -> None:
        self._ask([key], Act.PUT, value, limit_s=limit_s or LIMIT_S)

    def put_first(self, key: str, value: str) -> str:
        return self._ask([key], Act.PUT_FIRST, value)[key]

    def get(self, key: str) -> str | None:
        return self._ask([key]).get(key)

    def get_all(self, keys: Iterable[str]) -> dict[str, str]:
        return self._ask(list(keys))

    def wait(self, keys: Sequence[str], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while len(self._ask(keys)) < len(set(keys)) and time.monotonic() < deadline:
            time.sleep(self._retry_s)

    def count(self, key: str, more: int) -> int:
        return int(self._ask([key], Act.ADD, number=more)[key])

    def _ask(
        self,
        keys: Sequence[str],
        act: ps_pb2.BoardRequest.Act = Act.READ,
        text: str = "",
        number: int = 0,
        limit_s: float = LIMIT_S,
    ) -> dict[str, str]:
        caller = ps_pb2.Caller(worker=self._worker, term=own_term())
        header = ps_pb2.BoardRequest.Header(caller=caller, act=act, keys=keys, text=text, number=number)
        if self._transport is None:
            self._transport = self._connect()
        try:
            return asked(self._transport, header, limit_s)
        except CommunicationError as error:
            if isinstance(error, MovedError) or not error.is_answer:  # the next attempt looks for where server 0 is
                self.close()
            raise CommunicationError(str(error)) from None


def asked(transport: Transport, header: ps_pb2.BoardRequest.Header, limit_s: float) -> dict[str, str]:
    """The notes that a server answers with; CommunicationError if it does not answer."""
    try:
        reply: Any = transport.call("Board", header, (), limit_s).result(limit_s + 1.0)[0]
    except (CommunicationError, MovedError):
        raise
    except (FleetError, LateError) as error:
        raise CommunicationError(f"server {transport.endpoint} cannot be asked: {error!r}") from error
    return dict(reply.notes)

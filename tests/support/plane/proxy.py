"""A network that loses connections: a TCP proxy before a server, which cuts each connection after some bytes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from fleet.net import LOOPBACK, Endpoint

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset, as a machine that forgot the connection does


@dataclass(frozen=True)
class Cut:
    """Ends a connection once so many bytes went up (to the server) or down (to the worker)."""

    direction: Literal["up", "down"]
    num_bytes: int


class CuttingProxy:
    """Listens on a port of its own and passes bytes to `target`; `next_cut()` says how each connection will end."""

    def __init__(self, target: Endpoint, next_cut: Callable[[], Cut | None]) -> None:
        self._target = target
        self._next_cut = next_cut
        self._listener = socket.create_server((LOOPBACK, 0))
        self.endpoint = Endpoint(LOOPBACK, self._listener.getsockname()[1])
        self.num_cuts = 0
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """End everything; returns when no thread is left."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.go_on()
        self.cut_all()
        for thread in self._threads:
            thread.join()

    def hold(self) -> None:
        """Pass nothing on from now on, as where a firewall swallows packets."""
        self._goes_on.clear()

    def go_on(self) -> None:
        """Pass on what has been held, and what comes."""
        self._goes_on.set()

    def cut_all(self) -> None:
        """Cut every connection now."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((self._target.host, self._target.port), 5)
            except OSError:
                near.close()
                continue
            cut = self._next_cut()
            pair = (near, far)
            with self._lock:
                self._open.update(pair)
            ended = threading.Barrier(2, action=lambda pair=pair: self._close(pair))  # type: ignore[misc]
            for source, sink, direction in ((near, far, "up"), (far, near, "down")):
                budget = cut.num_bytes if cut is not None and cut.direction == direction else None
                thread = threading.Thread(target=self._pass, args=(source, sink, budget, pair, ended))
                self._threads.append(thread)
                thread.start()

    def _pass(
        self,
        source: socket.socket,
        sink: socket.socket,
        budget: int | None,
        pair: tuple[socket.socket, socket.socket],
        ended: threading.Barrier,
    ) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._goes_on.wait()
                part = data if budget is None else data[:budget]
                sink.sendall(part)
                if budget is not None:
                    budget -= len(part)
                    if budget == 0:
                        with self._lock:
                            self.num_cuts += 1
                        break
        for end in pair:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)
        ended.wait()

    def _close(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._open.difference_update(pair)
        for end in pair:
            end.close()


@contextmanager
def cutting(target: Endpoint, next_cut: Callable[[], Cut | None]) -> Iterator[CuttingProxy]:
    """A proxy before a server."""
    proxy = CuttingProxy(target, next_cut)
    try:
        yield proxy
    finally:
        proxy.close()

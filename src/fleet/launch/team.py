"""The launchers of a job's machines, joined by open connections, so that they fail together and end together.

`done` says that a machine's workers have finished, `failed` that one of its processes failed; a connection that
closes before the end says that a machine is gone. So no machine waits for one that will not come back. The host relays:
every other launcher (a guest) has one connection, to the host. `Team` itself is the team of a single machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

from fleet.errors import CommunicationError
from fleet.launch.job_token import JobToken
from fleet.launch.messages import AllDone, Line, NodeFailed, Offer


class Team:
    """The launchers of a job, seen from one of them. This one is alone: all are done when it is."""

    def __init__(self, token: JobToken, offers: tuple[Offer, ...] = (), node_index: int = 0) -> None:
        self.token = token
        """That of the job: the same on every machine."""
        self.offers = offers
        self.node_index = node_index
        self._news: SimpleQueue[Any] = SimpleQueue()

    def listen(self, news: SimpleQueue[Any]) -> None:
        """From now on put AllDone, and NodeFailed for every failure elsewhere, into `news`."""
        self._news = news

    def done(self) -> None:
        """Tell the others that this machine's workers have finished."""
        self._news.put(AllDone())

    def failed(self, failure: NodeFailed) -> None:
        """Tell the others that a process of this machine failed."""

    def close(self) -> None:
        """Leave the team."""


class _ConnectedTeam(Team):
    """Reads every line in a thread of its own and turns what comes into news."""

    def __init__(self, token: JobToken, offers: tuple[Offer, ...], node_index: int, lines: Mapping[int, Line]) -> None:
        super().__init__(token, offers, node_index)
        self._lines = dict(lines)
        self._is_over = threading.Event()
        """The job has ended, well or badly: from now on a connection may close."""
        self._readers: list[threading.Thread] = []

    def listen(self, news: SimpleQueue[Any]) -> None:
        super().listen(news)
        for node, line in self._lines.items():
            line.notice_dead_machines()
            reader = threading.Thread(target=self._read, args=(node, line), name=f"node-{node}", daemon=True)
            reader.start()
            self._readers.append(reader)

    def _read(self, node: int, line: Line) -> None:
        try:
            while True:
                self._hear(node, line.receive())
        except CommunicationError:
            if not self._is_over.is_set():
                where = f"machine {node} ({self.offers[node].host})"
                gone = NodeFailed(f"{where} is gone: its fleetrun ended or the network broke", 1, time.time())
                self._hear(node, gone.to_json())

    def _hear(self, node: int, message: dict[str, Any]) -> None:
        raise NotImplementedError

    def _tell(self, message: dict[str, Any], but: int | None = None) -> None:
        for node, line in self._lines.items():
            if node != but:
                line.send(**message)

    def failed(self, failure: NodeFailed) -> None:
        self._is_over.set()
        self._tell(failure.to_json())

    def close(self) -> None:
        self._is_over.set()
        for line in self._lines.values():
            line.close()
        for reader in self._readers:
            reader.join(timeout=5)


class GuestTeam(_ConnectedTeam):
    """A launcher whose one line goes to the host."""

    def __init__(
        self, token: JobToken, offers: tuple[Offer, ...], node_index: int, host_index: int, line: Line
    ) -> None:
        super().__init__(token, offers, node_index, {host_index: line})

    def done(self) -> None:
        self._tell({"say": "done"})

    def _hear(self, node: int, message: dict[str, Any]) -> None:  # noqa: ARG002
        if message.get("say") == "failed":
            self._is_over.set()
            self._news.put(NodeFailed.from_json(message))
        elif message.get("say") == "all done":
            self._is_over.set()
            self._news.put(AllDone())


class HostTeam(_ConnectedTeam):
    """The launcher at the meeting point: counts who is done and passes failures on."""

    def __init__(self, token: JobToken, offers: tuple[Offer, ...], node_index: int, lines: Mapping[int, Line]) -> None:
        super().__init__(token, offers, node_index, lines)
        self._done: set[int] = set()
        self._lock = threading.Lock()

    def done(self) -> None:
        self._count(self.node_index)

    def _hear(self, node: int, message: dict[str, Any]) -> None:
        if message.get("say") == "done":
            self._count(node)
        elif message.get("say") == "failed":
            self._is_over.set()
            failure = NodeFailed.from_json(message)
            self._tell(failure.to_json(), but=node)
            self._news.put(failure)

    def _count(self, node: int) -> None:
        with self._lock:
            self._done.add(node)
            if len(self._done) < len(self.offers):
                return
        self._is_over.set()
        self._tell({"say": "all done"})
        self._news.put(AllDone())

"""Which partitions each worker reads: divided by a list that all workers of a job have, for as long as it lives."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleet.data.shards.workers import Workers
from fleet.data.streams.contract import StreamUrl
from fleet.errors import UsageError
from fleet_tools.streams.opening import made_anew

log = logging.getLogger(__name__)

Listed = Mapping[str, Mapping[str, Any]]
"""For each stream the `names` of its partitions, and when it was `made`, where the broker says that."""


class StreamPartitions:
    """The partitions of streams. Some that are added at the broker are nobody's, until the states of all are joined."""

    def __init__(self, urls: Sequence[StreamUrl], found: Listed, workers: Workers) -> None:
        """`found`: what the broker has now. Worker 0's counts, and a worker that is started again is told the same."""
        told = ", ".join(map(str, urls))
        self._urls, self._workers = urls, workers
        self._agreed: Listed = workers.compare({"streams": told}, "give all of them the same streams", found)
        self.known = {f"{url}/{name}": (url, name) for url in urls for name in self._agreed[str(url)]["names"]}
        """What a state may have, by path."""
        if len(self.known) < workers.num:
            raise UsageError(
                f"{told}: {len(self.known)} partitions for {workers.num} workers, and each is read by one; make more "
                "partitions, or start fewer workers"
            )
        self.listed = self._agreed
        self._refuse_made_anew(found, self._agreed)
        self._tell(self._paths(found) - self.known.keys())

    def own(self) -> list[tuple[StreamUrl, str]]:
        """This worker's: partition `p` of all belongs to worker `p % workers`."""
        paths = [(url, name) for url in self._urls for name in self.listed[str(url)]["names"]]
        return paths[self._workers.index :: self._workers.num]

    def joined(self, lists: Iterable[Listed]) -> Listed:
        """The states of all workers are joined, so partitions may be divided anew; UsageError if they do not fit."""
        first, *others = lists
        if any(other != first for other in others):
            raise UsageError(
                "the states of the workers have different lists of partitions, so some may be read twice or by nobody; "
                "load states that were saved together, or begin again without them"
            )
        self._refuse_made_anew(self._agreed, first)
        return self._agreed

    def take(self, listed: Listed, paths: Iterable[str], remedy: str) -> None:
        """Go on with the list of a state, which has positions in `paths`."""
        self._refuse_made_anew(self._agreed, listed)
        listed = self._agreed if self._workers.num == 1 else listed
        if gone := sorted({*paths, *self._paths(listed)} - self.known.keys()):
            raise UsageError(f"the state has a position in {gone[0]}, and there is no such partition; {remedy}")
        self.listed = listed
        self._tell(self.known.keys() - self._paths(listed))

    def _paths(self, listed: Listed) -> set[str]:
        return {f"{url}/{name}" for url, one in listed.items() for name in one["names"]}

    def _refuse_made_anew(self, now: Listed, before: Listed) -> None:
        for url, one in before.items():
            if now[url]["made"] != one["made"]:
                raise made_anew(url)

    def _tell(self, more: set[str]) -> None:
        if more:
            log.warning(
                "%s came after this job had divided the partitions, and nobody reads it; a new job that loads the "
                "states of all workers, as fleet.Checkpoint does, reads it too",
                ", ".join(sorted(more)),
            )

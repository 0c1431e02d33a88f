"""One request to forget: folders are cleaned, what a job has is waited for, and everything is searched."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.errors import UsageError
from fleet.stream.sinks import open_sink
from fleet_tools.forgetting.ids import Keys
from fleet_tools.forgetting.patterns import Patterns
from fleet_tools.forgetting.report import ForgetReport, SearchedPlace
from fleet_tools.forgetting.saves import parent_of, saves_below
from fleet_tools.forgetting.searching import search
from fleet_tools.forgetting.streams import clear_caches, forget_in_stream, is_purged, refuse_live, streams_below

AGAIN_S = 1.0
"""How soon a place in which something was found is searched again: replicas may still be changing over."""

_log = logging.getLogger(__name__)


class Cleaner:
    """Forgets keys of some tables (None: of all) in folders, and proves it."""

    def __init__(self, keys: Keys, tables: Collection[str] | None, folders: Sequence[Any]) -> None:
        self.report = ForgetReport(ids=len(keys))
        self._patterns = Patterns(keys, tables)
        self._folders = [Path(os.path.realpath(folder)) for folder in folders]
        self._rewritten: dict[Path, int] = {}

    def check(self) -> None:
        """UsageError in one line for a folder in which nothing is that could be cleaned, or that is in use."""
        for folder in self._folders:
            if not folder.is_dir():
                raise UsageError(f"{folder} is no folder; give what was saved or published")
            if any(folder.glob("server-*/journal-*.log")) or any(folder.glob("journal-*.log")):
                raise UsageError(
                    f"{folder} is what servers of a durable job keep: start the job again, and have it call "
                    "fleet.forget(), which sees to this folder by itself"
                )
            has_caches = any(folder.rglob("*.base")) or any(folder.rglob("*.base-draft"))
            if not (has_caches or streams_below(folder) or saves_below(folder)) and any(folder.iterdir()):
                raise UsageError(
                    f"nothing was saved in {folder}: it has no checkpoint, inference copy, stream or cache of "
                    "fleet-serve; give the folder that was saved"
                )

    def remember(self, rows: Mapping[str, NDArray[np.float32]]) -> None:
        """Search for these rows, too."""
        for one in rows.values():
            self._patterns.add_rows(one)

    def rewrite(self, own_streams: Sequence[Path] = ()) -> None:
        """Write everything in the folders anew, but for streams that the job itself sees to."""
        for folder in self._folders:
            streams = [home for home in streams_below(folder) if home not in own_streams]
            for home in streams:
                refuse_live(home)
            done = sum(forget_in_stream(home, self._patterns) for home in streams)
            changed: set[Path] = set()
            for save in saves_below(folder, without=own_streams):
                is_on_changed = (parent := parent_of(save)) is not None and parent in changed
                if (num := save.forget(self._patterns, is_on_changed)) or is_on_changed:
                    changed.add(save.folder)
                    done += num
            removed, used = clear_caches(folder)
            if used:
                _log.info(
                    "%d files of %s are in use by fleet-serve, which lets go once it has another base", used, folder
                )
            self._rewritten[folder] = self._rewritten.get(folder, 0) + done + removed

    def clean(self, own: Sequence[Path], published: Callable[[], tuple[str, int]], deadline: float) -> None:
        """Behind the servers' change: clean, wait for what servers let go of, and search until nothing is found.

        `own`: folders that the job keeps. `published`: waits for journals; where servers publish, and what number of
        times they have forgotten.
        """
        url, forgotten = published()
        home = [] if not url else [Path(os.path.realpath(open_sink(url).home))]
        while url and not is_purged(url, forgotten) and time.monotonic() < deadline:
            time.sleep(AGAIN_S / 5)
        while True:
            self.rewrite(home)
            self.search([*(Path(os.path.realpath(one)) for one in own), *home])
            if self.report.is_clean or time.monotonic() > deadline:
                break
            time.sleep(AGAIN_S)
        if not self.report.is_clean:
            _log.error("fleet.forget(): not everything is forgotten: %s", self.report)

    def search(self, more: Sequence[Path] = ()) -> ForgetReport:
        """Look into all folders, and into others."""
        report, patterns = self.report, self._patterns
        report.places = []
        for folder in dict.fromkeys([*self._folders, *more]):
            place = SearchedPlace(str(folder), rewritten=self._rewritten.get(folder, 0))
            search(folder, patterns, place)
            report.places.append(place)
        report.searched_rows, report.unsearchable_rows = patterns.num_rows, patterns.num_unsearchable
        return report

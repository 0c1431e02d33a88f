"""Damages what a server or its copy has on its disk, and demands that it is found, and mended from the other.

    PYTHONPATH=tests python tests/fuzz/fuzz_copies.py [how many [processes]]

Either the process runs, and its scrub looks: every file that is not what was written is found. What the process knows
it writes anew; where rows are lost a server gives way to its copy, and a copy is filled again. Or it was ended before,
and is started again: it refuses, or begins with what its journal says. Rows that no record behind the snapshot touches
are not read then; if these are damaged its scrub finds it, as in a process that runs. Whatever happens, server and copy
have in the end what the server had before, and their files are whole.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import numpy as np

from fleet.errors import FleetError
from fleet.ps.durable.recovery import recover
from fleet.ps.journal import writer
from fleet.ps.journal.files import MARK_NAME, runs_path, segments_in, snapshots_in
from fleet.ps.journal.verify import verify
from fleet.ps.server.service import Service
from fleet.ps.steps.state import ServerState
from fuzz.fuzz_journals import exchange_blocks, exchange_rows, extend, flip, remove, swap, truncate, zero
from support.durable.pair import LIMIT_S, Pair, digest, durability_of
from support.processes import wait_until

NUM_DAMAGED = 1000
AT_ONCE = 50
"""So many times one pair is damaged and mended, one after the other."""
OF_RECORDS = (flip, truncate, extend, swap, zero, remove)
OF_ROWS = (flip, truncate, extend, swap, zero, exchange_rows, exchange_blocks)
Outcomes = Counter[tuple[str, str, str]]


class Damage:
    """One time: which process is damaged, in which of its files, and how."""

    def __init__(self, pair: Pair, number: int) -> None:
        self._pair, self._rng = pair, random.Random(number)
        self._is_copy, self._runs = bool(number % 2), bool(number // 2 % 3)
        self._name = pair.name(is_copy=self._is_copy)
        self._kept = pair.folder(self._name)

    @property
    def _service(self) -> Service:
        return self._pair.copy if self._is_copy else self._pair.server

    def make(self, seed: int) -> tuple[str, str, str]:
        """Damage and mend; whose files, how, and what came of it. AssertionError if anything was wrong."""
        pair, rng = self._pair, self._rng
        pair.train(np.random.default_rng(seed), rng.randrange(1, 4))
        pair.settle()
        if rng.random() < 0.5 or (self._is_copy and not snapshots_in(self._kept)):
            pair.snapshot(self._service)
            pair.train(np.random.default_rng(seed + 1), rng.randrange(2))
            pair.settle()
        wanted = digest(pair.server.state)
        how, outcome = self._while_it_runs() if self._runs else self._while_it_is_ended(wanted)
        pair.settle()
        assert digest(pair.server.state) == wanted, "the server has something else than before"
        assert digest(pair.copy.state) == wanted, "the copy has something else than its server had"
        for service in (pair.server, pair.copy):
            own = durability_of(service)
            own.scrub.look()  # what a recovery has not read
            pair.settle()
            left = verify(own.folder, least=own.journal.lsn).damaged
            assert not left, f"{how}, {outcome}, and yet: {left}"
            assert not own.scrub.damaged
        return "copy" if self._is_copy else "server", how, outcome

    def _while_it_runs(self) -> tuple[str, str]:
        service = self._service
        scrub = durability_of(service).scrub
        how, what = self._harm(service)
        found = scrub._damage()
        if (how, what) == ("exchange_rows", "rows"):  # they are open, and nobody asks for their names
            assert not found
            self._pair.snapshot(service)
            return how, "harmless"
        if how == "remove" and not found:  # a snapshot, and all records are there; or records behind a snapshot
            assert self._recovered() == digest(service.state)
            return how, "harmless"
        if (how, what) == ("swap", "rows") and not found:  # two whole files, whose names do not say which they are
            self._is_refused_by_readers(service)
            self._pair.snapshot(service)  # its links do
            found = scrub._damage()
        assert found, f"nothing was found of {how} in {what}"
        assert all(str(path) in why and "\n" not in why for path, why in found.items()), found
        return how, self._mended(service)

    def _while_it_is_ended(self, wanted: str) -> tuple[str, str]:
        pair = self._pair
        pair.end(self._name)
        how, what = self._harm(None)
        try:
            service = pair.begin(self._name)
        except FleetError:
            if self._is_copy:
                raise
            pair.promote()
            return how, "refused"
        if not self._is_copy:
            assert service.standby is not None
            ended = service.standby.ended
            wait_until(
                lambda: ended.is_set() or pair.is_settled(), LIMIT_S, "the server and its copy to find each other"
            )
            if ended.is_set():  # its copy had more
                pair.promote()
                return how, "ended"
        pair.settle()
        if "rows" in what and durability_of(service).scrub._damage():  # nobody has read these rows yet
            return how, self._mended(service)
        assert digest(service.state) == wanted, "a process began with something else than it had"
        return how, "began"

    def _mended(self, service: Service) -> str:
        """Have a process look at its files, of which some are damaged; what came of it."""
        scrub = durability_of(service).scrub
        scrub.look()
        if self._is_copy:
            return "filled again"
        assert service.standby is not None
        assert service.standby.copies is not None
        if service.standby.copies.lost:
            assert service.standby.ended.wait(LIMIT_S)
            assert "its copy is to take" in service.standby.failure or "is to take its place" in service.standby.failure
            self._pair.promote()
            return "gave way"
        assert not scrub.damaged, scrub.damaged
        return "renewed"

    def _is_refused_by_readers(self, service: Service) -> None:
        try:
            digest(service.state)
        except OSError:
            return
        raise AssertionError("rows were read from a file that is another")

    def _recovered(self) -> str:
        """What a recovery would find in the folder."""
        state = ServerState(0, threading.RLock())
        with tempfile.TemporaryDirectory() as folder:
            left = shutil.copytree(self._kept, Path(folder) / "left")
            recover(state, left)
            return digest(state)

    def _harm(self, service: Service | None) -> tuple[str, str]:
        """Damage files of one kind; how, and of which."""
        rng, folder = self._rng, self._kept
        records = [path for _, path in (*snapshots_in(folder), *segments_in(folder))]
        kinds = {"journal": records, "mark": [folder / MARK_NAME]}
        if snapshots_in(folder):
            kinds["linked rows"] = sorted(runs_path(snapshots_in(folder)[-1][1]).glob("*"))
        if service is not None:
            kinds["rows"] = service.state.held.files_of_rows()
        what = rng.choice([kind for kind, files in kinds.items() if files])
        files = kinds[what]
        try:
            before = {path: path.read_bytes() for path in files}
        except FileNotFoundError:  # of rows: it was merged with others meanwhile
            return self._harm(service)
        while {path: path.read_bytes() for path in files if path.exists()} == before:
            harm = rng.choice(OF_ROWS if "rows" in what else OF_RECORDS if what == "journal" else (flip, swap, zero))
            harm(rng, files)
        return harm.__name__, what


def fuzz(first: int, num: int) -> Outcomes:
    """Damage and mend so many times. AssertionError with the number of one that was not mended."""
    outcomes: Outcomes = Counter()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-copies-", dir=_fast())))
        given = {"FLEET_TABLE_DIR": str(folder / "tables"), "FLEET_SCRUB_RATE": "100000"}
        stack.enter_context(mock.patch.dict(os.environ, given))
        stack.enter_context(mock.patch.object(writer, "SEGMENT_BYTES", 300_000))
        pair = stack.enter_context(Pair(folder))
        for number in range(first, first + num):
            try:
                outcomes[Damage(pair, number).make(10 * number)] += 1
            except Exception as error:
                raise AssertionError(f"number {number}: {type(error).__name__}: {error}") from error
    return outcomes


def _fast() -> str | None:
    """A folder in memory, where there is one: syncing what is to be damaged shows nothing."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _quiet() -> None:
    logging.getLogger("fleet").setLevel(logging.CRITICAL)


def main() -> None:
    """Say how often each harm had each outcome."""
    num = int(sys.argv[1]) if len(sys.argv) > 1 else NUM_DAMAGED
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
    outcomes: Outcomes = Counter()
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=_quiet) as pool:
        parts = range(0, num, AT_ONCE)
        for found in pool.map(fuzz, parts, [min(AT_ONCE, num - part) for part in parts]):
            outcomes += found
    for (whose, harm, outcome), count in sorted(outcomes.items()):
        print(f"{whose:7} {harm:16} {outcome:13} {count:5}")
    print(f"{outcomes.total()} times files were damaged: each time that was found, and mended from the other process")


if __name__ == "__main__":
    main()

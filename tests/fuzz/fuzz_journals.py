"""Damages journals in every way that a disk, a copy or a hand could, and lets a server recover from each.

    PYTHONPATH=tests python tests/fuzz/fuzz_journals.py [how many]

It either refuses, naming the file and the place, and touches nothing; or it cuts what nobody finished writing off the
end of the last file, and has exactly the state of that record. It never has another. Half of the time power was lost
since: then records at the end that were not synced may be missing, too. Files of rows are harmed as well; a server that
does not need what is wrong in one may begin, and names it when the rows are read. What a server refuses, or would read
wrong, a look at its files without a server (`fleetrun --verify-journal`, a scrub) finds.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from fleet.ps.durable import durability
from fleet.ps.durable.recovery import recover
from fleet.ps.journal import mark, writer
from fleet.ps.journal.files import MARK_NAME, segments_in, snapshots_in, view_of
from fleet.ps.journal.mark import read_mark
from fleet.ps.journal.records import JournalError, read
from fleet.ps.journal.verify import verify
from fleet.ps.server.service import Service
from fleet.ps.steps.state import ServerState
from support.durable.rows_on_disk import leave, runs_in
from support.durable.server_state import everything
from support.parity.training import in_threads, joined, served, strategy
from support.processes import wait_until

NUM_JOURNALS = 1000
MOST_STEPS = 500
PAGE = 4096
_SAYS_WHERE = re.compile(
    r"offset \d+|missing before|is missing|ends with record \d+|belongs to another|is no snapshot|is damaged: |"
    "cannot be linked"
)


class RowsError(Exception):
    """Rows that cannot be read, of a server that has begun."""


@dataclass(frozen=True)
class Journal:
    """What a server left, and every state that a cut of its last file can lead to."""

    name: str
    folder: Path
    states: dict[int, Any]
    """By the number of the last record; the greatest is that of the whole journal."""
    has_rows: bool = False
    """Whether its snapshot links to files of rows, which are what is harmed."""

    @property
    def last(self) -> int:
        return max(self.states)


def journals(folder: Path) -> list[Journal]:
    """Of synchronous and other jobs, with a snapshot and without."""
    found = []
    for mode in ("sync", "async"):
        for what, snapshot_bytes in (("no snapshot", 1 << 30), ("an old one", 4_000), ("a fresh one", 0)):
            name = f"{mode}, {what}"
            left, history = _leave(folder / name.replace(" ", "_"), mode, snapshot_bytes)
            first, _ = segments_in(left)[-1]
            found.append(Journal(name, left, dict(_states(history, folder / "cut", first - 1))))
    left, _ = leave(folder / "rows_on_a_disk")
    again = shutil.copytree(left, folder / "again")
    return [*found, Journal("rows on a disk", left, dict([recovered(again)]), has_rows=True)]


def _leave(folder: Path, mode: str, snapshot_bytes: int) -> tuple[Path, Path]:
    """The folder of a server that died in the middle of training, and another with all its records and no snapshot.

    With `snapshot_bytes` 0 it died when a snapshot was just complete, whose parts are of different moments.
    """
    num_workers = 2 if mode == "sync" else 1
    kept, left, history = (folder / name for name in ("kept", "left", "history"))
    has_snapshot = snapshot_bytes < 1 << 20
    is_over: list[bool] = []
    together = threading.Barrier(
        num_workers, lambda: is_over.append(bool(snapshots_in(kept)) if not snapshot_bytes else len(is_over) == 11)
    )

    def train(index: int) -> None:
        with joined(endpoints, index, num_workers, strategy=strategy(mode)) as one:
            for step in range(MOST_STEPS):
                one.train(step, step + 1)
                one.worker.policy.flush()
                together.wait(60)
                if is_over[-1]:
                    break

    with _small_files(snapshot_bytes), _nothing_dropped():
        service = Service(journal=(kept, "OS"))
        with served([service]) as (endpoints, _):
            in_threads(*(partial(train, index) for index in range(num_workers)))
            if has_snapshot:
                wait_until(lambda: bool(snapshots_in(kept)), 60, "a snapshot")
            assert service.core.durability is not None
            with service.core.durability.snapshotting:
                shutil.copytree(kept, left, ignore=shutil.ignore_patterns("lock"))
    shutil.copytree(left, history, ignore=shutil.ignore_patterns("snapshot-*", MARK_NAME))
    snapshots, segments = snapshots_in(left), segments_in(left)
    assert bool(snapshots) == has_snapshot
    for (_, path), (following, _) in pairwise(segments):
        if snapshots and following <= snapshots[-1][0] + 1:
            path.unlink()
    return left, history


@contextmanager
def _nothing_dropped() -> Iterator[None]:
    with mock.patch.object(writer.Journal, "drop_before"):
        yield


@contextmanager
def _small_files(snapshot_bytes: int) -> Iterator[None]:
    """Segments of a few records, and snapshots that are written in small portions while training goes on."""
    with (
        mock.patch.object(writer, "SEGMENT_BYTES", 3_000),
        mock.patch.object(durability, "SNAPSHOT_BYTES", snapshot_bytes),
        mock.patch.object(durability, "portions", _slow_portions),
    ):
        yield


def _slow_portions(_holdings: object, _table: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, 64, 4):
        yield begin, begin + 4
        time.sleep(0.002)


def _states(folder: Path, cut: Path, least: int) -> Iterator[tuple[int, Any]]:
    """The state after each record of a journal, from number `least` on."""
    for _, path in segments_in(folder):
        for record in read(path, view_of(path)):
            if record.lsn < least:
                continue
            shutil.copytree(folder, cut)
            for later, file in segments_in(cut):
                if later > record.lsn:
                    file.unlink()
            with (cut / path.name).open("r+b") as last:
                last.truncate(record.end)
            found = recovered(cut)
            assert found[0] == record.lsn
            yield found
            shutil.rmtree(cut)


def recovered(folder: Path) -> tuple[int, Any]:
    """The last record of a journal, and the state that it leads to; None: one without tables."""
    state = ServerState(0, threading.RLock())
    found = recover(state, folder)
    try:
        return found.lsn, None if state.holdings is None else everything(state)
    except OSError as error:
        raise RowsError(error.strerror) from None


# Ways to do harm: each changes files of a folder.


def flip(rng: random.Random, files: list[Path]) -> None:
    def change(data: bytearray) -> None:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)

    _change(rng.choice(files), change)


def truncate(rng: random.Random, files: list[Path]) -> None:
    # Half of the time the last file, where it may be what a kill left.
    path = files[-1] if rng.random() < 0.5 else rng.choice(files)
    with path.open("r+b") as file:
        file.truncate(rng.randrange(path.stat().st_size))


def extend(rng: random.Random, files: list[Path]) -> None:
    path = files[-1] if rng.random() < 0.5 else rng.choice(files)
    data = path.read_bytes()
    begin, size = rng.randrange(len(data)), rng.randrange(1, 200)
    more = rng.choice([rng.randbytes(size), bytes(size), data[begin : begin + size], data[: rng.choice([size, None])]])
    path.write_bytes(data + more)


def swap(rng: random.Random, files: list[Path]) -> None:
    if rng.random() < 0.3:
        first, second = rng.choice(files), rng.choice(files)
        one, other = first.read_bytes(), second.read_bytes()
        first.write_bytes(other)
        second.write_bytes(one)
        return

    def change(data: bytearray) -> None:
        size = rng.randrange(1, max(2, len(data) // 3))
        first = rng.randrange(len(data) - 2 * size + 1)
        second = rng.randrange(first + size, len(data) - size + 1)
        one, other = data[first : first + size], data[second : second + size]
        data[first : first + size], data[second : second + size] = other, one

    _change(rng.choice(files), change)


def swap_records(rng: random.Random, files: list[Path]) -> None:
    path = rng.choice([path for path in files if path.name != MARK_NAME])
    data = path.read_bytes()
    records = [data[record.begin : record.end] for record in read(path, memoryview(data))]
    first, second = rng.randrange(len(records)), rng.randrange(len(records))
    records[first], records[second] = records[second], records[first]
    path.write_bytes(b"".join(records))


def zero(rng: random.Random, files: list[Path]) -> None:
    def change(data: bytearray) -> None:
        begin = rng.randrange(len(data))
        size = min(len(data) - begin, rng.choice([1, 8, 64, 512, len(data)]))
        data[begin : begin + size] = bytes(size)

    path = files[-1] if rng.random() < 0.5 else rng.choice(files)
    _change(path, change)


def remove(rng: random.Random, files: list[Path]) -> None:
    """One file, or the last ones."""
    if rng.random() < 0.5:
        rng.choice([path for path in files if path.name != MARK_NAME]).unlink()
        return
    segments = [path for _, path in segments_in(files[0].parent)]
    told = read_mark(files[0].parent)
    is_whole = told is not None and told.least == told.last
    most = len(segments) if is_whole else 1  # after a loss of power some may be gone
    for path in segments[len(segments) - rng.randrange(1, most + 1) :]:
        path.unlink()


def exchange_rows(rng: random.Random, files: list[Path]) -> None:
    """Two files of rows, of equal size where there are such."""
    by_size = defaultdict(list)
    for path in files:
        by_size[path.stat().st_size].append(path)
    one, two = rng.sample(rng.choice([same for same in by_size.values() if len(same) > 1] or [files]), 2)
    between = one.with_name("between")
    one.rename(between)
    two.rename(one)
    between.rename(two)


def exchange_blocks(rng: random.Random, files: list[Path]) -> None:
    """Two pages, of one file or of two."""
    one, two = rng.choice(files), rng.choice(files)
    pages = [(path, rng.randrange(path.stat().st_size // PAGE) * PAGE) for path in (one, two)]
    data = [path.read_bytes()[at : at + PAGE] for path, at in pages]
    for (path, at), page in zip(pages, reversed(data), strict=True):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(page)


Harms = tuple[Callable[[random.Random, list[Path]], None], ...]
HARMS: Harms = (flip, truncate, extend, swap, swap_records, zero, remove)
HARMS_OF_ROWS: Harms = (flip, truncate, extend, swap, exchange_rows, exchange_blocks, zero)


def _change(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def check(journal: Journal, number: int, folder: Path) -> tuple[str, str]:
    """Damage a copy of a journal and recover from it; what was done, and what came of it."""
    rng = random.Random(number)
    shutil.copytree(journal.folder, folder)
    if number % 2:
        _lose_power(folder)
    first = _contents(folder)
    files = [path for _, path in (*snapshots_in(folder), *segments_in(folder))]
    harms = HARMS_OF_ROWS if journal.has_rows else HARMS
    harm = harms[number // 2 % len(harms)]
    harm(rng, runs_in(folder) if journal.has_rows else [folder / MARK_NAME, *files])
    before = _contents(folder)
    changed = {name for name in first if before.get(name) != first[name]}
    found = verify(folder).damaged
    assert all(str(path) in why and "\n" not in why for path, why in found.items()), found
    try:
        lsn, state = recovered(folder)
    except (JournalError, RowsError) as error:
        text = str(error)
        assert changed, f"a journal that is whole was refused: {text}"
        assert not _is_cut(journal, first, before), f"a journal that was only cut was refused: {text}"
        assert any(name.rpartition("/")[2] in text for name in first) or str(folder) in text, (
            f"no file is named: {text}"
        )
        assert _SAYS_WHERE.search(text), f"no place is named: {text}"
        has_begun = isinstance(error, RowsError)
        is_left_alone = has_begun or _contents(folder) == before
        assert is_left_alone, f"it was refused, and changed: {text}"
        assert found, f"a look at the files has not found what recovery has: {text}"
        outcome = "found when read" if has_begun else "refused"
    else:
        assert lsn in journal.states, f"record {lsn} is not at the end of the last file"
        assert state == journal.states[lsn], f"the state is not that of record {lsn}"
        assert lsn == journal.last or changed, "something was cut off a journal that is whole"
        is_of_note = bool(changed) and (journal.has_rows or MARK_NAME in changed)
        assert bool(found) == is_of_note, f"a look at the files found {found} where {changed} has changed"
        outcome = "whole" if lsn == journal.last else "cut"
    finally:
        gc.collect()  # an error refers to tables, and these to many open files
    shutil.rmtree(folder)
    return harm.__name__, outcome


def _lose_power(folder: Path) -> None:
    """Let the mark be of the time before the machine was started last."""
    told = read_mark(folder)
    assert told is not None
    with mock.patch.object(mark, "_boot", return_value=b"another"):
        writing = mark.MarkWriter(folder)
        writing.write(told.last, told.synced)
        writing.close()


def _is_cut(journal: Journal, whole: dict[str, bytes], contents: dict[str, bytes]) -> bool:
    """Whether only the end of the last file is missing, and nothing of it that the snapshot or the mark knows of."""
    first, path = segments_in(journal.folder)[-1]
    left, data = contents.get(path.name), whole[path.name]
    if left is None or {**contents, path.name: data} != whole or left != data[: len(left)]:
        return False
    last = max((record.lsn for record in read(path, memoryview(data)) if record.end <= len(left)), default=first - 1)
    snapshots = [record.lsn for _, one in snapshots_in(journal.folder) for record in read(one, view_of(one))]
    told = mark.Mark(*mark._FORM.unpack(whole[MARK_NAME])[2:])
    return last >= max(*snapshots, told.least, 0)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fuzz(num_journals: int, folder: Path, first: int = 0) -> Counter[tuple[str, str]]:
    """Damage so many journals; how often each harm had each outcome. AssertionError with the number of a wrong one."""
    made = journals(folder)
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(first, first + num_journals):
        journal = made[number // (2 * len(HARMS)) % len(made)]
        try:
            outcomes[check(journal, number, folder / "damaged")] += 1
        except Exception as error:
            raise AssertionError(f"number {number} of {journal.name}: {type(error).__name__}: {error}") from error
    return outcomes


if __name__ == "__main__":
    logging.getLogger("fleet.ps.journal").setLevel(logging.ERROR)
    logging.getLogger("fleet.ps.journal.mark").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="fleet-journals-") as name:
        os.environ["FLEET_TABLE_DIR"] = f"{name}/tables"
        found = fuzz(int(sys.argv[1]) if len(sys.argv) > 1 else NUM_JOURNALS, Path(name))
    for (harm, outcome), count in sorted(found.items()):
        print(f"{harm:14} {outcome:8} {count:5}")
    print(f"{sum(found.values())} damaged journals: none recovered to a wrong state")

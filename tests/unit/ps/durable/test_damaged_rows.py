"""Sealed files of rows that are exchanged or damaged: refused by what they hold, whatever they are called."""

from __future__ import annotations

import gc
import random
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from fleet.ps.journal.records import JournalError
from fleet.ps.journal.verify import damage_of_rows, verify
from fleet.ps.server.service import Service
from support.durable.rows_on_disk import leave, runs_in
from support.durable.server_state import everything

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a server with rows on a disk has left, and what it knew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLEET_TABLE_DIR", str(tmp_path_factory.mktemp("tables")))
        yield leave(tmp_path_factory.mktemp("server"), shrinks=True)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Let the files of tables go that an error still refers to."""
    yield
    gc.collect()


@pytest.fixture
def folder(left: tuple[Path, Any], tmp_path: Path) -> Path:
    return shutil.copytree(left[0], tmp_path / "left")


def recovered(folder: Path) -> Any:
    service = Service(journal=(folder, "OS"))
    try:
        return everything(service)
    finally:
        service.close()


def swap(one: Path, two: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    two.rename(one)
    between.rename(two)


def test_what_is_whole_is_recovered(left: tuple[Path, Any], folder: Path) -> None:
    found = verify(folder)
    assert not found.damaged
    assert found.num_sealed == len(runs_in(folder)) > 20
    assert recovered(folder) == left[1]


def test_files_of_equal_size_that_were_exchanged_are_refused(folder: Path) -> None:
    by_size = defaultdict(list)
    for path in runs_in(folder):
        by_size[path.stat().st_size].append(path)
    pairs = [pair for same in by_size.values() for pair in combinations(same, 2)]
    for one, two in random.Random(1).sample(pairs, 4):
        swap(one, two)
        with pytest.raises(JournalError) as caught:
            recovered(folder)
        assert any(f"{path} (in use as" in str(caught.value) for path in (one, two))
        assert "is damaged: it is another file of rows, under this name" in str(caught.value)
        assert set(verify(folder).damaged) == {one, two}
        swap(one, two)
    assert not verify(folder).damaged


def test_a_damaged_file_is_named_and_read_wrong_by_nobody(folder: Path) -> None:
    """Where no record behind the snapshot needs its rows, it is found when they are: by a save, or a scrub."""
    rng = random.Random(2)
    for path in rng.sample(runs_in(folder), 4):
        data = path.read_bytes()
        changed = bytearray(data)
        place = rng.randrange(len(data))
        changed[place] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        why = damage_of_rows(path)
        assert why is not None
        assert str(path) in why
        assert "\n" not in why
        with pytest.raises(OSError, match=re.escape(str(path))):  # or from the test's own look at all rows
            recovered(folder)
        path.write_bytes(data)


def test_a_record_that_needs_a_damaged_file_is_refused_with_its_name(folder: Path) -> None:
    """The name is that of the job's folder, not of the link that the server uses."""
    path = max(runs_in(folder), key=lambda path: path.stat().st_size)
    flip = bytearray(path.read_bytes())
    flip[5000] ^= 1
    path.write_bytes(flip)
    said = rf"record \d+ of a journal cannot be made again: {re.escape(str(path))} \(in use as .*\) is damaged: block 0"
    with pytest.raises(JournalError, match=said):
        recovered(folder)


def test_a_file_that_is_cut_or_gone_is_refused(folder: Path) -> None:
    path = runs_in(folder)[3]
    data = path.read_bytes()
    for size in (0, 100, 4096, len(data) - 4096):
        path.write_bytes(data[:size])
        with pytest.raises(JournalError, match=str(path)):
            recovered(folder)
        assert path in verify(folder).damaged
    path.unlink()
    with pytest.raises(JournalError, match=str(path)):
        recovered(folder)

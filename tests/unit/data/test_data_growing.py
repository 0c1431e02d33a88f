"""fleet.data.files(follow=...): files are noticed as they come, and each is read once, by one worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import fleet
from fleet.data import Follow
from fleet.errors import NotSupportedError, UsageError
from support.data.numbered import SCHEMA, Lines, ids
from support.serving.readers import ThreadJob

pytestmark = pytest.mark.timeout(60)

QUICK = Follow(every_s=0.02)


@pytest.fixture
def alone() -> Iterator[None]:
    fleet.init()
    yield
    fleet.shutdown()


def put(folder: Path, name: str, rows: range) -> None:
    """A file that is renamed into place."""
    (folder / "writing.tmp").write_text("".join(f"{row}\n" for row in rows))
    os.rename(folder / "writing.tmp", folder / name)


def followed(folder: Path, **given: Any) -> Any:
    return fleet.data.files(folder, SCHEMA, 7, **{"follow": QUICK, "format": Lines(40), **given})


def test_files_are_read_as_they_come(tmp_path: Path, alone: None) -> None:
    put(tmp_path, "b", range(20))
    batches = followed(tmp_path)
    rows: list[int] = []
    for batch in batches:
        rows += ids(batch)
        if len(rows) == 14:  # the rest of b waits for more
            put(tmp_path, "a", range(20, 50))
        if len(rows) == 49:
            (tmp_path / "_DONE").touch()
    assert rows == list(range(50))
    (tmp_path / "_DONE").unlink()
    put(tmp_path, "c", range(50, 60))
    (tmp_path / "_DONE").touch()
    assert [row for batch in batches for row in ids(batch)] == list(range(50, 60)), "only what is new"


def test_a_file_that_was_only_opened_is_not_read_yet(tmp_path: Path, alone: None) -> None:
    (tmp_path / "a").touch()
    put(tmp_path, "b", range(14))
    rows: list[int] = []
    for batch in followed(tmp_path):
        rows += ids(batch)
        if len(rows) == 7:
            (tmp_path / "a").write_text("".join(f"{row}\n" for row in range(14, 28)))
        if len(rows) == 14:
            (tmp_path / "_DONE").touch()
    assert sorted(rows) == list(range(28))


def test_folders_with_files_of_the_same_names(tmp_path: Path, alone: None) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        put(folder, "part-0", range(10 * number, 10 * number + 10))
        (folder / "_DONE").touch()
    given = [*folders, tmp_path / "one" / "*"]  # what is named twice is read once
    batches = fleet.data.files(given, SCHEMA, 7, follow=QUICK, format=Lines(40))
    assert [row for batch in batches for row in ids(batch)] == list(range(20))


LEFT = """
import os, signal, sys, threading
import fleet
from fleet.data import Follow, Schema
fleet.init()
def followed():
    return fleet.data.files(sys.argv[1], Schema(label="y", columns=["y"]), 2, follow=Follow(every_s=0.02))
try:
    for batch in followed():
        print(batch.label.tolist())
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
except KeyboardInterrupt:
    print("interrupted")
loop = iter(followed())
print(next(loop).label.tolist())
"""


def test_a_script_ends_while_a_folder_is_watched(tmp_path: Path) -> None:
    """By an interrupt, and with a loop that is still open."""
    (tmp_path / "a").write_text("1\n2\n")
    command = [sys.executable, "-c", LEFT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=True)
    assert done.stdout.splitlines() == ["[1.0, 2.0]", "interrupted", "[1.0, 2.0]"]


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path, alone: None) -> None:
    """It is taken when two looks have found the same size."""
    path = tmp_path / "growing"
    path.write_text("0\n")
    stop = threading.Event()

    def grow() -> None:
        for row in range(1, 40):
            with path.open("a") as file:
                file.write(f"{row}\n")
            if stop.wait(0.01):
                return

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        batches = followed(tmp_path, follow=Follow(idle_s=0.5, every_s=0.1))
        assert [row for batch in batches for row in ids(batch)] == list(range(40))
    finally:
        stop.set()
        writer.join()


def test_any_number_of_workers_goes_on(tmp_path: Path) -> None:
    """2 -> 3 -> 1 workers; files come in between."""
    for part in range(8):
        put(tmp_path, f"part-{part}", range(100 * part, 100 * part + 100))

    def run(num_workers: int, stop_after: int | None, states: list[Any] | None) -> tuple[list[int], list[Any]]:
        def work(_: int) -> tuple[list[int], Any]:
            batches = followed(tmp_path, follow=0.2 if stop_after is None else QUICK, shuffle=True)
            if states is not None:
                batches.load_state_dict(json.loads(json.dumps(states)))
            rows = [row for batch in islice(batches, stop_after) for row in ids(batch)]
            return rows, batches.state_dict()

        found = ThreadJob(num_workers).run(work)
        return [row for rows, _ in found for row in rows], [state for _, state in found]

    first, states = run(2, 12, None)
    put(tmp_path, "part-8", range(800, 900))
    second, states = run(3, 7, states)
    rest, _ = run(1, None, states)
    assert sorted(first + second + rest) == list(range(900))


def test_a_loop_that_is_left_leaves_no_thread(tmp_path: Path, alone: None) -> None:
    put(tmp_path, "a", range(40))
    batches = followed(tmp_path)
    rows: list[int] = []
    for _ in range(3):
        rows += [row for batch in islice(batches, 1) for row in ids(batch)]
        assert not [one for one in threading.enumerate() if one.name.startswith("fleet-files")]
    assert rows == list(range(21))


def test_what_is_refused(tmp_path: Path, alone: None) -> None:
    put(tmp_path, "a", range(40))
    with pytest.raises(UsageError, match="none is no folder; make it first"):
        followed(tmp_path / "none")
    with pytest.raises(NotSupportedError, match="s3://bucket/x is a URL"):
        followed("s3://bucket/x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="without queue=True"):
        followed(tmp_path, queue=True)
    with pytest.raises(UsageError, match="follow must be above 0"):
        followed(tmp_path, follow=0.0)
    batches = followed(tmp_path)
    with pytest.raises(NotSupportedError, match="cannot be evaluated"):
        batches.to_evaluate()
    next(iter(batches))
    state = batches.state_dict()
    for wrong, line in [
        ({}, "no state of a reader of a folder that grows"),
        ({**state, "seed": 3}, "seed was 3"),
        ({**state, "workers": 2}, "list of the states of all 2"),
        ([{**state, "workers": 2}], "these are of worker 0 of 2"),
        ({**state, "files": "x"}, "the state is damaged"),
    ]:
        with pytest.raises(UsageError, match=line):
            batches.load_state_dict(wrong)
    again = followed(tmp_path)
    again.load_state_dict(state)
    with (tmp_path / "a").open("a") as file:
        file.write("41\n")
    with pytest.raises(UsageError, match="must not change once they are written"):
        next(iter(again))
    with pytest.raises(NotSupportedError, match="every step would wait"):
        ThreadJob(2, is_collective=True).run(lambda _: followed(tmp_path))

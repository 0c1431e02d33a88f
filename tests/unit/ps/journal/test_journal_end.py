"""A journal that lost whole records at its end is refused; what `fleetrun --verify-journal` says of journals."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fleet.ps.durable.recovery import least_record
from fleet.ps.journal import mark as mark_module
from fleet.ps.journal import writer as writer_module
from fleet.ps.journal.copied import CopiedJournal
from fleet.ps.journal.files import MARK_NAME, segments_in, snapshots_in
from fleet.ps.journal.mark import read_mark
from fleet.ps.journal.records import JournalError, Kind, RecordPart
from fleet.ps.journal.segments import read_segments
from fleet.ps.journal.snapshots import SnapshotWriter, read_snapshot
from fleet.ps.journal.verify import verify
from fleet.ps.journal.writer import Journal, Policy
from fleet_tools.commands.verify_journal import main
from support.processes import wait_until

OWNER = b"server 0"


def part(number: int) -> RecordPart:
    return RecordPart(f"push {number}".encode(), [np.arange(number, dtype=np.float32)])


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a server with several segments has left that was killed: 12 pushes."""
    monkeypatch.setattr(writer_module, "SEGMENT_BYTES", 300)
    return killed(tmp_path / "server-0", "OS")


def killed(folder: Path, policy: Policy, count: int = 12) -> Path:
    """A journal as its process leaves it that is killed: another one writes it."""
    folder.mkdir(parents=True)
    child = os.fork()
    if child == 0:
        journal = Journal(folder, policy, 0, OWNER)
        for number in range(count):
            journal.append(Kind.PUSH, [part(number)])
        os._exit(0)
    os.waitpid(child, 0)
    return folder


def last_of(folder: Path, has: int = 0) -> int:
    return [record.lsn for record in read_segments(folder, 0, OWNER, *least_record(folder, has))][-1]


def drop_last(folder: Path) -> None:
    segments_in(folder)[-1][1].unlink()


def cut_to_nothing(folder: Path) -> None:
    os.truncate(segments_in(folder)[-1][1], 0)


def cut_last_record(folder: Path) -> None:
    path = segments_in(folder)[-1][1]
    *_, (record, before) = [(one, one.begin) for one in records_of(path)]
    assert record.end == path.stat().st_size
    os.truncate(path, before)


def records_of(path: Path) -> list:  # type: ignore[type-arg]
    from fleet.ps.journal.files import view_of
    from fleet.ps.journal.records import read

    return list(read(path, view_of(path)))


@pytest.mark.parametrize("lose", [drop_last, cut_to_nothing, cut_last_record])
def test_a_lost_end_is_refused(left: Path, lose: Callable[[Path], None], capsys: pytest.CaptureFixture[str]) -> None:
    whole = last_of(left)
    assert whole > 12
    assert main([str(left.parent)]) == 0
    assert f"server-0 to record {whole}" in capsys.readouterr().out
    lose(left)
    before = {path.name: path.read_bytes() for path in left.iterdir()}
    with pytest.raises(
        JournalError, match=rf"ends with record \d+, but .*{MARK_NAME} .*record {whole}: the end of the"
    ):
        last_of(left)
    assert {path.name: path.read_bytes() for path in left.iterdir()} == before
    assert main([str(left.parent)]) == 1
    assert f"{MARK_NAME} knows of record {whole}" in capsys.readouterr().out
    (left / MARK_NAME).unlink()  # as the error says
    assert last_of(left) < whole


def test_a_journal_that_ends_before_its_snapshot_is_refused(left: Path) -> None:
    """It could be gone on from once, and then never again: records would be missing in between."""
    whole = last_of(left)
    with SnapshotWriter(left, whole) as writer:
        writer.write(Kind.ROWS, whole, [part(1)])
        writer.finish()
    assert not verify(left).damaged
    assert not list(read_segments(left, whole, OWNER, *least_record(left, whole)))
    cut_last_record(left)
    for has_mark in (True, False):
        assert "the snapshot has rows of record" in next(iter(verify(left).damaged.values()))
        with pytest.raises(
            JournalError, match=f"ends with record {whole - 1}, but the snapshot has rows of record {whole}"
        ):
            list(read_segments(left, whole, OWNER, *least_record(left, whole)))
        if has_mark:
            (left / MARK_NAME).unlink()


def test_what_nobody_finished_writing_is_cut_off(left: Path) -> None:
    whole, path = last_of(left), segments_in(left)[-1][1]
    data = path.read_bytes()
    path.write_bytes(data + data[:40])
    assert not verify(left).damaged
    assert last_of(left) == whole
    assert path.read_bytes() == data


@pytest.mark.parametrize(("policy", "synced"), [("OS", 0), ("ALWAYS", 13)])
def test_after_a_loss_of_power_the_journal_goes_as_far_as_it_was_synced(
    policy: Policy, synced: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = killed(tmp_path / "server-0", policy)
    told = read_mark(folder)
    assert told is not None
    assert (told.last, told.synced, told.least) == (13, synced, 13)
    monkeypatch.setattr(mark_module, "_BOOT", tmp_path / "boot")
    (tmp_path / "boot").write_text("another")
    cut_last_record(folder)
    if synced:
        with pytest.raises(JournalError, match="knows of record 13: the end"):
            last_of(folder)
    else:
        assert last_of(folder) == 12


@pytest.mark.parametrize("kind", [Journal, CopiedJournal])
@pytest.mark.parametrize("policy", ["OS", "INTERVAL", "ALWAYS"])
def test_a_journal_that_is_gone_on_with_is_on_the_disk_first(
    kind: type[Journal], policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The life before may have been killed between a write and its sync; then power is lost in this one."""
    folder = killed(tmp_path / "server-0", policy)
    monkeypatch.setattr(mark_module, "_BOOT", tmp_path / "boot")
    (tmp_path / "boot").write_text("this one")
    torn = segments_in(folder)[-1][1]
    torn.write_bytes(torn.read_bytes() + b"half a record")
    last, on_disk = last_of(folder), {}
    for name in ("fsync", "fdatasync"):

        def sync(file: int, real: object = getattr(os, name)) -> None:
            real(file)  # type: ignore[operator]
            on_disk[os.fstat(file).st_ino] = os.fstat(file).st_size

        monkeypatch.setattr(os, name, sync)
    with monkeypatch.context() as synced_at_once:
        synced_at_once.setattr(writer_module, "INTERVAL_S", 0.0)
        journal = kind(folder, policy, last, OWNER)
        if isinstance(journal, CopiedJournal):
            journal.lead(OWNER)
        lsn = journal.append(Kind.PUSH, [part(1)])
        if policy != "OS":
            wait_until(lambda: read_mark(folder)[2] == lsn, 30, "the mark of the last record")  # type: ignore[index]
        saved = (folder / MARK_NAME).read_bytes()
        monkeypatch.setattr(os, "fdatasync", lambda _: None)  # what `close` does comes too late
        journal.close()
    (folder / MARK_NAME).write_bytes(saved)
    for path in (path for _, path in segments_in(folder)):
        os.truncate(path, min(path.stat().st_size, on_disk.get(path.stat().st_ino, 0)))
    (tmp_path / "boot").write_text("another")
    if policy == "OS":
        assert least_record(folder, 0)[0] == 0
    else:
        assert last_of(folder) == least_record(folder, 0)[0] == lsn > last


def test_a_mark_that_cannot_be_read_asks_for_nothing_and_is_damage(left: Path) -> None:
    path = left / MARK_NAME
    for data in (b"", path.read_bytes()[:-1], path.read_bytes() + b"x", bytes(60)):
        path.write_bytes(data)
        assert least_record(left, 3)[0] == 3
        assert [str(path) in why for why in verify(left).damaged.values()] == [True]
    journal = Journal(left, "OS", last_of(left), OWNER)  # makes it anew
    journal.close()
    assert not verify(left).damaged


def test_a_part_of_another_snapshot_is_refused(tmp_path: Path) -> None:
    """Records that are right by themselves, in another place, or of another moment."""
    for lsn, count in ((5, 4), (9, 5)):
        (tmp_path / str(lsn)).mkdir()
        with SnapshotWriter(tmp_path / str(lsn), lsn) as writer:
            for number in range(count):
                writer.write(Kind.ROWS, lsn, [RecordPart(b"rows", [np.full(4, number, np.float32)])])
            writer.finish()
    path, other = (snapshots_in(tmp_path / name)[0][1] for name in ("5", "9"))
    assert len(list(read_snapshot(path))) == 4
    data, theirs = path.read_bytes(), other.read_bytes()
    begins = [record.begin for record in records_of(path)]
    size = begins[1]
    doubled = data[:size] + data[:size] + data[2 * size :]
    swapped = data[size : 2 * size] + data[:size] + data[2 * size :]
    mixed = theirs[:size] + data[size:]
    for wrong in (doubled, swapped, mixed, theirs):
        path.write_bytes(wrong)
        with pytest.raises(
            JournalError, match=rf"{path} is damaged at offset \d+: (records are missing|it is the snap)"
        ):
            list(read_snapshot(path))
        assert str(path) in next(iter(verify(path.parent).damaged.values()))


def test_every_flip_is_found(left: Path) -> None:
    """By what a scrub reads with, too, however the bytes are cut into pieces."""
    rng = random.Random(1)
    for path in [path for _, path in segments_in(left)]:
        data = path.read_bytes()
        for place in range(0, len(data), 7):
            changed = bytearray(data)
            changed[place] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            assert path in verify(left).damaged
        path.write_bytes(data)
    assert not verify(left).damaged


def test_segments_that_are_missing_or_exchanged_are_found(left: Path) -> None:
    first, second = (path for _, path in segments_in(left)[1:3])
    one, two = first.read_bytes(), second.read_bytes()
    first.unlink()
    assert "begins with" in next(iter(verify(left).damaged.values()))
    first.write_bytes(two)
    second.write_bytes(one)
    assert first in verify(left).damaged


def test_several_servers_are_one_line(tmp_path: Path) -> None:
    for name in ("server-0", "server-1", "server-10"):
        killed(tmp_path / name, "OS")

    def run() -> tuple[int, str, str]:
        command = [sys.executable, "-m", "fleet.launch", "--verify-journal", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    code, said, _ = run()
    assert code == 0
    assert said.startswith(f"{tmp_path} is whole: server-0 to record 13 (0.0 MB); server-1 to record 13")
    assert said.count("\n") == 1
    path = segments_in(tmp_path / "server-1")[0][1]
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    code, said, _ = run()
    assert code == 1
    assert said.startswith(f"{tmp_path} is not whole: {path} is damaged at offset")
    assert "whole is: server-0 to record 13" in said
    assert said.count("\n") == 1
    for folder, why in ((tmp_path / "no", "is no folder"), (path.parent.parent / "server-0" / "x", "is no folder")):
        assert main([str(folder)]) == 2
        assert why
    assert main([]) == 2

"""The files of a journal: what was appended is read back, what tore is cut, what is damaged is refused."""

from __future__ import annotations

import errno
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.ps.journal import writer as writer_module
from fleet.ps.journal.files import segments_in, snapshots_in, write_all
from fleet.ps.journal.records import JournalError, Kind, RecordPart
from fleet.ps.journal.segments import read_segments
from fleet.ps.journal.snapshots import SnapshotWriter, newest_snapshot, read_snapshot
from fleet.ps.journal.writer import Journal, JournalWriteError, Policy

OWNER = b"server 0"
PAGE = 4096


def part(number: int) -> RecordPart:
    return RecordPart(f"push {number}".encode(), [np.arange(number, dtype=np.float32), b"x" * number])


def write(folder: Path, count: int, policy: Policy = "OS", first: int = 0) -> None:
    journal = Journal(folder, policy, first, OWNER)
    for number in range(count):
        journal.append(Kind.PUSH, [part(number)])
    journal.close()


def read(folder: Path, after: int = 0) -> list[tuple[int, bytes, list[bytes]]]:
    found = read_segments(folder, after, OWNER)
    return [
        (record.lsn, record.parts[0].header, [bytes(one) for one in record.parts[0].tensors])
        for record in found
        if record.kind is Kind.PUSH
    ]


def expected(count: int, first: int = 2) -> list[tuple[int, bytes, list[bytes]]]:
    return [
        (
            first + number,
            part(number).header,
            [np.asarray(one).tobytes() if number else b"" for one in part(number).tensors],
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("policy", ["OS", "INTERVAL", "ALWAYS"])
def test_what_was_appended_is_read_back(tmp_path: Path, policy: Policy) -> None:
    write(tmp_path, 9, policy)
    assert read(tmp_path) == expected(9)
    assert [one[0] for one in read(tmp_path, after=7)] == [8, 9, 10]


def test_a_journal_is_a_row_of_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "SEGMENT_BYTES", 200)
    write(tmp_path, 9)
    assert len(segments_in(tmp_path)) > 2
    assert [one[1:] for one in read(tmp_path)] == [one[1:] for one in expected(9)]


def test_old_segments_go_and_the_present_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "SEGMENT_BYTES", 200)
    journal = Journal(tmp_path, "OS", 0, OWNER)
    lsns = [journal.append(Kind.PUSH, [part(number)]) for number in range(12)]
    journal.drop_before(lsns[7])
    journal.close()
    assert [one[0] for one in read(tmp_path, after=lsns[7])] == lsns[8:]
    with pytest.raises(JournalError, match="a file between them is missing"):
        read(tmp_path, after=0)


def test_an_interval_begins_early_with_every_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[int, int, int]] = []
    told = threading.Condition()

    def begin(file: int, first: int, size: int) -> None:
        with told:
            begun.append((os.fstat(file).st_ino, first, first + size))
            told.notify_all()

    def num_begun() -> int:
        return sum(last - first for _, first, last in begun)

    monkeypatch.setattr(writer_module, "begin_write_out", begin)
    monkeypatch.setattr(writer_module, "WRITE_OUT_S", 0.001)
    monkeypatch.setattr(writer_module, "SEGMENT_BYTES", 2000)
    journal = Journal(tmp_path, "INTERVAL", 0, OWNER)
    try:
        for number in range(40):
            journal.append(Kind.PUSH, [part(number)])
            with told:
                assert told.wait_for(lambda: num_begun() >= journal.num_bytes, 30), "the disk was not told to begin"
    finally:
        journal.close()
    assert len({one for one, _, _ in begun}) == len(segments_in(tmp_path)) > 1
    for _, path in segments_in(tmp_path):
        ranges = [(first, last) for one, first, last in begun if one == path.stat().st_ino]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == path.stat().st_size
        assert all(before[1] == after[0] for before, after in pairwise(ranges))


def test_an_interval_reserves_room_and_gives_back_what_it_did_not_need(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "INTERVAL", 0, OWNER)
    journal.append(Kind.PUSH, [part(3)])
    (_, path) = segments_in(tmp_path)[0]
    reserved = path.stat()
    journal.close()
    if reserved.st_blocks * 512 < writer_module.SEGMENT_BYTES:
        pytest.skip("this file system reserves nothing")
    assert reserved.st_size < 1000
    assert path.stat().st_blocks * 512 < 1 << 20
    assert [one[0] for one in read(tmp_path)] == [2]


def test_appends_from_many_threads_are_all_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "ALWAYS", 0, OWNER)
    threads = [
        threading.Thread(target=lambda: [journal.append(Kind.PUSH, [part(3)]) for _ in range(20)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    assert [one[0] for one in read(tmp_path)] == list(range(2, 162))


@pytest.mark.parametrize("missing", [1, 5, 30, 33, 70])
def test_a_record_that_tore_is_cut_off(tmp_path: Path, missing: int) -> None:
    write(tmp_path, 9)
    ((_, path),) = segments_in(tmp_path)
    path.write_bytes(path.read_bytes()[:-missing])
    assert read(tmp_path) == expected(8)
    assert read(tmp_path) == expected(8)  # it was cut: the file is whole again
    write(tmp_path, 3, first=9)
    assert [one[0] for one in read(tmp_path)] == [*range(2, 10), 11, 12, 13]


def test_a_segment_that_was_hardly_begun_is_removed(tmp_path: Path) -> None:
    write(tmp_path, 2)
    write(tmp_path, 0, first=3)
    path = segments_in(tmp_path)[-1][1]
    path.write_bytes(path.read_bytes()[:7])
    assert read(tmp_path) == expected(2)
    assert len(segments_in(tmp_path)) == 1


def test_every_damage_is_refused_with_file_and_offset(tmp_path: Path) -> None:
    write(tmp_path, 6)
    ((_, path),) = segments_in(tmp_path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 0x10
        path.write_bytes(data)
        with pytest.raises(JournalError, match=rf"{path} (is damaged at offset \d+|belongs to another)"):
            read(tmp_path)
    path.write_bytes(whole + bytes(range(64)))
    with pytest.raises(JournalError, match=f"is damaged at offset {len(whole)}: there is no record"):
        read(tmp_path)


def test_a_torn_record_before_the_last_segment_is_damage(tmp_path: Path) -> None:
    write(tmp_path, 3)
    write(tmp_path, 3, first=4)
    path = segments_in(tmp_path)[0][1]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JournalError, match="ends inside a record, and others follow"):
        read(tmp_path)


def torn_by_power(folder: Path, num_pages: int = 9) -> tuple[Path, int, bytes]:
    """A segment whose last record takes some pages, where that begins, and all bytes."""
    journal = Journal(folder, "ALWAYS", 0, OWNER)
    journal.append(Kind.PUSH, [part(3)])
    ((_, path),) = segments_in(folder)
    begin = path.stat().st_size
    journal.append(Kind.PUSH, [RecordPart(b"large", [np.full(num_pages * 1024, 7.0, np.float32)])])
    journal.close()
    return path, begin, path.read_bytes()


@pytest.mark.parametrize("page", [0, 1, 5, 9])
def test_a_last_record_of_which_the_disk_lacks_a_page_is_cut_off(tmp_path: Path, page: int) -> None:
    path, begin, whole = torn_by_power(tmp_path)
    first, end = max(begin, page * PAGE), min((page + 1) * PAGE, len(whole))
    path.write_bytes(whole[:first] + bytes(end - first) + whole[end:])
    assert [one[0] for one in read(tmp_path)] == [2]
    assert path.stat().st_size == begin


def test_zeros_behind_the_last_record_are_cut_off(tmp_path: Path) -> None:
    path, _, whole = torn_by_power(tmp_path)
    path.write_bytes(whole + bytes(3 * PAGE))
    assert [one[0] for one in read(tmp_path)] == [2, 3]
    assert path.stat().st_size == len(whole)


def test_a_journal_of_zeros_is_damage(tmp_path: Path) -> None:
    path, _, whole = torn_by_power(tmp_path)
    path.write_bytes(bytes(len(whole)))
    with pytest.raises(JournalError, match=f"{path} is damaged at offset 0: there is no record"):
        read(tmp_path)


def test_a_page_that_is_missing_before_the_end_is_damage(tmp_path: Path) -> None:
    path, begin, whole = torn_by_power(tmp_path)
    write(tmp_path, 0, first=3)
    lacking = whole[:PAGE] + bytes(PAGE) + whole[2 * PAGE :]
    path.write_bytes(lacking)
    with pytest.raises(JournalError, match=f"{path} is damaged at offset {begin}"):
        read(tmp_path)
    segments_in(tmp_path)[-1][1].unlink()
    path.write_bytes(lacking + whole[begin:])
    with pytest.raises(JournalError, match=f"{path} is damaged at offset {begin}"):
        read(tmp_path)
    assert path.read_bytes() == lacking + whole[begin:]


def test_segments_of_another_server_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 3)
    with pytest.raises(JournalError, match="belongs to another server"):
        list(read_segments(tmp_path, 0, b"server 1"))


class FullDisk:
    """Takes so many bytes, and no more until it is emptied."""

    def __init__(self) -> None:
        self.is_full = False

    def __call__(self, size: int) -> None:  # noqa: ARG002
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_refuses_a_record_and_takes_the_next(tmp_path: Path) -> None:
    disk = FullDisk()
    journal = Journal(tmp_path, "OS", 0, OWNER, disk)
    journal.append(Kind.PUSH, [part(1)])
    disk.is_full = True
    with pytest.raises(JournalWriteError, match=rf"{tmp_path} cannot be written \(No space left on device\)") as caught:
        journal.append(Kind.PUSH, [part(2)])
    assert caught.value.retryable
    disk.is_full = False
    journal.append(Kind.PUSH, [part(3)])
    journal.close()
    assert [one[1] for one in read(tmp_path)] == [b"push 1", b"push 3"]


def test_half_a_record_on_a_full_disk_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, "OS", 0, OWNER)
    journal.append(Kind.PUSH, [part(1)])
    real = write_all

    def half(file: int, buffers: Any) -> None:
        real(file, [bytes(buffers[0])[:9]])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer_module, "write_all", half)
    with pytest.raises(JournalWriteError):
        journal.append(Kind.PUSH, [part(2)])
    monkeypatch.setattr(writer_module, "write_all", real)
    journal.append(Kind.PUSH, [part(3)])
    journal.close()
    assert [one[1] for one in read(tmp_path)] == [b"push 1", b"push 3"]


def test_a_snapshot_counts_when_it_is_finished(tmp_path: Path) -> None:
    with SnapshotWriter(tmp_path, 5) as first:
        first.write(Kind.ROWS, 6, [part(4)])
        first.finish()
    with SnapshotWriter(tmp_path, 9) as second:
        second.write(Kind.ROWS, 9, [part(4)])
    assert newest_snapshot(tmp_path) == snapshots_in(tmp_path)[0][1]
    assert [(one.lsn, one.kind) for one in read_snapshot(snapshots_in(tmp_path)[0][1])] == [(6, Kind.ROWS)]
    assert len(list(tmp_path.iterdir())) == 1


def test_every_damage_of_a_snapshot_is_refused(tmp_path: Path) -> None:
    with SnapshotWriter(tmp_path, 5) as writer:
        for number in range(3):
            writer.write(Kind.ROWS, 5 + number, [part(number)])
        writer.finish()
    path = snapshots_in(tmp_path)[0][1]
    whole = path.read_bytes()
    for data in (*(whole[:size] for size in range(len(whole))), whole + b"more", whole + whole):
        path.write_bytes(data)
        with pytest.raises(JournalError, match=f"{path} is damaged at offset"):
            list(read_snapshot(path))
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x40
        path.write_bytes(changed)
        with pytest.raises(JournalError, match=f"{path} is damaged at offset"):
            list(read_snapshot(path))


def test_a_journal_that_somebody_deletes_takes_nothing_more(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "OS", 0, OWNER)
    journal.append(Kind.PUSH, [part(1)])
    segments_in(tmp_path)[0][1].unlink()
    with pytest.raises(JournalWriteError, match="somebody has deleted it"):
        journal.append(Kind.PUSH, [part(2)])
    journal.close()


def test_all_segments_are_on_the_disk_before_a_snapshot_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "SEGMENT_BYTES", 200)
    journal = Journal(tmp_path, "OS", 0, OWNER)
    for number in range(9):
        journal.append(Kind.PUSH, [part(number)])
    synced: list[int] = []
    real = os.fdatasync

    def sync(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        real(file)

    monkeypatch.setattr(os, "fdatasync", sync)
    journal.sync()
    assert set(synced) == {path.stat().st_ino for _, path in segments_in(tmp_path)}
    journal.close()


def test_always_has_the_names_of_a_journal_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    real = os.fsync

    def sync(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        real(file)

    monkeypatch.setattr(os, "fsync", sync)
    journal = Journal(tmp_path, "ALWAYS", 0, OWNER)
    assert {tmp_path.stat().st_ino, tmp_path.parent.stat().st_ino} <= synced
    journal.close()

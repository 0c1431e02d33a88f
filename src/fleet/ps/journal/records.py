"""The bytes of a record: who it is, how long, what kind, and two checksums; then its parts.

    head   magic, checksum of what follows in the head, checksum of the body, kind, number of parts, lsn, size of all
    body   for each part: size of its header, number of tensors, size of each; the header; the tensors

Everything is little-endian and begins at a multiple of 8, so that tensors can be used where they lie. A record that was
written whole has a right head. So a wrong one is damage, and a right one with too little behind it is a record that
nobody finished writing. So is the last one where it lacks a page, which then reads as zeros: power went before the disk
had all of it. The first of a file is never taken for that: without it nothing says whose file it is.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fleet._native import crc32c
from fleet.errors import CheckpointError
from fleet.ps.wire.messages import Tensor, Tensors

MAGIC = 0x314A4C46  # "FLJ1"
_HEAD = struct.Struct("<IIIHHQQ")
_CHECKED_HEAD = struct.Struct("<IHHQQ")
HEAD_BYTES = _HEAD.size
_PART = struct.Struct("<II")
_CHECKED_FROM = _HEAD.size - _CHECKED_HEAD.size
ALIGNMENT = 8
_PAGE = 4096
"""What a disk has whole or not at all."""
_PADS = tuple(bytes(size) for size in range(ALIGNMENT))


class Kind(IntEnum):
    """What a record tells."""

    SEGMENT = 1
    """The first of a file: whose journal this is."""
    DECLARE = 2
    START = 3
    KEEP = 4
    PUSH = 5
    """One push, in every mode but sync."""
    STEP = 6
    """The pushes of one complete step, in the order of the workers."""
    LEAVE = 7
    LOAD = 8
    """A checkpoint was loaded: the snapshot that follows has it."""
    SHRINK = 9
    MEET = 10
    ADOPT = 11
    """What this server has taken over from those of the layout before."""
    TAKE = 12
    """A queue was begun, or a piece of it handed to a worker."""
    ASSIGN = 13
    """Rows that a worker has written by value."""
    COLLECT = 14
    """A push of a synchronous step that is kept until the step is complete, where servers have copies."""
    COMPLETE = 15
    """A synchronous step whose pushes were collected."""
    JOIN = 16
    """Steps wait for a worker from now on, or no more, where workers come and go."""
    MARK = 17
    """From here on somebody wants to know which keys change."""
    PUBLISH = 18
    """Changes are published from now on, or no more."""
    FORGET = 19
    """Rows are forgotten; this record too goes with the snapshot that follows."""
    # Only in snapshots.
    STATE = 20
    DENSE = 21
    ROWS = 22
    END = 23
    TOUCHED = 24
    """The keys that have changed since the marks."""


class JournalError(CheckpointError):
    """A journal that cannot be read, or belongs to something else."""


class RecordPart(NamedTuple):
    """One part of a record: a header, whose meaning depends on the kind, and tensors."""

    header: bytes
    tensors: Tensors = ()


class JournalRecord(NamedTuple):
    """One record as it was read; tensors are views of the file."""

    lsn: int
    kind: Kind
    parts: list[RecordPart]
    begin: int
    """The offset in its file at which it begins."""
    end: int
    """The offset at which it ends."""


class TornError(JournalError):
    """The file ends with a record that nobody finished writing."""


class Body(NamedTuple):
    """All of a record but its number."""

    buffers: list[Any]
    checksum: int
    num_parts: int
    size: int


def encode_body(parts: Sequence[RecordPart]) -> Body:
    """The buffers of some parts, to be written one after the other behind a head."""
    buffers: list[Any] = []
    for part in parts:
        tensors = [_raw(tensor) for tensor in part.tensors]
        sizes = [len(tensor) for tensor in tensors]
        start = _PART.pack(len(part.header), len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes) + part.header
        buffers.append(start + _PADS[-len(start) % ALIGNMENT])
        for tensor, size in zip(tensors, sizes, strict=True):
            if size:
                buffers.append(tensor)
            if -size % ALIGNMENT:
                buffers.append(_PADS[-size % ALIGNMENT])
    checksum = 0
    for buffer in buffers:
        checksum = crc32c(buffer, checksum)
    return Body(buffers, checksum, len(parts), sum(map(len, buffers)))


def with_head(lsn: int, kind: Kind, body: Body) -> list[Any]:
    """The buffers of a whole record."""
    checked = _CHECKED_HEAD.pack(body.checksum, kind, body.num_parts, lsn, _HEAD.size + body.size)
    return [struct.pack("<II", MAGIC, crc32c(checked)) + checked, *body.buffers]


def encode(lsn: int, kind: Kind, parts: Sequence[RecordPart]) -> list[Any]:
    """The buffers of a record, to be written one after the other."""
    return with_head(lsn, kind, encode_body(parts))


def read(path: Path, data: memoryview) -> Iterator[JournalRecord]:
    """Every record of a file; JournalError that names file and offset at the first one that is damaged.

    TornError if the file ends inside a record.
    """
    begin = 0
    while begin < len(data):
        record = read_one(path, data, begin)
        yield record
        begin = record.end


def read_one(path: Path, data: memoryview, begin: int) -> JournalRecord:
    """The record that begins at a place of a file."""
    left = len(data) - begin
    if left < _HEAD.size:
        raise TornError(f"{path} ends inside the head of a record at offset {begin}")
    magic, head_checksum, checksum, number, num_parts, lsn, size = _HEAD.unpack_from(data, begin)
    if magic != MAGIC or head_checksum != crc32c(data[begin + _CHECKED_FROM : begin + _HEAD.size]):
        if begin and _lacks_page(data, begin, begin + _HEAD.size) and not _has_record(data, begin):
            raise TornError(f"{path} ends inside the record at offset {begin}, of which the disk lacks a page")
        raise damaged(path, begin, "there is no record")
    if size > left:
        raise TornError(f"{path} ends inside the record at offset {begin}")
    body = data[begin + _HEAD.size : begin + size]
    if crc32c(body) != checksum:
        if _lacks_page(data, begin, begin + size) and not _has_record(data, begin + size):
            raise TornError(f"{path} ends inside the record at offset {begin}, of which the disk lacks a page")
        raise damaged(path, begin, "the checksum of the record is wrong")
    try:
        kind = Kind(number)
        parts = _parts(body, num_parts)
    except (ValueError, struct.error):  # it was written so, by another version
        raise damaged(path, begin, f"a record of kind {number} that this version cannot read") from None
    return JournalRecord(lsn, kind, parts, begin, begin + size)


def whole_records(data: memoryview, after: int) -> tuple[int, int, bool]:
    """How many bytes the whole records have with which some bytes begin, and the number of the last.

    They end before a record behind `after` that says that everything was replaced; whether there is one is the third.
    """
    end, last = 0, 0
    while len(data) - end >= _HEAD.size:
        magic, _, _, kind, _, lsn, size = _HEAD.unpack_from(data, end)
        if magic != MAGIC or size < _HEAD.size:
            raise JournalError(
                f"there is no record at byte {end} of what a server has sent of its journal; start both with the same "
                "version of Fleet"
            )
        if kind == Kind.LOAD and lsn > after:
            return end, last, True
        if size > len(data) - end:
            break
        end, last = end + size, lsn
    return end, last, False


def _lacks_page(data: memoryview, begin: int, end: int) -> bool:
    """Whether all that a page has of some bytes, and of what follows them there, is zeros."""
    pages = range(begin - begin % _PAGE, end, _PAGE)
    return any(not any(data[max(begin, page) : page + _PAGE]) for page in pages)


def _has_record(data: memoryview, begin: int) -> bool:
    """Whether the head of a record stands anywhere behind a place."""
    magic, text = struct.pack("<I", MAGIC), bytes(data[begin:])
    at = text.find(magic)
    while 0 <= at <= len(text) - _HEAD.size:
        if _HEAD.unpack_from(text, at)[1] == crc32c(text[at + _CHECKED_FROM : at + _HEAD.size]):
            return True
        at = text.find(magic, at + 1)
    return False


def damaged(path: Path, offset: int, what: str) -> JournalError:
    """The error for a file that differs from what was written."""
    return JournalError(
        f"{path} is damaged at offset {offset}: {what}. Bring the file back, or begin anew from a checkpoint with an "
        "empty folder"
    )


def _parts(body: memoryview, num_parts: int) -> list[RecordPart]:
    parts, at = [], 0
    for _ in range(num_parts):
        header_size, num_tensors = _PART.unpack_from(body, at)
        sizes = struct.unpack_from(f"<{num_tensors}Q", body, at + _PART.size)
        at += _PART.size + 8 * num_tensors
        header = bytes(body[at : at + header_size])
        at = _aligned(at + header_size)
        tensors = []
        for size in sizes:
            tensors.append(body[at : at + size])
            at = _aligned(at + size)
        parts.append(RecordPart(header, tensors))
    if at != len(body):
        raise ValueError
    return parts


def _aligned(offset: int) -> int:
    return offset + -offset % ALIGNMENT


def _raw(tensor: Tensor) -> Any:
    """The bytes of a tensor, as a view."""
    if isinstance(tensor, np.ndarray):
        return tensor.reshape(-1).view(np.uint8).data
    return tensor

"""Delimited text: files of lines, cut by bytes, read by the native parser (csrc/data/delimited.h)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, BinaryIO, Protocol

import numpy as np

from fleet import _native
from fleet.data.columns.blocks import MOST_TOLD, Block, Problems
from fleet.data.columns.records import Records, join
from fleet.data.columns.schema import Schema
from fleet.data.formats.text_head import Head, read_head
from fleet.data.formats.text_plan import Bad, Text, TextPlan
from fleet.data.places import opening
from fleet.errors import UsageError

PIECE_BYTES = 16 << 20
"""How much of an unpacked file is parsed at a time."""
MOST_LINE_BYTES = 64 << 20
MOST_COUNTED_BYTES = 4 << 30
"""A bad line further back than this is told by its byte: counting the lines before it would take seconds."""
_TAIL_BYTES = 4 << 10


class Parser(Protocol):
    """What makes records of whole lines. Used from several threads at once."""

    def parse(self, text: Text) -> tuple[Records, int, Bad]:
        """The records, how many lines there were without those of nothing, and some of the bad ones."""


class TextFormat:
    """Lines of fields with a delimiter between them, as a schema describes them: a `FileFormat`."""

    def __init__(self, schema: Schema) -> None:
        if schema.columns is None and not schema.header:
            raise UsageError(
                "text files need the names of their columns: give columns=[...] to the schema, or header=True if their "
                "first line has them"
            )
        names = schema.columns or ()
        if twice := [name for name in schema.names if names.count(name) > 1]:
            raise UsageError(f"columns of the schema has {twice[0]!r} more than once; rename all but one")
        for one in schema.several:
            if one.separator == schema.delimiter and not schema.has_quotes:
                raise UsageError(f"the separator of column {one.name!r} is the delimiter of the columns, too")
        self.schema = schema
        self._heads: dict[str, Head] = {}
        self._plans: dict[tuple[str, ...], TextPlan] = {}

    def __reduce__(self) -> tuple[type[TextFormat], tuple[Schema]]:
        """For a process of a DataLoader that is not forked: what is known of files is found out again."""
        return type(self), (self.schema,)

    def cut(self, path: str, most_bytes: int) -> list[Block]:
        """Blocks of equal size, whatever lines they cut; a packed file is one block."""
        if most_bytes < 1:
            raise UsageError(f"most_bytes must be at least 1, got {most_bytes}")
        size = opening.size_of(path)
        if size == 0:
            return []
        if opening.packing_of(path) is not None:
            return [Block(path, 0, size, size)]
        with _told(path), opening.open(path) as source:
            head, _ = self._read_head(path, source)
        length = size - head.body
        count = -(-length // most_bytes)
        bounds = [head.body + length * place // count for place in range(count + 1)] if count else []
        return [Block(path, a, b, b - a) for a, b in pairwise(bounds)]

    def read(self, block: Block, problems: Problems) -> Records:
        """The samples of a block; a line belongs to the block that its first byte lies in."""
        return join(list(self.read_parts(block, problems)))

    def read_parts(self, block: Block, problems: Problems) -> Iterator[Records]:
        """The same as they are read: a packed file, which may be of any size, in several parts."""
        with _told(block.path), opening.open(block.path) as source:
            if opening.packing_of(block.path) is not None:
                yield from self._read_packed(block.path, source, problems)
            else:
                yield self._read_plain(block, source, problems)

    def _read_plain(self, block: Block, source: BinaryIO, problems: Problems) -> Records:
        path = block.path
        head = self._heads.get(path)
        if head is None:
            head, _ = self._read_head(path, source)
        begin, text = _lines_of(block, source, head.body)
        records, num_lines, bad = self._plan(head).parse(text)
        told: list[tuple[str, int, str]] = []
        if bad and len(problems.told) < MOST_TOLD:
            told = _placed(path, source, begin, bad)
        problems.note(num_lines, told, num_lines - records.num)
        return records

    def _read_packed(self, path: str, source: BinaryIO, problems: Problems) -> Iterator[Records]:
        head, start = self._read_head(path, source)
        plan = self._plan(head)
        num_before = start.count(b"\n", 0, head.body)
        for text in _pieces(path, source, start[head.body :]):
            records, num_lines, bad = plan.parse(text)
            told = [(path, num_before + line + 1, what) for line, _, what in bad]
            problems.note(num_lines, told, num_lines - records.num)
            num_before += _native.count_lines(text)
            yield records

    def _read_head(self, path: str, source: BinaryIO) -> tuple[Head, bytes]:
        head, start = read_head(path, source, self.schema)
        self._heads[path] = head
        return head, start

    def _plan(self, head: Head) -> Parser:
        plan = self._plans.get(head.columns)
        if plan is None:
            plan = self._plans[head.columns] = TextPlan(self.schema, head.columns)
        return plan


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What goes wrong while a file is read, as one line."""
    try:
        yield
    except UsageError:
        raise
    except (OSError, EOFError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _lines_of(block: Block, source: BinaryIO, body: int) -> tuple[int, Text]:
    """The lines that begin in a block, and the byte at which the first of them does."""
    begin = block.first if block.first <= body else block.first - 1  # the newline in front of a line may be there
    size = block.last - begin
    buffer = np.empty(size + _TAIL_BYTES, dtype=np.uint8)
    source.seek(begin)
    num = _fill(source, buffer.data)
    if num < size:
        raise UsageError(f"{block.path} is shorter than it was when it was cut; leave the files alone until the end")
    skipped = 0
    if begin != block.first:
        skipped = _find(buffer[: size - 1], 0) + 1
        if skipped == 0:
            return block.last, buffer[:0]
    end = _find(buffer[:num], size - 1) + 1
    if end == 0 and num < len(buffer):
        end = num  # the last line of the file has no newline
    if end == 0:
        rest = _rest_of_line(block, source)
        return begin + skipped, np.concatenate([buffer[skipped:], np.frombuffer(rest, dtype=np.uint8)])
    return begin + skipped, buffer[skipped:end]


def _rest_of_line(block: Block, source: BinaryIO) -> bytes:
    rest = bytearray()
    while more := source.read(max(_TAIL_BYTES, len(rest))):
        end = more.find(b"\n") + 1
        rest += more[:end] if end else more
        if end:
            break
        if len(rest) > MOST_LINE_BYTES:
            raise _too_long(block.path)
    return bytes(rest)


def _pieces(path: str, source: BinaryIO, start: bytes) -> Iterator[Text]:
    """Whole lines of a stream, piece by piece; at least one piece."""
    rest, is_first = np.frombuffer(start, dtype=np.uint8), True
    while True:
        buffer = np.empty(len(rest) + PIECE_BYTES, dtype=np.uint8)
        buffer[: len(rest)] = rest
        num = len(rest) + _fill(source, buffer.data[len(rest) :])
        if num < len(buffer):
            if num or is_first:
                yield buffer[:num]
            return
        end = _last_end(buffer)
        if end:
            yield buffer[:end]
            is_first = False
        rest = buffer[end:num]
        if len(rest) > MOST_LINE_BYTES:
            raise _too_long(path)


def _fill(source: BinaryIO, room: memoryview) -> int:
    """Bytes that were read; fewer than there is room for at the end of the file only."""
    readinto: Any = source.readinto  # type: ignore[attr-defined]
    num = 0
    while num < len(room) and (more := readinto(room[num:])):
        num += more
    return num


def _find(text: Text, start: int) -> int:
    """The next newline; -1 if there is none."""
    step = 4096
    while start < len(text):
        place = text[start : start + step].tobytes().find(b"\n")
        if place >= 0:
            return start + place
        start, step = start + step, step * 2
    return -1


def _last_end(text: Text) -> int:
    """Where the last whole line ends; 0 if there is none."""
    end, step = len(text), 4096
    while end > 0:
        start = max(end - step, 0)
        place = text[start:end].tobytes().rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end, step = start, step * 2
    return 0


def _placed(path: str, source: BinaryIO, begin: int, bad: Bad) -> list[tuple[str, int, str]]:
    """Bad lines by their number in the file, or by their byte where it would take long to count."""
    if begin > MOST_COUNTED_BYTES or not os.path.exists(path):
        return [(path, -(begin + byte), what) for _, byte, what in bad]
    source.seek(0)
    num_before, left = 0, begin
    while left > 0 and (text := source.read(min(left, 1 << 20))):
        num_before, left = num_before + text.count(b"\n"), left - len(text)
    return [(path, num_before + line + 1, what) for line, _, what in bad]


def _too_long(path: str) -> UsageError:
    return UsageError(f"{path} has a line of more than 64 MiB; is it a text file?")

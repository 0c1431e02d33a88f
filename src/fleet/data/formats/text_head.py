"""The beginning of a text file: whether it is text that can be read, its columns, and where its data begin."""

import csv
from dataclasses import dataclass
from difflib import get_close_matches
from typing import BinaryIO

from fleet.data.columns.schema import Schema
from fleet.errors import UsageError

HEAD_BYTES = 64 << 10
MOST_HEADER_BYTES = 16 << 20
_BOM = b"\xef\xbb\xbf"
_FOREIGN = {
    b"\xff\xfe\0\0": "is UTF-32 text; convert it: iconv -f UTF-32 -t UTF-8",
    b"\0\0\xfe\xff": "is UTF-32 text; convert it: iconv -f UTF-32 -t UTF-8",
    b"\xff\xfe": "is UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "is UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8",
    b"\x1f\x8b": "is packed by gzip; let its name end with .gz",
    b"\x28\xb5\x2f\xfd": "is packed by zstd; let its name end with .zst",
    b"PAR1": "is a Parquet file; let its name end with .parquet, or give format='parquet'",
    b"ARROW1": "is an Arrow file; let its name end with .arrow, or give format='arrow'",
    b"BZh": "is packed by bzip2; pack it with gzip or zstd",
    b"\xfd7zXZ": "is packed by xz; pack it with gzip or zstd",
    b"PK\x03\x04": "is a zip archive; unpack it",
}


@dataclass(frozen=True)
class Head:
    """`columns`: the names of all columns, in order; `body`: the byte at which the data begin."""

    columns: tuple[str, ...]
    body: int


def read_head(path: str, source: BinaryIO, schema: Schema) -> tuple[Head, bytes]:
    """The head of a file that stands at its beginning, and what was read of it."""
    begin = source.read(HEAD_BYTES)
    _check_text(path, begin)
    body = len(_BOM) if begin.startswith(_BOM) else 0
    if not schema.header or len(begin) == body:
        columns = tuple(schema.columns or schema.names)  # without columns there are no lines either
        _refuse_header(path, begin[body:].partition(b"\n")[0], columns, schema)
        return Head(columns, body), begin
    while (end := begin.find(b"\n", body)) < 0 and (more := source.read(HEAD_BYTES)):
        begin += more
        if len(begin) > MOST_HEADER_BYTES:
            raise UsageError(f"the first line of {path} does not end within 16 MiB; is it a text file with a header?")
    end = len(begin) if end < 0 else end
    return Head(_columns(path, begin[body:end], schema), min(end + 1, len(begin))), begin


def _check_text(path: str, begin: bytes) -> None:
    for start, what in _FOREIGN.items():
        if begin.startswith(start):
            raise UsageError(f"{path} {what}")
    if b"\0" in begin:
        raise UsageError(
            f"{path} has zero bytes, as UTF-16 text and binary files have; convert text with iconv -f UTF-16 -t UTF-8"
        )


def _refuse_header(path: str, line: bytes, columns: tuple[str, ...], schema: Schema) -> None:
    """UsageError where the first line has the very names of the columns, for a schema that knows of no header."""
    if columns and tuple(_fields(line.decode(errors="replace").rstrip("\r"), schema)) == columns:
        raise UsageError(f"the first line of {path} has the names of the columns; give the schema header=True")


def _fields(text: str, schema: Schema) -> list[str]:
    if schema.has_quotes and '"' in text:
        return next(csv.reader([text], delimiter=schema.delimiter), [])
    return text.split(schema.delimiter)


def _columns(path: str, line: bytes, schema: Schema) -> tuple[str, ...]:
    try:
        text = line.decode().rstrip("\r")
    except UnicodeDecodeError as error:
        raise UsageError(f"the header of {path} is not UTF-8 text ({error.reason}); convert the file") from error
    found = _fields(text, schema)
    if schema.columns is not None:
        if len(found) != len(schema.columns):
            raise UsageError(
                f"the header of {path} has {len(found)} columns where the schema names {len(schema.columns)}"
            )
        return tuple(schema.columns)
    for name in schema.names:
        if name not in found:
            hint = _hint(name, text, schema)
            raise UsageError(f"{path} has no column {name!r}; its header has {_listed(found)}{hint}")
        if found.count(name) > 1:
            raise UsageError(f"the header of {path} has column {name!r} {found.count(name)} times; rename all but one")
    return tuple(found)


def _hint(name: str, text: str, schema: Schema) -> str:
    """What to do about a column that is missing, where the header shows it."""
    for other in ",\t;|":
        if other != schema.delimiter and name in text.split(other):
            return f"; it is divided by {other!r}, and the schema's delimiter is {schema.delimiter!r}"
    near = get_close_matches(name, text.split(schema.delimiter), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _listed(names: list[str], most: int = 10) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

"""Tensors in spans: each worker writes some elements of some tensors, and whoever loads reads those it needs.

A span is elements `begin` to `end` - 1 of a tensor in row-major order. A tensor's key is KIND/NAME, and a file holds
spans of one kind. A whole tensor stands in its file as NAME in its own shape, so that other readers of safetensors find
what they expect; a part stands there as NAME[begin:end], flat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fleet.checkpoint.files.fields import Fields
from fleet.checkpoint.files.files import FileInfo
from fleet.checkpoint.files.forms import Form
from fleet.checkpoint.files.names import file_name_of
from fleet.checkpoint.files.pieces import Arrays, map_piece, write_piece
from fleet.checkpoint.folders.contents import refuse_gaps
from fleet.checkpoint.state.tables import PIECE_BYTES
from fleet.errors import CheckpointError


@dataclass(frozen=True)
class Span:
    """Elements begin to end - 1 of a tensor."""

    key: str
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class SpanPiece:
    """One file of spans that one worker wrote."""

    file: FileInfo
    worker: int
    spans: tuple[Span, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads."""
        spans = [[span.key, span.begin, span.end] for span in self.spans]
        return {"file": self.file.to_json(), "worker": self.worker, "spans": spans}

    @classmethod
    def from_json(cls, fields: Fields) -> SpanPiece:
        """The piece that `to_json` wrote; CheckpointError if a field is missing or out of range."""
        spans = []
        for item in fields.items("spans"):
            if not (isinstance(item, list) and len(item) == 3 and isinstance(item[0], str)):
                raise CheckpointError(
                    f"{fields.where} is damaged: a span must be [tensor, begin, end], got {item!r:.60}"
                )
            ends = Fields({"begin": item[1], "end": item[2]}, fields.where)
            end = ends.integer("end")
            spans.append(Span(item[0], ends.integer("begin", 0, end), end))
        file = FileInfo.from_json(Fields(fields.table("file"), fields.where))
        return cls(file, fields.integer("worker"), tuple(spans))


@dataclass(frozen=True, eq=False)
class SpanData:
    """A span with its elements, as a flat array of their bits."""

    span: Span
    form: Form
    bits: npt.NDArray[Any]


def write_spans(
    folder: Path,
    worker: int,
    num_workers: int,
    parts: Sequence[SpanData],
    *,
    piece_bytes: int = PIECE_BYTES,
    moved: Callable[[], None] = lambda: None,
) -> list[SpanPiece]:
    """Write one worker's spans into `folder`, which `begin` made; `moved` is called after each file."""
    pieces: list[SpanPiece] = []
    for kind in sorted({_kind(part.span.key) for part in parts}):
        own = [part for part in parts if _kind(part.span.key) == kind]
        for number, group in enumerate(_grouped(own, piece_bytes)):
            where = f"worker-{worker:03}-of-{num_workers:03}.piece-{number:04}"
            arrays, codes = {}, {}
            for part in group:
                name, shape = _in_file(part.span, part.form)
                arrays[name], codes[name] = part.bits.reshape(shape), part.form.code
            assert len(arrays) == len(group), f"two tensors of kind {kind} have one name"
            path = folder / f"{file_name_of(kind)}.{where}.safetensors"
            info = write_piece(path, arrays, {"kind": kind, "worker": f"{worker}/{num_workers}"}, codes)
            pieces.append(SpanPiece(info, worker, tuple(part.span for part in group)))
            moved()
    return pieces


def map_spans(folder: Path, piece: SpanPiece, forms: Mapping[str, Form]) -> dict[Span, npt.NDArray[Any]]:
    """The spans of a file that was checked before, as flat arrays of bits; what is not looked at is not read."""
    path = folder / piece.file.name
    arrays = map_piece(path, piece.file)
    return {span: _checked(arrays, span, forms[span.key], path) for span in piece.spans}


def check_cover(forms: Mapping[str, Form], pieces: Iterable[SpanPiece], where: str) -> None:
    """CheckpointError naming the first tensor of which an element is missing, doubled or unheard of."""
    found: dict[str, list[Span]] = {key: [] for key in forms}
    for piece in pieces:
        for span in piece.spans:
            if span.key not in found:
                raise CheckpointError(f"{where} has a part of {span.key!r}, of which it has no shape")
            found[span.key].append(span)
    for key, spans in found.items():
        refuse_gaps(sorted((span.begin, span.end) for span in spans), forms[key].size, where, repr(key))


def _checked(arrays: Arrays, span: Span, form: Form, path: Path) -> npt.NDArray[Any]:
    name, shape = _in_file(span, form)
    array = arrays.get(name)
    if array is None or array.dtype != form.bits or array.shape != shape:
        found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
        raise CheckpointError(f"{path} is damaged: {name!r} should be {form.bits}{list(shape)}, found {found}")
    return array.reshape(-1)


def _kind(key: str) -> str:
    return key.partition("/")[0]


def _in_file(span: Span, form: Form) -> tuple[str, tuple[int, ...]]:
    """The name and the shape of a span in its file."""
    name = span.key.partition("/")[2]
    if len(span) == form.size:
        return name, form.shape
    return f"{name}[{span.begin}:{span.end}]", (len(span),)


def _grouped(parts: Sequence[SpanData], piece_bytes: int) -> Iterator[list[SpanData]]:
    group: list[SpanData] = []
    room = piece_bytes
    for whole in parts:
        for part in _cut(whole, max(1, piece_bytes // whole.bits.itemsize)):
            if group and part.bits.nbytes > room:
                yield group
                group, room = [], piece_bytes
            group.append(part)
            room -= part.bits.nbytes
    if group:
        yield group


def _cut(part: SpanData, length: int) -> Iterator[SpanData]:
    for at in range(0, len(part.span), length):
        bits = part.bits[at : at + length]
        begin = part.span.begin + at
        yield SpanData(Span(part.span.key, begin, begin + len(bits)), part.form, bits)

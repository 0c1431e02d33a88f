"""What is searched for: keys, as integers and as bytes, and the values of rows, as the bytes that were stored."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Bytes = NDArray[np.uint8]

TELLING = 5
"""Keys with so many bytes that are neither 0 nor 255 are searched as bytes: others stand anywhere by chance."""
CHUNK_BYTES = 8 << 20
_BITS = 20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Patterns:
    """Keys of some tables, and rows that belonged to them; kept in memory alone."""

    def __init__(self, keys: Keys, tables: Collection[str] | None) -> None:
        """`tables`: None for all that there are."""
        self.keys, self.tables = keys, tables
        self.num_rows = 0
        """Rows that are searched for."""
        self.num_unsearchable = 0
        """Rows that are not: of zeros, of less than 8 bytes, or equal to another one."""
        self._rows: dict[bytes, int] = {}
        """The bytes of a row, and where in them its eight bytes begin that are searched first."""
        self._index: tuple[NDArray[np.uint64], NDArray[np.bool_], dict[int, list[tuple[bytes, int]]]] | None = None

    def is_meant(self, table: str | None) -> bool:
        """Whether the rows of a table are forgotten; of one that is not known they may be."""
        return self.tables is None or table is None or table in self.tables

    def among(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of these are forgotten."""
        found: NDArray[np.bool_] = np.isin(keys, self.keys)
        return found

    def add_rows(self, rows: NDArray[np.float32] | NDArray[np.uint16]) -> None:
        """Search for these rows from now on: floats, also as 16 bits where no bit is lost, or 16 bits as they are."""
        forms = [np.ascontiguousarray(rows)]
        if rows.dtype == np.float32 and rows.size:
            if not (forms[0].view(np.uint32) & 0xFFFF).any():
                forms.append((forms[0].view(np.uint32) >> 16).astype(np.uint16))
            with np.errstate(over="ignore"):
                if np.array_equal((half := forms[0].astype(np.float16)).astype(np.float32), forms[0]):
                    forms.append(half)
        for form in forms:
            texts, counts = np.unique(
                form.view(np.dtype((np.void, form.dtype.itemsize * form.shape[1]))), return_counts=True
            )
            for text, count in zip(texts, counts, strict=True):
                self._add_row(text.tobytes(), form.dtype.itemsize, int(count), is_counted=form is forms[0])
        self._index = None

    def _add_row(self, text: bytes, size: int, count: int, *, is_counted: bool) -> None:
        at = next((at for at in range(0, len(text) - 7, 4) if _is_telling(text[at : at + 8], size)), None)
        if count > 1 or at is None:
            self.num_unsearchable += count if is_counted else 0
        elif text not in self._rows:
            self._rows[text] = at
            self.num_rows += is_counted

    def hits(self, data: Bytes, *, with_keys: bool) -> Iterator[tuple[int, str]]:
        """Where some bytes have a row, or a wide key, and which of both."""
        probes, map_of, exact = self._indexed()
        if not len(probes):
            return
        wide = set(self._wide().view(np.uint64).tolist()) if with_keys else set()
        for begin in range(0, len(data), CHUNK_BYTES):
            part = data[begin : begin + CHUNK_BYTES + 7]
            for shift in range(8):
                words = part[shift : shift + (len(part) - shift) // 8 * 8].view("<u8")
                for place in np.flatnonzero(map_of[(words * _FACTOR) >> np.uint64(64 - _BITS)]):
                    word, at = int(words[place]), begin + shift + 8 * int(place)
                    if word in wide and (shift < 7 or at < begin + CHUNK_BYTES):
                        yield at, "a key"
                    for text, offset in exact.get(word, ()):
                        if data[max(0, at - offset) : at - offset + len(text)].tobytes() == text:
                            yield at - offset, "a row"

    def _wide(self) -> Keys:
        parts = self.keys.view(np.uint8).reshape(-1, 8)
        wide: Keys = self.keys[((parts != 0) & (parts != 255)).sum(1) >= TELLING]
        return wide

    def _indexed(self) -> tuple[NDArray[np.uint64], NDArray[np.bool_], dict[int, list[tuple[bytes, int]]]]:
        if self._index is None:
            exact: dict[int, list[tuple[bytes, int]]] = {}
            for text, at in self._rows.items():
                exact.setdefault(int.from_bytes(text[at : at + 8], "little"), []).append((text, at))
            probes = np.array(sorted({*exact, *self._wide().view(np.uint64).tolist()}), np.uint64)
            map_of = np.zeros(1 << _BITS, bool)
            map_of[(probes * _FACTOR) >> np.uint64(64 - _BITS)] = True
            self._index = probes, map_of, exact
        return self._index


def _is_telling(word: bytes, size: int) -> bool:
    """Whether eight bytes of values are not such as stand anywhere: none of them is zero."""
    return all(any(word[at : at + size]) for at in range(0, 8, size))

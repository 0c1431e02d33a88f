"""Damaged text files, cut anywhere: every block has an answer, and all blocks together are what the file is as a whole.

python tests/fuzz/fuzz_text.py       # FUZZ_FILES damaged files (2,000)
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

import numpy as np

import fleet
from fleet.data.columns.blocks import Block, Problems
from fleet.data.columns.records import Records, join
from fleet.data.formats.text import TextFormat

TAGS = fleet.data.Category("tags", separator="|")
LAST = fleet.data.Category("last", separator=" ", length=3, hash=False)
SCHEMAS = [
    fleet.data.Schema(
        label="y",
        numbers=[
            "a",
            fleet.data.Number("b", log=True),
            fleet.data.Number("w", dtype="int64"),
            fleet.data.Number("moment", dtype="float64"),
        ],
        categories=["c", TAGS, LAST, fleet.data.Category("a", bounds=(1, 5)), "b and c"],
        derived=[fleet.data.Derived.seconds("moment", "b"), fleet.data.Derived.cross("b and c", ["b", "c"])],
        na_values=["17", "a"],
        weight="w",
        columns=["y", "a", "b", "c", "tags", "last", "w"],
        delimiter=delimiter,
    )
    for delimiter in "\t,"
]
FIELDS = [
    b"",
    b"0",
    b"17",
    b"-3.5",
    b"1e30",
    b"1e99",
    b"x" * 20,
    b"a|b||c",
    b"1 2 3 4",
    b'"q,""r"',
    b"nan",
    b"\xff\xfe",
    b"9" * 20,
]


def damaged(rng: random.Random, delimiter: bytes) -> bytes:
    """Lines, most of them good, of which some bytes are changed, left out or doubled."""
    good = [b"1", b"2", b"3.5", b"anna", b"t|u", b"5 6", b"1"]
    lines = []
    for _ in range(rng.randrange(30)):
        fields = [rng.choice(FIELDS) if rng.random() < 0.1 else field for field in good]
        lines.append(delimiter.join(fields) + rng.choice([b"\n", b"\r\n", b"\n\n"]))
    text = bytearray(b"".join(lines))
    for _ in range(rng.randrange(6) if text else 0):
        at = rng.randrange(len(text))
        others = [b"", b"\n", b'"', b"\r", delimiter, rng.randbytes(2), bytes(text[at : at + 40])]
        text[at : at + rng.randrange(3)] = rng.choice(others)
        if not text:
            break
    return b"\n" + bytes(text).replace(b"\0", b"0")  # what is no text at all is another test's


def same(a: Records, b: Records) -> bool:
    """Whether two are the same to the last bit."""
    if a.num != b.num:
        return False
    for left, right in zip(a.columns, b.columns, strict=True):
        (x, p), (y, q) = left.plain(), right.plain()
        if x.tobytes() != y.tobytes() or (p is not None and q is not None and not np.array_equal(p, q)):
            return False
    return True


def fuzz(count: int, seed: int) -> tuple[int, int, list[bytes]]:
    """Lines and bad ones among them that were seen, and the texts that went wrong."""
    rng, wrong = random.Random(seed), []
    num_lines = num_bad = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        for turn in range(count):
            form = TextFormat(SCHEMAS[turn % 2])
            text = damaged(rng, form.schema.delimiter.encode())
            path.write_bytes(text)
            blocks = form.cut(str(path), rng.randrange(1, 200))
            if not blocks:
                continue
            parts, whole = Problems(1.0), Problems(1.0)
            pieces = [form.read(block, parts) for block in blocks]
            everything = form.read(Block(str(path), blocks[0].first, blocks[-1].last, 0), whole)
            told = parts.num_lines, parts.num_bad, parts.told
            if not same(join(pieces), everything) or told != (whole.num_lines, whole.num_bad, whole.told):
                wrong.append(text)
            num_lines, num_bad = num_lines + whole.num_lines, num_bad + whole.num_bad
    return num_lines, num_bad, wrong


if __name__ == "__main__":
    lines, bad, failures = fuzz(int(os.environ.get("FUZZ_FILES", "2000")), 0)
    print(f"{lines:,} lines, {bad:,} of them bad, {len(failures)} files that went wrong")
    sys.exit(repr(failures[0]) if failures else 0)

"""Text files to records: byte ranges, headers, packed files, and every way in which a file can be bad."""

from __future__ import annotations

import gzip
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fleet
from fleet.data.columns.blocks import Block, Problems
from fleet.data.columns.records import Records, join
from fleet.data.formats import text as text_module
from fleet.data.formats.text import TextFormat
from fleet.errors import UsageError

SCHEMA = fleet.data.Schema(
    label="click",
    numbers=["price"],
    categories=["user", fleet.data.Category("tags", separator="|")],
    columns=["click", "price", "user", "other", "tags"],
    delimiter=",",
)
LINES = b"1,2.5,anna,,a|b\n0,,ben,x,\n1,-3,,,c\n"


def read(path: Path, schema: fleet.data.Schema = SCHEMA, most_bytes: int = 1 << 20, bad: float = 0.0) -> Records:
    """All records of a file."""
    problems, form = Problems(bad), TextFormat(schema)
    records = [form.read(block, problems) for block in form.cut(str(path), most_bytes)]
    problems.finish()
    return join(records)


def columns(records: Records) -> dict[str, list[Any]]:
    return {
        name: values.tolist() if isinstance(values, np.ndarray) else [values.values.tolist(), values.offsets.tolist()]
        for name, values in records.batch().items()
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.csv"
    path.write_bytes(LINES)
    return path


def test_a_file_becomes_a_batch(file: Path) -> None:
    batch = SCHEMA.batch(read(file))
    assert batch.label.tolist() == [1, 0, 1]
    assert batch.dense.tolist() == [[2.5], [0], [-3]]
    assert batch.ids[:, 0].tolist() == fleet.data.hash_ids("user", ["anna", "ben", ""]).tolist()
    values, offsets = batch.slots["tags"]
    assert (values.tolist(), offsets.tolist()) == (fleet.data.hash_ids("tags", ["a", "b", "c"]).tolist(), [0, 2, 2, 3])


def test_criteo_is_read(tmp_path: Path) -> None:
    path = tmp_path / "day_0"
    numbers, categories = ["", "-1", *map(str, range(11))], [f"{n:08x}" for n in range(25)] + [""]
    path.write_text("\t".join(["1", *numbers, *categories]) + "\n")
    batch = fleet.data.criteo().batch(read(path, fleet.data.criteo()))
    wanted = [0, -np.log(2), *np.log1p(np.arange(11))]
    np.testing.assert_allclose(batch.dense[0].numpy(), wanted, rtol=1e-6)
    ids = [int(fleet.data.hash_ids(f"C{place}", [text])[0]) for place, text in enumerate(categories, 1)]
    assert (batch.label.tolist(), batch.ids.tolist()) == ([1], [ids])


lines = st.lists(
    st.sampled_from([b"1,1,a,,b\n", b"0,22,bb,cc,d|e|f\r\n", b"\n", b"1,2\n", b"1," + b"7" * 30 + b",,,\n"])
)


@settings(max_examples=80, deadline=None)
@given(lines, st.integers(1, 60), st.sampled_from([b"", b"0,5,last,,x", b"\xef\xbb\xbf"]), st.booleans())
def test_blocks_together_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, given_: list[bytes], most_bytes: int, more: bytes, header: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.csv"
    names = b"click,price,user,other,tags\n" if header else b""
    text = names + b"".join(given_)
    path.write_bytes(more + text if more.startswith(b"\xef") else text + more)
    schema = SCHEMA if not header else fleet.data.Schema(**_arguments(SCHEMA, columns=None, header=True))
    form, problems, whole = TextFormat(schema), Problems(1.0), Problems(1.0)
    blocks = form.cut(str(path), most_bytes)
    assert all(block.size == block.last - block.first <= most_bytes for block in blocks)
    assert all(a.last == b.first for a, b in pairwise(blocks))
    if not blocks:
        assert not given_
        return
    parts = [form.read(block, problems) for block in blocks]
    all_ = TextFormat(schema).read(Block(str(path), blocks[0].first, blocks[-1].last, 0), whole)
    assert columns(join(parts)) == columns(all_)
    assert (problems.num_lines, problems.num_bad, problems.told) == (whole.num_lines, whole.num_bad, whole.told)


def _arguments(schema: fleet.data.Schema, **others: Any) -> dict[str, Any]:
    names = ("label", "numbers", "categories", "weight", "columns", "delimiter", "header", "quotes")
    return {name: getattr(schema, name) for name in names} | others


def test_threads_share_a_format(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_bytes(b"".join(b"1,%d,u%d,,%d|x\n" % (n, n % 7, n) for n in range(5000)))
    form, problems = TextFormat(SCHEMA), Problems()
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda block: form.read(block, problems), form.cut(str(path), 1000)))
    assert (len(parts) > 50, problems.num_lines, problems.num_bad) == (True, 5000, 0)
    assert columns(join(parts)) == columns(read(path))


def test_a_format_goes_to_another_process(file: Path) -> None:
    form = TextFormat(SCHEMA)
    (block,) = form.cut(str(file), 100)
    records = form.read(block, Problems())
    assert columns(pickle.loads(pickle.dumps(form)).read(block, Problems())) == columns(records)


def test_a_line_that_is_longer_than_blocks(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"1,1," + b"x" * 50_000 + b",,\n" + LINES)
    records = read(path, most_bytes=1000)
    assert records.num == 4
    assert SCHEMA.batch(records).ids[0].numpy() == fleet.data.hash_ids("user", ["x" * 50_000])


def test_a_header_names_the_columns_in_any_order(tmp_path: Path) -> None:
    schema = fleet.data.Schema(label="click", categories=["user"], delimiter=",", header=True)
    for name, text in {"a": b'\xef\xbb\xbfuser,"x, y",click\r\nanna,5,1\r\n', "b": b"click,user\n1,anna"}.items():
        (tmp_path / name).write_bytes(text)
        batch = schema.batch(read(tmp_path / name, schema))
        assert (batch.label.tolist(), batch.ids.tolist()) == ([1], [fleet.data.hash_ids("user", ["anna"]).tolist()])


@pytest.mark.parametrize("text", [b"", b"\xef\xbb\xbf", b"click,user", b"click,user\n", b"click,user\r\n"])
def test_files_without_data_have_no_blocks(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "none.csv"
    path.write_bytes(text)
    schema = fleet.data.Schema(label="click", categories=["user"], delimiter=",", header=True)
    assert TextFormat(schema).cut(str(path), 100) == []


def test_packed_files_are_one_block_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "PIECE_BYTES", 37)
    plain, packed, empty = tmp_path / "a.csv", tmp_path / "a.csv.gz", tmp_path / "empty.csv.gz"
    plain.write_bytes(LINES * 50 + b"0,1,last,,")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    empty.write_bytes(gzip.compress(b""))
    assert len(TextFormat(SCHEMA).cut(str(packed), 10)) == 1
    assert columns(read(packed)) == columns(read(plain))
    assert read(empty).num == 0
    named = fleet.data.Schema(label="click", categories=["user"], delimiter=",", header=True)
    assert TextFormat(named).read(TextFormat(named).cut(str(empty), 10)[0], Problems()).num == 0, "not even a header"


@pytest.mark.parametrize("is_packed", [False, True])
def test_bad_lines_are_told_with_file_and_line(
    tmp_path: Path, is_packed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    text = b"click,price,user,other,tags\n\n" + LINES * 10 + b"1,2\n" + LINES + b"yes,1,a,,\r\n" + LINES
    path = tmp_path / ("bad.csv.gz" if is_packed else "bad.csv")
    path.write_bytes(gzip.compress(text) if is_packed else text)
    schema = fleet.data.Schema(**_arguments(SCHEMA, header=True))
    form, problems = TextFormat(schema), Problems(0.1)
    records = [form.read(block, problems) for block in form.cut(str(path), 100)]
    problems.finish()
    assert sum(one.num for one in records) == 36
    assert (problems.num_lines, problems.num_bad) == (38, 2)
    assert problems.told == [
        f"2 columns instead of 5 in {path}:33",
        f"label 'click' has 'yes', which is no number in {path}:37",
    ]
    assert "left out: 2 columns instead of 5" in caplog.text
    with pytest.raises(UsageError, match=r"2 of 38 lines cannot be read, the first: 2 columns .* bad=0.053 or above"):
        read(path, schema, bad=0.01)


def test_far_back_a_bad_line_is_told_by_its_byte(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "MOST_COUNTED_BYTES", 0)
    file.write_bytes(LINES + b"1\n")
    form, problems = TextFormat(SCHEMA), Problems(1.0)
    form.read(Block(str(file), 16, len(LINES) + 2, 0), problems)
    assert problems.told == [f"1 column instead of 5 in {file}, byte {len(LINES)}"]


BAD_FILES = {
    "UTF-16": ("1,2\n".encode("utf-16"), r"is UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8"),
    "UTF-16 without a mark": ("1,2\n".encode("utf-16-le"), "has zero bytes, as UTF-16 text and binary files have"),
    "UTF-32": ("1,2\n".encode("utf-32"), "is UTF-32 text"),
    "gzip": (gzip.compress(b"1"), "is packed by gzip; let its name end with .gz"),
    "zstd": (b"\x28\xb5\x2f\xfd\0", "is packed by zstd; let its name end with .zst"),
    "Parquet": (b"PAR1....", "is a Parquet file; let its name end with .parquet, or give format='parquet'"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_files_that_are_no_such_text(file: Path, kind: str) -> None:
    text, message = BAD_FILES[kind]
    file.write_bytes(text)
    form = TextFormat(SCHEMA)
    with pytest.raises(UsageError, match=f"{file} {message}"):
        form.cut(str(file), 100)
    with pytest.raises(UsageError, match=message):
        form.read(Block(str(file), 0, len(text), len(text)), Problems())


def test_a_packed_file_with_other_text_in_it(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress("1,2\n".encode("utf-16")))
    with pytest.raises(UsageError, match="x.csv.gz is UTF-16 text"):
        read(path)


@pytest.mark.parametrize("cut_off", [5, 30])
def test_a_packed_file_that_is_cut_off(tmp_path: Path, cut_off: int) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(LINES * 1000)[:cut_off])
    with pytest.raises(UsageError, match=r"x\.csv\.gz"):
        read(path)


def test_headers_that_do_not_fit(file: Path) -> None:
    schema = fleet.data.Schema(label="click", categories=["user"], delimiter=",", header=True)
    for text, message in {
        b"click,userid\n": r"has no column 'user'; its header has 'click', 'userid'; did you mean 'userid'\?$",
        b"click,person\n": r"has no column 'user'; its header has 'click', 'person'$",
        b"click;user\n": r"its header has 'click;user'; it is divided by ';', and the schema's delimiter is ','$",
        b"click,user,user\n": "has column 'user' 2 times; rename all but one",
        b"\xe4,user\n": r"the header of .* is not UTF-8 text \(.*\); convert the file",
        b",".join([b"x"] * 30): "'x' and 20 more$",
    }.items():
        file.write_bytes(text)
        with pytest.raises(UsageError, match=message):
            TextFormat(schema).cut(str(file), 100)
    both = fleet.data.Schema(label="a", columns=["a", "b", "c"], delimiter=",", header=True)
    with pytest.raises(UsageError, match="has 30 columns where the schema names 3"):
        TextFormat(both).cut(str(file), 100)


def test_a_header_that_the_schema_does_not_know_of(file: Path) -> None:
    schema = fleet.data.Schema(label="click", categories=["user"], delimiter=",", columns=["click", "user"])
    for text in (b"click,user\r\n1,anna\n", b'"click",user\n1,anna\n', b"\xef\xbb\xbfclick,user\n1,anna\n"):
        file.write_bytes(text)
        with pytest.raises(UsageError, match=r"first line of \S* has the names of the columns; .* header=True$"):
            TextFormat(schema).cut(str(file), 100)


def test_files_that_cannot_be_opened(file: Path, tmp_path: Path) -> None:
    form = TextFormat(SCHEMA)
    with pytest.raises(UsageError, match=r"^\S*/missing.csv is not there"):
        form.cut(str(tmp_path / "missing.csv"), 100)
    with pytest.raises(UsageError, match=f"^{tmp_path} cannot be read: Is a directory$"):
        form.cut(str(tmp_path), 100)
    (block,) = form.cut(str(file), 100)
    os.truncate(file, 20)
    with pytest.raises(UsageError, match="clicks.csv is shorter than it was when it was cut"):
        form.read(block, Problems())
    file.unlink()
    with pytest.raises(UsageError, match="clicks.csv is not there, or not any more"):
        form.read(block, Problems())


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(text_module, "MOST_LINE_BYTES", 10_000)
    monkeypatch.setattr(text_module, "PIECE_BYTES", 4_000)
    path, text = tmp_path / name, b"1," * 100_000
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    with pytest.raises(UsageError, match="has a line of more than 64 MiB; is it a text file"):
        read(path, most_bytes=1000)


def test_schemas_that_text_cannot_have() -> None:
    with pytest.raises(UsageError, match=r"text files need the names of their columns: give columns=\[...\]"):
        TextFormat(fleet.data.Schema(label="click"))
    with pytest.raises(UsageError, match="columns of the schema has 'a' more than once; rename all but one"):
        TextFormat(fleet.data.Schema(label="a", columns=["a", "a"]))
    tags = fleet.data.Category("tags", separator=";")
    with pytest.raises(UsageError, match="the separator of column 'tags' is the delimiter of the columns, too"):
        TextFormat(fleet.data.Schema(categories=[tags], columns=["tags"], delimiter=";"))
    with pytest.raises(UsageError, match=r"delimiter must not be '\\n'"):
        fleet.data.Schema(label="click", delimiter="\n")
    with pytest.raises(UsageError, match="most_bytes must be at least 1, got 0"):
        TextFormat(SCHEMA).cut("x", 0)


def test_ids_beyond_int64_are_bad_lines(tmp_path: Path) -> None:
    schema = fleet.data.Schema(categories=[fleet.data.Category("id", hash=False)], columns=["id"])
    path = tmp_path / "ids"
    path.write_text(f"{2**63 - 1}\n{2**63}\n-{2**63}\n-{2**63 + 1}\n\n5\n")
    assert schema.batch(read(path, schema, bad=0.5)).ids.tolist() == [[2**63 - 1], [-(2**63)], [5]]
    with pytest.raises(UsageError, match=r"2 of 5 lines .* column 'id' has '9223372036854775808', which int64 cannot"):
        read(path, schema)


def test_a_gap_in_each_kind_of_category(tmp_path: Path) -> None:
    schema = fleet.data.Schema(
        categories=[
            "a",
            fleet.data.Category("b", hash=False, missing=9),
            fleet.data.Category("c", bounds=(1, 2)),
            fleet.data.Category("d", separator=" ", length=2, padding=-1, slot="a"),
            fleet.data.Category("e", length=1),
        ],
        columns=["a", "b", "c", "d", "e", "end"],
    )
    (tmp_path / "x").write_text("\t\t\t\t\t\n1\t2\t3\t1\ty z\t\n")
    batch = schema.batch(read(tmp_path / "x", schema))
    gap = [int(fleet.data.hash_ids(name, [""])[0]) for name in "ac"]
    one, two = int(fleet.data.hash_ids("a", ["1"])[0]), int(fleet.data.hash_ids("c", ["2"])[0])
    assert batch.ids.tolist() == [[gap[0], 9, gap[1]], [one, 2, two]]
    assert batch.slots["d"].tolist() == [[-1, -1], [one, -1]]  # type: ignore[union-attr]
    assert batch.slots["e"].tolist() == [[0], fleet.data.hash_ids("e", ["y z"]).tolist()]  # type: ignore[union-attr]

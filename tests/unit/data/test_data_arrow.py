"""Parquet and Arrow files to records: the same as the same data in text, and every bad file in one line."""

from __future__ import annotations

import decimal
import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import fleet
from fleet.data import Category, Number, Schema, criteo, hash_ids
from fleet.data.columns.blocks import FileFormat, Problems
from fleet.data.columns.records import Records, join
from fleet.data.reading.from_files import format_of
from fleet.errors import UsageError
from support.serving.readers import ThreadJob

SCHEMA = Schema(
    label="click",
    numbers=[
        Number("age", dtype="float32"),
        Number("price", log=True, missing=-1.0),
        Number("when", dtype="float64", missing=-2.5),
        Number("key", dtype="int64", missing=-(2**62) - 1),
    ],
    categories=[
        "user",
        "item",
        Category("part", bounds=(0.0, 10.0, 1e6)),
        Category("code", hash=False, missing=-7),
        Category("tags", separator=","),
        Category("seen", separator=",", length=3, hash=False, padding=-1),
        Category("like", separator=",", slot="item"),
    ],
    weight="weight",
    columns=["click", "age", "price", "user", "item", "part", "code", "tags", "seen", "like", "weight", "when", "key"],
)


def write(table: pa.Table, path: Path, rows: int = 1000) -> str:
    """A table in the format that the name of a file asks for, in blocks of so many rows."""
    ending = path.name.removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
    sink = pa.BufferOutputStream()
    if ending == "parquet":
        pq.write_table(table, sink, row_group_size=rows)
    elif ending == "feather":
        feather.write_feather(table, sink, compression="lz4", chunksize=rows)
    else:
        opened = ipc.new_file if ending == "arrow" else ipc.new_stream
        with opened(sink, table.schema) as writer:
            writer.write_table(table, rows)
    content = sink.getvalue().to_pybytes()
    if path.name.endswith(".gz"):
        content = gzip.compress(content, 1)
    elif path.name.endswith(".zst"):
        content = zstandard.compress(content)
    path.write_bytes(content)
    return str(path)


def read(path: str, schema: Schema, most_bytes: int = 1 << 24, problems: Problems | None = None) -> Records:
    """All blocks of a file."""
    files: FileFormat = format_of(path, schema)
    blocks = files.cut(path, most_bytes)
    assert blocks, f"{path} is empty"
    return join([files.read(block, problems or Problems(0.0, grace=1)) for block in blocks])


def assert_equal(found: Records, wanted: Records) -> None:
    assert found.num == wanted.num
    assert found.slots == wanted.slots
    for slot, one, other in zip(found.slots, found.columns, wanted.columns, strict=True):
        (values, offsets), (others, their_offsets) = one.plain(), other.plain()
        assert values.dtype == others.dtype, slot
        np.testing.assert_array_equal(values, others, err_msg=str(slot), strict=True)
        assert (offsets is None) == (their_offsets is None), slot
        if offsets is not None and their_offsets is not None:
            np.testing.assert_array_equal(offsets, their_offsets, err_msg=str(slot))


Row = tuple[Any, ...]


def text_of(rows: list[Row]) -> str:
    def field(value: Any) -> str:
        if isinstance(value, list):
            return ",".join("" if one is None else str(one) for one in value)
        return "" if value is None else repr(value) if isinstance(value, float) else str(value)

    return "".join("\t".join(map(field, row)) + "\n" for row in rows)


def table_of(rows: list[Row]) -> pa.Table:
    types = [
        pa.int8(), pa.int32(), pa.float64(), pa.string(), pa.int64(), pa.float64(), pa.int64(), pa.list_(pa.string()),
        pa.list_(pa.int64()), pa.string(), pa.float32(), pa.float64(), pa.int64(),
    ]  # fmt: skip
    assert SCHEMA.columns is not None
    columns = list(zip(*rows, strict=True))
    columns[9] = tuple(None if one is None else ",".join(map(str, one)) for one in columns[9])
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table(dict(zip(SCHEMA.columns, arrays, strict=True)))


int64s = st.integers(-(1 << 63), (1 << 63) - 1)
words = st.text(st.characters(codec="utf-8", exclude_characters='\0\t\n\r,"', exclude_categories=["Cs"]), max_size=20)
rows = st.tuples(
    st.integers(0, 1),
    st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
    st.none() | st.floats(-1e30, 1e30, allow_subnormal=False),
    st.none() | words,
    st.none() | int64s,
    st.none() | st.floats(-1e7, 1e7, allow_subnormal=False),
    st.none() | int64s,
    st.none() | st.lists(words, max_size=4),
    st.none() | st.lists(st.none() | int64s, max_size=5),
    st.none() | st.lists(st.integers(0, 100), max_size=4),
    st.floats(0, 100, width=32),
    st.none() | st.floats(-1e300, 1e300, allow_subnormal=False),
    st.none() | int64s,
)


@settings(max_examples=15, deadline=None)
@given(st.lists(rows, min_size=1, max_size=12))
def test_the_same_data_has_the_same_records_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, samples: list[Row]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "same.tsv").write_text(text_of(samples))
    wanted = read(str(folder / "same.tsv"), SCHEMA)
    table = table_of(samples)
    for kind in ("parquet", "arrow", "feather"):
        assert_equal(read(write(table, folder / f"same.{kind}", 5), SCHEMA, 1), wanted)
    texts = table.schema.get_field_index("user")
    table = table.set_column(texts, "user", table.column("user").combine_chunks().dictionary_encode())
    assert_equal(read(write(table, folder / "same.parquet", 5), SCHEMA, 1), wanted)
    assert_equal(read(write(table, folder / "same.arrow", 1000), SCHEMA), wanted)


def test_criteo(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    num, schema = 3000, criteo()
    columns: dict[str, Any] = {"label": generator.integers(0, 2, num)}
    for number in schema.all_numbers:
        counts = generator.geometric(0.001, num) - 2
        columns[number.name] = pa.array(counts, mask=generator.random(num) < 0.3)
    for size, one in enumerate(schema.all_categories, start=1):
        texts = [f"{value:08x}" for value in generator.integers(0, size**3, num)]
        columns[one.name] = pa.array(texts, mask=generator.random(num) < 0.1)
    table = pa.table(columns)
    lines = zip(*(column.to_pylist() for column in table.columns), strict=True)
    (tmp_path / "a.tsv").write_text(text_of([*lines]))
    wanted = read(str(tmp_path / "a.tsv"), schema)
    assert wanted.num == num
    for name in ("a.parquet", "a.arrow", "a.feather", "a.parquet.gz", "a.arrow.zst"):
        assert_equal(read(write(table, tmp_path / name), schema, 1 << 10), wanted)
    assert_equal(read(write(table, tmp_path / "b.parquet", 700), schema), wanted)
    pq.write_table(table, tmp_path / "c.parquet", use_dictionary=False, compression="zstd", row_group_size=999)
    assert_equal(read(str(tmp_path / "c.parquet"), schema), wanted)
    batch = schema.batch(wanted)
    assert batch.dense.shape == (num, 13)
    assert batch.ids.shape == (num, 26)


ONE = Schema(categories=["x"])


@pytest.mark.parametrize(
    ("array", "same"),
    [
        (pa.array(["a", None, "long enough to lie elsewhere"], pa.string()), None),
        (pa.array(["a", None, "b"], pa.large_string()), None),
        (pa.array(["a", None, "long enough to lie elsewhere"], pa.string_view()), None),
        (pa.array([b"a\xff", None, b""], pa.binary()), [b"a\xff", b"", b""]),
        (pa.array([b"ab", None, b"cd"], pa.binary(2)), None),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string())), [None, None]),
        (pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([5, -6])), [-6, 5]),
        (pa.array([1, None, -5], pa.int16()), None),
        (pa.array([1, None, (1 << 64) - 1], pa.uint64()), None),
        (pa.array([True, False, None]), ["1", "0", None]),
        (pa.array([decimal.Decimal(12345678901234567890123), None]), ["12345678901234567890123", None]),
        (pa.array([None, None]), [None, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_ids_are_those_of_the_text_whatever_the_type(tmp_path: Path, array: Any, same: list[Any] | None) -> None:
    wanted = hash_ids("x", array.to_pylist() if same is None else same)
    for sliced, values in ((array, wanted), (array.slice(1), wanted[1:])):
        for name in ("a.arrow", "a.parquet"):
            found = read(write(pa.table({"x": sliced}), tmp_path / name), ONE)
            assert found.columns[0].values[:, 0].tolist() == values.tolist()


def test_runs_and_dictionaries_with_gaps_in_them_are_read(tmp_path: Path) -> None:
    gaps = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(["a", None]))
    found = read(write(pa.table({"x": gaps}), tmp_path / "a.arrow"), ONE)
    assert found.columns[0].values[:, 0].tolist() == hash_ids("x", [None, None, "a"]).tolist()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    found = read(write(pa.table({"x": runs}), tmp_path / "a.arrow"), ONE)
    assert found.columns[0].values[:, 0].tolist() == hash_ids("x", ["a", "a", "b"]).tolist()


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda one: pa.list_(one, 2), pa.list_view])
def test_lists_of_every_kind(tmp_path: Path, kind: Callable[[Any], Any]) -> None:
    schema = Schema(categories=[Category("x", separator=","), Category("y", length=3, hash=False, padding=9)])
    lists = pa.array([[1, 2], None, [3, None]], kind(pa.int64()))
    found = read(write(pa.table({"x": lists, "y": lists}), tmp_path / "a.arrow"), schema)
    values, offsets = found.columns[0].plain()
    assert values.tolist() == hash_ids("x", [1, 2, 3]).tolist()
    assert offsets is not None
    assert offsets.tolist() == [0, 2, 2, 3]
    assert found.columns[1].values.tolist() == [[1, 2, 9], [9, 9, 9], [3, 9, 9]]


def test_truth_values_and_other_numbers_are_floats(tmp_path: Path) -> None:
    schema = Schema(label="y", numbers=["a", "b", "c"], weight="w")
    table = pa.table(
        {
            "y": [True, False],
            "a": pa.array([0.5, None], pa.float16()),
            "b": pa.array([decimal.Decimal("1.25"), None]),
            "c": pa.array([float("nan"), 3.0]),
            "w": pa.array([2, 1], pa.uint8()),
        }
    )
    batch = schema.batch(read(write(table, tmp_path / "a.parquet"), schema))
    assert batch.label.tolist() == [1.0, 0.0]
    assert batch.dense.tolist() == [[0.5, 1.25, 0.0], [0.0, 0.0, 3.0]]
    assert batch.weight is not None
    assert batch.weight.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows.ipc"])
def test_bad_rows_are_left_out_and_told_with_their_number(tmp_path: Path, name: str) -> None:
    schema = Schema(
        label="y", numbers=["n"], categories=[Category("c", hash=False), Category("l", separator=",", hash=False)]
    )
    num = 10
    labels: list[Any] = [1.0] * num
    labels[2], labels[5] = None, float("inf")
    codes = [*range(num)]
    codes[7] = 1 << 63
    numbers = [0.5] * num
    numbers[8] = 1e39
    lists = ["1,2"] * num
    lists[9] = "1,x"
    table = pa.table({"y": labels, "n": numbers, "c": pa.array(codes, pa.uint64()), "l": lists})
    problems = Problems(1.0)
    path = write(table, tmp_path / name, 3)
    found = read(path, schema, 1, problems)
    assert schema.batch(found).ids[:, 0].tolist() == [0, 1, 3, 4, 6]
    assert (problems.num_lines, problems.num_bad) == (num, 5)
    assert problems.told == [
        f"label 'y' is empty in {path}:3",
        f"label 'y' has inf, which float32 cannot hold in {path}:6",
        f"column 'c' has 9223372036854775808, which is no int64 in {path}:8",
        f"column 'n' has 1e+39, which float32 cannot hold in {path}:9",
        f"column 'l' has 1,x, which are not all int64s in {path}:10",
    ]
    with pytest.raises(UsageError, match="lines cannot be read, the first: label 'y' is empty"):
        read(path, schema, 1, Problems(0.1, grace=1))


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (Schema(label="clik"), "a.parquet has no column 'clik'; did you mean 'click'?"),
        (Schema(label="zzz"), "a.parquet has no column 'zzz'; it has click, name, when, list, real"),
        (Schema(label="name"), "a.parquet: column 'name' has type string; a label needs numbers"),
        (Schema(numbers=["when"]), r"column 'when' has type timestamp\[us\]; a number needs numbers: cast it"),
        (Schema(label="click", weight="list"), "column 'list' has type list<.*>; a weight needs numbers"),
        (Schema(categories=["real"]), "column 'real' has type double; a hashed category needs text or whole numbers"),
        (Schema(categories=["list"]), r"declare it Category\('list', separator=','\) for bags"),
        (Schema(categories=[Category("name", hash=False)]), "type string; hash=False needs whole numbers"),
        (Schema(categories=[Category("name", bounds=(1.0,))]), "type string; bounds need numbers"),
        (Schema(categories=[Category("when", separator=",")]), "type timestamp.*; a hashed category needs"),
    ],
)
def test_columns_that_are_missing_or_of_another_type(tmp_path: Path, schema: Schema, what: str) -> None:
    table = pa.table(
        {
            "click": [1],
            "name": ["a"],
            "when": pa.array([0], pa.timestamp("us")),
            "list": [[1]],
            "real": [0.5],
        }
    )
    path = write(table, tmp_path / "a.parquet")
    with pytest.raises(UsageError, match=what):
        format_of(path, schema).cut(path, 100)


def test_a_name_that_stands_twice(tmp_path: Path) -> None:
    path = write(pa.table([[1], [2]], names=["x", "x"]), tmp_path / "a.arrow")
    with pytest.raises(UsageError, match="a.arrow has 2 columns called 'x'"):
        format_of(path, ONE).cut(path, 100)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather", "a.parquet.gz"])
class TestFiles:
    def test_damaged(self, tmp_path: Path, name: str) -> None:
        whole = Path(write(pa.table({"x": [f"{value}" for value in range(5000)]}), tmp_path / name)).read_bytes()
        files = format_of(name, ONE)
        cases = [b"nonsense of some length, which is no file", whole[: len(whole) // 2], whole[:-3]]
        places = range(0, len(whole) - 300, len(whole) // 12)
        cases += [whole[:place] + bytes(200) + whole[place + 200 :] for place in places]
        refused = []
        for content in cases:
            (tmp_path / name).write_bytes(content)
            files = format_of(name, ONE)
            try:
                for block in files.cut(str(tmp_path / name), 100):
                    files.read(block, Problems())
            except UsageError as error:
                refused.append(str(error))
        assert len(refused) >= 3
        assert all(f"{tmp_path / name} " in one and "\n" not in one for one in refused)

    def test_empty(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"")
        assert format_of(name, ONE).cut(str(tmp_path / name), 100) == []
        path = write(pa.table({"x": pa.array([], pa.string())}), tmp_path / name)
        blocks = format_of(name, ONE).cut(path, 100)
        assert sum(format_of(name, ONE).read(block, Problems()).num for block in blocks) == 0

    def test_gone_or_changed(self, tmp_path: Path, name: str) -> None:
        files = format_of(name, ONE)
        path = write(pa.table({"x": ["a"] * 10}), tmp_path / name, 2)
        block = files.cut(path, 1)[-1]
        Path(path).unlink()
        for call in (lambda: files.cut(path, 100), lambda: files.read(block, Problems())):
            with pytest.raises(UsageError, match="is not there, or not any more"):
                call()
        write(pa.table({"x": ["a", "b"]}), tmp_path / name, 2)
        with pytest.raises(UsageError, match=f"{name} (has changed|is no .* file, or damaged)"):
            files.read(block, Problems())


def test_blocks_are_row_groups_of_about_the_size_asked_for(tmp_path: Path) -> None:
    table = pa.table({"x": [f"{value:032d}" for value in range(10_000)], "other": ["y" * 100] * 10_000})
    path = write(table, tmp_path / "a.parquet", 1000)
    files = format_of(path, ONE)
    every = files.cut(path, 1 << 30)
    assert [(block.first, block.last) for block in every] == [(0, 10)]
    assert [(block.first, block.last) for block in files.cut(path, 1)] == [(place, place + 1) for place in range(10)]
    some = files.cut(path, every[0].size // 3)
    assert sum(block.size for block in some) == every[0].size
    assert [(block.first, block.last) for block in some] == [(0, 3), (3, 6), (6, 9), (9, 10)]


def test_behind_a_url() -> None:
    store = fsspec.filesystem("memory")
    table = pa.table({"x": [f"{value}" for value in range(1000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100)
    store.pipe("/columns/a.parquet", sink.getvalue().to_pybytes())
    try:
        found = read("memory://columns/a.parquet", ONE, 1)
        assert found.columns[0].values[:, 0].tolist() == hash_ids("x", [*range(1000)]).tolist()
    finally:
        store.rm("/columns", recursive=True)


def test_a_stream_is_one_block(tmp_path: Path) -> None:
    path = write(pa.table({"x": [f"{value}" for value in range(1000)]}), tmp_path / "a.ipc", 10)
    assert len(format_of(path, ONE).cut(path, 1)) == 1
    assert read(path, ONE).num == 1000


def test_workers_divide_a_folder_of_both(tmp_path: Path) -> None:
    """Parquet and Arrow beside each other, for two workers: every row once."""
    schema = Schema(categories=[Category("x", hash=False)])
    for place, name in enumerate(("a.parquet", "b.arrow", "c.parquet")):
        write(pa.table({"x": [*range(place * 100, place * 100 + 100)]}), tmp_path / name, 10)

    def work(worker: int) -> list[int]:
        batches = fleet.data.files(tmp_path, schema, 7, shuffle=True)
        return [int(value) for batch in batches for value in batch.ids[:, 0]]

    parts = ThreadJob(2).run(work)
    assert sorted(parts[0] + parts[1]) == [*range(300)]
    assert all(len(part) > 50 for part in parts)


def test_another_file_in_the_place_of_one_is_not_read_by_the_old_footer(tmp_path: Path) -> None:
    path = write(pa.table({"x": ["a"] * 10}), tmp_path / "a.parquet", 2)
    files = format_of(path, ONE)
    block = files.cut(path, 1)[1]
    write(pa.table({"x": [f"other {number}" for number in range(10)]}), tmp_path / "a.parquet", 2)
    with pytest.raises(UsageError, match="a.parquet has changed since the job began"):
        files.read(block, Problems())
    assert files.read(files.cut(path, 1)[1], Problems()).num == 2


def test_threads_read_one_file_at_once(tmp_path: Path) -> None:
    table = pa.table({"x": [f"{number % 977}" for number in range(20_000)]})
    for name in ("a.parquet", "a.arrow"):
        path = write(table, tmp_path / name, 500)
        files = format_of(path, ONE)
        with ThreadPoolExecutor(4) as threads:
            parts = list(threads.map(lambda block, files=files: files.read(block, Problems()), files.cut(path, 1)))
        assert_equal(join(parts), read(path, ONE))


def test_gaps_and_empty_texts_in_lists_are_left_out(tmp_path: Path) -> None:
    """Also where some are nulls, some empty, and values stand in a dictionary."""
    texts = pa.array([["a", None, "", "b"], [""], None])
    numbers = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2], pa.int32()), pa.array([7, None, 8]))
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 4, 4], pa.int32()), numbers)
    feather.write_feather(pa.table({"texts": texts, "numbers": lists}), tmp_path / "a.feather")
    schema = fleet.data.Schema(categories=[fleet.data.Category(name, separator=",") for name in ("texts", "numbers")])
    form = format_of("a.feather", schema)
    batch = schema.batch(form.read(form.cut(str(tmp_path / "a.feather"), 1 << 20)[0], Problems()))
    wanted: dict[str, list[Any]] = {"texts": ["a", "b"], "numbers": [7, 8]}
    for name, values in wanted.items():
        assert batch.slots[name][0].tolist() == fleet.data.hash_ids(name, values).tolist()
    assert [batch.slots[name][1].tolist() for name in ("texts", "numbers")] == [[0, 2, 2, 2], [0, 1, 2, 2]]


def test_decimals_of_few_digits_are_ids(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([15, None, -7], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(3, 0))})
    feather.write_feather(table, tmp_path / "a.feather")
    schema = fleet.data.Schema(categories=[fleet.data.Category("id", hash=False, missing=-1)])
    form = format_of("a.feather", schema)
    batch = schema.batch(form.read(form.cut(str(tmp_path / "a.feather"), 1 << 20)[0], Problems()))
    assert batch.ids.tolist() == [[15], [-1], [-7]]

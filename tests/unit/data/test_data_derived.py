"""Derived columns, gaps and wide numbers: the same in text, Parquet, Arrow and memory, divided, resumed and served."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import torch

import fleet
from fleet.data import Batch, Category, Derived, Number, Schema, batch_of, hash_ids
from fleet.data.formats.times import times_of
from fleet.data.reading import piece_order
from fleet.errors import UsageError, UsageTypeError
from support.serving.readers import ThreadJob

EPOCH = dt.datetime(1970, 1, 1)


def ratio(price: Any, hour: Any) -> Any:
    return price / (hour + 1)


SCHEMA = Schema(
    label="bought",
    numbers=["price", Number("at", dtype="float64"), Number("stock", dtype="int64", missing=-1), "ratio"],
    categories=[
        "user",
        Category("hour", hash=False, missing=24),
        Category("part", bounds=(10,), slot="p"),
        "price part",
        "user and hour",
        Category("weekday", hash=False, missing=7),
        Category("tags", separator="|"),
    ],
    derived=[
        Derived("bought", {"paid": "float64"}, lambda paid: ~np.isnan(paid)),
        Derived.hour("hour", "time", shift_h=8),
        Derived.weekday("weekday", "time"),
        Derived.seconds("at", "time"),
        Derived("part", {"price": "float64"}, lambda price: price * 2),
        Derived.buckets("price part", "price", (5, 50)),
        Derived.cross("user and hour", ["user", "hour"]),
        Derived("ratio", {"price": "float64", "hour": "float64"}, ratio),
    ],
    na_values=["NA", "\\N"],
    delimiter=",",
    header=True,
)


def rows(num: int) -> dict[str, list[Any]]:
    """Columns of a shop, with gaps in all of them."""

    def with_gaps(values: Iterator[Any], every: int) -> list[Any]:
        return [None if place % every == 1 else one for place, one in enumerate(values)]

    return {
        "time": with_gaps((EPOCH + dt.timedelta(seconds=1_700_000_000 + 4003 * n) for n in range(num)), 7),
        "user": with_gaps((f"u{n % 5}é" for n in range(num)), 5),
        "price": with_gaps((n * 0.75 for n in range(num)), 4),
        "paid": with_gaps((1.5 for _ in range(num)), 3),
        "stock": with_gaps(((1 << 53) + 1 + n for n in range(num)), 9),
        "tags": with_gaps((f"a|b{n % 3}" for n in range(num)), 6),
    }


def write(path: Path, columns: dict[str, list[Any]], gap: str = "", of_time: Callable[[Any], Any] = str) -> Path:
    """Columns in the format that the name of a file asks for, in their order."""
    if path.suffix != ".csv":
        table = pa.table(columns)
        if path.suffix == ".parquet":
            pq.write_table(table, path, row_group_size=10)
        else:
            feather.write_feather(table, path, chunksize=10, compression="uncompressed")
        return path
    lines = [",".join(columns)]

    def field(one: Any) -> str:
        return gap if one is None else of_time(one) if isinstance(one, dt.datetime) else str(one)

    lines += [",".join(map(field, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def load(path: Path | list[Path], schema: Schema = SCHEMA, bad: float = 0) -> Batch:
    examples = fleet.data.load([str(one) for one in path] if isinstance(path, list) else str(path), schema, bad=bad)
    return examples.batch(torch.arange(len(examples)))


def assert_same(found: Batch, wanted: Batch) -> None:
    for name in ("label", "dense", "ids"):
        assert torch.equal(getattr(found, name), getattr(wanted, name)), name
    assert {name: values.tolist() for name, values in found.numbers.items()} == {
        name: values.tolist() for name, values in wanted.numbers.items()
    }
    assert [part.tolist() for part in found.slots["tags"]] == [part.tolist() for part in wanted.slots["tags"]]


def test_every_format_gives_the_same(tmp_path: Path) -> None:
    columns = rows(40)
    wanted = load(write(tmp_path / "a.csv", columns))
    turned = dict(reversed(columns.items()))
    for name, gap, of_time in (
        ("b.csv", "NA", lambda one: one.strftime("%Y-%m-%dT%H:%M:%SZ")),
        ("c.csv", "\\N", lambda one: str(int((one - EPOCH).total_seconds()))),
        ("d.parquet", "", str),
        ("e.arrow", "", str),
    ):
        assert_same(load(write(tmp_path / name, turned, gap, of_time)), wanted)
    texts = {name: ["NA" if one is None else str(one) for one in columns[name]] for name in ("user", "tags", "time")}
    assert_same(load(write(tmp_path / "f.parquet", {**columns, **texts})), wanted)
    assert_same(batch_of(columns, SCHEMA), wanted)
    served = batch_of({name: values for name, values in columns.items() if name != "paid"}, SCHEMA)
    assert served.label.shape == (40, 0)
    assert_same(served._replace(label=wanted.label), wanted)


def test_what_the_columns_are(tmp_path: Path) -> None:
    columns = rows(12)
    batch = load(write(tmp_path / "a.csv", columns))
    times = columns["time"]
    shifted = [None if one is None else one + dt.timedelta(hours=8) for one in times]
    hours = [24 if one is None else one.hour for one in shifted]
    assert batch.ids[:, 1].tolist() == hours
    assert batch.ids[:, 5].tolist() == [7 if one is None else one.weekday() for one in times]
    assert batch.label.tolist() == [0.0 if one is None else 1.0 for one in columns["paid"]]
    seconds = [0.0 if one is None else (one - EPOCH).total_seconds() for one in times]
    assert batch.numbers["at"].dtype == torch.float64
    assert batch.numbers["at"].tolist() == seconds
    assert len(set(seconds)) == 11  # moments that float32 makes fewer of
    assert batch.numbers["stock"].tolist() == [-1 if one is None else one for one in columns["stock"]]
    prices = columns["price"]
    parts = ["" if one is None else str(sum(one >= bound for bound in (5, 50))) for one in prices]
    assert batch.ids[:, 3].tolist() == hash_ids("price part", parts).tolist()
    assert (
        batch.ids[:, 2].tolist() == hash_ids("p", ["" if x is None else str(int(x * 2 >= 10)) for x in prices]).tolist()
    )
    texts = [f"{user or ''}\x1f{'' if hour == 24 else hour}" for user, hour in zip(columns["user"], hours, strict=True)]
    assert batch.ids[:, 4].tolist() == hash_ids("user and hour", texts).tolist()
    ratios = [x / (h + 1) if x is not None and h != 24 else 0.0 for x, h in zip(prices, hours, strict=True)]
    assert batch.dense[:, 1].tolist() == torch.tensor(ratios).tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_two_workers_over_two_files_and_again_from_the_middle(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files have their columns in different orders; each row is read once, by whoever, before or after the stop."""
    monkeypatch.setattr(piece_order, "LEAST_BLOCK_BYTES", 200)
    columns = rows(90)
    first = {name: values[:40] for name, values in columns.items()}
    second = {name: columns[name][40:] for name in sorted(columns)}
    paths = [write(tmp_path / f"1.{kind}", first), write(tmp_path / f"2.{kind}", second)]
    wanted = load(paths)

    def of(batches: Any) -> list[list[Any]]:
        return [
            [*ids.tolist(), *dense.tolist(), at.item()]
            for batch in batches
            for ids, dense, at in zip(batch.ids, batch.dense, batch.numbers["at"], strict=True)
        ]

    def work(index: int) -> tuple[list[list[Any]], dict[str, Any]]:
        batches = fleet.data.files([str(path) for path in paths], SCHEMA, 7, shuffle=True, seed=3, bad=0)
        found: list[Any] = []
        for batch in islice(batches, 2):
            found += of([batch])
            state = json.loads(json.dumps(batches.state_dict()))
        return found, state

    begun = ThreadJob(2).run(work)
    states = [state for _, state in begun]

    def go_on(index: int) -> list[list[Any]]:
        batches = fleet.data.files([str(path) for path in paths], SCHEMA, 5, shuffle=True, seed=3, bad=0)
        batches.load_state_dict(states)
        return of(batches)

    rest = ThreadJob(3).run(go_on)
    every = [row for found, _ in begun for row in found] + [row for found in rest for row in found]
    assert all(rest)
    assert sorted(every) == sorted(of([wanted]))


def bad_lines(path: Path, schema: Schema) -> str:
    with pytest.raises(UsageError) as caught:
        load(path, schema)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_that_float32_would_change_are_told(tmp_path: Path, kind: str) -> None:
    moments = [1_700_000_000 + 3 * n for n in range(4)]
    path = write(tmp_path / f"a.{kind}", {"time": moments, "share": [0.1, 1e30, 123.456, 1e-30], "n": [1, 2, 3, 4]})
    given: dict[str, Any] = {"delimiter": ",", "header": True}
    says = bad_lines(path, Schema(numbers=["time", "share"], **given))
    assert "3 of 4 lines cannot be read, the first: column 'time' has " in says
    assert "1700000003" in says
    assert ", which float32 would make 1700000000 (declare it with dtype='float64' or 'int64', or 'float32'" in says
    assert f"{path}:{2 + (kind == 'csv')}" in says
    assert "(scale it)" in bad_lines(path, Schema(label="time", **given))
    for dtype in ("float64", "int64"):
        batch = load(path, Schema(numbers=[Number("time", dtype=dtype), "share"], **given))
        assert batch.numbers["time"].tolist() == moments
        assert batch.dense.tolist() == torch.tensor([[0.1], [1e30], [123.456], [1e-30]]).tolist()
        assert batch.to("cpu").numbers["time"].dtype == getattr(torch, dtype)
    rounded = load(path, Schema(numbers=[Number("time", dtype="float32"), Number("n", log=True)], **given))
    assert rounded.dense[:, 0].unique().tolist() == [1_700_000_000.0]
    assert not rounded.numbers
    assert (
        "which is no int64" in bad_lines(path, Schema(numbers=[Number("share", dtype="int64")], **given))
        or kind == "csv"
    )


def test_times_of_arrow_are_no_floats(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"time": [EPOCH]})
    with pytest.raises(
        UsageError, match=r"a number needs numbers: cast it, or derive one, with fleet.data.Derived.sec"
    ):
        load(path, Schema(numbers=[Number("time", dtype="float64")]))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_id_that_is_missing_is_an_error_or_what_the_schema_says(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"a.{kind}", {"user": [7, None, 0], "name": ["a", None, "b"]})
    given: dict[str, Any] = {"delimiter": ",", "header": True}
    says = bad_lines(path, Schema(categories=[Category("user", hash=False)], **given))
    assert f"column 'user' is empty (its missing= says which id a gap is) in {path}:{2 + (kind == 'csv')}" in says
    schema = Schema(categories=[Category("user", hash=False, missing=-1), "name"], **given)
    assert load(path, schema).ids.tolist() == [
        [user, name] for user, name in zip([7, -1, 0], hash_ids("name", ["a", "", "b"]).tolist(), strict=True)
    ]


def test_criteo_with_gaps_is_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "day_0"
    path.write_text("1" + "\t" * 39 + "\n0\t23159457" + "\t1" * 12 + "\t68fd1e64" * 26 + "\n")
    for log in (True, False):
        batch = load(path, fleet.data.criteo(log=log))
        assert batch.dense[0].tolist() == [0.0] * 13
        assert batch.ids[0].tolist() == [int(hash_ids(f"C{n}", [""])[0]) for n in range(1, 27)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_texts_that_are_no_times_are_bad_lines(tmp_path: Path, kind: str) -> None:
    path = write(
        tmp_path / f"a.{kind}", {"time": ["2024-01-01", "gestern", "2024-02-30", ""], "n": ["x", "x", "x", "x"]}
    )
    schema = Schema(
        categories=[Category("hour", hash=False, missing=24)], derived=[Derived.hour("hour", "time")],
        delimiter=",", header=True,
    )  # fmt: skip
    says = bad_lines(path, schema)
    assert f"2 of 4 lines cannot be read, the first: column 'time' has 'gestern', which is no time in {path}:" in says
    assert load(path, schema, bad=0.5).ids.tolist() == [[0], [24]]


def odd(function: Callable[..., Any], column: Any = "x", **given: Any) -> Schema:
    return Schema(
        numbers=[column] if isinstance(column, str | Number) else [],
        categories=[column] if isinstance(column, Category) else [],
        derived=[Derived("x", {"n": "float64"}, function)],
        delimiter=",",
        header=True,
        **given,
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (odd(lambda n: n[:1]), r"of derived column 'x' must give one value for each of 2 rows, got shape \[1\]"),
        (odd(lambda n: n.missing), r"the function of derived column 'x' failed: AttributeError: .*missing"),
        (odd(lambda n: n.astype("M8[s]")), "must give numbers or texts, got datetime64.s.; a time as its seconds"),
        (odd(lambda _: np.array(["a", "b"])), "'x' has texts, and a number needs numbers; read it as a category"),
        (odd(lambda n: n + 0.5, Category("x")), "'x' has 1.5, and a category needs whole numbers or texts: round it"),
        (odd(lambda _: np.array(["a", None]), Category("x")), "must give numbers or texts: sequence item 1"),
        (odd(lambda n: n / 0, Number("x")), "column 'x' has inf, which float32 cannot hold"),
        (odd(lambda n: n * np.nan, Category("x", hash=False)), r"column 'x' is empty \(its missing= says which id"),
        (odd(lambda n: n + 2**30), "column 'x' has 1073741825.0, which float32 would make 1073741824"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_functions_that_go_wrong_say_so_in_one_line(tmp_path: Path, kind: str, schema: Schema, says: str) -> None:
    path = write(tmp_path / f"a.{kind}", {"n": [1.0, 2.0], "m": [0, 0]})
    with pytest.raises(UsageError, match=says) as caught:
        load(path, schema)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: Derived("x", [], len), UsageTypeError, "derived column 'x' needs the names of its columns in of="),
        (lambda: Derived("x", {"a": "int8"}, len), UsageError, "takes 'a' as 'int8'; say one of text, float64, time"),
        (lambda: Derived("x", "a", object()), UsageTypeError, "needs a function of arrays, got <object"),  # type: ignore[arg-type]
        (lambda: Derived.hour("x", "a", unit="min"), UsageError, r"'a' as 'time\[min\]'; say one of"),
        (lambda: Derived.buckets("x", "a", (2, 1)), UsageError, "must be ascending numbers, got .2, 1."),
        (lambda: Derived.cross("x", ["a"]), UsageError, "is a cross of two columns or more"),
        (lambda: Schema(numbers=["x"], derived=["x"]), UsageTypeError, "derived must be a list of fleet.data.Derived"),  # type: ignore[list-item]
        (lambda: Schema(numbers=["x"], derived=[Derived("x", "x", len)]), UsageError, "'x' is made of 'x'; name that"),
        (lambda: Schema(numbers=["y"], derived=[Derived("x", "y", len)]), UsageError, "'x' is not read; name it among"),
        (
            lambda: Schema(categories=[Category("x", separator=" ")], derived=[Derived("x", "y", len)]),
            UsageError,
            "'x' has one value a sample; leave separator and length out",
        ),
        (lambda: Schema(numbers=["a"], na_values="NA"), UsageTypeError, "na_values must be a list of names, got 'NA'"),
        (lambda: Schema(numbers=["a"], na_values=["a\tb"]), UsageError, "na_values has 'a.tb', which no field can"),
        (lambda: Number("a", dtype="float16"), UsageError, "dtype of column 'a' must be one of 'float32', 'fl"),
        (lambda: Number("a", log=True, dtype="int64"), UsageError, "column 'a' has log and dtype='int64'; a logarithm"),
        (lambda: Number("a", missing=0.5, dtype="int64"), UsageError, "missing of column 'a' must be an int64"),
        (lambda: Number("a", missing=float("nan"), dtype="int64"), UsageError, "missing of column 'a' must be an int"),
        (lambda: Category("a", missing=1), UsageError, "column 'a' is hashed, and a gap is a value of its own; mi"),
        (lambda: Category("a", hash=False, padding=1), UsageError, "nothing to fill up .*say what a gap is with"),
        (lambda: batch_of({"a": [1, 2], "b": [1]}, SCHEMA), UsageError, "batch_of needs columns of one length"),
        (lambda: batch_of({"time": [1]}, SCHEMA), UsageError, "batch_of has no column"),
        (lambda: batch_of([1], SCHEMA), UsageTypeError, "batch_of takes columns by name or a pyarrow.Table, got list"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make: Callable[[], Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        make()


def test_ready_made_columns_go_to_other_processes() -> None:
    schema = Schema(
        categories=["x", Category("hour", hash=False)],
        derived=[Derived.hour("hour", "t"), Derived.cross("x", ["t", "u"])],
    )
    again = pickle.loads(pickle.dumps(schema))
    columns = {"t": ["2024-01-01T05:00"], "u": ["a"]}
    assert batch_of(columns, again).ids.tolist() == batch_of(columns, schema).ids.tolist()


def test_times_in_all_their_forms() -> None:
    zones = [None, dt.UTC, dt.timezone(dt.timedelta(hours=-3, minutes=-30)), dt.timezone(dt.timedelta(hours=8))]
    draw = np.random.default_rng(0)
    made, wanted = [], []
    for _ in range(500):
        date: Any = [int(draw.integers(*bounds)) for bounds in ((2, 9999), (1, 13), (1, 29), (0, 24), (0, 60), (0, 60))]
        one = dt.datetime(*date).replace(microsecond=int(draw.choice([0, 250_000, 7])), tzinfo=zones[draw.integers(4)])
        made.append(one.isoformat(sep="T "[int(draw.integers(2))]))
        wanted.append(one if one.tzinfo is None else one.astimezone(dt.UTC).replace(tzinfo=None))
    found, wrong = times_of(np.array(made, dtype=object), 1e6)
    assert not wrong.any()
    assert (found == np.array(wanted, dtype="M8[us]")).all()
    others = {
        "2024-02-29": "2024-02-29", "2024-01-02T03:04": "2024-01-02T03:04",
        "2024-01-02T03:04:05+0130": "2024-01-02T01:34:05",
        " 1700000003.5 ": "2023-11-14T22:13:23.5", "-1": "1969-12-31T23:59:59", "": "NaT",
    }  # fmt: skip
    found, wrong = times_of(np.array(list(others), dtype=object), 1e6)
    assert not wrong.any()
    assert [str(one) for one in found] == [str(np.datetime64(one, "us")) for one in others.values()]
    none = [
        "x",
        "2023-02-29",
        "2024-13-01",
        "2024-01-02T24:00",
        "2024-01-02T03",
        "2024-01-02Z",
        "20240102T030405",
        "é" * 50,
    ]
    assert times_of(np.array(none, dtype=object), 1e6)[1].all()

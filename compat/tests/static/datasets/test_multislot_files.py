"""MultiSlot text as a format of files: the batches of its slots, whatever the cut; bad lines are told."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.data import Batch, Schema
from fleet.data.columns.blocks import Problems
from fleet.data.columns.records import join
from fleet.data.reading.from_files import format_of
from fleet.errors import UsageError, UsageTypeError
from fleet_programs import MultiSlot, Slot

SCHEMA = MultiSlot(
    [
        "click",
        Slot("price", floats=2),
        Slot("user", width=1),
        "tags",
        Slot("seen", length=2, padding=-1),
        Slot("pair", width=2),
        Slot("unread", skip=True),
        Slot("age", floats=1),
        Slot("item", width=1),
        "weight",
    ],
    label="click",
    weight="weight",
)
LINES = [
    "1 1 2 0.5 1.5 1 11 3 1 2 3 1 7 2 5 6 1 99 1 30 1 100 1 0.25",
    "1 0 2 -1 2e3 1 12 1 4 3 7 8 9 2 6 5 2 1 1 1 31 1 101 1 1",
]


def batch_of(path: Path, schema: Schema = SCHEMA, most_bytes: int = 1 << 20, problems: Problems | None = None) -> Batch:
    files = format_of(str(path), schema)
    found = problems or Problems(0.0, grace=1)
    return schema.batch(join([files.read(block, found) for block in files.cut(str(path), most_bytes)]))


def plain(batch: Batch) -> list[Any]:
    slots = {
        name: value.tolist() if not isinstance(value, tuple) else [part.tolist() for part in value]
        for name, value in batch.slots.items()
    }
    weight = None if batch.weight is None else batch.weight.tolist()
    return [batch.label.tolist(), batch.dense.tolist(), batch.ids.tolist(), slots, weight]


def test_every_kind_of_slot(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n\n")
    wanted = [
        [1.0, 0.0],
        [[0.5, 1.5, 30.0], [-1.0, 2000.0, 31.0]],
        [[11, 100], [12, 101]],
        {"tags": [[1, 2, 3, 4], [0, 3, 4]], "seen": [[7, -1], [8, 9]], "pair": [[5, 6], [6, 5]]},
        [0.25, 1.0],
    ]
    assert plain(batch_of(tmp_path / "a.txt")) == wanted
    (tmp_path / "a.gz").write_bytes(gzip.compress((tmp_path / "a.txt").read_bytes()))
    assert plain(batch_of(tmp_path / "a.gz")) == wanted


@settings(max_examples=25, deadline=None)
@given(
    samples=st.lists(
        st.tuples(st.integers(0, 1), st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=6)),
        min_size=1,
        max_size=20,
    ),
    most_bytes=st.integers(1, 200),
    broken=st.sets(st.integers(0, 19)),
)
def test_any_cut_and_any_bad_lines(
    tmp_path_factory: pytest.TempPathFactory,
    samples: list[tuple[int, list[int]]],
    most_bytes: int,
    broken: set[int],
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    lines = [f"1 {label} {len(tags)} {' '.join(map(str, tags))}" for label, tags in samples]
    path.write_text("\n".join(f"{line} 5" if n in broken else line for n, line in enumerate(lines)))
    schema = MultiSlot(["click", "tags"], label="click")
    problems = Problems(1.0)
    batch = batch_of(path, schema, most_bytes, problems)
    kept = [sample for place, sample in enumerate(samples) if place not in broken]
    assert batch.label.tolist() == [float(label) for label, _ in kept]
    values, offsets = batch.slots["tags"]
    assert [values[a:b].tolist() for a, b in pairwise(offsets.tolist())] == [tags for _, tags in kept]
    assert (problems.num_lines, problems.num_bad) == (len(samples), len(samples) - len(kept))
    wrong = [place + 1 for place in range(len(samples)) if place in broken]
    assert [told.split(":")[-1] for told in problems.told] == [str(place) for place in wrong[:5]]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("nonsense", "slot 'click' begins with 'nonsense', which is no number of values"),
        ("1 x 1 2", "slot 'click' has 'x', which is no number"),
        ("1 nan 1 2", "slot 'click' has 'nan', which is no number"),
        ("1 0 1 18446744073709551616", "slot 'tags' has '18446744073709551616', which int64 cannot hold"),
        ("1 0", "slot 'tags' is missing"),
        ("1 0 0", "slot 'tags' has no values"),
    ],
)
def test_bad_lines_are_told(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "a.txt").write_text(f"1 0 1 5\n{line}\n1 1 1 6\n")
    problems = Problems(1.0)
    batch = batch_of(tmp_path / "a.txt", MultiSlot(["click", "tags"], label="click"), problems=problems)
    assert batch.label.tolist() == [0.0, 1.0]
    assert problems.told == [f"{what} in {tmp_path}/a.txt:2"]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: MultiSlot(["a", "b", "a"]), "slot 'a' stands twice"),
        (lambda: MultiSlot(["a"], label="click"), "slot 'click' is not among the slots: a"),
        (lambda: MultiSlot([Slot("click")], label="click"), "slot 'click' is a label or weight, which is one number"),
        (lambda: Slot("a", width=2, floats=3), "slot 'a' has width and floats; leave one"),
        (lambda: Slot("a", padding=5), "slot 'a' has nothing to fill up with padding"),
        (lambda: Slot("a", length=0), "length of slot 'a' must be at least 1, got 0"),
        (lambda: MultiSlot(["dense"]), "a slot cannot be called 'dense'"),
    ],
)
def test_wrong_declarations(make: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        make()


def test_wrong_types() -> None:
    for slots in ("click", [], 7, [7]):
        with pytest.raises(UsageTypeError, match="slots?"):
            MultiSlot(slots)  # type: ignore[arg-type]
    with pytest.raises(UsageTypeError, match="width of slot 'a' must be an int"):
        Slot("a", width=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageTypeError, match="the schema must be a fleet.data.Schema, got {}"):
        format_of("a.txt", {})


def test_two_schemas_of_other_slots_differ() -> None:
    assert MultiSlot(["a", "b"]) == MultiSlot(["a", "b"])
    assert MultiSlot(["a", Slot("b", skip=True)]) != MultiSlot(["a"])


def test_numbers_keep_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "part-0"
    path.write_text(
        "1 1 1 1700000003 1 1700000003.25 1 0.1\nbroken\n1 0 1 9007199254740993 1 0.1 1 16777217\n1 1 1 5 1 2 1 3\n"
    )
    wide: list[str | Slot] = ["y", Slot("key", floats=1, dtype="int64"), Slot("when", floats=1, dtype="float64")]
    rounded = MultiSlot([*wide, Slot("x", floats=1, dtype="float32")], label="y")
    batch = batch_of(path, rounded, problems=Problems(1.0))
    assert batch.numbers["key"].tolist() == [1700000003, 9007199254740993, 5]
    assert batch.numbers["when"].tolist() == [1700000003.25, 0.1, 2.0]
    assert batch.dense.tolist() == torch.tensor([[0.1], [16777216], [3]]).tolist()
    problems = Problems(1.0)
    batch = batch_of(path, MultiSlot([*wide, Slot("x", floats=1)], label="y"), problems=problems)
    assert batch.numbers["key"].tolist() == [1700000003, 5]
    assert (problems.num_lines, problems.num_bad) == (4, 2)
    assert "column 'x' has 16777217.0, which float32 would make 16777216 (declare it with dtype=" in problems.told[1]
    assert problems.told[1].endswith(f"in {path}:3")
    with pytest.raises(UsageError, match="slot 'x' has ids, which are int64; dtype= is for numbers"):
        Slot("x", dtype="float64")
    with pytest.raises(UsageError, match="dtype of column 'x' must be one of 'float32', 'float64', 'int64', got 'f8'"):
        MultiSlot([Slot("x", floats=1, dtype="f8")])

"""The ids that a served folder makes of raw columns are those that training made of the same lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fleet
from fleet.data import Category, Derived, Number, Schema
from fleet.data.columns.blocks import Problems
from fleet.data.formats.text import TextFormat
from fleet.errors import UsageError, UsageTypeError
from fleet.nn import Embedding
from fleet_serve.columns.raw import RawColumns
from fleet_serve.doors.answers import Answers
from fleet_serve.rows.model import load_model
from support.parity.training import joined
from support.serving.served_models import save_copy

SCHEMA = Schema(
    label="click",
    numbers=["age", Number("price", log=True)],
    categories=[
        "user",
        Category("price", bounds=(1.0, 2.5)),
        Category("shop", hash=False, missing=5),
        Category("seller", slot="user"),
        Category("tags", separator=","),
        Category("last", separator="|", length=3, padding=9),
        Category("day", hash=False, missing=7),
        "user x hour",
    ],
    derived=[Derived.weekday("day", "time"), Derived.cross("user x hour", ["user", "hour"])],
    columns=["click", "age", "user", "price", "shop", "seller", "tags", "last", "hour", "time"],
    na_values=["NA"],
)
LINES = [
    ["1", "30", "anna", "0.5", "17", "ben", "a,b,,c", "p|q|r|s", "12", "1700000000"],
    ["0", "", "NA", "2.50", "", "anna", "", "", "NA", ""],
    ["0", "7", "", "1e3", "-4", "\N{SNOWMAN} x", "NA", "p", "", "1700600000"],
    ["1", "7", '"quoted"', "", "0", "17", "a", "NA|z", "3", "1700090000"],
]


def test_a_raw_line_has_the_keys_of_training(tmp_path: Path) -> None:
    path = tmp_path / "part.tsv"
    path.write_text("".join("\t".join(line) + "\n" for line in LINES))
    reader = TextFormat(SCHEMA)
    (block,) = reader.cut(str(path), 1 << 20)
    batch = SCHEMA.batch(reader.read(block, Problems(0.0)))
    names = list(SCHEMA.columns or ())
    columns = {name: [line[names.index(name)] for line in LINES] for name in names[1:]}
    raw = RawColumns(json.loads(json.dumps(SCHEMA.to_plain())), "here")
    found = raw.ids(columns, [one.name for one in SCHEMA.all_categories])
    for place, one in enumerate(SCHEMA.single):
        assert found[one.name].ids.tolist() == batch.ids[:, place].tolist(), one.name
    values, offsets = batch.slots["tags"]
    assert found["tags"].ids.tolist() == values.tolist()
    assert found["tags"].offsets is not None
    assert found["tags"].offsets.tolist() == offsets.tolist()
    matrix = batch.slots["last"]
    assert isinstance(matrix, torch.Tensor)
    assert found["last"].ids.tolist() == matrix.reshape(-1).tolist()
    assert raw.ids({"user": ["anna"]}, ["user"])["user"].ids.tolist() == batch.ids[:1, 0].tolist()
    typed = raw.ids({"shop": [17, None], "tags": [["a", "b", "c"], []]}, ["shop", "tags"])
    assert typed["shop"].ids.tolist() == [17, 5]
    assert typed["tags"].ids.tolist() == values[:3].tolist()


@pytest.mark.parametrize(
    ("columns", "wanted", "text"),
    [
        ({"user": ["a"]}, "users", "the schema has no category 'users'; ask for one of: 'user', 'price'"),
        ({"user": ["a"]}, "user x hour", "the request lacks column 'hour', which the schema makes ids of; send it"),
        ({"user": ["a"], "hour": []}, "user x hour", "must have one length, got 'user' 1, 'hour' 0"),
        ({"user": ["a\nb"]}, "user", r"column 'user' has 'a\\nb', which no field can hold"),
        ({"user": ["a\x1fb"]}, "user", "which no field can hold"),
        ({"user": [1.5]}, "user", "column 'user' has 1.5; send each value as the text"),
        ({"user": [["a"]]}, "user", r"column 'user' has \['a'\]; send each value as the text"),
        ({"tags": [["a,b"]]}, "tags", "column 'tags' has 'a,b' in a list, which has its separator"),
        ({"shop": ["x", "3"]}, "shop", "value 0 of the columns cannot be read: .*shop.*; mend it"),
    ],
)
def test_columns_that_cannot_be_read(columns: dict[str, Any], wanted: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        RawColumns(SCHEMA.to_plain(), "here").ids(columns, [wanted])


class Users(nn.Module):
    """One table."""

    def __init__(self) -> None:
        super().__init__()
        self.users = Embedding(4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows."""
        found: torch.Tensor = self.users(ids)
        return found


def test_a_folder_carries_its_schema_to_lookups(tmp_path: Path) -> None:
    with joined(model=Users()) as one:
        one.model(torch.from_numpy(fleet.data.hash_ids("user", ["anna", "ben"]))).sum().backward()
        one.optimizer.step()
        one.fleet.save_inference_model(tmp_path / "model", schema=SCHEMA)
        with pytest.raises(UsageTypeError, match="takes a fleet.data.Schema as schema=, got 3"):
            one.fleet.save_inference_model(tmp_path / "other", schema=3)
        own = Schema(categories=["x"], derived=[Derived("x", "user", lambda texts: texts)])
        with pytest.raises(
            UsageError, match="derived column 'x' has a function of its own, which a folder cannot hold"
        ):
            one.fleet.save_inference_model(tmp_path / "other", schema=own)
    answers = Answers(1 << 20)
    answers.serve(load_model(tmp_path / "model", tmp_path / "cache"))
    (by_text,), _ = answers.lookup("test", [("users", "user")], {"user": ["ben", "new", "anna"]})
    (by_keys,), _ = answers.lookup("test", [("users", fleet.data.hash_ids("user", ["ben", "new", "anna"]))])
    assert np.array_equal(by_text.rows, by_keys.rows)
    assert np.abs(by_text.rows[[0, 2]]).sum() > 0
    assert by_text.num_unseen == 1
    (tags,), _ = answers.lookup("test", [("users", "tags")], {"tags": ["a,b", "", "c"]})
    assert tags.offsets is not None
    assert (tags.offsets.tolist(), len(tags.rows)) == ([0, 2, 2, 3], 3)
    plain = save_copy(tmp_path / "plain", {"users": (np.array([1]), np.ones((1, 4), np.float32))})
    answers.serve(load_model(plain, tmp_path / "cache"))  # such as a base of a stream: the schema stays
    assert answers.lookup("test", [("users", "user")], {"user": ["ben"]})[0][0].num_unseen == 1
    others = Answers(1 << 20)
    others.serve(load_model(plain, tmp_path / "cache"))
    with pytest.raises(UsageError, match=r"this model has no schema.*save_inference_model\(folder, schema=...\)"):
        others.lookup("test", [("users", "user")], {"user": ["ben"]})

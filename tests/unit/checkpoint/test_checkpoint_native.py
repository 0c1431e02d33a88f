"""The native table through a checkpoint: other servers go on training as if nothing had happened, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fleet import _native
from fleet.checkpoint import (
    ChainLink,
    InferenceIndex,
    Manifest,
    TableLike,
    TableLoad,
    begin,
    commit,
    export_table,
    find,
    read_inference,
    read_manifest,
    save_table,
    state_form,
)
from support.fake_table import joined, same

WIDTH = 3
FORMS: dict[str, dict[str, Any]] = {
    "adam": {"rule": "adam"},
    "sgd without state": {"rule": "sgd"},
    "adagrad by row": {"rule": "adagrad_row", "rule_args": {"lr": 0.1, "lr_decay": 0.01}},
    "float16": {"rule": "adagrad", "dtype": "float16"},
    "bfloat16": {"rule": "momentum", "rule_args": {"lr": 0.1, "momentum": 0.9}, "dtype": "bfloat16"},
    "waiting keys": {"rule": "adam", "entry": "count_filter", "entry_args": {"count": 3.0}},
    "clicks": {
        "rule": "ftrl",
        "entry": "show_click",
        "entry_args": {"threshold": 1.0, "nonclk_coeff": 0.1, "click_coeff": 1.0},
    },
}
KEYS = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 400, np.int64)


def make(form: dict[str, Any]) -> _native.Table:
    arguments = {"rule_args": {}, "entry": "always", "entry_args": {}, **form}
    return _native.Table(
        name="ads", width=WIDTH, initializer="normal", initializer_args={"std": 0.1}, seed=5, **arguments
    )


def own(keys: npt.NDArray[np.int64], server: int, num_servers: int) -> npt.NDArray[np.bool_]:
    return np.equal(_native.server_of(keys, num_servers), server)


def train(tables: list[_native.Table], steps: range) -> None:
    for step in steps:
        random = np.random.default_rng(step)
        keys = random.choice(KEYS, 150, replace=False)
        grads = random.normal(size=(150, WIDTH)).astype(np.float32)
        clicks = random.integers(0, 2, 150).astype(np.float32)
        for server, table in enumerate(tables):
            mine = own(keys, server, len(tables))
            table.push(keys[mine], grads[mine], step=step, lr=0.1, clicks=clicks[mine] if table.has_clicks else None)


def pulled(tables: list[_native.Table]) -> npt.NDArray[np.float32]:
    values = np.zeros((len(KEYS), WIDTH), np.float32)
    for server, table in enumerate(tables):
        mine = own(KEYS, server, len(tables))
        values[mine] = table.pull(KEYS[mine])
    return values


def everything(tables: list[_native.Table]) -> dict[str, npt.NDArray[Any]]:
    return joined([table.export(0, table.num_shards) for table in tables])


def dtype_and_rule(form: dict[str, Any]) -> dict[str, Any]:
    return {"dtype": form.get("dtype", "float32"), "rule": form["rule"]}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 3), (3, 1)])
def test_training_goes_on(tmp_path: Path, form: dict[str, Any], before: int, after: int) -> None:
    tables = [make(form) for _ in range(before)]
    train(tables, range(1, 8))
    writing = begin(tmp_path / "c")
    pieces = [
        piece
        for server, table in enumerate(tables)
        for piece in save_table(table, "ads", writing, server, before, piece_bytes=4000, **dtype_and_rule(form))
    ]
    commit(writing, tmp_path / "c", Manifest(7, before, tuple(pieces)))
    where = find(tmp_path / "c")
    manifest = read_manifest(where)
    assert manifest.rows("ads") == sum(map(len, tables))
    if "entry" in form:
        assert sum(piece.waiting for piece in manifest.tables["ads"]) == sum(table.num_waiting for table in tables) > 0

    loaded = [make(form) for _ in range(after)]
    for server, table in enumerate(loaded):
        rows = TableLoad(table, [ChainLink(where, manifest)], "ads", server, after, **dtype_and_rule(form)).load()
        assert rows == len(table)
    assert same(everything(loaded), everything(tables))
    train(tables, range(8, 12))
    train(loaded, range(8, 12))
    assert pulled(loaded).tobytes() == pulled(tables).tobytes()
    assert same(everything(loaded), everything(tables))


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_an_inference_copy_holds_what_a_pull_gives(tmp_path: Path, form: dict[str, Any]) -> None:
    tables = [make(form) for _ in range(2)]
    train(tables, range(1, 8))
    writing = begin(tmp_path / "i", InferenceIndex)
    dtype = form.get("dtype", "float32")
    parts = [export_table(table, "ads", writing, server, 2, dtype=dtype) for server, table in enumerate(tables)]
    commit(writing, tmp_path / "i", InferenceIndex(7, 2, tuple(parts)))
    keys, values = read_inference(tmp_path / "i").tables["ads"]
    assert len(keys) == sum(map(len, tables)) > 50
    places = {key: place for place, key in enumerate(KEYS.tolist())}
    assert values.tobytes() == pulled(tables)[[places[key] for key in keys.tolist()]].tobytes()


def test_the_native_table_is_a_table() -> None:
    table: TableLike = make(FORMS["adam"])
    assert table.num_shards == 64


@pytest.mark.parametrize(
    ("name", "args", "form"),
    [
        ("sgd", {}, (0, 0)),
        ("momentum", {"lr": 0.1, "momentum": 0.9}, (1, 0)),
        ("momentum", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}, (1, 1)),
        ("adagrad", {}, (1, 0)),
        ("adagrad", {"lr_decay": 0.1}, (1, 1)),
        ("adagrad_row", {}, (0, 1)),
        ("adagrad_row", {"lr_decay": 0.1}, (0, 2)),
        ("adam", {}, (2, 1)),
        ("adam", {"amsgrad": 1}, (3, 1)),
        ("adamax", {}, (2, 1)),
        ("adamw", {}, (2, 1)),
        ("decayed_adagrad", {}, (1, 0)),
        ("lamb", {}, (2, 1)),
        ("lars", {"lr": 0.1}, (1, 0)),
        ("rmsprop", {"momentum": 0.9, "centered": 1}, (3, 0)),
        ("ftrl", {}, (2, 0)),
        ("sum", {}, (0, 0)),
        ("average", {}, (0, 0)),
    ],
)
def test_the_state_of_every_rule_is_arrays_then_scalars(
    name: str, args: dict[str, float], form: tuple[int, int]
) -> None:
    rule = _native.Rule(name, args)
    assert state_form(rule.state_width) == form
    assert all(rule.state_width(n) == form[0] * n + form[1] for n in (1, 2, 3, 10, 1000))

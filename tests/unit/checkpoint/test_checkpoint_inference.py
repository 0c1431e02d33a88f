"""Inference copies: plain numpy files, merged and sorted when they are read back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from fleet.checkpoint import (
    DenseArray,
    InferenceIndex,
    TablePart,
    begin,
    commit,
    export_dense,
    export_table,
    find,
    parts_from_text,
    parts_to_text,
    read_inference,
)
from fleet.checkpoint.state.export import widen
from fleet.errors import CheckpointError
from support.durable.damage import resealed
from support.fake_table import FakeTable, Rows, random_rows

DENSE: dict[str, Any] = {
    "fc/1.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "x" * 1000: np.ones(1, np.float32),
    "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
}


def save(folder: Path, rows: Rows, num_servers: int, dtype: str = "float32", name: str = "ads") -> InferenceIndex:
    writing = begin(folder, InferenceIndex)
    parts: list[TablePart] = []
    for server in range(num_servers):
        table = FakeTable(dtype=dtype)
        table.import_(rows, server, num_servers)
        part = export_table(table, name, writing, server, num_servers, dtype=dtype, piece_bytes=2000)
        parts += parts_from_text(parts_to_text([part]), "a server")
    index = InferenceIndex(3, num_servers, tuple(parts), tuple(export_dense(writing, DENSE)))
    commit(writing, folder, index)
    return index


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("num_servers", [1, 3])
def test_round_trip(tmp_path: Path, num_servers: int, dtype: str) -> None:
    rows = random_rows(300, 40, dtype=dtype)
    save(tmp_path / "i", rows, num_servers, dtype)
    found = read_inference(tmp_path / "i")
    keys, values = found.tables["ads"]
    order = np.argsort(rows["keys"])
    assert keys.tolist() == rows["keys"][order].tolist()
    assert values.dtype == np.float32
    assert (values == widen(rows["values"], dtype)[order]).all()
    assert found.dense.keys() == DENSE.keys()
    for name, array in DENSE.items():
        assert found.dense[name].shape == array.shape
        assert (found.dense[name] == array).all()


def test_numpy_alone_reads_it(tmp_path: Path) -> None:
    rows = random_rows(100)
    save(tmp_path / "i", rows, 2, name="a/b")
    described = json.loads((tmp_path / "i" / "inference.json").read_text())
    assert [part["rows"] for part in described["tables"]] == [
        len(np.load(tmp_path / "i" / f"a%2Fb.part-00{server}-of-002.keys.npy", allow_pickle=False))
        for server in range(2)
    ]
    for server in range(2):
        keys = np.load(tmp_path / "i" / f"a%2Fb.part-00{server}-of-002.keys.npy", allow_pickle=False)
        values = np.load(tmp_path / "i" / f"a%2Fb.part-00{server}-of-002.values.npy", allow_pickle=False)
        assert (np.diff(keys.astype(object)) > 0).all()
        assert values.shape == (len(keys), 4)
    weight = np.load(tmp_path / "i" / "dense" / "fc%2F1.weight.npy", allow_pickle=False)
    assert (weight == DENSE["fc/1.weight"]).all()
    assert unquote("fc%2F1.weight") in {array["parameter"] for array in described["dense"]}


def test_an_empty_table(tmp_path: Path) -> None:
    save(tmp_path / "i", random_rows(0), 2)
    keys, values = read_inference(tmp_path / "i").tables["ads"]
    assert (keys.shape, values.shape) == ((0,), (0, 4))


def test_nothing_but_the_files_stays(tmp_path: Path) -> None:
    index = save(tmp_path / "i", random_rows(10), 1)
    files = {str(path.relative_to(tmp_path / "i")) for path in (tmp_path / "i").rglob("*") if path.is_file()}
    assert files == {"inference.json", *(file.name for file in index.files)}
    assert os.listdir(tmp_path) == ["i"]


def test_it_is_replaced_like_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "i", random_rows(10), 1)
    save(tmp_path / "i", random_rows(20), 2)
    assert len(read_inference(tmp_path / "i").tables["ads"][0]) == 20


def test_damage_is_named(tmp_path: Path) -> None:
    index = save(tmp_path / "i", random_rows(10), 1)
    path = tmp_path / "i" / index.tables[0].values.name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{path.name} is damaged: its checksum"):
        read_inference(tmp_path / "i")
    path.unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        read_inference(tmp_path / "i")


def test_an_array_that_is_not_what_the_index_says(tmp_path: Path) -> None:
    index = save(tmp_path / "i", random_rows(10), 1)
    path = tmp_path / "i" / "inference.json"
    path.write_text(resealed(json.loads(path.read_text().replace('"rows": 10', '"rows": 11'))))
    with pytest.raises(CheckpointError, match=r"keys.npy is damaged: it has int64\[10\], expected int64\[11\]"):
        read_inference(tmp_path / "i")
    text = resealed(json.loads(index.to_text().replace(index.tables[0].keys.name, "dense/scalar.npy")))
    with pytest.raises(CheckpointError, match="names dense/scalar.npy 2 times"):
        InferenceIndex.from_text(text, "i")


def test_a_server_that_is_missing_is_named(tmp_path: Path) -> None:
    index = save(tmp_path / "i", random_rows(10), 2)
    text = resealed({**json.loads(index.to_text()), "tables": [index.tables[1].to_json()]})
    with pytest.raises(CheckpointError, match=r"has table 'ads' from servers \[1\] of 2"):
        InferenceIndex.from_text(text, "i")


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no inference copy in"):
        find(tmp_path / "i", InferenceIndex)


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="its folder is gone"):
        export_table(FakeTable(), "ads", tmp_path / "gone", 0, 1, dtype="float32")
    with pytest.raises(CheckpointError, match="its folder is gone"):
        export_dense(tmp_path / "gone", DENSE)


def test_a_dense_array_knows_its_shape() -> None:
    with pytest.raises(CheckpointError, match="'shape' must be a list of whole numbers"):
        from fleet.checkpoint.files.fields import Fields

        fields = Fields({"parameter": "w", "shape": [-1], "file": {"name": "a", "size_bytes": 1, "crc32": 0}}, "i")
        DenseArray.from_json(fields)

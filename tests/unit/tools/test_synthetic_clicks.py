"""`fleet.data.synthetic.Clicks`: samples by number, the AUC at best, and files that read back as the same samples."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import fleet
from fleet.data import Batch, criteo, hash_ids
from fleet.data.columns.blocks import Problems
from fleet.data.reading.from_files import format_of
from fleet.errors import UsageError, UsageTypeError
from fleet_tools.synthetic import Clicks
from fleet_tools.synthetic.__main__ import main

CLICKS = Clicks(5000)


def same(a: Batch, b: Batch) -> bool:
    return torch.equal(a.label, b.label) and torch.equal(a.dense, b.dense) and torch.equal(a.ids, b.ids)


def read(paths: list[Path]) -> Batch:
    """All samples of files, by the format that their names ask for."""
    schema, parts = criteo(), []
    for path in paths:
        format = format_of(str(path), schema)
        parts += [schema.batch(format.read(block, Problems())) for block in format.cut(str(path), 1 << 20)]
    label, dense, ids = (torch.cat([getattr(part, name) for part in parts]) for name in ("label", "dense", "ids"))
    return Batch(label, dense, ids, {}, None)


def test_batches_of_any_range_are_parts_of_the_whole() -> None:
    whole = CLICKS[:]
    assert (whole.label.shape, whole.dense.shape, whole.ids.shape) == ((5000,), (5000, 13), (5000, 26))
    assert (whole.label.dtype, whole.dense.dtype, whole.ids.dtype) == (torch.float32, torch.float32, torch.int64)
    sizes = []
    for number, batch in enumerate(CLICKS.batches(700, 1000, 4000)):
        first = 1000 + number * 700
        assert same(batch, CLICKS[first : min(first + 700, 4000)])
        assert torch.equal(batch.ids, whole.ids[first : first + batch.size])
        sizes.append(batch.size)
    assert sizes == [700, 700, 700, 700, 200]
    assert same(Clicks(10)[2:4], CLICKS[2:4])
    assert not torch.equal(Clicks(10, seed=1)[:].dense, whole.dense[:10])
    assert (len(CLICKS), CLICKS[4999:9999].size, CLICKS[7:3].size) == (5000, 1, 0)
    assert fleet.data.synthetic.Clicks is Clicks


def test_ids_are_those_of_the_text() -> None:
    rows = [line.split("\t") for line in bytes(CLICKS._native.text(0, 500)).decode().splitlines()]
    for slot in (0, 2, 21, 25):
        texts = [row[14 + slot] for row in rows]
        assert hash_ids(f"C{slot + 1}", texts).tolist() == CLICKS[:500].ids[:, slot].tolist()


@pytest.mark.parametrize(
    ("format", "compression"), [("tsv", None), ("tsv", "gz"), ("tsv", "zst"), ("parquet", None), ("parquet", "zstd")]
)
def test_files_read_back_as_the_same_samples(tmp_path: Path, format: str, compression: str | None) -> None:
    paths = CLICKS.write(tmp_path / "new", 3, format, compression, first=100, last=4000, enabled=False)
    assert [path.name.partition(".")[0] for path in paths] == [f"clicks-{number:05}-of-00003" for number in range(3)]
    assert same(read(paths), CLICKS[100:4000])
    assert {path.name for path in (tmp_path / "new").iterdir()} == {*(path.name for path in paths), "_clicks.json"}


def test_parquet_has_the_same_values_as_text(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    clicks = Clicks(40_000)
    paths = clicks.write(tmp_path, 1, "parquet", "zstd", enabled=False)
    table = parquet.read_table(paths[0])
    assert (table.num_rows, parquet.ParquetFile(paths[0]).num_row_groups) == (40_000, 2)
    rows = [line.split("\t") for line in bytes(clicks._native.text(39_000, 40_000)).decode().splitlines()]
    found = [["" if x is None else str(x) for x in row.values()] for row in table.slice(39_000).to_pylist()]
    assert found == rows
    assert table.column_names == list(criteo().columns or ())


def test_what_is_there_is_not_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = CLICKS.write(tmp_path, 2)
    assert "samples 5,000/5,000" in capsys.readouterr().out
    before = [path.stat().st_mtime_ns for path in paths]
    assert CLICKS.write(tmp_path, 2) == paths
    assert capsys.readouterr().out == ""
    assert [path.stat().st_mtime_ns for path in paths] == before
    text = paths[1].read_bytes()
    os.truncate(paths[1], 100)  # by someone else: it is made anew
    assert CLICKS.write(tmp_path, 2) == paths
    assert paths[1].read_bytes() == text
    with pytest.raises(UsageError, match="made with other settings; choose another folder"):
        Clicks(5000, seed=1).write(tmp_path, 2)
    with pytest.raises(UsageError, match="made with other files"):
        CLICKS.write(tmp_path, 3)
    (tmp_path / "_clicks.json").write_text("{")
    with pytest.raises(UsageError, match="_clicks.json cannot be read"):
        CLICKS.write(tmp_path, 2)


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "day_0.tsv").write_text("mine")
    with pytest.raises(UsageError, match="has other files, such as day_0.tsv"):
        CLICKS.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["day_0.tsv"]


def test_a_file_that_cannot_be_written_leaves_nothing_unfinished(tmp_path: Path) -> None:
    (tmp_path / "clicks-00001-of-00004.tsv").mkdir()  # a rename onto it fails
    with pytest.raises(OSError, match="clicks-00001"):
        CLICKS.write(tmp_path, 4, enabled=False)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith((".", "_"))]


def test_the_ceiling_is_the_auc_of_the_probabilities() -> None:
    clicks = Clicks(100_000)
    probabilities, label = clicks.probabilities(), clicks[:].label
    assert clicks.ceiling() == pytest.approx(roc_auc_score(label, probabilities), abs=1e-9)
    assert 0.81 < clicks.ceiling() < 0.83
    assert clicks.ceiling(10_000, 30_000) == pytest.approx(
        roc_auc_score(label[10_000:30_000], probabilities[10_000:30_000]), abs=1e-9
    )
    assert np.array_equal(clicks.probabilities(70_000, 70_010), probabilities[70_000:70_010])
    assert np.isnan(clicks.ceiling(5, 5))
    assert Clicks(20_000, signal=0).ceiling() == 0.5


@pytest.mark.parametrize("seed", [1, 2])
def test_every_seed_has_about_the_same_ceiling(seed: int) -> None:
    clicks = Clicks(50_000, seed)
    assert clicks.ceiling() == pytest.approx(0.82, abs=0.01)
    assert float(clicks[:].label.mean()) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: Clicks(-1), UsageError, "num_samples must be at least 0"),
        (lambda: Clicks(seed=0.5), UsageTypeError, "seed must be an int"),  # type: ignore[arg-type]
        (lambda: Clicks(vocabularies=[5]), UsageError, "Clicks: vocabularies must be 26 numbers, got 1"),
        (lambda: Clicks(gaps=2), UsageError, "a share of gaps must be from 0"),
        (lambda: CLICKS[3], UsageTypeError, "Clicks are taken in ranges"),
        (lambda: CLICKS.batches(0), UsageError, "batch_size must be at least 1"),
        (lambda: CLICKS.batches(5, last=5001), UsageError, "samples are from 0 to 5000, got first=0, last=5001"),
        (lambda: CLICKS.write("x", format="csv"), UsageError, 'format must be "tsv" or "parquet"'),
        (lambda: CLICKS.write("x", compression="rar"), UsageError, "compression of text must be"),
        (lambda: CLICKS.write("x", format="parquet", compression="gz"), UsageError, "compression of Parquet must"),
        (lambda: CLICKS.write("x", files=0), UsageError, "files must be at least 1"),
        (lambda: CLICKS.write("x", threads=0), UsageError, "threads must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_the_command_writes_and_says_what_is_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "a"), "--samples", "2000", "--first", "1000", "--files", "1"]) == 0
    said = capsys.readouterr().out
    assert "2,000 samples in 1 file of" in said
    assert f"AUC of the true probabilities: {CLICKS.ceiling(1000, 3000):.4f}" in said
    assert json.loads((tmp_path / "a" / "_clicks.json").read_text())["settings"]["first"] == 1000
    assert main([str(tmp_path / "a"), "--samples", "5"]) == 1
    assert "error: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "python -m fleet_tools.synthetic data/train --samples 2000000" in capsys.readouterr().out


def test_more_samples_than_there_are_numbers() -> None:
    with pytest.raises(UsageError, match=r"samples have numbers up to 2\^62"):
        Clicks((1 << 62) + 1)

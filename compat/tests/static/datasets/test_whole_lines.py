"""`input_type` 1: each line is a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleet.data.columns.records import Ragged
from fleet.errors import NotReadyError, UsageError
from fleet_programs import InMemoryDataset, QueueDataset
from support.data.slots import Var

USE_VAR = [Var("ids", "int64", (-1, 1), 1), Var("x", "float32", (-1, 2), 0)]


def _lines(folder: Path) -> list[str]:
    (folder / "part").write_text("3 7 8 9 4 0.5 1 1.5 2\n1 5 2 3 4\n")
    return [str(folder / "part")]


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
def test_the_values_of_a_line_are_those_of_its_samples(kind: type, tmp_path: Path) -> None:
    data = kind()
    data.init(use_var=USE_VAR, input_type=1)
    data.set_filelist(_lines(tmp_path))
    if kind is InMemoryDataset:
        data.load_into_memory()
    first, second = data
    assert isinstance(first["ids"], Ragged)
    assert (first["ids"].values.ravel().tolist(), first["ids"].offsets.tolist()) == ([7, 8, 9], [0, 1, 2, 3])
    assert isinstance(first["x"], np.ndarray)
    assert first["x"].tolist() == [[0.5, 1], [1.5, 2]]
    assert second["ids"].offsets.tolist() == [0, 1]
    assert second["x"].tolist() == [[3, 4]]


def test_what_does_not_fit() -> None:
    data = QueueDataset()
    data.init(use_var=USE_VAR, input_type=1, batch_size=2)
    data.set_filelist([])
    with pytest.raises(UsageError, match="batch_size is 2, and input_type 1 means that each line is a batch"):
        data.batches()


def test_half_a_sample_is_an_error(tmp_path: Path) -> None:
    data = QueueDataset()
    data.init(use_var=USE_VAR, input_type=1)
    (tmp_path / "part").write_text("1 7 3 1 2 3\n")
    data.set_filelist([str(tmp_path / "part")])
    with pytest.raises(UsageError, match="slot 'x': a line has 3 values, and a sample takes 2"):
        list(data)


def test_it_is_said_before_the_records_are_read(tmp_path: Path) -> None:
    data = InMemoryDataset()
    data.init(use_var=USE_VAR[1:])
    (tmp_path / "part").write_text("2 1 2\n")
    data.set_filelist([str(tmp_path / "part")])
    data.load_into_memory()
    data.update_settings(input_type=1)
    with pytest.raises(NotReadyError, match="set input_type before load_into_memory"):
        list(data)

"""Rows that are served are those that were saved; their files are made once; changes stand before them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

import fleet
from fleet.checkpoint import Unseen
from fleet.errors import CheckpointError, UsageError
from fleet.nn import Embedding
from fleet_serve.rows.model import TableChange, load_model
from support.parity.training import joined
from support.serving.served_models import INITIAL, save_copy

KEYS = np.array([3, 7, -1, 2**62, 12, 5], np.int64)
ROWS: npt.NDArray[np.float32] = (np.arange(24) / 8).astype(np.float32).reshape(6, 4)
OTHERS = np.array([100, 3, 101], np.int64)


class Ids(torch.nn.Module):
    """One table, read as it is."""

    def __init__(self, unseen: str) -> None:
        super().__init__()
        self.ids = Embedding(4, unseen=unseen)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows."""
        found: torch.Tensor = self.ids(ids)
        return found


@pytest.mark.parametrize("unseen", ["zeros", "initial"])
@pytest.mark.parametrize("kind", ["save_inference_model", "save_persistables"])
def test_a_folder_is_served_as_load_inference_model_reads_it(tmp_path: Path, kind: str, unseen: str) -> None:
    with joined(model=Ids(unseen)) as one:
        rows = one.model(torch.arange(20) * 7)
        rows.sum().backward()
        one.optimizer.step()
        getattr(one.fleet, kind)(tmp_path / "model")
    ids = torch.arange(100) - 20
    expected = fleet.load_inference_model(tmp_path / "model", Ids(unseen))(ids)
    model = load_model(tmp_path / "model", tmp_path / "cache")
    (found,), version = model.lookup([("ids", ids.numpy())])
    assert torch.equal(torch.from_numpy(found.rows), expected)
    assert 0 < found.num_unseen < 100
    assert version == model.version
    assert version.numbers == ()


def test_files_are_made_once_and_again_where_they_are_not_whole(tmp_path: Path) -> None:
    folder = save_copy(tmp_path / "model", {"user": (KEYS, ROWS), "ads/of day": (KEYS[:2], ROWS[:2, :1])}, servers=2)
    model = load_model(folder, tmp_path / "cache")
    assert sorted(path.name.split(".")[0] for path in model.files) == ["ads%2Fof%20day", "user"]
    made = {path: path.stat().st_mtime_ns for path in model.files}
    for path in folder.glob("*.npy"):
        path.unlink()  # nobody reads them again
    again = load_model(folder, tmp_path / "cache", in_memory=True)
    assert {path: path.stat().st_mtime_ns for path in again.files} == made
    for one in (model, again):
        (user, ads), _ = one.lookup([("user", KEYS[::-1].copy()), ("ads/of day", OTHERS)])
        assert np.array_equal(user.rows, ROWS[::-1])
        assert ads.rows.tolist() == [[0], [ROWS[0, 0]], [0]]
        assert (user.num_unseen, ads.num_unseen) == (0, 2)
    (damaged,) = (path for path in model.files if path.name.startswith("user"))
    with open(damaged, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff\xff")  # where the keys of a bucket begin
    with pytest.raises(CheckpointError, match=r"npy is missing; the checkpoint is not complete"):
        load_model(folder, tmp_path / "cache")
    save_copy(folder, {"user": (KEYS, ROWS + 1)})
    (found,), version = load_model(folder, tmp_path / "cache").lookup([("user", KEYS)])
    assert np.array_equal(found.rows, ROWS + 1)
    assert version.base != model.version.base


def test_a_cache_is_swept_of_what_no_process_uses(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    used = load_model(save_copy(tmp_path / "used", {"t": (KEYS, ROWS)}), cache)
    (path,) = used.files
    fresh, old, again, draft, other = (
        cache / name
        for name in (
            "t.00000000000000ff.int8.base",
            "t.0123456789abcdef.float32.base",
            "of somebody else.base",
            ".t.0123.x.base-draft",
            "other",
        )
    )
    for one in (fresh, old, again, draft, other):
        shutil.copy(path, one)
    folder = save_copy(tmp_path / "wanted", {"t": (KEYS, ROWS + 1)})
    (wanted,) = load_model(folder, cache).files
    for one in (old, again, draft, other, path, wanted):
        os.utime(one, (time.time() - 7200, time.time() - 7200))
    made = wanted.stat().st_ino
    load_model(folder, cache)
    assert set(cache.iterdir()) == {path, wanted, fresh, again, other}
    assert wanted.stat().st_ino == made
    del used
    os.utime(path, (time.time() - 7200, time.time() - 7200))
    load_model(folder, cache)
    assert not path.exists()


def test_rows_in_a_byte_a_value_are_near_and_four_times_smaller(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    keys, rows = rng.permutation(20_000).astype(np.int64), rng.standard_normal((20_000, 32)).astype(np.float32)
    folder = save_copy(tmp_path / "model", {"t": (keys, rows)})
    whole, small = (load_model(folder, tmp_path / "cache", form=form) for form in ("float32", "int8"))
    (found,), _ = small.lookup([("t", keys)])
    assert np.abs(found.rows - rows).max() <= np.abs(rows).max() / 127
    assert small.tables["t"].base.file_bytes < 0.34 * whole.tables["t"].base.file_bytes


def test_changes_and_what_is_gone(tmp_path: Path) -> None:
    folder = save_copy(tmp_path / "model", {"t": (KEYS, ROWS)}, unseen=INITIAL)
    model = load_model(folder, tmp_path / "cache", numbers=[4, 9])
    (first,), before = model.lookup([("t", OTHERS)])
    assert first.num_unseen == 2
    assert (np.abs(first.rows[[0, 2]]) > 0).all()
    model.apply(1, 10, [TableChange("t", np.array([100, 7]), np.ones((2, 4), np.float32), np.array([3]))])
    (found,), after = model.lookup([("t", np.array([100, 3, 101, 7, 12]))])
    assert found.rows[[0, 3]].tolist() == [[1] * 4] * 2
    assert np.array_equal(found.rows[2], first.rows[2])
    assert np.array_equal(found.rows[4], ROWS[4])
    assert found.num_unseen == 2  # 101, and 3, which is gone: it reads as it would begin
    assert (np.abs(found.rows[1]) > 0).all()
    assert not np.array_equal(found.rows[1], ROWS[0])
    assert (before.numbers, after.numbers) == ((4, 9), (4, 10))
    assert model.num_changed("t") == 3


def test_what_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no model to serve in .*: give a folder of fleet.save_inference_model"):
        load_model(tmp_path, tmp_path / "cache")
    folder = save_copy(tmp_path / "model", {"t": (KEYS, ROWS)}, unseen=Unseen())
    with pytest.raises(UsageError, match=r"--cache /proc/none: the file of table 't' cannot be made there"):
        load_model(folder, Path("/proc/none"))
    model = load_model(folder, tmp_path / "cache")
    with pytest.raises(UsageError, match=r"there is no table 'u'; ask for one of: 't'"):
        model.lookup([("t", KEYS), ("u", KEYS)])
    path = next(folder.glob("*.values.npy"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"is damaged: its checksum is"):
        load_model(folder, tmp_path / "other")

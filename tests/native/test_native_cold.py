"""Tables whose rows lie partly on a disk, seen from Python: the same rows, files that link and load, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet import _native

WIDTH = 4
TINY = 1 << 20


def table(folder: Path | None = None, **more: Any) -> _native.Table:
    files = {} if folder is None else {"memory_bytes": TINY, "folder": str(folder)}
    uniform = {"low": -0.1, "high": 0.1}
    return _native.Table("ads", WIDTH, "adagrad", {}, "uniform", uniform, "always", {}, **{**files, **more})


def pushed(*tables: _native.Table, steps: int = 8, seed: int = 0) -> None:
    """The same random pushes to all of them."""
    random = np.random.default_rng(seed)
    for step in range(1, steps + 1):
        keys = np.unique(random.integers(0, 60_000, 5_000)) * 7919
        grads = random.normal(size=(len(keys), WIDTH)).astype(np.float32)
        for one in tables:
            one.push(keys, grads, step=step, lr=0.1)


def rows_of(one: _native.Table) -> dict[str, Any]:
    """All rows in the order of their keys."""
    rows = one.export(0, one.num_shards)
    order = np.argsort(rows["keys"])
    return {name: array[order] for name, array in rows.items() if not name.startswith("waiting")}


def same(a: _native.Table, b: _native.Table) -> bool:
    mine, theirs = rows_of(a), rows_of(b)
    return len(a) == len(b) and all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_a_table_with_files_is_a_table(tmp_path: Path) -> None:
    plain, cold = table(), table(tmp_path / "rows")
    pushed(plain, cold)
    asked = np.arange(0, 60_000, 7) * 7919
    np.testing.assert_array_equal(cold.pull(asked), plain.pull(asked))
    np.testing.assert_array_equal(cold.find(asked), plain.find(asked))
    counts = cold.tier_counts()
    assert counts["cold_rows"] > 2 * counts["hot_rows"] > 0
    assert counts["hot_rows"] + counts["cold_rows"] == len(cold) == len(plain)
    assert 0 < cold.memory_bytes <= 2 * TINY
    assert cold.all_bytes > TINY
    assert counts["disk_bytes"] == sum(path.stat().st_size for path in (tmp_path / "rows").glob("*.run"))
    assert same(plain, cold)
    assert cold.shrink(now=8, unseen_steps=2) == plain.shrink(now=8, unseen_steps=2) > 0
    assert same(plain, cold)
    del cold
    assert not list((tmp_path / "rows").iterdir())


def test_sealed_files_make_the_table_anew(tmp_path: Path) -> None:
    plain, cold, other = table(), table(tmp_path / "rows"), table(tmp_path / "others")
    pushed(plain, cold)
    links = tmp_path / "links"
    links.mkdir()
    files, changed = cold.seal(0, cold.num_shards, str(links), "a.")
    assert {name for *_, names in files for name in names} == {path.name for path in links.iterdir()}
    linked = next(links.iterdir())
    assert linked.stat().st_nlink == 2
    for shard, num_keys, names in files:
        other.attach(shard, num_keys, names, str(links))
    other.import_(changed, 0, 1)
    cold.clear()  # the files stay, for they have other names
    assert same(plain, other)
    pushed(plain, other, seed=1)
    assert same(plain, other)
    halves = [table(), table()]
    for server, half in enumerate(halves):
        for *_, names in files:
            for name in reversed(names):
                half.import_file(str(links / name), server, 2)
        half.import_({name: array for name, array in changed.items() if name != "on_disk"}, server, 2)
    assert sum(map(len, halves)) == len(np.unique(np.concatenate([rows_of(half)["keys"] for half in halves]))) > 0


def test_what_cannot_be_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="table 'ads': memory needs a folder"):
        table(memory_bytes=TINY)
    with pytest.raises(ValueError, match="table 'ads': max_bytes deletes rows and memory keeps them on a disk"):
        table(tmp_path, max_bytes=TINY)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file cannot be read: Not a directory|file.* cannot be made"):
        table(tmp_path / "file")
    cold = table(tmp_path / "rows")
    pushed(cold)
    with pytest.raises(ValueError, match="attached to a shard that is empty"):
        cold.attach(0, 0, [], str(tmp_path))
    with pytest.raises(OSError, match="no-such.run cannot be linked"):
        table(tmp_path / "empty").attach(0, 1, ["no-such.run"], str(tmp_path))
    damaged = next((tmp_path / "rows").glob("*.run"))
    data = bytearray(damaged.read_bytes())
    data[4096 + 500] ^= 1  # of the first block
    damaged.write_bytes(data)
    with pytest.raises(OSError, match=f"{damaged.name} is damaged: block 0 is not what was written"):
        cold.export(0, 64)

"""A table in plain numpy with what `fleet.checkpoint` needs of one, filled with random rows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet import _native

Rows = dict[str, npt.NDArray[Any]]


def random_rows(
    num_rows: int,
    num_waiting: int = 0,
    *,
    width: int = 4,
    state_width: int = 5,
    dtype: str = "float32",
    has_clicks: bool = False,
    seed: int = 0,
) -> Rows:
    """Rows under distinct keys, negative ones as well, in the form `export` gives them."""
    random = np.random.default_rng(seed)
    keys = np.unique(random.integers(-(2**63), 2**63 - 1, num_rows + num_waiting, np.int64))
    random.shuffle(keys)
    assert len(keys) == num_rows + num_waiting
    values: npt.NDArray[Any] = random.normal(size=(num_rows, width)).astype(np.float32)
    if dtype == "float16":
        values = values.astype(np.float16).view(np.uint16)
    elif dtype == "bfloat16":
        values = (values.view(np.uint32) >> 16).astype(np.uint16)
    state = random.normal(size=(num_rows, state_width)).astype(np.float32)
    rows: Rows = {"keys": keys[:num_rows], "values": values, "state": state, "waiting_keys": keys[num_rows:]}
    for prefix, count in (("", num_rows), ("waiting_", num_waiting)):
        rows[f"{prefix}seen"] = random.integers(0, 100, count).astype(np.uint32)
        rows[f"{prefix}step"] = random.integers(0, 2**32 - 1, count, np.uint32)
        if has_clicks:
            rows[f"{prefix}shows"] = random.random(count, np.float32)
            rows[f"{prefix}clicks"] = random.random(count, np.float32)
    return rows


class FakeTable:
    """Holds rows as one dictionary of arrays; shards are the keys modulo `num_shards`."""

    num_shards = 8

    def __init__(self, width: int = 4, state_width: int = 5, dtype: str = "float32", has_clicks: bool = False) -> None:
        self.width, self.state_width, self.dtype, self.has_clicks = width, state_width, dtype, has_clicks
        self.clear()
        self.threads: set[int] = set()

    def clear(self) -> None:
        self.rows = random_rows(
            0, width=self.width, state_width=self.state_width, dtype=self.dtype, has_clicks=self.has_clicks
        )

    def __len__(self) -> int:
        return len(self.rows["keys"])

    @property
    def has_disk(self) -> bool:
        return False

    @property
    def all_bytes(self) -> int:
        return sum(array.nbytes for array in self.rows.values())

    def import_file(self, path: str, server: int, num_servers: int) -> int:
        raise NotImplementedError

    def attach(self, shard: int, num_keys: int, names: Sequence[str], folder: str) -> None:
        raise NotImplementedError

    def export(self, first_shard: int, last_shard: int) -> Rows:
        self.threads.add(threading.get_ident())

        def wanted(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
            shards = keys.view(np.uint64) % self.num_shards
            return (first_shard <= shards) & (shards < last_shard)

        return select(self.rows, wanted(self.rows["keys"]), wanted(self.rows["waiting_keys"]))

    def import_(self, rows: Rows, server: int, num_servers: int) -> int:
        own = [_native.server_of(rows[name], num_servers) == server for name in ("keys", "waiting_keys")]
        taken = select(rows, *own)
        assert not np.isin(taken["keys"], self.rows["keys"]).any(), "this fake replaces no rows"
        self.rows = {name: np.concatenate([self.rows[name], taken[name]]) for name in self.rows}
        return len(taken["keys"])


def select(rows: Rows, which: npt.NDArray[np.bool_], which_waiting: npt.NDArray[np.bool_]) -> Rows:
    return {name: array[which_waiting if name.startswith("waiting_") else which].copy() for name, array in rows.items()}


def in_order(rows: Rows) -> Rows:
    """Rows by ascending key, so that two tables can be compared."""
    order, waiting_order = np.argsort(rows["keys"]), np.argsort(rows["waiting_keys"])
    return {name: array[waiting_order if name.startswith("waiting_") else order] for name, array in rows.items()}


def same(one: Rows, other: Rows) -> bool:
    """Whether two sets of rows are equal bit for bit, in whatever order they lie."""
    one, other = in_order(one), in_order(other)
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and one[name].tobytes() == other[name].tobytes() for name in one
    )


def joined(parts: list[Rows]) -> Rows:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

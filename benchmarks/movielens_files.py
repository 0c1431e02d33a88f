"""The splits of benchmarks/movielens.py: as files for RecBole, and as the truth that scores are measured against."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "recommenders"))
movielens: Any = import_module("movielens")  # of the examples; a benchmark has that name too

Ints = npt.NDArray[np.int64]
SEED = 2024
"""Of the random split."""


@dataclass(frozen=True)
class Data:
    """MovieLens and its two splits."""

    folder: Path
    ratings: Any
    """`movielens.MovieLens`."""

    @cached_property
    def clicks(self) -> Any:
        """`movielens.Split`: at random."""
        return movielens.clicks(self.ratings, SEED)

    @cached_property
    def user_of(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.ratings.users["user"])}

    @cached_property
    def item_of(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.ratings.items["item"])}

    @property
    def num_users(self) -> int:
        return len(self.user_of)

    @property
    def num_items(self) -> int:
        return len(self.item_of)

    def labels_of(self, users: npt.NDArray[np.str_], items: npt.NDArray[np.str_]) -> npt.NDArray[np.float32]:
        """Of the test set's clicks, which must be these pairs."""
        rows = self.clicks.rows[2]
        label = {(self.ratings.user[row], self.ratings.item[row]): self.ratings.rating[row] >= 4 for row in rows}
        assert len(label) == len(rows) == len(users)
        return np.array([label[self.user_of[u], self.item_of[i]] for u, i in zip(users, items, strict=True)])

    @property
    def last(self) -> Ints:
        """The item of each user that is to be found."""
        last = np.zeros(self.num_users, dtype=np.int64)
        last[self.ratings.user] = self.ratings.item  # in order of time: the last one stays
        return last

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """[users, items]: what a user has rated before that."""
        seen = np.zeros((self.num_users, self.num_items), dtype=bool)
        seen[self.ratings.user, self.ratings.item] = True
        seen[np.arange(self.num_users), self.last] = False
        return seen


def open_data(folder: Path) -> Data:
    return Data(folder.absolute(), movielens.read(folder))


def prepare(data: Data, folder: Path) -> None:
    """Write both splits as RecBole reads them: clicks/ in three files, sequences/ with places instead of times."""
    ratings, (clicks, sequences) = data.ratings, (folder / "clicks", folder / "sequences")
    users, items = ratings.users["user"], ratings.items["item"]
    clicks.mkdir(parents=True, exist_ok=True)
    sequences.mkdir(parents=True, exist_ok=True)
    by_id = {int(one): name for one, name in zip(ratings.item_ids, items, strict=True)}
    parts = zip(
        ("train", "valid", "test"),
        data.clicks.rows,
        (data.clicks.train, data.clicks.valid, data.clicks.test),
        strict=True,
    )
    for name, rows, batch in parts:
        lines = ["user_id:token\titem_id:token\tlabel:float\titem_id_list:token_seq"]
        for row, label, history in zip(rows, batch.label.tolist(), batch.slots["history"].tolist(), strict=True):
            words = " ".join(by_id[one] for one in history if one)
            lines.append(f"{users[ratings.user[row]]}\t{items[ratings.item[row]]}\t{label:.0f}\t{words}")
        (clicks / f"clicks.{name}.inter").write_text("\n".join(lines) + "\n")
    _write(clicks / "clicks.user", ratings.users, {"user": "user_id:token"})
    kinds = {"item": "item_id:token", "genres": "genres:token_seq"}
    _write(clicks / "clicks.item", {name: ratings.items[name] for name in ("item", "year", "genres")}, kinds)
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    triples = zip(ratings.user, ratings.item, ratings.place, strict=True)
    lines += [f"{users[user]}\t{items[item]}\t{place}" for user, item, place in triples]
    (sequences / "sequences.inter").write_text("\n".join(lines) + "\n")


def _write(path: Path, columns: dict[str, list[str]], kinds: dict[str, str]) -> None:
    head = "\t".join(kinds.get(name, f"{name}:token") for name in columns)
    rows = ("\t".join(row) for row in zip(*columns.values(), strict=True))
    path.write_text("\n".join([head, *rows]) + "\n")

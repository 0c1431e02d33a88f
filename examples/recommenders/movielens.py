"""MovieLens as batches: ratings as clicks, at random split; or each user's sequence, whose last item is to be found.

`make data` puts MovieLens-100k into build/data/ml-100k. A folder with MovieLens-1M, in its own format or in that of
RecBole, does as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet.data import Batch, Negatives, hash_ids
from fleet.errors import UsageError

LENGTH = 50
"""Items of a history: the newest ones."""
FIELDS = ("user", "item", "age", "gender", "occupation", "zip", "year")
"""The columns of a batch's ids; genres are a bag of their own."""
USER, ITEM = FIELDS.index("user"), FIELDS.index("item")
HARDLY_ANY = 1e-9

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MovieLens:
    """Ratings in the order in which each user gave them. Users and items are numbers from 0, by their order here."""

    user: Ints
    item: Ints
    rating: npt.NDArray[np.float32]
    place: Ints
    """Of a rating among those of its user, from 0."""
    time: Ints
    users: dict[str, list[str]]
    """Columns of users: their names, age, gender, occupation, zip."""
    items: dict[str, list[str]]
    """Columns of items: their names, year, genres (words)."""

    @property
    def num_users(self) -> int:
        return len(self.users["user"])

    @property
    def num_items(self) -> int:
        return len(self.items["item"])

    @cached_property
    def item_ids(self) -> Ints:
        """The id of every item."""
        return hash_ids("item", self.items["item"])


def read(folder: Path) -> MovieLens:
    """Read MovieLens-100k or -1M."""
    name = folder.name
    if (folder / f"{name}.inter").exists():
        tables = [_atomic(folder / f"{name}.{kind}") for kind in ("inter", "user", "item")]
    elif (folder / "ratings.dat").exists():
        tables = _original(folder)
    else:
        raise UsageError(f"{folder} has neither {name}.inter nor ratings.dat; `make data` makes build/data/ml-100k")
    ratings, users, items = tables
    user_of = {text: number for number, text in enumerate(users["user"])}
    item_of = {text: number for number, text in enumerate(items["item"])}
    user = np.array([user_of[text] for text in ratings["user"]])
    item = np.array([item_of[text] for text in ratings["item"]])
    time = np.array(ratings["time"], dtype=np.float64).astype(np.int64)
    order = np.lexsort((time, user))  # stable: of ratings of one second, the one that the file has first
    user = user[order]
    first = np.searchsorted(user, np.arange(len(user_of)))
    place = np.arange(len(user)) - first[user]
    rating = np.array(ratings["rating"], dtype=np.float32)[order]
    return MovieLens(user, item[order], rating, place, time[order], users, items)


_NAMES = {
    "user_id": "user",
    "item_id": "item",
    "timestamp": "time",
    "zip_code": "zip",
    "release_year": "year",
    "class": "genres",
    "genre": "genres",
}


def _atomic(path: Path) -> dict[str, list[str]]:
    """A file of RecBole's: tabs, and names with types in the first line."""
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    names = [column.split(":")[0] for column in head.split("\t")]
    columns = zip(*(line.split("\t") for line in lines), strict=True)
    return {_NAMES.get(name, name): list(column) for name, column in zip(names, columns, strict=True)}


def _original(folder: Path) -> list[dict[str, list[str]]]:
    """The three files of MovieLens-1M."""

    def table(file: str, names: list[str]) -> dict[str, list[str]]:
        lines = (folder / file).read_text(encoding="latin-1").splitlines()
        columns = zip(*(line.split("::") for line in lines), strict=True)
        return dict(zip(names, map(list, columns), strict=True))

    items = table("movies.dat", ["item", "title", "genres"])
    items["year"] = [title.rstrip()[-5:-1] for title in items["title"]]
    items["genres"] = [genres.replace("|", " ") for genres in items["genres"]]
    users = table("users.dat", ["user", "gender", "age", "occupation", "zip"])
    return [table("ratings.dat", ["user", "item", "rating", "time"]), users, items]


def batch_of(
    data: MovieLens, rows: Ints, history: Ints, label: npt.NDArray[np.float32], trained: Ints | None = None
) -> Batch:
    """Ratings `rows` with their history [rows, L] of ids, as a batch.

    With `trained`, the ratings that are trained on, `dense` has the logarithm of each item's share of those.
    """
    user, item = data.user[rows], data.item[rows]
    of_users = {name: hash_ids(name, data.users[name])[user] for name in FIELDS if name in data.users}
    of_items = {name: hash_ids(name, data.items[name])[item] for name in FIELDS if name in data.items}
    columns = of_users | of_items
    dense = np.zeros((len(rows), 0), dtype=np.float32)
    if trained is not None:
        share = np.bincount(data.item[trained], minlength=data.num_items) / len(trained)
        dense = np.log(share + HARDLY_ANY)[item, None].astype(np.float32)
    return Batch(
        label=torch.from_numpy(label),
        dense=torch.from_numpy(dense),
        ids=torch.from_numpy(np.stack([columns[name] for name in FIELDS], axis=1)),
        slots={"history": torch.from_numpy(history), "genres": torch.from_numpy(_genres(data)[item])},
        weight=None,
    )


def _genres(data: MovieLens) -> Ints:
    """[items, most genres of any] ids, 0 where there is none."""
    words = [text.split() for text in data.items["genres"]]
    ids = np.zeros((data.num_items, max(map(len, words))), dtype=np.int64)
    for number, one in enumerate(words):
        ids[number, : len(one)] = hash_ids("genres", one)
    return ids


def histories(data: MovieLens, rows: Ints, among: Ints, length: int = LENGTH) -> Ints:
    """[rows, length] ids: of the ratings `among`, the items that a user rated before, oldest first, 0 in front."""
    among = among[np.lexsort((data.place[among], data.user[among]))]
    most = int(data.place.max()) + 1
    known, wanted = (data.user[which] * most + data.place[which] for which in (among, rows))
    end = np.searchsorted(known, wanted)  # the ratings before this belong to the user, or to another
    first = np.searchsorted(known, data.user[rows] * most)
    places = end[:, None] - length + np.arange(length)
    items = data.item_ids[data.item[among]][places.clip(0, max(len(among) - 1, 0))]
    return np.where(places >= first[:, None], items, 0)


@dataclass(frozen=True)
class Split:
    """Samples to train on, to choose by, and to report."""

    train: Batch
    valid: Batch
    test: Batch
    rows: tuple[Ints, Ints, Ints]
    """Which ratings those are."""


def clicks(data: MovieLens, seed: int = 0, length: int = LENGTH) -> Split:
    """Ratings of 4 and 5 as clicks, 80/10/10 at random; histories are of clicks that are trained on."""
    order = np.random.default_rng(seed).permutation(len(data.user))
    tenth = len(order) // 10
    rows = order[2 * tenth :], order[:tenth], order[tenth : 2 * tenth]
    label = (data.rating >= 4).astype(np.float32)
    clicked = rows[0][label[rows[0]] == 1]
    made = [batch_of(data, one, histories(data, one, clicked, length), label[one]) for one in rows]
    made = [one._replace(slots={**one.slots, "negatives": _others(data, one, seed)}) for one in made]
    return Split(made[0], made[1], made[2], rows)


def _others(data: MovieLens, batch: Batch, seed: int) -> torch.Tensor:
    """For each item of a history one that is not in it, drawn at random; 0 where there is none."""
    history = batch.slots["history"]
    assert isinstance(history, torch.Tensor)
    drawn = Negatives(data.item_ids, history.shape[1], power=0, seed=seed).draw(len(history), without=history)
    return drawn.where(history != 0, 0)


def leave_one_out(data: MovieLens, length: int = LENGTH, windows: bool = False) -> Split:
    """The last item of each user is to be found, the one before it is to choose by; all before those are trained on.

    One sample for each item that has one before it; with `windows` one for every `length` items, for models that learn
    from each place of a history.
    """
    num = np.bincount(data.user, minlength=data.num_users)
    from_end = num[data.user] - 1 - data.place
    every = np.arange(len(data.user))
    trained = every[(from_end >= 2) & (data.place > 0)]
    counted = trained
    if windows:
        trained = trained[(from_end[trained] - 2) % length == 0]
    rows = trained, every[from_end == 1], every[from_end == 0]
    ones = np.ones(len(every), dtype=np.float32)
    made = [batch_of(data, one, histories(data, one, every, length), ones[one], counted) for one in rows]
    return Split(made[0], made[1], made[2], rows)


def part(batch: Batch, index: Any) -> Batch:
    """Some samples of a batch whose slots are all matrices."""
    slots = {name: values[index] for name, values in batch.slots.items() if isinstance(values, torch.Tensor)}
    weight = None if batch.weight is None else batch.weight[index]
    return Batch(batch.label[index], batch.dense[index], batch.ids[index], slots, weight)

"""Visits to a shop that are made up: what a user looked at, what he was shown, whether he clicked, whether he bought.

A user likes a few kinds of items. He mostly looks at those, often at the item that goes with the one before, and clicks
on what is of the kind that he has looked at lately. So histories tell something of clicks, and the last item most of
the next; and as the probabilities are known, so is the best AUC.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from fleet.data import Batch

USERS, ITEMS, KINDS, LENGTH = 500, 200, 8, 16
FIRST_USER = 1 << 32  # ids of users and items are in one table; 0 is padding
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sessions:
    """`num` visits; the same `seed` makes the same ones, and the same users and items whatever `num` is."""

    batch: Batch  # ids: user, item shown; slots: history, oldest first, and as many negatives; label: click, purchase
    following: torch.Tensor  # int64 [num]: the item that he looked at next
    ceiling: float  # the AUC of the true probability of a click, on the visits from `first_unseen` on

    @staticmethod
    def make(num: int, seed: int, first_unseen: int) -> Sessions:
        world = np.random.default_rng([seed, 0])
        likes = world.integers(KINDS, size=(USERS, 3))
        kind_of, successor = world.integers(KINDS, size=ITEMS), world.permutation(ITEMS)
        charm, price = world.normal(0, 0.5, ITEMS), world.normal(0, 1, ITEMS)
        shelves = _Shelves(kind_of)
        purse = world.normal(0, 1, USERS)

        rng = np.random.default_rng([seed, 1])
        user = rng.integers(USERS, size=num)
        walk = np.empty((num, LENGTH + 1), np.int64)
        walk[:, 0] = shelves.pick(rng, likes[user])
        for place in range(1, LENGTH + 1):
            goes_with = rng.random(num) < 0.4
            walk[:, place] = np.where(goes_with, successor[walk[:, place - 1]], shelves.pick(rng, likes[user]))
        history, following = walk[:, :-1], walk[:, -1]
        shown = np.where(rng.random(num) < 0.5, shelves.pick(rng, likes[user]), rng.integers(ITEMS, size=num))
        lately = (kind_of[history[:, -8:]] == kind_of[shown][:, None]).mean(axis=1)
        chance = _sigmoid(6 * lately + charm[shown] - 2)
        click = rng.random(num) < chance
        buys = click & (rng.random(num) < _sigmoid(purse[user] - price[shown] - 1))

        lengths = rng.integers(5, LENGTH + 1, size=num)  # of a visit that was shorter, only the end is there
        history = np.where(np.arange(LENGTH) >= LENGTH - lengths[:, None], history + 1, 0)
        others = np.where(history > 0, rng.integers(1, ITEMS + 1, size=history.shape), 0)
        batch = Batch(
            label=torch.from_numpy(np.stack([click, buys], axis=1).astype(np.float32)),
            dense=torch.empty(num, 0),
            ids=torch.from_numpy(np.stack([user + FIRST_USER, shown + 1], axis=1)),
            slots={"history": torch.from_numpy(history), "negatives": torch.from_numpy(others)},
            weight=None,
        )
        best = _auc(chance[first_unseen:], click[first_unseen:])
        return Sessions(batch, torch.from_numpy(following + 1), best)


class _Shelves:
    """The items of each kind."""

    def __init__(self, kind_of: Ints) -> None:
        self._items = np.argsort(kind_of, kind="stable")
        self._size = np.bincount(kind_of, minlength=KINDS)
        self._first = np.cumsum(self._size) - self._size

    def pick(self, rng: np.random.Generator, likes: Ints) -> Ints:
        """An item for each row of kinds: of one of them, and the first items of a kind more often than the rest."""
        kind = likes[np.arange(len(likes)), rng.integers(likes.shape[1], size=len(likes))]
        place = (rng.random(len(likes)) ** 2 * self._size[kind]).astype(np.int64)
        found: Ints = self._items[self._first[kind] + place]
        return found


def _sigmoid(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 1 / (1 + np.exp(-x))


def _auc(chance: npt.NDArray[np.float64], is_click: npt.NDArray[np.bool_]) -> float:
    """By ranks; ties are too rare to matter."""
    rank = np.empty(len(chance))
    rank[np.argsort(chance)] = np.arange(len(chance))
    clicks = int(is_click.sum())
    return float((rank[is_click].sum() - clicks * (clicks - 1) / 2) / (clicks * (len(chance) - clicks)))

"""Splits of MovieLens: nobody is trained on what is to be predicted, and histories are of the past."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError

FOLDER = Path(__file__).parents[3] / "examples" / "recommenders"


@pytest.fixture(scope="module")
def movielens() -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        import movielens
    finally:
        sys.path.remove(str(FOLDER))
    return movielens


@pytest.fixture(scope="module")
def data(movielens: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """12 users with 10 to 21 ratings each, in no order, several in one second."""
    folder = tmp_path_factory.mktemp("data") / "ml-tiny"
    folder.mkdir()
    generator = np.random.default_rng(3)
    lines = [
        f"u{user}\ti{item}\t{generator.integers(1, 6)}\t{generator.integers(8)}"
        for user in range(12)
        for item in generator.permutation(40)[: 10 + user]
    ]
    generator.shuffle(lines)
    heads = {
        "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float",
        "user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token",
        "item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
    }
    rows = {
        "inter": lines,
        "user": [f"u{user}\t{20 + user % 3}\tF\twriter\t{user}" for user in range(12)],
        "item": [
            f"i{item}\tA film\t{1990 + item % 5}\t{'Comedy Drama' if item % 2 else 'Drama'}" for item in range(40)
        ],
    }
    for kind, head in heads.items():
        (folder / f"ml-tiny.{kind}").write_text("\n".join([head, *rows[kind]]) + "\n")
    return movielens.read(folder)


def before(data: Any, row: int, among: set[int]) -> list[int]:
    """The plain way: ids of items that the user of a rating rated before it."""
    user, place = data.user[row], data.place[row]
    rows = [one for one in sorted(among) if data.user[one] == user and data.place[one] < place]
    return [int(data.item_ids[data.item[one]]) for one in sorted(rows, key=lambda one: int(data.place[one]))]


def test_ratings_are_in_order_of_time(data: Any) -> None:
    for user in range(data.num_users):
        own = data.user == user
        assert own.sum() == 10 + user
        assert (np.diff(data.time[own]) >= 0).all()
        assert data.place[own].tolist() == list(range(10 + user))


def test_clicks_are_divided_and_histories_are_trained_clicks_of_the_past(movielens: Any, data: Any) -> None:
    split = movielens.clicks(data, seed=1, length=4)
    assert sorted(np.concatenate(split.rows).tolist()) == list(range(len(data.user)))
    assert [len(rows) for rows in split.rows[1:]] == [len(data.user) // 10] * 2
    clicked = {int(row) for row in split.rows[0] if data.rating[row] >= 4}
    for rows, batch in zip(split.rows, (split.train, split.valid, split.test), strict=True):
        assert batch.label.tolist() == (data.rating[rows] >= 4).tolist()
        for row, history in zip(rows, batch.slots["history"].tolist(), strict=True):
            assert [one for one in history if one] == before(data, int(row), clicked)[-4:]
        history, others = batch.slots["history"], batch.slots["negatives"]
        assert torch.equal(history == 0, others == 0)  # DIEN wants them side by side
        assert not ((history.unsqueeze(2) == others.unsqueeze(1)) & (history != 0).unsqueeze(2)).any()


@pytest.mark.parametrize("windows", [False, True])
def test_the_last_items_are_left_out(movielens: Any, data: Any, windows: bool) -> None:
    split = movielens.leave_one_out(data, length=4, windows=windows)
    every = set(range(len(data.user)))
    assert len(split.rows[1]) == len(split.rows[2]) == data.num_users
    for rows, batch in zip(split.rows, (split.train, split.valid, split.test), strict=True):
        for row, history, ids in zip(rows, batch.slots["history"].tolist(), batch.ids.tolist(), strict=True):
            assert [one for one in history if one] == before(data, int(row), every)[-4:]
            assert ids[movielens.ITEM] == data.item_ids[data.item[row]]
    left_out = {int(row) for rows in split.rows[1:] for row in rows}
    trained = {(int(data.user[row]), int(data.place[row])) for row in split.rows[0]}
    if windows:  # with the items of their histories, all places but the first are learnt
        trained |= {(user, place - back) for user, place in trained for back in range(1, 4) if place - back > 0}
    wanted = {(int(data.user[row]), int(data.place[row])) for row in every - left_out if data.place[row] > 0}
    assert trained == wanted


def test_a_folder_without_movielens_says_how_to_get_it(movielens: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has neither .*inter nor ratings.dat; `make data` makes build/data/ml-100k"):
        movielens.read(tmp_path)

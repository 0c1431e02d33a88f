"""Ratings of films: who rated which, and how.

A sample is [user, gender (0 male), age group, job, film, [categories], [words of the title], [rating from -3 to 5]].
Nine tenths of the ratings are for training. The original is `movielens/ml-1m.zip`.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet_paddle.dataset.original_files import original
from fleet_paddle.dataset.words import frequencies, made_up

__all__ = [
    "MovieInfo",
    "UserInfo",
    "age_table",
    "fetch",
    "get_movie_title_dict",
    "max_job_id",
    "max_movie_id",
    "max_user_id",
    "movie_categories",
    "movie_info",
    "test",
    "train",
    "user_info",
]

Reader = Callable[[], Iterator[list[Any]]]

age_table = [1, 18, 25, 35, 45, 50, 56]
_TEST_SHARE = 0.1
_BLOCK = 5_000
_USERS, _FILMS, _LAST_FILM, _JOBS, _RATINGS, _TITLE_WORDS = 6_040, 3_883, 3_952, 21, 1_000_209, 5_215
_KINDS = (
    *("Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy"),
    *("Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)


@dataclass(frozen=True)
class MovieInfo:
    """A film."""

    index: int
    categories: tuple[str, ...]
    title: str

    def value(self) -> list[Any]:
        """Its part of a sample."""
        kinds, words = movie_categories(), get_movie_title_dict()
        return [self.index, [kinds[one] for one in self.categories], [words[one.lower()] for one in self.title.split()]]


@dataclass(frozen=True)
class UserInfo:
    """Somebody who rates."""

    index: int
    is_male: bool
    age: int
    job_id: int

    def value(self) -> list[int]:
        """Their part of a sample."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]


@dataclass(frozen=True)
class _All:
    films: dict[int, MovieInfo]
    users: dict[int, UserInfo]
    path: Path | None


def train() -> Reader:
    """Nine tenths of the ratings."""
    return _reader(is_test=False)


def test() -> Reader:
    """One tenth of the ratings."""
    return _reader(is_test=True)


def movie_info() -> dict[int, MovieInfo]:
    """Every film, by its number."""
    return dict(_all().films)


def user_info() -> dict[int, UserInfo]:
    """Every user, by their number."""
    return dict(_all().users)


def movie_categories() -> dict[str, int]:
    """Categories of films, by name."""
    return _numbered(_all().path, "categories")


def get_movie_title_dict() -> dict[str, int]:
    """Words of titles, by name."""
    return _numbered(_all().path, "title")


def max_movie_id() -> int:
    """The greatest number of a film."""
    return max(_all().films)


def max_user_id() -> int:
    """The greatest number of a user."""
    return max(_all().users)


def max_job_id() -> int:
    """The greatest number of a job."""
    return max(user.job_id for user in _all().users.values())


def fetch() -> None:
    """Look for the originals; nothing is downloaded."""
    original("movielens", "ml-1m.zip")


def _reader(is_test: bool) -> Reader:
    def samples() -> Iterator[list[Any]]:
        known = _all()
        films = {number: film.value() for number, film in known.films.items()}
        users = {number: user.value() for number, user in known.users.items()}
        block: npt.NDArray[np.int64]
        for place, block in enumerate(_made_up_ratings() if known.path is None else _ratings(known.path)):
            chosen = (np.random.default_rng([place, 5]).random(len(block)) < _TEST_SHARE) == is_test
            for user, film, rating in block[chosen].tolist():
                yield [*users[user], *films[film], [rating * 2.0 - 5.0]]

    return samples


def _all() -> _All:
    paths = original("movielens", "ml-1m.zip")
    return _made_up() if paths is None else _read(paths[0])


@cache
def _numbered(path: Path | None, field: str) -> dict[str, int]:
    known = _made_up() if path is None else _read(path)
    if field == "categories":
        words = {kind for film in known.films.values() for kind in film.categories}
    else:
        words = {word.lower() for film in known.films.values() for word in film.title.split()}
    return {word: place for place, word in enumerate(sorted(words))}


def _lines(path: Path, name: str) -> Iterator[list[str]]:
    with zipfile.ZipFile(path) as archive, archive.open(f"ml-1m/{name}") as file:
        for line in file:
            yield line.decode("latin-1").strip().split("::")


@cache
def _read(path: Path) -> _All:
    films = {}
    for number, title, kinds in _lines(path, "movies.dat"):
        bare = re.sub(r"\(\d+\)$", "", title).strip()
        films[int(number)] = MovieInfo(int(number), tuple(kinds.split("|")), bare)
    users = {
        int(number): UserInfo(int(number), gender == "M", age_table.index(int(age)), int(job))
        for number, gender, age, job, _ in _lines(path, "users.dat")
    }
    return _All(films, users, path)


def _ratings(path: Path) -> Iterator[npt.NDArray[np.int64]]:
    block: list[tuple[int, int, int]] = []
    for user, film, rating, _ in _lines(path, "ratings.dat"):
        block.append((int(user), int(film), int(rating)))
        if len(block) == _BLOCK:
            yield np.array(block)
            block = []
    if block:
        yield np.array(block)


@cache
def _made_up() -> _All:
    random = np.random.default_rng(1)
    words, share = made_up(_TITLE_WORDS), frequencies(_TITLE_WORDS)
    films = {}
    for number in [*sorted((random.permutation(_LAST_FILM - 1)[: _FILMS - 1] + 1).tolist()), _LAST_FILM]:
        kinds = random.choice(len(_KINDS), random.integers(1, 4), replace=False)
        title = " ".join(words[random.choice(_TITLE_WORDS, random.integers(1, 6), p=share)])
        films[number] = MovieInfo(number, tuple(_KINDS[kind] for kind in sorted(kinds)), title)
    males, ages, jobs = random.random(_USERS) < 0.72, random.integers(0, 7, _USERS), random.integers(0, _JOBS, _USERS)
    rows = zip(range(1, _USERS + 1), males.tolist(), ages.tolist(), jobs.tolist(), strict=True)
    return _All(films, {row[0]: UserInfo(*row) for row in rows}, None)


def _made_up_ratings() -> Iterator[npt.NDArray[np.int64]]:
    """Users like some kinds of films more than others, some users everything more, and some films are better."""
    films = np.array(list(_made_up().films))
    kinds = np.array([[kind in film.categories for kind in _KINDS] for film in _made_up().films.values()], float)
    random = np.random.default_rng(2)
    taste = random.normal(0, 0.55, (_USERS, len(_KINDS)))
    mild, good = random.normal(0, 0.4, _USERS), random.normal(0, 0.5, _FILMS)
    for block in range(-(-_RATINGS // _BLOCK)):
        random = np.random.default_rng([block, 4])
        size = min(_BLOCK, _RATINGS - block * _BLOCK)
        users, places = random.integers(0, _USERS, size), random.integers(0, _FILMS, size)
        liked = (taste[users] * kinds[places]).sum(1) / kinds[places].sum(1)
        score = 3.6 + liked + mild[users] + good[places] + random.normal(0, 0.6, size)
        yield np.stack([users + 1, films[places], np.clip(np.rint(score), 1, 5).astype(np.int64)], 1)

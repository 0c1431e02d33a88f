"""Clicks, people and texts as the models of a recommender collection of 2.x read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SAMPLES = 320


def criteo_slots(folder: Path) -> None:
    """Lines `click:1 dense_feature:0.05 ... 1:737395 ...`: 13 numbers, 26 ids; who clicks follows from both."""
    random = np.random.default_rng(1)
    weights = random.normal(size=13)
    lines = []
    for _ in range(SAMPLES):
        numbers, ids = random.random(13) * 0.2, random.integers(0, 20, 26)
        score = (numbers - 0.1) @ weights * 8 + (ids[0] - 9.5) * 0.5 + (ids[1] - 9.5) * 0.3
        dense = " ".join(f"dense_feature:{one:.4f}" for one in numbers)
        sparse = " ".join(f"{slot + 1}:{slot * 1_000 + one + 1}" for slot, one in enumerate(ids))
        lines.append(f"click:{int(score > 0)} {dense} {sparse}\n")
    _write(folder / "data" / "sample_data" / "train" / "part-0", lines)


def census(folder: Path) -> None:
    """Lines of a married flag, an income flag and 499 numbers, separated by commas."""
    random = np.random.default_rng(2)
    weights = random.normal(size=(2, 499))
    lines = []
    for _ in range(SAMPLES):
        facts = (random.random(499) < 0.08).astype(np.float64)
        married, income = (weights @ facts + random.normal(size=2) * 0.5 > 0).astype(int)
        lines.append(f"{married},{income}," + ",".join(f"{one:.1f}" for one in facts) + "\n")
    _write(folder / "data" / "train" / "part-0", lines)


def rated_texts(folder: Path) -> None:
    """Lines of 100 numbers of words, their count and whether the text is a good one, separated by blanks."""
    random = np.random.default_rng(3)
    lines = []
    for _ in range(SAMPLES // 2):
        label, count = int(random.integers(0, 2)), int(random.integers(20, 100))
        words = np.where(
            random.random(count) < 0.3, 10 + 10 * label + random.integers(0, 10, count), random.integers(30, 900, count)
        )
        padded = [*words, *[0] * (100 - count)]
        lines.append(" ".join(str(one) for one in (*padded, count, label)) + "\n")
    _write(folder / "data" / "train" / "part-0", lines)


def tagged_texts(folder: Path) -> None:
    """Lines `tag,words`: a tag of four, and numbers of words, of which a tag has some of its own."""
    random = np.random.default_rng(4)
    lines = []
    for _ in range(SAMPLES):
        tag, count = int(random.integers(0, 4)), int(random.integers(10, 50))
        own = random.random(count) < 0.4
        words = np.where(own, 100 + 20 * tag + random.integers(0, 20, count), random.integers(200, 5000, count))
        lines.append(f"{tag},{' '.join(str(one) for one in words)}\n")
    _write(folder / "data" / "train_data" / "part-0", lines)


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


def ads_by_field(folder: Path) -> None:
    """Lines `number,clicked,bought,words,FIELD:ID,...`: who clicks and buys follows from two of the fields."""
    random = np.random.default_rng(5)
    fields = ("101", "109_14", "110_14", "121", "122", "205", "206", "301")
    lines = []
    for number in range(SAMPLES):
        ids = random.integers(0, 12, len(fields))
        clicked = int(ids[0] + ids[1] > 11)
        bought = int(clicked and ids[2] > 5)
        parts = ",".join(
            f"{field}:{place * 1000 + one + 1}" for place, (field, one) in enumerate(zip(fields, ids, strict=True))
        )
        lines.append(f"{number},{clicked},{bought},x,{parts}\n")
    _write(folder / "data" / "train" / "part-0", lines)


def films_by_user(folder: Path) -> None:
    """`data/train.rating`, lines `user film rating time`, and what is for testing; tastes come in four kinds."""
    random = np.random.default_rng(6)
    users = random.integers(0, 40, SAMPLES)
    films = users % 4 * 10 + random.integers(0, 10, SAMPLES)
    lines = [f"{user}\t{film}\t5\t0\n" for user, film in zip(users, films, strict=True)] + ["39\t39\t5\t0\n"]
    _write(folder / "data" / "train.rating", lines)
    _write(folder / "data" / "test.negative", [f"({user},{user % 4 * 10})\t1\t2\n" for user in range(40)])
    _write(folder / "data" / "train" / "part-0", lines[:1])


def numbered_sentences(folder: Path) -> None:
    """Sentences as numbers of words, and how often each word occurs: neighbours are of one kind."""
    random = np.random.default_rng(7)
    lines, counts = [], np.ones(1000, np.int64)
    for _ in range(60):
        words = int(random.integers(0, 10)) * 20 + random.integers(0, 20, 12)
        np.add.at(counts, words, 1)
        lines.append(" ".join(str(one) for one in words) + "\n")
    _write(folder / "data" / "train" / "part-0", lines)
    _write(folder / "data" / "dict" / "word_count_dict.txt", [f"w{place} {one}\n" for place, one in enumerate(counts)])


def pairs_of_documents(folder: Path) -> None:
    """Lines `query\\tdocument` of 20 and 500 numbers of words; of 128 lines the first 64 are pairs that match."""
    random = np.random.default_rng(8)
    lines = []
    for number in range(256):
        query = random.integers(0, 400, 20)
        document = random.integers(400, 800, 500)
        if number % 128 < 64:
            document[random.integers(0, 500, 120)] = random.choice(query, 120)
        lines.append(f"{','.join(map(str, query))}\t{','.join(map(str, document))}\n")
    _write(folder / "data" / "train" / "part-0", lines)


def questions(folder: Path) -> None:
    """Lines of a question, one that means the same and one that does not, each 300 numbers."""
    random = np.random.default_rng(9)
    lines = []
    for _ in range(SAMPLES):
        asked, other = (random.random((2, 300)) < 0.05).astype(int)
        same = np.where(random.random(300) < 0.02, 1 - asked, asked)
        lines.append("\t".join(",".join(map(str, one)) for one in (asked, same, other)) + "\n")
    _write(folder / "data" / "train" / "part-0", lines)


def bought_before(folder: Path) -> None:
    """Lines `items;categories;item;category;bought` of what somebody has bought and whether something goes with it."""
    random = np.random.default_rng(10)
    lines = []
    for _ in range(SAMPLES * 2):
        kind, count = int(random.integers(0, 10)), int(random.integers(2, 8))
        items = kind * 50 + random.integers(1, 50, count)
        goes = int(random.integers(0, 2))
        other = kind if goes else (kind + int(random.integers(1, 10))) % 10
        item = other * 50 + int(random.integers(1, 50))
        kinds = " ".join([str(kind + 1)] * count)
        lines.append(f"{' '.join(map(str, items))};{kinds};{item};{other + 1};{float(goes)}\n")
    _write(folder / "data" / "train_data" / "part-0", lines)


def questions_by_slot(folder: Path) -> None:
    """Lines `0:WORD ... 1:WORD ... 2:WORD ...`: a question of 79 words, one like it of 99, another of 90."""
    random = np.random.default_rng(11)
    lines = []
    for _ in range(64):
        kind, other = random.choice(12, 2, replace=False)
        words = [one * 40 + 1 + random.integers(0, 40, count) for one, count in ((kind, 79), (kind, 99), (other, 90))]
        lines.append(" ".join(f"{slot}:{one}" for slot, several in enumerate(words) for one in several) + "\n")
    _write(folder / "data" / "train" / "part-0", lines)


def visits(folder: Path) -> None:
    """Lines `items\tnext`: numbers of what was looked at in one visit, and what came next, less one."""
    random = np.random.default_rng(12)
    lines = []
    for _ in range(200):
        kind, count = int(random.integers(0, 8)), int(random.integers(3, 7))
        items = kind * 10 + random.integers(1, 9, count)
        lines.append(f"{','.join(map(str, items))}\t{kind * 10 + 8}\n")
    _write(folder / "data" / "train" / "part-0.txt", lines)

"""Clicks that are made up: the same on every machine, whatever range is asked for, and text that says the same."""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native

VOCABULARIES = [3, 1_000_000, *[50] * 24]
GAPS = [0.5, *[0.1] * 12, 0.0, 0.25, *[0.02] * 24]


def made(seed: int = 7, **settings: Any) -> _native.Clicks:
    given = {"vocabularies": VOCABULARIES, "gaps": GAPS, "exponent": 1.1, "click_rate": 0.25, "signal": 1.0}
    return _native.Clicks(seed, **{**given, **settings})


CLICKS = made()


def digest(*arrays: Any) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def test_the_same_bits_on_every_machine() -> None:
    assert bytes(CLICKS.text(0, 2)).decode().split("\t")[:20] == [
        "0",
        "0",
        "29",
        "0",
        "8",
        "128",
        "9",
        "",
        "24",
        "19",
        "1",
        "1",
        "3",
        "0",
        "cf7f0b3f",
        "",
        "5f30f8f0",
        "2805a782",
        "97bf41e3",
        "e484b228",
    ]
    assert digest(CLICKS.text(0, 20_000)) == "c24efda18c2ddc74"
    probability, label = CLICKS.probabilities(10**15, 10**15 + 20_000)
    assert digest(probability, label) == "d8c019132cc68c54"
    assert digest(made(seed=8).text(0, 20_000)) == "a50b6bef4821cdaa"
    assert digest(made(exponent=1.0).text(0, 20_000)) == "f1477a650a8a0107"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3000), st.integers(0, 300))
def test_any_range_is_a_part_of_the_whole(first: int, count: int) -> None:
    whole: Any = CLICKS.batch(0, 3300)
    parts: Any = CLICKS.batch(first, first + count)
    for part, all_of_it in zip(parts, whole, strict=True):
        assert np.array_equal(part, all_of_it[first : first + count])
    lines = bytes(CLICKS.text(0, 3300)).splitlines()
    assert bytes(CLICKS.text(first, first + count)).splitlines() == lines[first : first + count]
    assert np.array_equal(CLICKS.probabilities(first, first + count)[1], whole[0][first : first + count])


def test_text_and_batches_say_the_same() -> None:
    label, dense, ids = CLICKS.batch(0, 2000)
    rows = [line.split("\t") for line in bytes(CLICKS.text(0, 2000)).decode().splitlines()]
    assert {len(row) for row in rows} == {40}
    assert [float(row[0]) for row in rows] == label.tolist()
    numbers = [[int(text or 0) for text in row[1:14]] for row in rows]
    expected = [[math.copysign(math.log1p(abs(x)), x) for x in row] for row in numbers]
    assert np.array_equal(dense, np.array(expected, dtype=np.float32))
    assert min(map(min, numbers)) < 0
    assert {row[1] == "" for row in rows} == {row[15] == "" for row in rows} == {True, False}
    for slot in range(26):  # one id for one text, another for another
        pairs = {(row[14 + slot], number) for row, number in zip(rows, ids[:, slot].tolist(), strict=True)}
        assert len(pairs) == len({text for text, _ in pairs}) == len({number for _, number in pairs})
    assert (ids >= 0).all()


def test_columns_say_the_same_as_text() -> None:
    label, numbers, categories = CLICKS.columns(5, 1005)
    rows = [line.split("\t") for line in bytes(CLICKS.text(5, 1005)).decode().splitlines()]
    assert label.tolist() == [int(row[0]) for row in rows]

    def is_there(valid: Any) -> list[bool]:
        return np.unpackbits(valid, count=1000, bitorder="little").astype(bool).tolist()

    for place, (valid, values) in enumerate(numbers, 1):
        found = [str(x) if there else "" for x, there in zip(values.tolist(), is_there(valid), strict=True)]
        assert found == [row[place] for row in rows]
    for place, (valid, offsets, text) in enumerate(categories, 14):
        texts = [bytes(text[begin:end]).decode() for begin, end in pairwise(offsets)]
        assert texts == [row[place] for row in rows]
        assert is_there(valid) == [text != "" for text in texts]


def test_shares_are_those_asked_for() -> None:
    rows = np.array([line.split(b"\t") for line in bytes(CLICKS.text(0, 50_000)).splitlines()])
    gaps = (rows[:, 1:] == b"").mean(axis=0)
    assert np.abs(gaps - GAPS).max() < 0.01
    probability, label = CLICKS.probabilities(0, 50_000)
    assert probability.mean() == pytest.approx(0.25, abs=0.02)
    assert label.mean() == pytest.approx(probability.mean(), abs=0.01)
    assert made(click_rate=0.01).probabilities(0, 50_000)[1].mean() == pytest.approx(0.01, abs=0.003)
    # Zipf: of x^-1.1 from 1 to 51, the part from 1 to 2, from 2 to 3, ...
    _, counts = np.unique(rows[:, 14 + 5], return_counts=True)
    law = np.diff(np.arange(1, 52) ** -0.1) / (51**-0.1 - 1)
    assert np.abs(np.sort(counts[:51])[::-1][:10] / 50_000 - 0.98 * law[:10]).max() < 0.02
    assert len(np.unique(rows[:, 14])) == 3
    assert len(np.unique(rows[:, 15])) > 5_000


def test_without_a_signal_a_click_is_chance() -> None:
    probability, _ = made(signal=0.0).probabilities(0, 1000)
    assert np.ptp(probability) == 0
    assert probability[0] == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"vocabularies": [1] * 25}, "vocabularies must be 26 numbers, got 25"),
        ({"vocabularies": [0] * 26}, "a vocabulary must be"),
        ({"gaps": [0.0]}, "gaps must be 39 shares, got 1"),
        ({"gaps": [1.5] * 39}, "a share of gaps must be from 0"),
        ({"exponent": 0}, "exponent must be between 0"),
        ({"click_rate": 1}, "click_rate must be between 0"),
        ({"signal": -1}, "signal must be from 0"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        made(**settings)


def test_ranges_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="last must be"):
        CLICKS.batch(5, 4)
    with pytest.raises(ValueError, match="last must be"):
        CLICKS.text(0, 2**28 + 1)

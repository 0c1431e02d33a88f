"""The examples of words: word2vec in geo mode, and SimNet-BOW, with two servers and two workers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from support.jobs import fleetrun

pytestmark = pytest.mark.timeout(120)
FOLDER = Path(__file__).parents[2] / "examples" / "recommenders"


def test_words_are_told_from_random_ones(tmp_path: Path) -> None:
    # Paragraphs of 40 words, each of one of ten kinds: a word's neighbours are of its own kind.
    generator = np.random.default_rng(0)
    words = np.array([[kind + end for end in "abcd"] for kind in "klmnprstvw"])
    kinds = generator.integers(len(words), size=300)
    text = tmp_path / "text"
    text.write_text("\n".join(" ".join(words[kind][generator.integers(4, size=40)]) for kind in kinds))
    small = ("--epochs", 5, "--dim", 8, "--window", 3, "--batch-size", 64, "--k-steps", 10)
    job = ("--server_num", 2, "--worker_num", 2)
    result = fleetrun(*job, FOLDER / "word2vec.py", "--text", text, *small, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    found = re.search(r"neighbours told from random words: ([0-9.]+) of unseen pairs", result.out)
    assert found is not None, result.out
    assert float(found[1]) > 0.8


def test_the_right_title_is_nearer(tmp_path: Path) -> None:
    job = ("--server_num", 2, "--worker_num", 2)
    result = fleetrun(*job, FOLDER / "simnet_bow.py", "--pairs", 20_000, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    found = re.search(r"the right title was nearer for ([0-9.]+) of unseen pairs", result.out)
    assert found is not None, result.out
    assert float(found[1]) > 0.85

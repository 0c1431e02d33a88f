"""Made-up sentences and their translations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fleet_paddle.dataset.words import frequencies, made_up

Pair = tuple[list[str], list[str]]
WORDS = 6_000
_BLOCK = 1_000


def made_up_pairs(part: str, total: int) -> Iterator[Pair]:
    """So many pairs for training, if `part` is `train`, or for something else.

    A word has one translation, and the last word of a sentence, its verb, comes second in the other language.
    """
    words, share = made_up(WORDS), frequencies(WORDS)
    meaning = np.random.default_rng(9).permutation(WORDS)
    for block in range(-(-total // _BLOCK)):
        size = min(_BLOCK, total - block * _BLOCK)
        random = np.random.default_rng([len(part), block, 13])
        lengths = np.clip(random.normal(13, 4, size), 4, 40).astype(np.int64)
        for tokens in np.split(random.choice(WORDS, lengths.sum(), p=share), np.cumsum(lengths)[:-1]):
            german = np.concatenate([tokens[:1], tokens[-1:], tokens[1:-1]])
            yield words[tokens].tolist(), [f"d{number}" for number in meaning[german].tolist()]

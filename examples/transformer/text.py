"""Pairs of sentences to batches of tokens."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from catalogues import pairs_of
from common.extras import need
from common.options import number_in
from config import Config

import fleet
from fleet.errors import UsageError

PAD, UNKNOWN, BEGIN, END = range(4)
ROWS = 8
"""The rows of a batch are a multiple of it: up to so many workers divide the same batches, and GPUs like it."""
Tokens = list[list[int]]
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]
"""Source, target with BEGIN before it, target with END behind it; how many pairs and target tokens all workers have."""


@dataclass(frozen=True)
class Corpus:
    """Tokens of both languages, and how to read them; `texts` are the held-out pairs, none of made-up tokens."""

    train: tuple[Tokens, Tokens]
    held: tuple[Tokens, Tokens]
    texts: list[tuple[str, str]]
    pieces: Any = None

    def text_of(self, tokens: list[int]) -> str:
        return str(self.pieces.decode([token for token in tokens if token > END]))


def open_data(args: argparse.Namespace, config: Config) -> Corpus:
    """The corpus of --data, of which every fiftieth pair, 2,000 at most, is held out."""
    num_made_up = number_in(args.data, default=20_000)
    if num_made_up is not None:
        source, target = reversed_numbers(num_made_up, config)
        num_held = min(500, num_made_up // 10)
        if not num_held:
            raise UsageError(f"--data {args.data} is too few: at least 10 pairs are needed")
        return Corpus((source[num_held:], target[num_held:]), (source[:num_held], target[:num_held]), [])
    pairs = read(Path(args.data), args.language)
    is_held = [number % 50 == 49 and number < 100_000 for number in range(len(pairs))]
    held = [pair for pair, held in zip(pairs, is_held, strict=True) if held]
    train = [pair for pair, held in zip(pairs, is_held, strict=True) if not held]
    if not held:
        raise UsageError(f"--data {args.data} has {len(pairs)} pairs of sentences; at least 50 are needed")
    pieces = trained(train, args.out / "pieces.model", config)

    def tokens(some: list[tuple[str, str]]) -> tuple[Tokens, Tokens]:
        both = [pieces.encode([pair[side] for pair in some]) for side in (0, 1)]
        fits = [max(len(a), len(b)) < config.longest and a and b for a, b in zip(*both, strict=True)]
        return tuple([one for one, fit in zip(side, fits, strict=True) if fit] for side in both)  # type: ignore[return-value]

    held = [pair for pair in held if all(0 < len(pieces.encode(side)) < config.longest for side in pair)]
    if not held:
        raise UsageError(f"--data {args.data}: no held-out pair is shorter than {config.longest} tokens")
    return Corpus(tokens(train), tokens(held), held, pieces)


def read(path: Path, language: str) -> list[tuple[str, str]]:
    """Pairs of a folder of catalogues, or of a file with two columns between a tab."""
    if path.is_dir():
        found: list[tuple[str, str]] = pairs_of(path, language)
        return found
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--data {path}: {error}; give a file of pairs, a folder of .mo files, or synthetic") from None
    pairs = [tuple(part.strip() for part in line.split("\t")) for line in lines if line.strip()]
    for number, pair in enumerate(pairs, start=1):
        if len(pair) != 2 or not all(pair):
            raise UsageError(f"--data {path}, pair {number}: it must be a sentence, a tab and its translation")
    if not pairs:
        raise UsageError(f"--data {path} has no text in it; give a sentence, a tab and its translation on each line")
    return pairs  # type: ignore[return-value]


def trained(pairs: list[tuple[str, str]], model: Path, config: Config) -> Any:
    """Sentencepiece over both languages; worker 0 trains it, once in a run."""
    sentencepiece = need("sentencepiece", "sentencepiece", "text of your own")
    if fleet.is_first_worker() and not model.exists():
        new = model.with_name("new-pieces")
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter([side for pair in pairs for side in pair]),
                model_prefix=str(new),
                vocab_size=config.vocabulary,
                hard_vocab_limit=False,
                pad_id=PAD,
                unk_id=UNKNOWN,
                bos_id=BEGIN,
                eos_id=END,
                minloglevel=2,
                num_threads=1,
            )
        except RuntimeError as error:
            *_, reason = str(error).rpartition("] ")
            raise UsageError(
                f"sentencepiece finds no {config.vocabulary} pieces in this text ({reason.strip()}); give another "
                "--preset, or another text"
            ) from None
        new.with_suffix(".vocab").unlink()
        os.replace(new.with_suffix(".model"), model)
    fleet.barrier_worker()
    return sentencepiece.SentencePieceProcessor(model_file=str(model))


def reversed_numbers(number: int, config: Config) -> tuple[Tokens, Tokens]:
    """Made-up sentences whose translation is the same backwards, half as long as the longest on average."""
    random = np.random.default_rng(1)
    lengths = random.integers(config.longest // 4, config.longest * 3 // 4, number)
    source = [random.integers(END + 1, config.vocabulary, length).tolist() for length in lengths]
    return source, [one[::-1] for one in source]


class Batches:
    """Batches of about equal length, `batch_size` tokens of one language for each worker; this worker's rows.

    What is a batch depends on the epoch, the seed and the tokens of all workers together, so two workers with half the
    tokens each train on what one does. A bucket has one shape, which suits compiled models: its last batch is filled
    with rows that have nothing to guess.
    """

    def __init__(self, pairs: tuple[Tokens, Tokens], config: Config, batch_size: int, seed: int | None) -> None:
        """`seed`: None keeps the order of the buckets, for evaluation."""
        self._pairs, self._seed, self._epoch = pairs, seed, 0
        self._tokens = batch_size
        self._buckets: dict[int, list[int]] = {}
        for number, (source, target) in enumerate(zip(*pairs, strict=True)):
            longest = max(len(source), len(target)) + 1
            self._buckets.setdefault(-(-longest // config.bucket) * config.bucket, []).append(number)
        if self._buckets and not self._num_rows(max(self._buckets)):
            raise UsageError(
                f"--batch-size {batch_size} is too small: a batch has at least {ROWS} sentences, and the longest has "
                f"{max(self._buckets)} tokens"
            )

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[Batch]:
        random = None if self._seed is None else np.random.default_rng([self._seed, self._epoch])
        plan = []
        for length, numbers in sorted(self._buckets.items()):
            order = numbers if random is None else random.permutation(numbers).tolist()
            num_rows = self._num_rows(length)
            plan += [(length, order[first : first + num_rows], num_rows) for first in range(0, len(order), num_rows)]
        for place in range(len(plan)) if random is None else random.permutation(len(plan)):
            yield self._made(*plan[place])

    def _num_rows(self, length: int) -> int:
        """Of all workers together: a multiple of ROWS and of their number."""
        unit = math.lcm(ROWS, fleet.worker_num())
        return self._tokens * fleet.worker_num() // length // unit * unit

    def _made(self, length: int, numbers: list[int], num_rows: int) -> Batch:
        source, before, after = np.full((3, num_rows // fleet.worker_num(), length), PAD)
        source[:, 0] = END  # also of rows that stay empty: attention needs something to look at
        for row, number in enumerate(numbers[fleet.worker_index() :: fleet.worker_num()]):
            first, second = self._pairs[0][number], self._pairs[1][number]
            source[row, : len(first) + 1] = [*first, END]
            before[row, : len(second) + 1] = [BEGIN, *second]
            after[row, : len(second) + 1] = [*second, END]
        num_tokens = sum(len(self._pairs[1][number]) + 1 for number in numbers)
        tensors = torch.from_numpy(source), torch.from_numpy(before), torch.from_numpy(after)
        return *tensors, len(numbers), num_tokens

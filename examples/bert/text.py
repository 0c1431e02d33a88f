"""Text to sequences of wordpieces, and the masks that BERT guesses behind."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from common.extras import need
from common.options import number_in
from config import Config

import fleet
from fleet.errors import UsageError

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CLS, SEP, MASK = 2, 3, 4
Sequences = tuple[torch.Tensor, torch.Tensor]
"""Tokens [N, length], and the number of each sequence [N], which its mask is made of."""


def open_data(args: argparse.Namespace, config: Config) -> tuple[Sequences, Sequences]:
    """The sequences to train on, and a part of them, every twentieth, to measure with."""
    num_made_up = number_in(args.data, default=4096)
    if num_made_up is not None:
        tokens = counting(num_made_up, config).to(fleet.device)
    else:
        tokens = encoded(Path(args.data), args.out / "wordpieces.json", config)
    is_held = torch.arange(len(tokens)) % 20 == 19
    train, held = tokens[~is_held.to(tokens.device)], tokens[is_held.to(tokens.device)]
    needed = args.batch_size * fleet.worker_num()
    if len(train) < needed or not len(held):
        raise UsageError(
            f"--data {args.data} makes {len(tokens)} sequences of {config.length} tokens, of which {len(train)} are to "
            f"train on, but a step takes {needed}; give more text, or a smaller --batch-size"
        )
    return (train, torch.arange(len(train), device=train.device)), (held, torch.arange(len(held), device=held.device))


def counting(number: int, config: Config) -> torch.Tensor:
    """Sequences that count up from a random token: made up, but there is something to learn."""
    generator = torch.Generator().manual_seed(1)
    first = torch.randint(config.vocabulary, (number, 1), generator=generator)
    body = config.vocabulary - len(SPECIAL)
    tokens: torch.Tensor = (first + torch.arange(config.length)) % body + len(SPECIAL)
    tokens[:, 0], tokens[:, -1] = CLS, SEP
    return tokens


def encoded(text: Path, pieces: Path, config: Config) -> torch.Tensor:
    """The lines of a file one after the other, cut into sequences; worker 0 trains the wordpieces, once in a run."""
    try:
        lines = [line.strip() for line in text.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError as error:
        raise UsageError(f"--data {text}: {error.strerror}; give a file of text, or synthetic") from None
    lines = [line for line in lines if line]
    if not lines:
        raise UsageError(f"--data {text} has no text in it; give a file with a sentence on each line")
    tokenizers = need("tokenizers", "tokenizers", "text of your own")
    if fleet.is_first_worker() and not pieces.exists():
        new = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
        new.normalizer = tokenizers.normalizers.BertNormalizer()
        new.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        trainer = tokenizers.trainers.WordPieceTrainer(
            vocab_size=config.vocabulary, special_tokens=SPECIAL, show_progress=False
        )
        new.train_from_iterator(lines, trainer)
        new.save(str(pieces.with_suffix(".new")))
        os.replace(pieces.with_suffix(".new"), pieces)
    fleet.barrier_worker()
    tokenizer = tokenizers.Tokenizer.from_file(str(pieces))
    flat = [token for one in tokenizer.encode_batch(lines) for token in (*one.ids, SEP)]
    body = config.length - 1
    flat = flat[: len(flat) // body * body]
    bodies = torch.tensor(flat, dtype=torch.int64).view(-1, body)
    return torch.cat([torch.full((len(bodies), 1), CLS), bodies], dim=1)


def masked(sequences: Sequences, config: Config, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens with some of them hidden, the places of those [B, M], and what they were [B, M].

    Of the chosen tokens 8 in 10 become [MASK], 1 in 10 a random one, 1 in 10 stays. All of it is a function of the
    sequence's number and the seed and nothing else, so that any number of workers hide the same.
    """
    tokens, numbers = sequences
    place = torch.arange(config.length, device=tokens.device)
    chance = _hashed(numbers[:, None] * config.length + place, seed)
    chance = chance.masked_fill((tokens == CLS) | (tokens == SEP), -1)
    places = chance.topk(config.num_masked, dim=1).indices
    targets = tokens.gather(1, places)
    draw = _hashed(numbers[:, None] * config.length + places, seed + 1)
    body = config.vocabulary - len(SPECIAL)
    random = (draw // 10) % body + len(SPECIAL)
    hidden = torch.where(draw % 10 < 8, MASK, torch.where(draw % 10 == 8, random, targets))
    return tokens.scatter(1, places, hidden), places, targets


def _hashed(values: torch.Tensor, seed: int) -> torch.Tensor:
    """Well mixed numbers from 0 to 2^31 - 1, the same on every device."""
    mixed = values + seed * 0x9E3779B1
    for factor in (0x45D9F3B, 0x119DE1F3):
        mixed = (mixed ^ (mixed >> 16)) * factor & 0x7FFFFFFF
    return mixed ^ (mixed >> 15)

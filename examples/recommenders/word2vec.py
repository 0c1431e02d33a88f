"""Word2vec on Python's own manual: skip-gram with negatives, in geo mode, as PaddlePaddle's documents train it.

    python examples/recommenders/word2vec.py                                              one process
    fleetrun --server_num 2 --worker_num 2 examples/recommenders/word2vec.py              two servers, two workers

The text is what `help("topics")` shows, which every Python has, or that of the files given with --text. In geo mode
each worker trains its own copy of the rows, and every few steps the workers' changes come together on the servers.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import torch
from torch.nn.functional import normalize

import fleet
from fleet.data import Batch, hash_ids
from fleet.errors import UsageError
from fleet.models import Word2Vec

SHOWN = ("list", "class", "module", "integer", "exception", "loop", "string", "function")
RARE = 1e-3
"""Words with a larger share of the text are left out now and then: they say little about their neighbours."""


class Text:
    """Words that stand at least `least` times in a text; pairs of neighbours; words that are drawn at random."""

    def __init__(self, text: str, least: int, window: int, seed: int) -> None:
        words = re.findall(r"[a-z]{2,}", text.lower())
        counts = Counter(words)
        self.words = sorted(word for word, count in counts.items() if count >= least)
        if len(self.words) < 2:
            raise UsageError(f"the text has fewer than two words that stand in it {least} times; lower --least")
        number = {word: place for place, word in enumerate(self.words)}
        self.ids = torch.from_numpy(hash_ids("word", self.words))
        places = np.array([number[word] for word in words if word in number])
        share = np.bincount(places) / len(places)
        generator = np.random.default_rng(seed)
        kept = places[generator.random(len(places)) < np.sqrt(RARE / share[places])]
        pairs = []
        for apart in range(1, window + 1):  # as if each word had a window of its own, 1 to `window` wide
            near = np.stack([kept[:-apart], kept[apart:]], axis=1)
            near = near[generator.random(len(near)) < (window + 1 - apart) / window]
            pairs += [near, near[:, ::-1]]
        self.pairs = torch.from_numpy(generator.permutation(np.concatenate(pairs)))
        self._shares = torch.from_numpy(np.cumsum(share**0.75) / np.sum(share**0.75))

    def batch(self, pairs: torch.Tensor, num_negatives: int, generator: torch.Generator) -> Batch:
        """Words, their neighbours, and for each some words drawn by how frequent they are."""
        drawn = torch.rand(len(pairs), num_negatives, generator=generator, dtype=torch.float64)
        negatives = torch.searchsorted(self._shares, drawn).clamp(max=len(self.words) - 1)
        around = self.ids[torch.cat([pairs[:, 1:], negatives], dim=1)]
        nothing = torch.empty(len(pairs), 0)
        return Batch(torch.ones(len(pairs)), nothing, self.ids[pairs[:, :1]], {"around": around}, None)


def main(args: argparse.Namespace) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    strategy.a_sync_configs.k_steps = args.k_steps
    fleet.init(strategy=strategy)
    if fleet.is_server():
        return fleet.run_server()
    torch.manual_seed(0)
    net = Word2Vec(args.dim, rule=fleet.rules.Adagrad(lr=args.lr))
    model = fleet.distributed_model(net)
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(net.parameters(), lr=args.lr))
    fleet.init_worker()
    given = "\n".join(path.read_text(errors="replace") for path in args.text) or "\n".join(topics.values())
    text = Text(given, args.least, args.window, seed=0)
    held_out = len(text.pairs) // 50
    unseen, pairs = text.pairs[:held_out], text.pairs[held_out:]
    generator = torch.Generator().manual_seed(fleet.worker_index())
    if fleet.is_first_worker():
        print(f"{len(text.words):,} words, {len(pairs):,} pairs of neighbours")
    own = fleet.data.shard(pairs, args.batch_size, shuffle=True)
    for epoch in range(args.epochs):
        losses = []
        for drawn in own:
            batch = text.batch(drawn, args.negatives, generator)
            loss = net.loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        mean = fleet.util.all_reduce(torch.stack(losses).mean().item()) / fleet.worker_num()
        if fleet.is_first_worker():
            print(f"epoch {epoch + 1}: loss {mean:.4f}")
    fleet.flush()
    fleet.barrier_worker()
    if fleet.is_first_worker():
        finish(net, text, unseen)
    fleet.barrier_worker()
    fleet.stop_worker()


@torch.no_grad()
def finish(net: Word2Vec, text: Text, unseen: torch.Tensor) -> None:
    """How often a neighbour of unseen pairs is told from a random word, and which words are near each other."""
    net.eval()
    logits = net(text.batch(unseen, 1, torch.Generator().manual_seed(0)))
    print(f"neighbours told from random words: {(logits[:, 0] > logits[:, 1]).float().mean():.4f} of unseen pairs")
    rows = net.rows({"word": text.ids, "around": text.ids[:0]})["word"]
    vectors = normalize(rows - rows.mean(0))
    for word in SHOWN:
        if word in text.words:
            place = text.words.index(word)
            near = (vectors @ vectors[place]).topk(6).indices.tolist()
            print(f"{word:>10}: {' '.join(text.words[one] for one in near if one != place)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Word2vec with Fleet.")
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="files [default: Python's manual]")
    parser.add_argument("--epochs", type=int, default=5, help="[default: 5]")
    parser.add_argument("--batch-size", type=int, default=512, help="pairs a step [default: 512]")
    parser.add_argument("--dim", type=int, default=64, help="of a word's vector [default: 64]")
    parser.add_argument("--window", type=int, default=5, help="how far a neighbour may stand [default: 5]")
    parser.add_argument("--negatives", type=int, default=5, help="random words for each pair [default: 5]")
    parser.add_argument("--least", type=int, default=5, help="how often a word must stand in the text [default: 5]")
    parser.add_argument("--lr", type=float, default=0.3, help="of the rows [default: 0.3]")
    parser.add_argument("--k-steps", type=int, default=50, help="between two exchanges with the servers [default: 50]")
    given = parser.parse_args()
    for path in given.text:
        if not path.is_file():
            parser.error(f"--text {path}: there is no such file")
    try:
        main(given)
    except fleet.FleetError as error:
        sys.exit(f"word2vec.py: {error}")

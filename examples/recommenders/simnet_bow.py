"""SimNet-BOW: queries and titles as bags of words, and a title that was clicked is nearer than one that was not.

    python examples/recommenders/simnet_bow.py                                              one process
    fleetrun --server_num 2 --worker_num 2 examples/recommenders/simnet_bow.py              two servers, two workers

The pairs are made up: each query is about one of many topics, and so is the title that was clicked; the other title is
about another. Query and title seldom have a word in common, so that the model must learn which words belong together.
"""

from __future__ import annotations

import argparse

import torch

import fleet
from fleet.data import Batch, hash_ids
from fleet.models import SimNetBOW

TOPICS, WORDS, COMMON = 50, 40, 200
"""Topics, words of each, and words that all of them use."""
LENGTHS = {"query": 4, "title": 8, "other": 8}


class Pairs:
    """Queries, titles that were clicked, and titles that were not, as ids of words."""

    def __init__(self, num: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        words = torch.from_numpy(hash_ids("word", [f"word{number}" for number in range(TOPICS * WORDS + COMMON)]))
        topic = torch.randint(TOPICS, (num, 1), generator=generator)
        another = (topic + torch.randint(1, TOPICS, (num, 1), generator=generator)) % TOPICS
        self.slots = {}
        for name, length in LENGTHS.items():
            about = another if name == "other" else topic
            own = about * WORDS + torch.randint(WORDS, (num, length), generator=generator)
            common = TOPICS * WORDS + torch.randint(COMMON, (num, length), generator=generator)
            is_common = torch.rand(num, length, generator=generator) < 0.5
            self.slots[name] = words[torch.where(is_common, common, own)]

    def batch(self, index: torch.Tensor) -> Batch:
        """Some of the samples."""
        nothing = torch.empty(len(index), 0)
        slots = {name: ids[index] for name, ids in self.slots.items()}
        return Batch(torch.ones(len(index)), nothing, nothing.long(), slots, None)


def main(args: argparse.Namespace) -> None:
    fleet.init()
    if fleet.is_server():
        return fleet.run_server()
    torch.manual_seed(0)
    net = SimNetBOW(dim=args.dim, out=args.dim, rule=fleet.rules.Adagrad(lr=args.lr))
    model = fleet.distributed_model(net)
    optimizer = fleet.distributed_optimizer(torch.optim.Adagrad(net.parameters(), lr=args.lr / 3))
    fleet.init_worker()
    pairs, unseen = Pairs(args.pairs, seed=1), Pairs(2000, seed=2)
    for index in fleet.data.shard(torch.arange(args.pairs), args.batch_size, shuffle=True):
        batch = pairs.batch(index)
        loss = net.loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = fleet.evaluate(
        model,
        [unseen.batch(index) for index in fleet.data.shard(torch.arange(2000), 500, uneven="join")],
        {"accuracy": lambda scores, _: (scores > 0).float().mean()},
        step=lambda model, batch: (net.scores(model(batch)), batch.label),
    )
    if fleet.is_first_worker():
        print(f"the right title was nearer for {found['accuracy']:.4f} of unseen pairs")
    fleet.stop_worker()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="SimNet-BOW with Fleet.")
    parser.add_argument("--pairs", type=int, default=100_000, help="to train on [default: 100000]")
    parser.add_argument("--batch-size", type=int, default=128, help="of each worker [default: 128]")
    parser.add_argument("--dim", type=int, default=32, help="of rows and layers [default: 32]")
    parser.add_argument(
        "--lr", type=float, default=0.2, help="of the rows; a third of it for the layers [default: 0.2]"
    )
    main(parser.parse_args())

"""BERT learns to guess masked words: from a text file, or made-up tokens, on any number of CPUs or GPUs.

    python examples/bert/train.py --out runs/bert                                          tiny, on a CPU, in seconds
    python examples/bert/train.py --preset base --data text.txt --auto --out runs/bert     one GPU
    fleetrun examples/bert/train.py --preset large --data text.txt --auto --out runs/bert  every GPU of this machine
    python examples/bert/train.py --help

Of its 108 lines 10 are Fleet's: those with `fleet` in them. Sizes are in config.py, text and masks in text.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.ahead import Ahead
from common.options import parser_of, run, settled, strategy_of
from common.peaks import Cost
from common.training import optimizer_of, warm_line
from common.watch import Watch
from config import PRESETS, Config
from text import masked, open_data

import fleet


class Layer(nn.Module):
    """Attention, then two linear layers; each is added to what came in, and normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.width
        self.num_heads, self.dropout = config.num_heads, config.dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            one.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1)
        )
        dropout = self.dropout if self.training else 0.0
        seen = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        x = self.norm1(x + self.drop(self.out(seen.transpose(1, 2).flatten(2))))
        made: Tensor = self.norm2(x + self.drop(self.down(F.gelu(self.up(x)))))
        return made


class Bert(nn.Module):
    """Tokens [B, S], hidden places [B, M] and what was there [B, M] to the loss; in evaluation to scores [B, M, V]."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.width
        self.words, self.places = nn.Embedding(config.vocabulary, width), nn.Embedding(config.length, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.guess, self.guess_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        for one in self.modules():
            if isinstance(one, nn.Linear | nn.Embedding):
                nn.init.normal_(one.weight, std=0.02 * (768 / width) ** 0.5)
            if isinstance(one, nn.Linear):
                nn.init.zeros_(one.bias)

    def forward(self, tokens: Tensor, places: Tensor, targets: Tensor) -> Tensor:
        x = self.drop(self.norm(self.words(tokens) + self.places.weight))
        for layer in self.layers:
            x = layer(x)
        x = x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))  # only what is to be guessed
        x = self.guess_norm(F.gelu(self.guess(x)))
        scores = F.linear(x, self.words.weight, self.bias)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten()) if self.training else scores


def main(args: argparse.Namespace) -> None:
    config = PRESETS[args.preset]
    settled(args, config)
    fleet.init(is_collective=True, strategy=strategy_of(args, layers=["layers.*"]))
    watch = Watch(args, "sequences", {"example": "bert", "preset": args.preset, "data": args.data})
    train, held = open_data(args, config)
    torch.manual_seed(args.seed)
    net = Bert(config)
    model: Any = fleet.distributed_model(net)
    optimizer = fleet.distributed_optimizer(optimizer_of(args, net, betas=(0.9, 0.98)))
    schedule = warm_line(optimizer, args.warmup, args.steps)
    shard = fleet.data.shard(train, args.batch_size, shuffle=True, seed=args.seed, uneven="drop")
    batches, cost = Ahead(shard), Cost(lambda: Bert(config))
    whole_run = {"model": model, "optimizer": optimizer, "scheduler": schedule, "data": batches}
    with fleet.Checkpoint(args.out / "checkpoints", **whole_run, extras={"watch": watch}, resume=args.resume) as saved:
        for batch in watch.over(batches):
            inputs = masked(batch, config, seed=args.seed if args.static_masks else args.seed + watch.step + 1)
            loss = model(*inputs)
            model.scale_loss(loss).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            watch.note(loss, args.batch_size, args.batch_size * config.length, cost(*inputs))
            if watch.is_time(args.eval_every):
                with watch.paused():
                    watch.evaluated(evaluate(model, held, args, config))
            if watch.is_time(args.save_every):
                saved.save(watch.step)
        if watch.is_unsaved(saved):
            saved.save(watch.step)
    found = {} if args.measure else evaluate(model, held, args, config)
    watch.evaluated(found)
    watch.finish(found)


def evaluate(
    model: nn.Module, held: tuple[Tensor, Tensor], args: argparse.Namespace, config: Config
) -> dict[str, float]:
    """Loss, and the share of hidden tokens that are guessed, on sequences nobody has trained on."""

    def guesses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        batch = batch[0].to(fleet.device), batch[1].to(fleet.device)
        tokens, places, targets = masked(batch, config, seed=0)
        return model(tokens, places, targets).flatten(0, 1), targets.flatten()

    metrics: dict[str, Any] = {"held_loss": F.cross_entropy, "accuracy": fleet.metrics.Accuracy()}
    uneven: Any = "pad" if args.sharding in (2, 3) else "join"  # there every forward takes all workers
    shard = fleet.data.shard(held, args.batch_size, uneven=uneven)
    return fleet.evaluate(model, shard, metrics, step=guesses)


if __name__ == "__main__":
    parser = parser_of(__doc__, PRESETS, "a file of text, a sentence on each line, or synthetic[:SEQUENCES]")
    parser.add_argument("--static-masks", action="store_true", help="hide the same tokens in every epoch")
    run(main, parser.parse_args())

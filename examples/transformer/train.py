"""The Transformer learns to translate: from pairs of sentences, or made-up tokens, on any number of CPUs or GPUs.

    python examples/transformer/train.py --out runs/mt                                              tiny, on a CPU
    python examples/transformer/train.py --preset base --data /usr/share/locale/de --auto --out runs/mt    one GPU
    fleetrun examples/transformer/train.py --preset base --data pairs.tsv --auto --out runs/mt      every GPU here
    python examples/transformer/train.py --help

Of its 97 lines 15 are Fleet's: those with `fleet` in them. Beside this file: config.py (sizes), model.py,
text.py (pieces and batches), catalogues.py (a corpus that is at hand), decode.py (greedy and beam).
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
from common.extras import need
from common.options import parser_of, run, settled, strategy_of
from common.peaks import Cost
from common.training import noam, optimizer_of
from common.watch import Watch
from config import PRESETS, Config
from decode import translate
from model import Transformer
from text import END, PAD, Batch, Batches, Corpus, open_data

import fleet


def main(args: argparse.Namespace) -> None:
    config = PRESETS[args.preset]
    settled(args, config)
    fleet.init(is_collective=True, strategy=strategy_of(args, layers=["encoder.*", "decoder.*"]))
    num_workers = fleet.worker_num()
    watch = Watch(args, "pairs", {"example": "transformer", "preset": args.preset, "data": args.data})
    corpus = open_data(args, config)
    bleu = (
        None
        if args.measure or args.no_bleu or not corpus.texts
        else need("sacrebleu", "sacrebleu", "BLEU (--no-bleu: without)")
    )
    torch.manual_seed(args.seed)
    net = Transformer(config)
    model: Any = fleet.distributed_model(net)
    optimizer = fleet.distributed_optimizer(optimizer_of(args, net, betas=(0.9, 0.98)))
    schedule = noam(optimizer, args.warmup)
    batches = Ahead(fleet.data.shard(Batches(corpus.train, config, args.batch_size, args.seed), uneven="drop"))
    cost = Cost(lambda: Transformer(config))
    whole_run = {"model": model, "optimizer": optimizer, "scheduler": schedule, "data": batches}
    with fleet.Checkpoint(args.out / "checkpoints", **whole_run, extras={"watch": watch}, resume=args.resume) as saved:
        for source, before, after, num_pairs, num_tokens in watch.over(batches):
            # The mean over the tokens of all workers, of which some have more than others.
            loss = model(source, before, after) * (num_workers / num_tokens)
            model.scale_loss(loss).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            watch.note(loss, num_pairs / num_workers, num_tokens / num_workers, cost(source, before, after))
            if watch.is_time(args.eval_every):
                with watch.paused():
                    watch.evaluated(evaluate(model, corpus, args, config))
            if watch.is_time(args.save_every):
                saved.save(watch.step)
        if watch.is_unsaved(saved):
            saved.save(watch.step)
    found = {} if args.measure else evaluate(model, corpus, args, config)
    if bleu is not None:
        found["bleu"] = bleu_of(bleu, model, corpus, args, config)
    watch.evaluated(found)
    watch.finish(found)


def evaluate(model: nn.Module, corpus: Corpus, args: argparse.Namespace, config: Config) -> dict[str, float]:
    """Loss and accuracy of the next token, on pairs nobody has trained on."""

    def guesses(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        source, before, after = (one.to(fleet.device) for one in batch[:3])
        counts = after != PAD
        return model(source, before, after)[counts], after[counts]

    metrics: dict[str, Any] = {"held_loss": F.cross_entropy, "accuracy": fleet.metrics.Accuracy()}
    batches = Batches(corpus.held, config, args.batch_size, seed=None)  # as many on every worker
    return fleet.evaluate(model, batches, metrics, step=guesses)


def bleu_of(bleu: object, model: nn.Module, corpus: Corpus, args: argparse.Namespace, config: Config) -> float:
    """BLEU of the held-out pairs, each worker translating a part; by sacrebleu on all of them."""
    net = Transformer(config).to(fleet.device).eval()  # whole on every worker, whatever the strategy divides
    net.load_state_dict(model.state_dict())
    own = range(fleet.worker_index(), len(corpus.texts), fleet.worker_num())
    translated: list[tuple[int, str]] = []
    for first in range(0, len(own), 64):
        numbers = own[first : first + 64]
        rows = [torch.tensor([*corpus.held[0][number], END]) for number in numbers]
        source = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(fleet.device)
        for number, tokens in zip(numbers, translate(net, source, config.longest, args.beam), strict=True):
            translated.append((number, corpus.text_of(tokens)))
    everybody = dict(pair for part in fleet.util.all_gather(translated) for pair in part)
    hypotheses = [everybody[number] for number in range(len(corpus.texts))]
    if fleet.is_first_worker():
        for (english, _), text in list(zip(corpus.texts, hypotheses, strict=True))[:3]:
            print(f"  {english}  ->  {text}")
    return float(bleu.corpus_bleu(hypotheses, [[other for _, other in corpus.texts]]).score)  # type: ignore[attr-defined]


if __name__ == "__main__":
    parser = parser_of(__doc__, PRESETS, "a file of pairs (tab between), a folder of .mo files, or synthetic[:PAIRS]")
    parser.add_argument("--language", default="de", help="of the .mo files to take [default: de]")
    parser.add_argument(
        "--beam", type=int, default=4, choices=range(1, 65), metavar="N", help="1 is greedy [default: 4]"
    )
    parser.add_argument(
        "--no-bleu", action="store_true", help="do not translate at the end, for a machine without sacrebleu"
    )
    run(main, parser.parse_args())

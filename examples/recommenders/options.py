"""What train.py may be told, checked before anything is started."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from zoo import MODELS

import fleet

MODES = ("local", "sync", "async", "half_async", "geo", "allreduce")

TEACHES = """
data
  synthetic:2000000        clicks in Criteo's columns, made up on the spot, with a known best AUC
  synthetic:2000000:DIR    the same in files, which are made in DIR if they are not there
  sessions:200000          visits to a shop, made up: users, items, histories, clicks and purchases
  criteo:DIR               train*, valid* and test* in DIR, files or folders of files: tab-separated as Criteo has
                           them, .csv with a header, or .parquet; text also as .gz and .zst. Without valid*,
                           evaluations are on test*
  files:DIR                the same in any columns: DIR/columns.json says what they are (columns.py)
  movielens:DIR            MovieLens-100k or -1M: ratings of 4 and 5 as clicks, or the next item

modes
  local        one process, with the tables in it
  sync         workers step together; N workers equal one process with N times the batch
  async        nobody waits: pushes are queued, and servers apply what comes
  half_async   a worker waits for its own push
  geo          a worker trains copies, and exchanges differences every few steps
  allreduce    as sync, but only rows are on servers: workers average the gradients of the layers among themselves

wire: what travels between workers and servers in fewer bytes than float32
  rows=bfloat16,gradients=int8             the rows of a batch, and their gradients
  dense=bfloat16,dense_gradients=int8      the layers, and their gradients
  dense_topk=0.01                          of the gradients of the layers the largest 1%, the rest later

examples
  python train.py --model dnn --data synthetic:200000
  fleetrun --server_num 2 --worker_num 2 train.py --model deepfm --data criteo:DIR --mode async --epochs 2
  fleetrun --server_num 2 --worker_num 2 --device cuda train.py --model dcn --data criteo:DIR --amp
  python train.py --model dnn --data criteo:DIR --out runs/first --resume       go on where it was killed
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line; `--help` has the rest."""
        print(f"{self.prog}: {message}; see --help", file=sys.stderr)
        sys.exit(2)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options; a wrong one ends the process with one line."""
    parser = _Parser(
        prog="train.py",
        description="Train a recommender from files to AUC, in one process or with parameter servers.",
        epilog=TEACHES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", choices=MODELS, required=True, metavar="NAME", help=f"one of: {', '.join(MODELS)}")
    add("--data", required=True, metavar="KIND:WHERE", help="what to train on: see below")
    add("--mode", choices=MODES, default="sync", metavar="MODE", help="how workers keep step: see below [sync]")
    add("--batch-size", type=_count, default=1000, metavar="N", help="samples in a batch of each worker [1000]")
    add("--epochs", type=_count, default=1, metavar="N", help="passes over the data [1]")
    add("--lr", type=_rate, default=1e-3, metavar="RATE", help="of the layers, which Adam trains [0.001]")
    add("--row-lr", type=_rate, default=0.05, metavar="RATE", help="of the rows, which Adagrad trains [0.05]")
    add("--dim", type=_count, metavar="N", help="values in a row [the model's own]")
    add("--hidden", type=_sizes, metavar="N,N", help="widths of the layers [the model's own]")
    add("--dropout", type=_share, metavar="SHARE", help="of hidden values left out in training [the model's own]")
    add("--geo-steps", type=_count, default=20, metavar="N", help="steps between exchanges in geo mode [20]")
    add("--eval-every", type=_count, metavar="STEPS", help="evaluate so often, and at the end of an epoch")
    add("--early-stop", type=_count, metavar="N", help="stop after N evaluations without a better AUC, or HR@10")
    add("--out", type=Path, metavar="DIR", help="curves, TensorBoard log, checkpoints, model [build/MODEL-MODE]")
    add("--save", type=Path, metavar="DIR", help="checkpoints, at every evaluation [OUT/checkpoints]")
    add("--resume", action="store_true", help="go on from the newest checkpoint, with any number of workers")
    add("--wire", type=_wire, default={}, metavar="NAME=FORMAT,..", help="fields of strategy.wire_configs: see below")
    add("--amp", action="store_true", help="compute in bfloat16 where torch thinks that is safe")
    add("--seed", type=int, default=0, metavar="N", help="of first values, of the order and of made-up data [0]")
    args = parser.parse_args(arguments)
    if ":" not in args.data:
        parser.error(f"--data {args.data} names no kind of data; write synthetic:200000 or criteo:{args.data}")
    args.out = args.out or Path("build") / f"{args.model}-{args.mode}"
    args.save = args.save or args.out / "checkpoints"
    return args


def strategy_of(args: argparse.Namespace) -> fleet.DistributedStrategy:
    """The fields that choose a mode; docs/parameter_server.md says which mode is for what."""
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = args.mode in ("async", "half_async", "geo")
    strategy.a_sync_configs.half_async = args.mode == "half_async"
    strategy.a_sync_configs.k_steps = args.geo_steps if args.mode == "geo" else 0
    strategy.dense = "allreduce" if args.mode == "allreduce" else "server"
    strategy.wire_configs = args.wire
    return strategy


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def _rate(text: str) -> float:
    if not 0 < _number(text) < float("inf"):
        raise argparse.ArgumentTypeError(f"must be above 0, got {text!r}")
    return _number(text)


def _share(text: str) -> float:
    if not 0 <= _number(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 0 and below 1, got {text!r}")
    return _number(text)


def _wire(text: str) -> dict[str, str | float]:
    pairs = [pair.partition("=")[::2] for pair in text.split(",")]
    wire = {name: _number(value) if name == "dense_topk" else value for name, value in pairs}
    try:
        fleet.DistributedStrategy().wire_configs = wire
    except fleet.errors.StrategyError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return wire


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))

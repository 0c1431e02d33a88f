"""The command line of an example: what to train on, how long, and every strategy of a collective job by its name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import fleet
from fleet.errors import UsageError

PRECISIONS = {"bf16": "bfloat16", "fp16": "float16"}
FROM_PRESET = ("batch_size", "steps", "lr", "warmup", "weight_decay", "optimizer")
"""Options that a preset has a value for."""
NO_DECAY = ["bias", "norm"]
"""Parts of names of parameters that lars and lamb leave without weight decay."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see --help", file=sys.stderr)
        sys.exit(2)


def parser_of(description: str | None, presets: Mapping[str, Any], data: str) -> Parser:
    """What every example may be told; `data` says what --data takes."""
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(presets)
    run = parser.add_argument_group("the run")
    run.add_argument("--preset", default="tiny", choices=presets, help=f"{names} [default: tiny]", metavar="NAME")
    run.add_argument("--data", default="synthetic", help=f"{data} [default: synthetic]")
    run.add_argument("--out", type=Path, required=True, help="where checkpoints, log and result.json go")
    run.add_argument("--resume", action="store_true", help="go on from the newest checkpoint of --out")
    run.add_argument("--steps", type=_count, help="batches of each worker in all")
    run.add_argument("--batch-size", type=_count, help="of each worker")
    run.add_argument("--lr", type=_positive, help="the highest there is, after the warm-up")
    run.add_argument("--warmup", type=_count, help="steps in which the learning rate rises")
    run.add_argument("--weight-decay", type=_share, help="of weights, not of biases and norms")
    run.add_argument("--optimizer", choices=("sgd", "adam", "adamw"), help="localsgd, dgc and lars need sgd")
    run.add_argument("--save-every", type=_count, help="steps between two checkpoints [default: one at the end]")
    run.add_argument("--eval-every", type=_count, help="steps between two evaluations [default: one at the end]")
    run.add_argument("--measure", action="store_true", help="only measure: nothing is evaluated, nothing saved")
    run.add_argument("--warm-up", type=_count, default=10, help="steps that the speed leaves out [default: 10]")
    run.add_argument("--show-every", type=_count, default=10, help="steps between two looks at the loss [default: 10]")
    run.add_argument("--seed", type=int, default=0, help="[default: 0]")
    run.add_argument("--peak-tflops", type=_positive, help="of a card that common/peaks.py does not know, for the MFU")
    _add_strategies(parser.add_argument_group("strategies", "docs/collective.md says what each does"))
    return parser


def _add_strategies(group: Any) -> None:
    group.add_argument("--auto", action="store_true", help="what suits the model and the device")
    group.add_argument("--amp", choices=PRECISIONS, help="half precision")
    group.add_argument("--compile", action="store_true", help="torch.compile")
    group.add_argument("--kernel-search", choices=("wide", "long"), help="let --compile or --auto look longer")
    group.add_argument("--fused-optimizer", action="store_true", help="one kernel for all parameters")
    group.add_argument("--recompute", action="store_true", help="activations of each layer again in backward")
    group.add_argument("--localsgd", type=_count, metavar="K", help="parameters averaged every K steps")
    group.add_argument("--adaptive-localsgd", type=_count, metavar="K", help="the same, K follows the loss")
    group.add_argument("--post-local", type=_count, metavar="K", help="an outer optimizer every K steps (DiLoCo)")
    group.add_argument("--dgc", type=_share, metavar="SPARSITY", help="only the largest gradients are sent: 0.999")
    group.add_argument("--sharding", type=int, choices=(1, 2, 3), metavar="STAGE", help="1 state, 2 gradients, 3 all")
    group.add_argument("--sharding-degree", type=_count, metavar="N", help="workers that share one copy of the state")
    group.add_argument("--offload", action="store_true", help="with --sharding 2 or 3: state in host memory")
    group.add_argument("--gradient-merge", type=_count, metavar="K", help="K batches make one update")
    group.add_argument("--half-allreduce", choices=PRECISIONS, help="gradients travel in half precision")
    group.add_argument("--lars", action="store_true", help="layer-wise rates, of sgd")
    group.add_argument("--lamb", action="store_true", help="layer-wise rates, of adam and adamw")
    group.add_argument("--clip-norm", type=_positive, metavar="X", help="the largest norm of all gradients together")
    group.add_argument("--skip-nonfinite", action="store_true", help="leave out steps with a NaN instead of ending")


def settled(args: argparse.Namespace, preset: Any) -> argparse.Namespace:
    """The options, with the preset's value for what was not given; UsageError for what makes no sense together."""
    is_other = args.optimizer is not None and (args.optimizer == "sgd") != (preset.optimizer == "sgd")
    if is_other and args.lr is None:
        raise UsageError(
            f"--optimizer {args.optimizer} needs another learning rate than {preset.lr}, which is for "
            f"{preset.optimizer}; give --lr"
        )
    for name in FROM_PRESET:
        if getattr(args, name) is None:
            setattr(args, name, getattr(preset, name))
    if args.kernel_search and not (args.compile or args.auto):
        raise UsageError(f"--kernel-search {args.kernel_search} is for compiled models; give --compile or --auto too")
    if args.sharding is None and (args.offload or args.sharding_degree):
        raise UsageError("--offload and --sharding-degree say how to divide a model; give --sharding 1, 2 or 3 too")
    if args.measure and (args.save_every or args.eval_every or args.resume):
        raise UsageError("--measure saves and evaluates nothing; leave out --save-every, --eval-every and --resume")
    merge = args.gradient_merge or 1
    for name in ("steps", "save_every", "eval_every"):
        if (value := getattr(args, name)) is not None and value % merge:
            raise UsageError(
                f"--{name.replace('_', '-')} {value} is in the middle of an update of --gradient-merge {merge}; "
                "give a multiple of it"
            )
    return args


def strategy_of(args: argparse.Namespace, layers: Sequence[str]) -> fleet.DistributedStrategy:
    """What the options ask of Fleet; `layers` are the modules that --recompute is about."""
    strategy = fleet.DistributedStrategy()
    for name in ("auto", "compile", "fused_optimizer", "lars", "lamb", "channels_last", "sync_batch_norm"):
        if getattr(args, name, False):
            setattr(strategy, name, True)
    if args.amp:
        strategy.amp, strategy.amp_configs.dtype = True, PRECISIONS[args.amp]
    if args.kernel_search:
        strategy.compile_configs.kernel_search = args.kernel_search
    if args.recompute:
        strategy.recompute, strategy.recompute_configs.checkpoints = True, list(layers)
    if args.localsgd:
        strategy.localsgd, strategy.localsgd_configs.k_steps = True, args.localsgd
    if args.adaptive_localsgd:
        strategy.adaptive_localsgd, strategy.adaptive_localsgd_configs.init_k_steps = True, args.adaptive_localsgd
    if args.post_local:
        strategy.post_local, strategy.post_local_configs.k_steps = True, args.post_local
    if args.dgc is not None:
        strategy.dgc, strategy.dgc_configs.sparsity = True, [args.dgc]
    if args.sharding:
        strategy.sharding, strategy.sharding_configs.stage = True, args.sharding
        strategy.sharding_configs.optimize_offload = args.offload
        if args.sharding_degree:
            strategy.sharding_configs.hybrid_dp = True
            strategy.sharding_configs.sharding_degree = args.sharding_degree
    if args.gradient_merge:
        strategy.gradient_merge, strategy.gradient_merge_configs.k_steps = True, args.gradient_merge
    if args.half_allreduce:
        strategy.fp16_allreduce, strategy.allreduce_dtype = True, PRECISIONS[args.half_allreduce]
    if args.lars:
        strategy.lars_configs = {"lars_weight_decay": args.weight_decay, "exclude_from_weight_decay": NO_DECAY}
    if args.lamb:
        strategy.lamb_configs = {"lamb_weight_decay": args.weight_decay, "exclude_from_weight_decay": NO_DECAY}
    if args.clip_norm:
        strategy.clip_norm = args.clip_norm
    if args.skip_nonfinite:
        strategy.nonfinite_gradients = "skip"
    return strategy


def number_in(data: str, default: int) -> int | None:
    """How many samples `synthetic:N` asks for; None for data of another kind."""
    kind, _, text = data.partition(":")
    if kind != "synthetic":
        return None
    if text and (not text.isdigit() or int(text) < 1):
        raise UsageError(f"--data {data}: write synthetic:N with the number of samples to make up")
    return int(text) if text else default


def run(main: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> None:
    """Call main; what Fleet and the examples refuse is said in one line."""
    name = Path(sys.argv[0]).parent.name
    try:
        main(args)
    except fleet.FleetError as error:
        # What a process of a DataLoader has raised comes with its traceback, of which the last line says it.
        *_, last = str(error).strip().splitlines()
        sys.exit(f"{name}: {last.removeprefix('fleet.errors.UsageError: ')}")
    except KeyboardInterrupt:
        print(f"{name}: stopped; --resume goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a number from 1")
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{value} is not a number above 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a number from 0 to below 1")
    return value

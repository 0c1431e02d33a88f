"""Trains a recommender: from files to AUC, in one process or with parameter servers, on CPUs or GPUs.

    python examples/recommenders/train.py --model dnn --data synthetic:200000
    fleetrun --server_num 2 --worker_num 2 examples/recommenders/train.py --model dnn --data synthetic:200000
    python examples/recommenders/train.py --help

The loop is in `main`. Beside this file: options.py; zoo.py (--model), sources.py (--data),
tasks.py (what is measured); watch.py (the bar), curves.py, summary.py (the table at the end).
"""

from __future__ import annotations

import argparse
import os
import sys

import torch
from options import parse, strategy_of
from sources import Source, open_data
from summary import show
from tasks import TASKS, Task
from torch import nn
from watch import Watch
from zoo import MODELS, make

import fleet
from fleet.errors import UsageError


def main(args: argparse.Namespace) -> None:
    fleet.init(strategy=strategy_of(args))
    if fleet.is_server():
        return fleet.run_server()
    check(args)
    torch.manual_seed(args.seed)
    source = open_data(args, MODELS[args.model])
    net = make(args, source).to(fleet.device)
    task = TASKS[MODELS[args.model]](net, source)
    model = fleet.distributed_model(net)
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=args.lr))
    fleet.init_worker()
    watch = Watch(args, task)
    whole_run = {"model": model, "optimizer": optimizer, "data": source.train, "extras": {"watch": watch}}
    with fleet.Checkpoint(args.save, **whole_run, best="max", resume=args.resume) as saved:
        for _ in range(source.train.epoch, args.epochs):
            for batch in watch.over(fleet.prefetch(source.train, model, keys=net.keys), source.train):
                batch = batch.to(fleet.device)
                with torch.autocast(fleet.device.type, torch.bfloat16, enabled=args.amp):
                    outputs = model(batch)
                    loss = net.loss(outputs, batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                watch.note(loss, outputs, batch)
                if watch.is_time():
                    evaluate(model, source, task, watch, saved)
                    if watch.is_over():
                        break
                    watch.go_on()
            watch.pause()
            if not watch.is_evaluated():
                evaluate(model, source, task, watch, saved)
            if watch.is_over():
                break
        if args.early_stop:
            saved.load(best=True)
    if source.test is not None:
        watch.found = fleet.evaluate(model, source.test, task.metrics, step=task.step)
    elif not watch.found:  # a run that was over when it was resumed
        watch.found = fleet.evaluate(model, source.valid, task.metrics, step=task.step)
    fleet.save_inference_model(args.out / "model")
    if fleet.is_first_worker():
        show(args, source, watch)
    fleet.stop_worker()


def evaluate(model: nn.Module, source: Source, task: Task, watch: Watch, saved: fleet.Checkpoint) -> None:
    """Measure on all workers' share of the data, and save: every worker comes here at the same step."""
    watch.pause()  # this is no training
    found = fleet.evaluate(model, source.valid, task.metrics, step=task.step)
    watch.evaluated(found)
    saved.save(watch.step, metric=found[task.first])


def check(args: argparse.Namespace) -> None:
    """What only a job can tell of the options."""
    if args.mode == "local" and fleet.server_num():
        raise UsageError("--mode local is one process: start it with python, or choose another mode")
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {args.out}: nothing can be written there ({error.strerror}); give another") from None
    if not os.access(args.out, os.W_OK | os.X_OK):
        raise UsageError(f"--out {args.out}: nothing can be written there (Permission denied); give another")
    if not args.resume and any(args.save.glob("step-*")):
        raise UsageError(
            f"{args.save} has the checkpoints of an earlier run: go on with --resume, or give another --out"
        )


if __name__ == "__main__":
    try:
        main(parse())
    except fleet.FleetError as error:
        sys.exit(f"train.py: {error}")
    except KeyboardInterrupt:
        print("train.py: stopped; --resume goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)

"""The table at the end of train.py."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table
from sources import Source
from watch import Watch

import fleet


def show(args: argparse.Namespace, source: Source, watch: Watch) -> None:
    """What came of it, and where it is; called on the first worker."""
    tables = [table for server in fleet.server_stats() for table in server["tables"].values()]
    rows, size = (sum(table[name] for table in tables) for name in ("rows", "bytes"))
    where = f"{fleet.server_num()} servers" if fleet.server_num() else "this process"
    plot = watch.curves.close()
    values = {
        "model": f"{args.model}, rows of {args.dim}",
        "mode": f"{args.mode}, {fleet.worker_num()} worker(s) on {fleet.device.type}",
        "trained on": f"{watch.samples:,} samples of {args.data}",
        "speed": f"{watch.rate:,.0f} samples/s",
        "AUC": f"{watch.found['auc']:.4f}" + (f" of at most {source.ceiling:.4f}" if source.ceiling else ""),
        "log loss": f"{watch.found['log loss']:.4f}",
        "tables": f"{rows:,} rows, {size / 1e6:,.0f} MB in {where}",
        "model in": f"{args.out / 'model'}   (fleet.load_inference_model)",
        "checkpoints in": f"{args.save}   (--resume)",
        "curves in": f"{watch.curves.csv}" + (f", {plot.name}" if plot else ""),
    }
    if watch.curves.has_board:
        values["TensorBoard"] = f"tensorboard --logdir {watch.curves.log}"
    table = Table(show_header=False, title="train.py", title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, value)
    Console().print(table, highlight=False)

"""The end of train.py: what came of it as a table, and as JSON for other programs."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console
from rich.table import Table
from sources import Source
from watch import Watch

import fleet


def result(args: argparse.Namespace, source: Source, watch: Watch) -> dict[str, Any]:
    """What was trained, how fast, and how good it is."""
    tables = [table for server in fleet.server_stats() for table in server["tables"].values()]
    return {
        "model": args.model,
        "mode": args.mode,
        "workers": fleet.worker_num(),
        "servers": fleet.server_num(),
        "device": fleet.device.type,
        "data": args.data,
        "step": watch.step,
        "samples": watch.samples,
        "seconds": watch.seconds,
        "samples_per_s": watch.rate,
        **watch.found,
        "ceiling": source.ceiling,
        "rows": sum(table["rows"] for table in tables),
        "bytes": sum(table["bytes"] for table in tables),
    }


def show(args: argparse.Namespace, source: Source, watch: Watch) -> None:
    """Write OUT/result.json and draw the curves, then say what there is and where; called on the first worker."""
    found = result(args, source, watch)
    (args.out / "result.json").write_text(json.dumps(found, indent=1) + "\n")
    plot = watch.curves.close(source.ceiling)
    where = f"on {found['servers']} servers" if found["servers"] else "in this process"
    best = f" of at most {source.ceiling:.4f}" if source.ceiling else ""
    values = {
        "model": args.model,
        "mode": f"{args.mode}, {found['workers']} worker(s) on {found['device']}",
        "trained on": f"{watch.samples:,} samples of {args.data}",
        "speed": f"{watch.rate:,.0f} samples/s",
        **{name: f"{value:.4f}{best if name == 'AUC' else ''}" for name, value in watch.found.items()},
        "tables": f"{found['rows']:,} rows, {found['bytes'] / 1e6:,.0f} MB {where}",
        "model in": f"{args.out / 'model'}   (fleet.load_inference_model)",
        "checkpoints in": f"{args.save}   (--resume)",
        "curves in": f"{watch.curves.csv}" + (f", {plot.name}" if plot else ""),
    }
    if watch.curves.has_board:
        values["TensorBoard"] = f"tensorboard --logdir {watch.curves.log}"
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, value)
    Console().print(table, highlight=False)

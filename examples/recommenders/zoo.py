"""The models that train.py knows by name, and what each is for."""

from __future__ import annotations

import argparse
from typing import Any

from sources import Source

import fleet
from fleet.models import Recommender

TASKS_OF_MODELS = {
    "click": ("dnn", "wide_deep", "deepfm", "xdeepfm", "dcn", "dlrm", "finalnet"),
    "history": ("din", "dien"),
    "several": ("mmoe", "ple", "esmm"),
    "next": ("two_tower", "sasrec", "hstu"),
}
MODELS = {model: task for task, models in TASKS_OF_MODELS.items() for model in models}
"""The task of each, as tasks.py has it."""


def make(args: argparse.Namespace, source: Source) -> Recommender:
    """The model for this data; what was not given is as its class has it."""
    given = {"dim": args.dim, "hidden": args.hidden, "dropout": args.dropout}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    settings["rule"] = fleet.rules.Adagrad(lr=args.row_lr)
    task = MODELS[args.model]
    if args.model == "two_tower":
        settings |= {"user": [0], "item": [source.item], "history": "history"}
    elif task == "next":
        settings |= {"item": source.item, "items": source.items, "length": source.length}
    else:
        settings |= {"num_dense": source.num_dense, "num_slots": source.num_slots}
        settings |= {"item": source.item} if task == "history" else {"bags": source.bags}
    return fleet.models.build(args.model, **settings)

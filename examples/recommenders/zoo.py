"""The models that train.py knows by name, and what each is for."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from sources import Source

import fleet
from fleet.models import Recommender


@dataclass(frozen=True)
class Model:
    """A class of fleet.models; `task` is what it predicts, as tasks.py has it."""

    title: str
    task: str = "click"
    has_history: bool = False

    def make(self, args: argparse.Namespace, source: Source) -> Recommender:
        """The model for this data; what was not given is as its class has it."""
        given = {"dim": args.dim, "hidden": args.hidden, "dropout": args.dropout}
        settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        settings["rule"] = fleet.rules.Adagrad(lr=args.row_lr)
        settings |= {"num_dense": source.num_dense, "num_slots": source.num_slots}
        if self.has_history:
            settings["item"] = source.item
        made: Recommender = getattr(fleet.models, self.title)(**settings)
        return made


MODELS = {
    "dnn": Model("DNN"),
    "din": Model("DIN", has_history=True),
    "dien": Model("DIEN", has_history=True),
}

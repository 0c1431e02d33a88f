"""The models that train.py knows by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from sources import Source

import fleet
from fleet.models import Recommender

Make = Callable[[argparse.Namespace, Source], Recommender]


def _clicks(kind: str) -> Make:
    """A model of one click: numbers, and one id for each category."""

    def make(args: argparse.Namespace, source: Source) -> Recommender:
        made: Recommender = getattr(fleet.models, kind)(
            num_dense=source.num_dense,
            num_slots=source.num_slots,
            dim=args.dim,
            hidden=args.hidden,
            dropout=args.dropout,
            rule=fleet.rules.Adagrad(lr=args.row_lr),
        )
        return made

    return make


MODELS: dict[str, Make] = {
    "dnn": _clicks("DNN"),
}

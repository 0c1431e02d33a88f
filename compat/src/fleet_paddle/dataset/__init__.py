"""Small datasets that tutorials use, as readers (`batches.reader`): each call of one is a pass over its samples.

The original files are read from `FLEET_DATA_HOME/<name>/`, by the names they have always had; nothing is downloaded.
Where they are missing, samples are made up: of the same shape and much the same statistics, with something to learn in
them, the same in every process and every pass. That is said once on stderr.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet_paddle.dataset import (
        cifar,
        common,
        conll05,
        criteo,
        flowers,
        imdb,
        imikolov,
        mnist,
        movielens,
        uci_housing,
        wmt14,
        wmt16,
    )

__all__ = [
    "cifar",
    "common",
    "conll05",
    "criteo",
    "flowers",
    "imdb",
    "imikolov",
    "mnist",
    "movielens",
    "uci_housing",
    "wmt14",
    "wmt16",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'fleet_paddle.dataset' has no dataset {name!r}; there are {', '.join(__all__)}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Batches of one moment are taken together: a large one is cut into several, and half of it would be half a change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet.stream import ChangeBatch, StartOverError, TableChanges
from fleet_serve.rows.model import DenseChange, ServedModel, TableChange


class Moments:
    """Keeps the batches of each shard until their moment is whole, then lets lookups see it."""

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._waiting: dict[int, list[ChangeBatch]] = {}

    def take(self, batch: ChangeBatch) -> None:
        """The next batch of a shard; StartOverError if it cannot be applied to what is served."""
        for name, changes in batch.tables.items():
            table = self._model.tables.get(name)
            width = None if table is None else table.width
            if (len(changes.values) and changes.values.shape[1] != width) or table is None:
                raise StartOverError(
                    f"batch {batch.number} of shard {batch.shard} has rows of table {name!r}, width "
                    f"{changes.values.shape[1]}, and what is served does not; take the newest base"
                )
        waiting = self._waiting.setdefault(batch.shard, [])
        waiting.append(batch)
        if batch.whole >= batch.number:
            try:
                dense = [DenseChange(*where, values) for one in waiting for where, values in one.dense.items()]
                self._model.apply(batch.shard, batch.number, _joined(self._model, waiting), dense)
            except Exception as error:  # a second try would find half of it there
                raise StartOverError(
                    f"batch {batch.number} of shard {batch.shard} cannot be applied ({type(error).__name__}: {error}); "
                    "take the newest base"
                ) from error
            finally:
                waiting.clear()


def _joined(model: ServedModel, batches: Sequence[ChangeBatch]) -> list[TableChange]:
    names = dict.fromkeys(name for batch in batches for name in batch.tables)
    return [_of_table(model, name, [b.tables[name] for b in batches if name in b.tables]) for name in names]


def _of_table(model: ServedModel, name: str, changes: Sequence[TableChanges]) -> TableChange:
    """The changes of a table; of a key that several have, the last."""
    width = model.tables[name].width
    if len(changes) == 1:
        (one,) = changes
        return TableChange(name, one.keys, one.values.reshape(-1, width), one.gone)
    keys = np.concatenate([part for one in changes for part in (one.keys, one.gone)])
    is_gone = np.concatenate([np.full(len(p), p is one.gone) for one in changes for p in (one.keys, one.gone)])
    values = np.zeros((len(keys), width), np.float32)
    values[~is_gone] = np.concatenate([one.values.reshape(-1, width) for one in changes])
    _, backwards = np.unique(keys[::-1], return_index=True)
    last = len(keys) - 1 - backwards
    kept, gone = last[~is_gone[last]], last[is_gone[last]]
    return TableChange(name, keys[kept], values[kept], keys[gone])

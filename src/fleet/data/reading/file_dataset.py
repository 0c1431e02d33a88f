"""Files for a `torch.utils.data.DataLoader`: its processes divide the pieces of this worker among them."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from fleet.data.columns.batch import Batch
from fleet.data.reading.piece_batches import PieceReader, Reading, SpanWork
from fleet.data.reading.piece_order import divide, whole
from fleet.errors import NotSupportedError


class FileDataset(IterableDataset[Batch]):
    """This worker's batches of an epoch; every process of a loader reads its own part of them, with its own threads.

    `DataLoader(dataset, batch_size=None, num_workers=2)`: what it yields are batches already. `set_epoch` says which
    epoch the next loop reads, also to processes that live on (`persistent_workers`); `fleet.data.shard(loader)` calls
    it by itself.
    """

    def __init__(self, reader: PieceReader, worker_index: int, worker_num: int, epoch: int) -> None:
        self._reader = reader
        self._worker_index, self._worker_num = worker_index, worker_num
        self._epoch = torch.tensor([epoch]).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Which epoch the next loop reads."""
        self._epoch[0] = epoch

    def __iter__(self) -> Iterator[Batch]:
        pieces = self._reader.files.epoch(int(self._epoch[0]))
        spans = divide(whole(len(pieces)), pieces.sizes, self._worker_index, self._worker_num)
        if (process := get_worker_info()) is not None:
            spans = divide(spans, pieces.sizes, process.id, process.num_workers)
        with closing(Reading(self._reader, pieces, SpanWork(spans))) as reading:
            for taken in reading:
                yield taken.batch
        self._reader.problems.finish()

    def state_dict(self) -> dict[str, Any]:
        """NotSupportedError: the processes of a loader read ahead, and only they know how far."""
        raise NotSupportedError(
            "the position of files in a DataLoader is not known here: its processes read ahead of what it yields; take "
            "that of fleet.data.shard(loader), or loop over fleet.data.files(...) itself"
        )

    def load_state_dict(self, _: Any) -> None:
        """As `state_dict`."""
        self.state_dict()

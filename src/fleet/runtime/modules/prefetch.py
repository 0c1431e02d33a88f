"""`fleet.prefetch`: while a batch is computed, the rows of the next one are on their way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from torch import nn

from fleet.errors import UsageError
from fleet.nn.sparse import SparseModule

if TYPE_CHECKING:
    from fleet.ps.worker.worker import Worker

Batch = TypeVar("Batch")


def prefetch(loader: Iterable[Batch], model: nn.Module, keys: Callable[[Batch], Any] | None = None) -> Iterator[Batch]:
    """Iterate over `loader`; before each batch is handed out, the rows of the one after it are asked for.

    `keys(batch)` gives what the model's sparse module will be called with: ids, (ids, offsets), or the mapping of an
    EmbeddingCollection; for a model with several sparse modules, a mapping from module name to that. It must give the
    very tensors that the model will use. Without `keys` the batch itself is taken.

    In asynchronous mode rows are pulled a batch ahead. In the other modes a pull waits for the push before it; then
    only the keys are prepared ahead, and the pull rides on the end of the step. Where workers come and go nothing is
    asked for ahead: a worker leaves between two batches, and has none in hand then.
    """
    modules = {name: module for name, module in model.named_modules() if isinstance(module, SparseModule)}
    if not modules:
        raise UsageError("fleet.prefetch: the model has no fleet.nn.Embedding or EmbeddingCollection to prefetch for")
    first = next(iter(modules.values()))
    worker = first.worker

    if worker.progress is not None and worker.progress.membership is not None:
        yield from loader
        return

    def ask(batch: Batch) -> None:
        wanted = batch if keys is None else keys(batch)
        if len(modules) == 1:
            worker.prefetch(first.requests(wanted))
            return
        if not isinstance(wanted, Mapping) or not wanted.keys() <= modules.keys():
            raise UsageError(
                f"fleet.prefetch: the model has the sparse modules {', '.join(map(repr, modules))}; keys(batch) must "
                "give a mapping from their names to what each is called with"
            )
        worker.prefetch([request for name, inputs in wanted.items() for request in modules[name].requests(inputs)])

    batches, ahead = iter(loader), BatchesAhead(worker)
    data = worker.data
    left = data.begin(loader)
    is_inside = False
    try:
        try:
            current = ahead.read(batches) if left is None else left.batch
        except StopIteration:
            ahead.end_loop()
            return
        ask(current)
        for behind, following in _with_states(worker, loader, ahead.rest(batches)):
            data.read(behind)
            ask(following)
            ahead.hand_out()
            is_inside = True
            yield current
            is_inside = False
            current = following
        data.read(None)
        worker.end_prefetch()
        ahead.hand_out()
        yield current
        ahead.end_loop()
    finally:
        if is_inside and worker.progress is None:
            data.leave(loader, following)
        else:
            data.read(None)
        worker.end_prefetch()
        ahead.end()


class BatchesAhead:
    """Batches that are read one ahead of the batch that is trained on.

    A worker of a durable job is told where its data was before each. Data ends one batch before the loop does, so what
    a worker does at the end of its batches waits for the last step.
    """

    def __init__(self, worker: Worker) -> None:
        self._progress, self._passing = worker.progress, worker.passing
        self._before: deque[tuple[dict[str, Any], set[int]]] = deque()

    def read(self, batches: Iterator[Batch]) -> Batch:
        """The next batch; StopIteration if there is none."""
        if self._passing is None:
            return self._read(batches)
        with self._passing.reading_ahead():
            return self._read(batches)

    def _read(self, batches: Iterator[Batch]) -> Batch:
        progress = self._progress
        if progress is None:
            return next(batches)
        with progress.reading_ahead():
            before = progress.data()
            batch = next(batches)
            after = progress.data()
        self._before.append((before, {int(name) for name in after if after[name] != before.get(name)}))
        return batch

    def rest(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches that follow."""
        with suppress(StopIteration):
            while True:
                yield self.read(batches)

    def hand_out(self) -> None:
        """Hand out the oldest batch that was read."""
        if self._progress is not None:
            self._progress.hand_out(*self._before.popleft())

    def end(self) -> None:
        """End a loop, however it was left: no more batches are handed out."""
        if self._progress is not None:
            self._progress.hand_out(None)
        if self._passing is not None:
            self._passing.forget()

    def end_loop(self) -> None:
        """End a loop whose last batch was trained on."""
        if self._progress is not None:
            self._progress.hand_out(None)
        if self._passing is not None:
            self._passing.settle()


def _with_states(
    worker: Worker, loader: object, batches: Iterator[Batch]
) -> Iterator[tuple[tuple[object, Any], Batch]]:
    """Each batch with the state that the data had before, if that has one: a checkpoint must not skip the batch.

    The data is the loader; where that is a generator over something, it is what the checkpoint saves.
    """
    while True:
        data = loader if hasattr(loader, "state_dict") else worker.data.saved
        behind = data, None if data is None else data.state_dict()
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield behind, batch

"""`fleet.prefetch`: while a batch is computed, the rows of the next one are on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from torch import nn

from fleet.errors import UsageError
from fleet.nn.sparse import SparseModule

Batch = TypeVar("Batch")


def prefetch(loader: Iterable[Batch], model: nn.Module, keys: Callable[[Batch], Any] | None = None) -> Iterator[Batch]:
    """Iterate over `loader`; before each batch is handed out, the rows of the one after it are asked for.

    `keys(batch)` gives what the model's sparse module will be called with: ids, (ids, offsets), or the mapping of an
    EmbeddingCollection; for a model with several sparse modules, a mapping from module name to that. It must give the
    very tensors that the model will use. Without `keys` the batch itself is taken.

    In asynchronous mode rows are pulled a batch ahead. In the other modes a pull waits for the push before it; then
    only the keys are prepared ahead, and the pull rides on the end of the step.
    """
    modules = {name: module for name, module in model.named_modules() if isinstance(module, SparseModule)}
    if not modules:
        raise UsageError("fleet.prefetch: the model has no fleet.nn.Embedding or EmbeddingCollection to prefetch for")
    first = next(iter(modules.values()))
    worker = first.worker

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

    batches = iter(loader)
    try:
        current = next(batches)
    except StopIteration:
        return
    try:
        ask(current)
        for state, following in _with_states(loader, batches):
            worker.behind = (loader, state)
            ask(following)
            yield current
            current = following
        worker.behind = None
        worker.end_prefetch()
        yield current
    finally:
        worker.behind = None
        worker.end_prefetch()


def _with_states(loader: object, batches: Iterator[Batch]) -> Iterator[tuple[Any, Batch]]:
    """Each batch with the state that its loader had before, if that has one: a checkpoint must not skip the batch."""
    state_dict = getattr(loader, "state_dict", lambda: None)
    while True:
        state = state_dict()
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield state, batch

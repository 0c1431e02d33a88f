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
        for following in batches:
            ask(following)
            yield current
            current = following
        worker.end_prefetch()
        yield current
    finally:
        worker.end_prefetch()

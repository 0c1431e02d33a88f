"""The operator that stands in an exported program where the model looks up rows: `fleet::served_rows`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

Source = Callable[[torch.Tensor, str], torch.Tensor]
"""ids [n], the name of a table -> rows [n, width]"""
_source: ContextVar[Source | None] = ContextVar("served_rows", default=None)


@torch.library.custom_op("fleet::served_rows", mutates_args=())
def served_rows(ids: torch.Tensor, table: str, width: int) -> torch.Tensor:
    """The rows of ids, from whatever serves them now; zeros where nothing does, as while a model is exported."""
    source = _source.get()
    return ids.new_zeros(ids.shape[0], width, dtype=torch.float32) if source is None else source(ids, table)


@served_rows.register_fake
def _(ids: torch.Tensor, table: str, width: int) -> torch.Tensor:  # noqa: ARG001
    return ids.new_empty(ids.shape[0], width, dtype=torch.float32)


@contextmanager
def rows_from(source: Source) -> Iterator[None]:
    """Inside, and in this thread, programs get their rows from there."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)

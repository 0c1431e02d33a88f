"""Rows that a module holds itself, for a process without a job: keys in ascending order, and a row for each.

Looked up by torch's operators, so that `torch.export` and `torch.compile` see through. The one exception are the first
values of ids without a row, where the table asks for them: they come from the core, by an operator of our own.
"""

from __future__ import annotations

import atexit
import json
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from fleet.checkpoint import Unseen
from fleet.errors import UsageError
from fleet.ps.held.unseen import UnseenRows, unseen_of
from fleet.ps.job.spec import TableSpec


class Rows(NamedTuple):
    """The rows of a table: int64 `keys` [n], ascending, and `values` [n, width]. Neither is copied."""

    keys: torch.Tensor
    values: torch.Tensor

    def check(self, name: str, width: int) -> None:
        """UsageError unless these can be rows of a table of that width."""
        keys, values = self
        if keys.dtype != torch.int64 or keys.dim() != 1 or values.shape != (len(keys), width):
            raise UsageError(
                f"table {name!r} has width {width} here; keys must be int64 [n] and rows [n, {width}], got "
                f"{keys.dtype} {list(keys.shape)} and {list(values.shape)}"
            )
        if not bool((keys[1:] > keys[:-1]).all()):
            raise UsageError(f"table {name!r}: keys must be in ascending order, each once")


class Found(NamedTuple):
    """What a lookup gives: some rows, and which of them each id has."""

    rows: torch.Tensor
    inverse: torch.Tensor
    padding_row: int | None = None
    """Which of `rows` is that of padding: zeros."""


class First(NamedTuple):
    """How ids without a row read in one table: as zeros, or as what `unseen`, the JSON of an `Unseen`, says."""

    table: str
    unseen: str | None = None

    @classmethod
    def of(cls, spec: TableSpec) -> First:
        """That of a table as it was declared."""
        unseen = unseen_of(spec)
        return cls(spec.name, None if unseen.reads == "zeros" else json.dumps(unseen.to_json()))

    def rows(self, ids: torch.Tensor, width: int) -> torch.Tensor | None:
        """Their first values; None where those are zeros."""
        if self.unseen is None:
            return None
        found: torch.Tensor = _first_rows(ids, self.table, width, self.unseen)
        return found


class HeldTable(nn.Module):
    """The rows of one table among several of a module."""

    weight: nn.Parameter
    keys: torch.Tensor


def put(home: nn.Module, rows: Rows) -> None:
    """Let a module have the rows as its parameter `weight`, which needs no gradient, and its buffer `keys`."""
    keys, values = rows
    home.weight = values if isinstance(values, nn.Parameter) else nn.Parameter(values, requires_grad=False)
    if "keys" in home._buffers:
        home.keys = keys
    else:
        home.register_buffer("keys", keys)


def find(keys: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor, first: First) -> torch.Tensor:
    """The row of each id, [ids.numel(), width], on the device of the rows."""
    ids = ids.reshape(-1).to(keys.device)
    width = weight.shape[1]
    others = first.rows(ids, width)
    if others is not None:
        others = others.to(weight.dtype)
    if len(keys) == 0:
        return weight.new_zeros(ids.shape[0], width) if others is None else others
    at = torch.searchsorted(keys, ids).clamp(max=len(keys) - 1)
    is_there = (keys[at] == ids).unsqueeze(1)
    found = functional.embedding(at, weight)
    return found.masked_fill(~is_there, 0.0) if others is None else torch.where(is_there, found, others)


@torch.library.custom_op("fleet::first_rows", mutates_args=())
def _first_rows(ids: torch.Tensor, table: str, width: int, unseen: str) -> torch.Tensor:
    rows = _source(table, width, unseen)(ids.cpu().contiguous().numpy())
    return torch.from_numpy(rows).to(ids.device)


@_first_rows.register_fake
def _(ids: torch.Tensor, table: str, width: int, unseen: str) -> torch.Tensor:  # noqa: ARG001
    return ids.new_empty(ids.shape[0], width, dtype=torch.float32)


@cache
def _source(table: str, width: int, unseen: str) -> UnseenRows:
    atexit.register(_source.cache_clear)  # torch keeps the operator beyond the end, and the core would tell of a leak
    said: dict[str, Any] = json.loads(unseen)
    return UnseenRows(table, width, Unseen(**said))

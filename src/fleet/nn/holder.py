"""What a module of `fleet.nn` does with rows of its own: in a process without a job, from a folder or a state_dict.

Such rows are looked up by torch's operators, so that `torch.export` and `torch.compile` see through. The one exception
are the first values of ids without a row, where the table asks for them: they come from the core, by an operator of our
own.
"""

from __future__ import annotations

import atexit
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from fleet.checkpoint import Unseen
from fleet.errors import UsageError
from fleet.nn.stand_in import RowsWeight, not_written
from fleet.ps.held.unseen import UnseenRows, unseen_of
from fleet.ps.job.spec import TableSpec
from fleet.ps.worker.asking.lookup import Request

log = logging.getLogger(__name__)
MOST_STRANGERS = 100  # a few new users or items are no mistake
_is_fleets: ContextVar[bool] = ContextVar("is_fleets", default=False)


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


class Holder(nn.Module):
    """A module whose rows are on servers or, after `hold`, in itself: as `weight` and `keys`.

    A module of several tables has a submodule for each, with a `weight` and `keys` of its own.
    """

    weight: nn.Parameter

    def __init__(self) -> None:
        super().__init__()
        self._first: tuple[First, ...] = ()
        self._was_bound = False
        self._num_strangers = 0  # ids that had no row, until one has

    def specs(self, module: str) -> list[TableSpec]:
        """The tables that it wants; `module` is its name in the model."""
        raise NotImplementedError

    def home_names(self) -> Sequence[str]:
        """For each table, the submodule that has its rows where they are held; '' is this module."""
        return [""]

    @property
    def is_bound(self) -> bool:
        """Whether its rows are on servers that it has joined."""
        raise NotImplementedError

    @property
    def was_bound(self) -> bool:
        """Whether its rows have ever been on servers."""
        return self._was_bound

    @property
    def is_held(self) -> bool:
        """Whether it holds rows of its own."""
        return bool(self._first)

    def hold(self, tables: Sequence[Rows], module: str, first: Sequence[First] | None = None) -> None:
        """Take rows of its own, in the order of `specs`; from then on it looks them up itself, and none is trained.

        The tensors are not copied. `first`: how ids without a row read, where that is not as the tables are declared.
        """
        self.refuse_if_bound()
        specs = self.specs(module)
        for spec, rows in zip(specs, tables, strict=True):
            rows.check(spec.name, spec.width)
        self._first = tuple(map(First.of, specs) if first is None else first)
        if isinstance(self.weight, RowsWeight):
            self.weight = nn.Parameter(self.weight.detach(), self.weight.requires_grad)
        for name, rows in zip(self.home_names(), tables, strict=True):
            if name and name not in self._modules:
                self.add_module(name, HeldTable())
            put(self.get_submodule(name), rows)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """As torch's; UsageError for a `weight` with values in the place of the one that stands for rows."""
        if name == "weight" and param is not None and param.numel() and not self.is_held:
            raise not_written("weight = Parameter(tensor)")
        super().register_parameter(name, param)

    def refuse_if_bound(self) -> None:
        """UsageError where the rows are on servers."""
        if self.is_bound:
            raise UsageError(
                f"the rows of this {type(self).__name__} are on the servers; fleet.load_rows(module, keys, weight) "
                "writes those of a state_dict there, fleet.load_model() those of a checkpoint"
            )

    def refuse_if_held(self) -> None:
        """UsageError where it has rows of its own, which servers would not know."""
        if self.is_held:
            raise UsageError(
                f"this {type(self).__name__} holds rows of its own, which the servers would not know; make the model "
                "afresh, and write rows to the servers with fleet.load_rows() or fleet.load_model()"
            )

    def find(self, request: Request) -> Found:
        """Rows for some ids, from those that it holds."""
        home = self.get_submodule(self.home_names()[request.table])
        keys, weight = home.get_buffer("keys"), home.get_parameter("weight")
        parts = [source.reshape(-1).to(keys.device) for source in request.sources]
        self._warn_of_strangers(keys, parts, self._first[request.table].table)
        rows = find(keys, weight, torch.cat(parts), self._first[request.table])
        places = torch.arange(rows.shape[0], device=rows.device)
        if not request.paddings:
            return Found(rows, places)
        # The row of padding comes first: its number is the same for batches of every size.
        kept = [
            torch.ones_like(part) if padding is None else (part != padding).long()
            for part, padding in zip(parts, request.paddings, strict=True)
        ]
        return Found(torch.cat([rows.new_zeros(1, rows.shape[1]), rows]), (places + 1) * torch.cat(kept), 0)

    def _warn_of_strangers(self, keys: torch.Tensor, ids: Sequence[torch.Tensor], table: str) -> None:
        """Warn, once, where the first ids that were looked up are all unknown: they may be made in another way."""
        if self._num_strangers > MOST_STRANGERS or torch.compiler.is_compiling() or not len(keys) or keys.is_cuda:
            return
        if any(bool((keys[torch.searchsorted(keys, one).clamp(max=len(keys) - 1)] == one).any()) for one in ids):
            self._num_strangers = MOST_STRANGERS + 1  # it knows some
            return
        self._num_strangers += sum(part.numel() for part in ids)
        if self._num_strangers > MOST_STRANGERS:
            log.warning(
                "table %r: none of the first %d ids that were looked up has a row; make ids as in training, text by "
                "fleet.data.hash_ids(column, values)",
                table,
                self._num_strangers,
            )

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        """Make room for the rows of a state_dict that has them; torch then compares and copies as ever.

        UsageError for the weight of a `torch.nn.Embedding`, whose rows have no keys.
        """
        homes = [f"{prefix}{name}." if name else prefix for name in self.home_names()]
        if all(f"{home}{own}" in state_dict for home in homes for own in ("keys", "weight")):
            given = [Rows(state_dict[f"{home}keys"], state_dict[f"{home}weight"]) for home in homes]
            self.refuse_if_bound()
            module = prefix[:-1]
            like: Any = {"dtype": self.weight.dtype, "device": self.weight.device}
            room = []
            for spec, rows in zip(self.specs(module), given, strict=True):
                rows.check(spec.name, spec.width)
                keys = torch.arange(len(rows.keys), device=like["device"])
                room.append(Rows(keys, torch.empty(rows.values.shape, **like)))
            self.hold(room, module)
        elif f"{prefix}weight" in state_dict and state_dict[f"{prefix}weight"].numel() and not self.is_held:
            shape = list(state_dict[f"{prefix}weight"].shape)
            raise UsageError(
                f"{prefix}weight of the state_dict has shape {shape} and no keys, but this {type(self).__name__} has "
                "its rows in a table; take it out of the state_dict, and make the module by "
                "Embedding.from_pretrained(weight) or call fleet.load_rows(module, None, weight) after "
                "fleet.init_worker()"
            )
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.was_bound and not self.is_held and not _is_fleets.get():
            _warn()


@contextmanager
def without_rows() -> Iterator[None]:
    """Inside, `state_dict()` leaves out rows without a warning: for whoever has them from the servers."""
    token = _is_fleets.set(True)
    try:
        yield
    finally:
        _is_fleets.reset(token)


@cache
def _warn() -> None:
    """Once in a process."""
    log.warning(
        "model.state_dict() has no rows of tables, which are on the servers: save with fleet.save_persistables() or "
        "fleet.save_inference_model(), or take all values with fleet.gather_state_dict(model)"
    )

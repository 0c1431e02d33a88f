"""What modules whose rows live in tables have in common: they declare tables and are bound to a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import torch

from fleet.errors import NotReadyError, UsageError
from fleet.nn.holder import Found, Holder
from fleet.nn.stand_in import RowsWeight
from fleet.ps.job.checks import checked
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.initializers import Uniform
from fleet.ps.job.named_spec import EntrySpec, InitializerSpec, RuleSpec
from fleet.ps.job.spec import TableSpec
from fleet.ps.worker.asking.lookup import Request
from fleet.ps.worker.sending.clipped import gradient_of_rows
from fleet.ps.worker.worker import has_left
from fleet.strategy.check import Whole
from fleet.strategy.sizes import size_bytes

if TYPE_CHECKING:
    from fleet.ps.worker.asking.given_rows import GivenRows
    from fleet.ps.worker.worker import Worker

log = logging.getLogger(__name__)

DEFAULT_INITIALIZER = Uniform(-0.01, 0.01)

Wire = str | tuple[str, str] | None
"""How floats of a table travel: a format, or one for rows and one for gradients; None: as the strategy says."""


@dataclass(frozen=True)
class TableRequest:
    """A table that a module wants. Without a rule it follows the optimizer that has the module's parameters."""

    name: str | None
    """None: the module's own name in the model."""
    width: int
    rule: RuleSpec | None = None
    initializer: InitializerSpec = DEFAULT_INITIALIZER
    entry: EntrySpec = AlwaysEntry()  # noqa: RUF009 - frozen
    dtype: str = "float32"
    bounds: tuple[float, float] | None = None
    max_bytes: int = 0
    seed: int = 0
    unseen: str = "zeros"
    max_norm: float | None = None
    norm_type: float = 2.0
    wire: Wire = None
    memory: int | str = 0
    cache_rows: int = 0
    """Rows that are trained where the model is; 0: all are trained in the table."""

    def __post_init__(self) -> None:
        self.spec("embedding", self.rule or RuleSpec("sgd"))  # every argument is checked before servers are there

    def named(self, module: str) -> TableRequest:
        """The same with a name."""
        return self if self.name is not None else replace(self, name=module or "embedding")

    def spec(self, name: str, rule: RuleSpec) -> TableSpec:
        """The table as servers know it."""
        rows, gradients = _formats(self.name or name, self.wire)
        return TableSpec(
            self.name or name,
            self.width,
            rule,
            self.initializer,
            self.entry,
            self.dtype,
            self.bounds,
            self.max_bytes,
            self.seed,
            unseen=self.unseen,
            max_norm=self.max_norm,
            norm_type=None if self.norm_type == inf else self.norm_type,
            row_format=rows,
            gradient_format=gradients,
            memory=size_bytes(f"table {self.name or name!r}: memory", self.memory),
        )


def _formats(table: str, wire: object) -> tuple[str | None, str | None]:
    """The formats of rows and of gradients; `TableSpec` checks the words."""
    if isinstance(wire, tuple | list):
        if len(wire) != 2 or not all(isinstance(one, str) for one in wire):
            raise UsageError(
                f"table {table!r}: wire must be a format, or one for rows and one for gradients, got {wire!r}; write "
                'wire="bfloat16" or wire=("bfloat16", "int8")'
            )
        return wire[0], wire[1]
    return wire, wire  # type: ignore[return-value]


class SparseModule(Holder):
    """A module whose rows live in tables.

    `weight` has no elements: it stands for the rows, so that an optimizer that is given `module.parameters()` decides
    how they are updated, and a parameter group of its own gives them a learning rate of their own.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = RowsWeight(torch.empty(0, width))
        self.first_rows: GivenRows | None = None
        """What its table begins with; None: all rows begin with the values of its initialiser."""
        self._worker: Worker | None = None
        self._has_left = False
        self._is_dry = False
        self._device = self.weight.device
        self._tables: tuple[int, ...] = ()
        self._copied_from: SparseModule | None = None

    def table_requests(self) -> Sequence[TableRequest]:
        """The tables that this module wants, in the order in which `bind` gets their indexes."""
        raise NotImplementedError

    def bind(self, worker: Worker | None, tables: Sequence[int] = ()) -> None:
        """`fleet.init_worker()` has joined the servers, or `fleet.stop_worker()` has left them."""
        self._worker, self._tables, self._device = worker, tuple(tables), self.weight.device
        self._has_left, self._is_dry = worker is None, False
        self._was_bound = self._was_bound or worker is not None
        self._copied_from = None

    def run_dry(self) -> None:
        """Read zeros until `bind`: for the first batch through a model with lazy modules, which need its shapes."""
        self._is_dry = True

    @property
    def was_bound(self) -> bool:
        return self._bound._was_bound

    @property
    def is_bound(self) -> bool:
        return self._worker is not None

    def specs(self, module: str) -> list[TableSpec]:
        return [
            request.spec(module or "embedding", request.rule or RuleSpec("sgd")) for request in self.table_requests()
        ]

    def requests(self, inputs: Any) -> list[Request]:
        """What `forward(inputs)` will look up: for `fleet.prefetch`."""
        raise NotImplementedError

    @property
    def worker(self) -> Worker:
        """The worker that looks up rows; NotReadyError before `fleet.init_worker()` and after `fleet.stop_worker()`."""
        bound = self._bound
        if bound._has_left:
            raise has_left(type(self).__name__)
        if bound._worker is None:
            raise NotReadyError(
                f"{type(self).__name__} has no table yet; pass the model to fleet.distributed_model(), then call "
                "fleet.init_worker() (a module in a Python list or dict is no part of a model: nn.ModuleList and "
                "nn.ModuleDict are), or without a job give it rows with fleet.load_inference_model(folder, model)"
            )
        if self.weight.device != bound._device:
            raise UsageError(
                f"{type(self).__name__} was moved from {bound._device} to {self.weight.device} after "
                "fleet.init_worker(); move the model before that"
            )
        return bound._worker

    @property
    def _bound(self) -> SparseModule:
        """The module whose tables it reads: itself or, where it is a copy that no job has, the one that it is of."""
        found = self
        while found._worker is None and not found._has_left and found._copied_from is not None:
            found = found._copied_from
        return found

    @property
    def tables(self) -> Sequence[int]:
        """The index of each of its tables, for a `Request`: in the job, or among its own."""
        if self._is_dry:
            return range(len(self.table_requests()))
        return range(len(self._first)) if self.is_held else self._bound._tables

    def look_up(self, requests: Sequence[Request]) -> list[Found]:
        """Rows for some ids: from the servers, or of its own."""
        if self.is_held:
            return [self.find(request) for request in requests]
        if torch.compiler.is_compiling():  # it compiles what comes before and after, and cannot look into a call
            asked: Callable[[Sequence[Request]], list[Found]] = torch.compiler.disable(self._asked)
            return asked(requests)
        return self._asked(requests)

    def _asked(self, requests: Sequence[Request]) -> list[Found]:
        """Rows from the servers."""
        if self._is_dry:
            return [self._zeros(request) for request in requests]
        found, worker, has_grad = [], self.worker, self.has_grad
        if self._bound is not self:
            self._check_reads()
        elif not (has_grad or self.training) and torch.is_grad_enabled() and self.weight.requires_grad:
            worker.note_untrained([request.table for request in requests])
        for lookup in worker.lookups(requests, with_grad=has_grad, in_training=self.training):
            assert lookup.rows is not None
            if has_grad:
                lookup.weight = self.weight
                lookup.rows.register_post_accumulate_grad_hook(partial(_arrived, self.weight, ref(worker)))
            found.append(Found(lookup.rows, lookup.inverse, lookup.padding_row))
        return found

    def _zeros(self, request: Request) -> Found:
        """One row of zeros for all ids."""
        width, num_ids = self.table_requests()[request.table].width, sum(ids.numel() for ids in request.sources)
        places = torch.zeros(num_ids, dtype=torch.int64, device=self.weight.device)
        return Found(self.weight.new_zeros(1, width), places, 0 if request.paddings else None)

    @property
    def has_grad(self) -> bool:
        """Whether rows are looked up to be trained."""
        return self.training and torch.is_grad_enabled() and self.weight.requires_grad

    def _check_reads(self) -> None:
        """Say once what a copy reads; UsageError if it is to be trained."""
        if self.has_grad:
            raise UsageError(
                f"this {type(self).__name__} is a copy, and reads the rows of the module that it was copied from; call "
                "it in eval() or under torch.no_grad(), and train the model of fleet.distributed_model(), or give the "
                "copy rows of its own: copy.load_state_dict(fleet.gather_state_dict(model))"
            )
        _tell_of_copies()

    def __copy__(self) -> SparseModule:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseModule:
        """A module with a table of its own where a job has it, and else one that reads the rows of this one."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        own: dict[str, Any] = {"_worker": None, "_tables": (), "_has_left": False, "_was_bound": False}
        own |= {"first_rows": self.first_rows, "_copied_from": None if self.is_held else self}
        made.__dict__.update(
            {name: own[name] if name in own else deepcopy(value, memo) for name, value in self.__dict__.items()}
        )
        return made

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: what it is, and rows that it holds; UsageError where rows would be left behind on the servers."""
        if self.was_bound and not self.is_held:
            raise UsageError(
                f"the rows of this {type(self).__name__} are on the servers, and would not be pickled with it; use "
                "fleet.save_inference_model(folder), or torch.save(fleet.gather_state_dict(model), path), before "
                "fleet.stop_worker()"
            )
        return {**self.__dict__, "_worker": None, "_tables": (), "_copied_from": None}  # connections cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if not self.is_held:
            self._parameters["weight"] = RowsWeight(self.weight.detach(), self.weight.requires_grad)


@cache
def _tell_of_copies() -> None:
    """Once in a process."""
    log.warning(
        "a copy of a model with tables has layers of its own, and reads the same rows as the model: they are neither "
        "copied nor averaged"
    )


def _arrived(weight: torch.Tensor, worker: ReferenceType[Worker], rows: torch.Tensor) -> None:
    """Gradients have come to rows. The module's `weight` gets one too, of no elements: whoever zeroes it means rows."""
    if weight.grad is None:
        its = worker()
        weight.grad = gradient_of_rows(weight, its)
        if its is not None:
            its.drop_older(weight, rows)


def checked_padding(padding_idx: object) -> int | None:
    """The id that stands for nothing, if there is one; UsageError if it is none."""
    if padding_idx is None:
        return None
    return checked("embedding", "padding_idx", padding_idx, Whole())


def checked_cache(cache: object, cache_rows: object) -> int:
    """How many rows a cache shall have; UsageError unless both are given, or none is."""
    if cache not in (None, "gpu"):
        raise UsageError(f"embedding: cache must be None or 'gpu', got {cache!r}")
    num_rows = checked("embedding", "cache_rows", cache_rows, Whole(least=0, most=2**31 - 1))
    if bool(num_rows) != (cache is not None):
        raise UsageError(
            f"embedding: cache and cache_rows go together, got cache={cache!r} and cache_rows={num_rows}; write "
            "cache='gpu', cache_rows=1_000_000, or neither"
        )
    return num_rows


def checked_ids(ids: torch.Tensor, what: str) -> torch.Tensor:
    """Ids must be int64: keys are, and a conversion would be a new tensor at every step."""
    if not isinstance(ids, torch.Tensor):
        raise UsageError(
            f"{what} must be a tensor of int64 ids, got {type(ids).__name__}; torch.tensor(numbers) makes one, and of "
            "text torch.tensor(fleet.data.hash_ids(column, texts))"
        )
    if ids.dtype != torch.int64:
        raise UsageError(f"{what} must be int64, got {ids.dtype}; call .long() on it when the batch is made")
    return ids

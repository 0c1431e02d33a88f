"""What a module of `fleet.nn` does with rows of its own: in a process without a job, from a folder or a state_dict."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import nn

from fleet.errors import UsageError
from fleet.nn.held import First, Found, HeldTable, Rows, find, put
from fleet.ps.lookup import Request
from fleet.ps.spec import TableSpec

log = logging.getLogger(__name__)

_is_fleets: ContextVar[bool] = ContextVar("is_fleets", default=False)


class Holder(nn.Module):
    """A module whose rows are on servers or, after `hold`, in itself: as `weight` and `keys`.

    A module of several tables has a submodule for each, with a `weight` and `keys` of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first: tuple[First, ...] = ()
        self._was_bound = False

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
    def is_held(self) -> bool:
        """Whether it holds rows of its own."""
        return bool(self._first)

    def hold(self, tables: Sequence[Rows], module: str) -> None:
        """Take rows of its own, in the order of `specs`; from then on it looks them up itself, and none is trained.

        The tensors are not copied.
        """
        self.refuse_if_bound()
        specs = self.specs(module)
        for name, spec, rows in zip(self.home_names(), specs, tables, strict=True):
            rows.check(spec.name, spec.width)
            if name and name not in self._modules:
                self.add_module(name, HeldTable())
            put(self.get_submodule(name), rows)
        self._first = tuple(First.of(spec) for spec in specs)

    def refuse_if_bound(self) -> None:
        """UsageError where the rows are on servers."""
        if self.is_bound:
            raise UsageError(
                f"the rows of this {type(self).__name__} are on the servers, and fleet.load_model() puts those of a "
                "checkpoint there; a state_dict with rows is for a model without a job"
            )

    def refuse_if_held(self) -> None:
        """UsageError where it has rows of its own, which servers would not know."""
        if self.is_held:
            raise UsageError(
                f"this {type(self).__name__} holds rows of its own, which the servers would not know; make the model "
                "afresh, and load rows into the servers with fleet.load_model()"
            )

    def find(self, request: Request) -> Found:
        """Rows for some ids, from those that it holds."""
        home = self.get_submodule(self.home_names()[request.table])
        keys, weight = home.get_buffer("keys"), home.get_parameter("weight")
        parts = [source.reshape(-1).to(keys.device) for source in request.sources]
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

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        """Make room for the rows of a state_dict that has them; torch then compares and copies as ever."""
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
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self._was_bound and not self.is_held and not _is_fleets.get():
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

"""`fleet.nn.EmbeddingCollection`: many slots of a batch, one or several tables, one pull per server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fleet.errors import UsageError
from fleet.nn.holder import Found
from fleet.nn.pooling import Pooling, check_pooling, pool
from fleet.nn.sparse import DEFAULT_INITIALIZER, SparseModule, TableRequest, Wire, checked_ids, checked_padding
from fleet.ps.job.entries import AlwaysEntry
from fleet.ps.job.named_spec import EntrySpec, InitializerSpec, RuleSpec
from fleet.ps.job.staging import upload
from fleet.ps.worker.asking.lookup import Request

SlotInput = (
    torch.Tensor | tuple[torch.Tensor, torch.Tensor | None] | tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]
)


@dataclass(frozen=True)
class Slot:
    """One feature of a batch. Slots that name the same table share its rows and must agree about it."""

    name: str
    dim: int
    table: str | None = None
    """None: the slot's own name."""
    pooling: Pooling = "none"
    rule: RuleSpec | None = None
    initializer: InitializerSpec = DEFAULT_INITIALIZER
    entry: EntrySpec = AlwaysEntry()  # noqa: RUF009 - frozen
    dtype: str = "float32"
    bounds: tuple[float, float] | None = None
    max_bytes: int = 0
    seed: int = 0
    unseen: str = "zeros"
    padding_idx: int | None = None
    max_norm: float | None = None
    norm_type: float = 2.0
    include_last_offset: bool = False
    wire: Wire = None
    """How the table's floats travel, as in `Embedding`."""
    memory: int | str = 0

    def __post_init__(self) -> None:
        check_pooling(f"slot {self.name!r}", self.pooling, self.include_last_offset)
        _ = self.request, checked_padding(self.padding_idx)

    @property
    def request(self) -> TableRequest:
        """The table that this slot wants."""
        return TableRequest(
            self.table or self.name,
            self.dim,
            self.rule,
            self.initializer,
            self.entry,
            self.dtype,
            self.bounds,
            self.max_bytes,
            self.seed,
            self.unseen,
            self.max_norm,
            self.norm_type,
            self.wire,
            self.memory,
        )


class EmbeddingCollection(SparseModule):
    """Looks up every slot of a batch at once.

    `forward` takes a mapping from slot to ids: a tensor [B] or [B, L], a pair (ids, offsets) for bags of any length, or
    (ids, offsets, weights) for bags whose rows have a weight each; offsets are None where ids are [B] or [B, L].
    It gives a mapping from slot to [*ids.shape, dim], or [B, dim] for slots that are pooled.

        slots = [Slot("user", 16), Slot("clicked", 16, table="item", pooling="mean"), Slot("item", 16)]
        collection = fleet.nn.EmbeddingCollection(slots)
        rows = collection({"user": users, "item": items, "clicked": (ids, offsets)})
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        if not slots:
            raise UsageError("EmbeddingCollection needs at least one slot")
        requests: dict[str, TableRequest] = {}
        names: set[str] = set()
        for slot in slots:
            if slot.name in names:
                raise UsageError(f"slot {slot.name!r} stands twice; give each its own name")
            names.add(slot.name)
            request = slot.request
            known = requests.setdefault(str(request.name), request)
            if known != request:
                raise UsageError(
                    f"slot {slot.name!r} declares table {request.name!r} differently from an earlier slot: "
                    f"{request} against {known}"
                )
        super().__init__(slots[0].dim)
        self.slots = tuple(slots)
        self._requests = tuple(requests.values())
        order = list(requests)
        self._slots_of = [[slot for slot in slots if slot.request.name == name] for name in order]

    def table_requests(self) -> Sequence[TableRequest]:
        return self._requests

    def home_names(self) -> Sequence[str]:
        """`table_item` for table "item"."""
        return ["table_" + str(request.name).replace("%", "%25").replace(".", "%2E") for request in self._requests]

    def requests(self, inputs: Mapping[str, SlotInput]) -> list[Request]:
        """One lookup per table: the ids of all its slots."""
        if not self.tables:
            _ = self.worker  # says what to do
        return [
            Request(
                table,
                tuple(_ids(slot.name, inputs) for slot in slots),
                only_read=not self.has_grad,
                paddings=_paddings(slots),
            )
            for table, slots in zip(self.tables, self._slots_of, strict=True)
        ]

    def forward(self, inputs: Mapping[str, SlotInput]) -> dict[str, torch.Tensor]:
        """Rows of every slot, on the device of the model's parameters; ids and offsets may also lie in host memory."""
        pooled: dict[str, torch.Tensor] = {}
        for slots, found in zip(self._slots_of, self.look_up(self.requests(inputs)), strict=True):
            begin = 0
            for slot in slots:
                ids = _ids(slot.name, inputs)
                inverse = found.inverse[begin : begin + ids.numel()].view(ids.shape)
                begin += ids.numel()
                pooled[slot.name] = _pooled(slot, inputs[slot.name], found, inverse)
        return {slot.name: pooled[slot.name] for slot in self.slots}

    def extra_repr(self) -> str:
        return "\n".join(
            f"{slot.name}: dim={slot.dim}, table={slot.request.name!r}, pooling={slot.pooling!r}" for slot in self.slots
        )


def _pooled(slot: Slot, given: SlotInput, found: Found, inverse: torch.Tensor) -> torch.Tensor:
    rest = given[1:] if isinstance(given, tuple) else ()
    offsets, weights = (None if one is None else upload(one, found.rows.device) for one in (*rest, None, None)[:2])
    if slot.pooling != "none" and offsets is None and inverse.dim() == 1:  # one id per sample is a bag of one
        inverse = inverse.unsqueeze(1)
        weights = None if weights is None else weights.unsqueeze(1)
    return pool(
        found.rows,
        inverse,
        offsets,
        slot.pooling,
        slot.include_last_offset and offsets is not None,
        weights=weights,
        padding_row=found.padding_row,
    )


def _paddings(slots: Sequence[Slot]) -> tuple[int | None, ...]:
    paddings = tuple(slot.padding_idx for slot in slots)
    return () if all(padding is None for padding in paddings) else paddings


def _ids(slot: str, inputs: Mapping[str, SlotInput]) -> torch.Tensor:
    if slot not in inputs:
        raise UsageError(f"the batch has no slot {slot!r}; it has {', '.join(map(repr, inputs)) or 'none'}")
    given: Any = inputs[slot]
    return checked_ids(given[0] if isinstance(given, tuple) else given, f"slot {slot!r}")

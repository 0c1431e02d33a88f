"""Batches of TorchRec: a `KeyedJaggedTensor` becomes what `EmbeddingCollection` takes, and the other way round.

TorchRec is not needed to read one: whatever has `keys()`, `values()`, `stride()`, `weights_or_none()` and `offsets()`
or `lengths()` is taken. Making one imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fleet.errors import UsageError

Bags = tuple[torch.Tensor, torch.Tensor] | tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def from_keyed_jagged(batch: Any) -> dict[str, Bags]:
    """Each key with (ids, offsets), or (ids, offsets, weights) if the batch has weights: bags of `EmbeddingCollection`.

    Ids and weights are views. An offset is where a bag begins among the ids of its key, so there are as many as bags.
    """
    keys, values = list(batch.keys()), batch.values()
    weights, size = batch.weights_or_none(), int(batch.stride())
    offsets = _offsets(batch, values)
    if len(offsets) != len(keys) * size + 1:
        raise UsageError(
            f"a KeyedJaggedTensor of {len(keys)} keys and {size} samples must have {len(keys) * size + 1} offsets, got "
            f"{len(offsets)}; keys with batch sizes of their own are not supported"
        )
    ends = offsets[::size].tolist() if size else [0] * (len(keys) + 1)
    found: dict[str, Bags] = {}
    for number, key in enumerate(keys):
        begin, end = ends[number], ends[number + 1]
        starts = offsets[number * size : (number + 1) * size]
        bags = values[begin:end], starts - begin if begin else starts
        found[key] = bags if weights is None else (*bags, weights[begin:end])
    return found


def to_keyed_jagged(batch: Mapping[str, torch.Tensor | tuple[torch.Tensor | None, ...]]) -> Any:
    """A `torchrec.KeyedJaggedTensor` of what `EmbeddingCollection` takes; all slots need as many samples.

    Ids are [B] or [B, L], or come with the offsets of their bags, one for each; weights belong to all slots or to none.
    """
    try:
        from torchrec import KeyedJaggedTensor
    except ImportError:
        raise UsageError(
            "fleet.nn.to_keyed_jagged() makes a torchrec.KeyedJaggedTensor, and torchrec is not installed; "
            "pip install torchrec"
        ) from None
    parts = {slot: _bags(slot, given) for slot, given in batch.items()}
    sizes = {slot: len(lengths) for slot, (_, lengths, _) in parts.items()}
    if len(set(sizes.values())) > 1:
        raise UsageError(f"fleet.nn.to_keyed_jagged(): slots must have as many samples as each other, got {sizes}")
    weighted = [weights for _, _, weights in parts.values() if weights is not None]
    if weighted and len(weighted) < len(parts):
        without = next(slot for slot, (_, _, weights) in parts.items() if weights is None)
        raise UsageError(f"fleet.nn.to_keyed_jagged(): slot {without!r} has no weights, and others have")
    return KeyedJaggedTensor(
        keys=list(parts),
        values=torch.cat([ids for ids, _, _ in parts.values()]),
        lengths=torch.cat([lengths for _, lengths, _ in parts.values()]),
        weights=torch.cat(weighted) if weighted else None,
    )


def _offsets(batch: Any, values: torch.Tensor) -> torch.Tensor:
    """Where all bags begin among all values, and where the last one ends."""
    if hasattr(batch, "offsets"):
        offsets: torch.Tensor = batch.offsets()
        return offsets.to(torch.int64)
    lengths = batch.lengths().to(torch.int64)
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(values.device)


def _bags(slot: str, given: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Ids one after the other, the length of each bag, and weights if there are any."""
    ids, offsets, weights = (*given, None, None)[:3] if isinstance(given, tuple) else (given, None, None)
    if offsets is None:
        if ids.dim() not in (1, 2):
            raise UsageError(f"slot {slot!r}: ids without offsets must be [B] or [B, L], got {list(ids.shape)}")
        length = ids.shape[1] if ids.dim() == 2 else 1
        lengths = torch.full((ids.shape[0],), length, dtype=torch.int64, device=ids.device)
    else:
        ends = torch.cat([offsets[1:], offsets.new_tensor([len(ids)])])
        lengths = ends - offsets
    return ids.reshape(-1), lengths, None if weights is None else weights.reshape(-1)

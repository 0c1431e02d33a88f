"""Rows that somebody gives by value, such as pretrained ones: checked, and written to the servers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fleet import _native
from fleet.errors import UsageError

if TYPE_CHECKING:
    from fleet.ps.worker.calling.client import Client

BYTES_AT_ONCE = 32 << 20

_log = logging.getLogger(__name__)


class GivenRows(NamedTuple):
    """Rows by key: distinct int64 `keys` [n], float32 `values` [n, width], in host memory."""

    keys: torch.Tensor
    values: torch.Tensor

    def is_like(self, other: GivenRows) -> bool:
        """Whether both have the same rows in the same order."""
        return torch.equal(self.keys, other.keys) and torch.equal(self.values, other.values)


def given_rows(who: str, keys: Any, values: Any, *, width: int | None = None, padding: int | None = None) -> GivenRows:
    """Check rows and bring them into the form in which they are written; UsageError, which begins with `who`.

    Without keys they are those of ids 0, 1, 2 ... The row of `padding` is left out, for it reads as zeros.
    """
    try:
        values = torch.as_tensor(values).detach().cpu()
        keys = torch.arange(len(values)) if keys is None else torch.as_tensor(keys).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{who}: keys and rows must be tensors, arrays or lists of numbers: {error}") from None
    if values.dim() != 2 or not values.is_floating_point() or width not in (None, values.shape[1]):
        wanted = "[n, width]" if width is None else f"[n, {width}], the width of the table"
        raise UsageError(
            f"{who}: rows must be floats of shape {wanted}, got {values.dtype} of shape {list(values.shape)}"
        )
    if keys.dim() != 1 or keys.is_floating_point() or keys.dtype == torch.bool or len(keys) != len(values):
        raise UsageError(
            f"{who}: keys must be {len(values)} integers, one for each row, got {keys.dtype} of shape "
            f"{list(keys.shape)}"
        )
    keys, values = keys.to(torch.int64).contiguous(), values.to(torch.float32).contiguous()
    in_order, counts = torch.unique(keys, return_counts=True)
    if len(in_order) != len(keys):
        raise UsageError(f"{who}: key {int(in_order[counts > 1][0])} stands twice; give each row once")
    if not _native.all_finite(values):
        bad = int(keys[~values.isfinite().all(dim=1)][0])
        raise UsageError(f"{who}: the row of key {bad} holds a NaN or an Inf; give numbers")
    if padding is not None:
        is_row = keys != padding
        if bool(values[~is_row].any()):
            raise UsageError(
                f"{who}: the row of key {padding} is not zero, but as padding_idx it reads as zeros; set it to zero, "
                "or leave padding_idx out"
            )
        keys, values = keys[is_row], values[is_row]
    return GivenRows(keys, values)


def write_rows(client: Client, table: int, rows: GivenRows) -> None:
    """Write rows to the servers, some at a time."""
    spec, num_evicted = client.job.tables[table], 0
    at_once = max(1, BYTES_AT_ONCE // (8 + 4 * spec.width))
    for begin in range(0, len(rows.keys), at_once):
        num_evicted += client.assign(table, *(part[begin : begin + at_once] for part in rows))
    if num_evicted:
        _log.warning(
            "table %r: %d rows went while %d were written, to stay within max_bytes=%d on each server",
            *(spec.name, num_evicted, len(rows.keys), spec.max_bytes),
        )

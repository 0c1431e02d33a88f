"""The distinct keys of a batch, found on a GPU: it sorts them in a tenth of the time that the host takes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fleet.ps.job.staging import download, upload, wait_for
from fleet.ps.worker.asking.keys import Route


def route_there(
    sources: Sequence[torch.Tensor], device: torch.device, *, counts: bool = False, keys_stay: bool = False
) -> tuple[Route, torch.Tensor]:
    """`route` of all ids, one source after the other, for one server, and the inverse on the device.

    The route's own inverse is empty. Sources may lie anywhere; the keys come back to host memory, unless they stay.
    """
    parts = [upload(source.detach().reshape(-1), device) for source in sources]
    ids = parts[0] if len(parts) == 1 else torch.cat(parts)
    keys, inverse, *times = torch.unique(ids, return_inverse=True, return_counts=counts)
    grouped, *occurrences = (one if keys_stay else download(one) for one in (keys, *times))
    if not keys_stay:
        wait_for(device)
    offsets = torch.tensor([0, len(grouped)])
    nothing = torch.empty(0, dtype=torch.int64)
    return Route(grouped, nothing, offsets, occurrences[0].to(torch.uint32) if counts else None), inverse

"""`all_gather`: equal tensors of all workers in one, under the name that this torch has for it."""

from __future__ import annotations

import torch.distributed as dist

# What torch 2.13 calls it; the older name warns there.
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

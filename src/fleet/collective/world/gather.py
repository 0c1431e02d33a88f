"""`all_gather`: tensors of one shape from all workers, as one tensor; versions of torch name it differently."""

from __future__ import annotations

import torch.distributed as dist

# What torch 2.13 calls it; the older name warns there.
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

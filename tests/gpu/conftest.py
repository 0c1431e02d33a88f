"""What a test on a GPU leaves behind that the next one must not see."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

# NCCL's own watch over its jobs listens on ports until the process ends, which `nothing_leaks` takes for a leak.
os.environ.setdefault("NCCL_RAS_ENABLE", "0")


@pytest.fixture(autouse=True)
def precise_products() -> Iterator[None]:
    """`strategy.auto` changes how precisely torch multiplies in the whole process."""
    yield
    torch.set_float32_matmul_precision("highest")

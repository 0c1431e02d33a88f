"""`strategy.auto` changes how precisely torch multiplies in the whole process; the next test begins as ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def precise_products() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")

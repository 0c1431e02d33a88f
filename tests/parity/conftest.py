"""Parity is about the last bits of sums: torch computes in one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.parity import one_torch_thread


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_torch_thread():
        yield

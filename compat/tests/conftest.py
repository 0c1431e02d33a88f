"""What every test of the names shares: what one says of tensors, programs, types and devices ends with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet_paddle import mode


@pytest.fixture(autouse=True)
def says_nothing_to_the_next() -> Iterator[None]:
    with mode.kept():
        yield

"""One Ray cluster for all tests: three nodes take half a minute of a busy machine to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engines.ray_cluster import HeldCluster, running


@pytest.fixture(scope="session")
def cluster() -> Iterator[HeldCluster]:
    with running() as held:
        yield held

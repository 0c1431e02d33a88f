"""One Ray cluster for all tests: three nodes take half a minute of a busy machine to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engines.ray_cluster import HeldCluster, running


@pytest.fixture(scope="session")
def held_cluster() -> Iterator[HeldCluster]:
    with running() as held:
        yield held


@pytest.fixture(scope="module")
def cluster(held_cluster: HeldCluster) -> HeldCluster:
    return held_cluster


@pytest.fixture(autouse=True)
def no_job_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "held_cluster" in request.fixturenames:
        request.getfixturevalue("held_cluster").stop_jobs()

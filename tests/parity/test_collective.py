"""Collective training equals one process with the whole batch, at every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import collective_parity
from support.collective_job import LIMIT_S, run_cases

LIMIT = 1e-5
"""Relative, at every one of 50 steps."""

pytestmark = pytest.mark.timeout(LIMIT_S + 20)


@pytest.fixture(scope="module", params=[1, 2, 4], ids=["1 worker", "2 workers", "4 workers"])
def differences(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder: Path = tmp_path_factory.mktemp("collective")
    more = collective_parity.MORE if request.param == 2 else []
    return run_cases("support.collective_parity", [*collective_parity.CASES, *more], request.param, folder)


@pytest.mark.parametrize("case", [*collective_parity.CASES, *collective_parity.MORE])
def test_losses_are_those_of_one_process(differences: dict[str, list[Any]], case: str) -> None:
    for worker in differences.get(case, []):
        assert "error" not in worker, worker
        assert all(difference < LIMIT for difference in worker.values()), worker

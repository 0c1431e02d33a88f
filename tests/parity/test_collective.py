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


def check(workers: list[Any]) -> None:
    for worker in workers:
        assert "error" not in worker, worker
        assert all(difference < LIMIT for difference in worker.values()), worker


@pytest.fixture(scope="module", params=[1, 2, 4], ids=["1 worker", "2 workers", "4 workers"])
def differences(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder: Path = tmp_path_factory.mktemp("collective")
    return run_cases("support.collective_parity", collective_parity.CASES, request.param, folder)


@pytest.mark.parametrize("case", collective_parity.CASES)
def test_losses_are_those_of_one_process(differences: dict[str, list[Any]], case: str) -> None:
    check(differences[case])


def test_combinations(tmp_path: Path) -> None:
    for workers in run_cases("support.collective_parity", collective_parity.MORE, 2, tmp_path).values():
        check(workers)

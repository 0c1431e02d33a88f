"""What tests of workers share: servers with journals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.ps.job.spec import JobSpec
from support.worker.two_servers import Servers


@pytest.fixture
def durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "FLEET_DURABLE": str(tmp_path),
        "FLEET_TABLE_DIR": str(tmp_path / "tables"),
        "FLEET_RECOVERY_TIMEOUT_S": "0.3",
        "FLEET_STEP_TIMEOUT_S": "20",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def made(tmp_path: Path, durable: None) -> Iterator[Callable[[JobSpec], Servers]]:
    servers: list[Servers] = []

    def make(job: JobSpec) -> Servers:
        servers.append(Servers(tmp_path, job))
        return servers[-1]

    yield make
    for one in servers:
        one.close()

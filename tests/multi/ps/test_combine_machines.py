"""Four workers on one machine and two servers on another: what a step sends, with gradients combined and without."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.hosts import Host, two_hosts, why_not
from support.jobs import RunningJob
from support.worker import combine_job

REASON = why_not()
pytestmark = [
    pytest.mark.netns,
    pytest.mark.timeout(200),
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]
NUM_WORKERS = 4


def trained(hosts: tuple[Host, Host], folder: Path, combine: str) -> dict[str, Any]:
    out = folder / f"{combine}.json"
    servers = ",".join(f"{hosts[0].address}:{port}" for port in (6170, 6171))
    where = ("--servers", servers, "--workers", ",".join([hosts[1].address] * NUM_WORKERS))
    arguments = [*where, combine_job.__file__, "--combine", combine, "--out", out]
    with ExitStack() as stack:
        jobs = []
        for number, host in enumerate(hosts):
            cwd = folder / f"{combine}{number}"
            cwd.mkdir()
            environ = {"FLEET_INIT_TIMEOUT_S": "120", "FLEET_JOB_TOKEN": "combined"}
            jobs.append(stack.enter_context(RunningJob(arguments, cwd, environ, host.prefix, warm=True)))
        for result in [job.finish() for job in jobs]:
            assert result.code == 0, result.err
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.mark.exhaustive
def test_a_machine_sends_and_receives_a_fraction(tmp_path: Path) -> None:
    with two_hosts() as hosts:
        alone, together = (trained(hosts, tmp_path, combine) for combine in ("never", "machine"))
    assert together["losses"] == alone["losses"]  # all workers are on one machine: the sums are the same
    for what in ("sent_bytes", "received_bytes"):
        assert together[what] < 0.5 * alone[what], f"{what} of a step: {together[what]:.0f}, alone {alone[what]:.0f}"

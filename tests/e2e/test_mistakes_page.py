"""docs/mistakes.md: each mistake that a job shows ends it soon with the line of the page, and leaves no process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.first_days.first_day import Mistake, edited
from support.first_days.mistakes_in_jobs import IN_JOBS
from support.first_days.mistakes_page import said_by_the_page
from support.jobs import fleetrun, script
from support.mistakes_first_week import IN_JOBS_OF_TWO

pytestmark = pytest.mark.timeout(120)
SAYS = said_by_the_page()
SOON_S = 45.0  # the longest of the page takes 16 s, of which 10 s are this wait
NOTICE = {"FLEET_WAIT_NOTICE_S": "2"}

# What has a way of its own: a meeting on a server, a worker alone in its optimizer, the launcher's report.
SAMPLE = {
    "`fleet.evaluate` on the first worker alone, inside the loop",
    "the same in a collective job (after 16 s)",
    "a plain torch optimizer for the layers, Fleet's for the rows",
    "a script with DDP beside servers",
    "DDP around what `fleet.distributed_model` returned",
    "`fleet.run_server()` without `sys.exit`",
    "`fleet.stop_worker()` in a process that `os.fork()` made",
    "`loss.backward()` on one worker alone",
}


def rows() -> list[Any]:
    return [
        pytest.param(did, mistake, id=did, marks=() if did in SAMPLE else pytest.mark.exhaustive)
        for did, mistake in (IN_JOBS | IN_JOBS_OF_TWO).items()
    ]


@pytest.mark.parametrize(("did", "mistake"), rows())
def test_it_is_named(did: str, mistake: Mistake, tmp_path: Path) -> None:
    script(tmp_path, edited(mistake.script, mistake.changes))
    result = fleetrun(*mistake.options, *mistake.arguments, cwd=tmp_path, environ=NOTICE, limit_s=SOON_S, warm=True)
    assert (result.code != 0) == mistake.fails
    assert any(re.search(SAYS[did], line) for line in (result.out + result.err).splitlines()), result.out + result.err


def test_the_sample_is_of_the_page() -> None:
    assert set(IN_JOBS | IN_JOBS_OF_TWO) >= SAMPLE

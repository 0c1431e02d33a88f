"""docs/mistakes.md: each mistake that one process shows is made here; those of jobs are made in tests/e2e."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fleet
from support.first_days.first_day import Mistake, edited
from support.first_days.mistakes_alone import ALONE
from support.first_days.mistakes_in_jobs import IN_JOBS
from support.first_days.mistakes_page import said_by_the_page
from support.mistakes_first_week import IN_JOBS_OF_TWO, IN_ONE_PROCESS

SAYS = said_by_the_page()


@pytest.fixture(autouse=True)
def _as_if_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    try:
        yield
    finally:
        fleet.shutdown()
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


def test_the_page_has_every_mistake_and_no_other() -> None:
    assert list(SAYS) == [*ALONE, *IN_ONE_PROCESS, *IN_JOBS, *IN_JOBS_OF_TWO]
    assert len(SAYS) >= 60


@pytest.mark.parametrize("did", ALONE | IN_ONE_PROCESS)
def test_it_is_named(did: str, caplog: pytest.LogCaptureFixture) -> None:
    mistake: Mistake = (ALONE | IN_ONE_PROCESS)[did]
    code = compile(edited(mistake.script, mistake.changes), "train.py", "exec")
    if mistake.fails:
        with pytest.raises(fleet.FleetError, match=SAYS[did]) as raised:
            exec(code, {"__name__": "__main__"})
        assert "\n" not in str(raised.value)
    else:
        with caplog.at_level(logging.WARNING, "fleet"):
            exec(code, {"__name__": "__main__"})
        assert any(re.search(SAYS[did], line) for line in caplog.messages), caplog.messages

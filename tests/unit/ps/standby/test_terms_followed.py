"""A process goes by the terms of its job whatever goes wrong meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.errors import CommunicationError, MovedError
from fleet.jobfiles.terms import Term, Terms
from fleet.ps.journal.records import Kind, RecordPart
from fleet.ps.journal.writer import JournalWriteError
from fleet.ps.server.service import Service
from fleet.ps.standby import copies
from fleet.ps.standby.standing import Part, Standing
from support.jobs import LIMIT_S
from support.parity.training import started
from support.processes import wait_until

pytestmark = pytest.mark.timeout(60)

HERE, THERE = "127.0.0.1:1", "127.0.0.1:2"
Begin = Callable[..., Service]


@pytest.fixture
def terms(tmp_path: Path) -> Terms:
    return Terms(tmp_path)


@pytest.fixture
def begin(tmp_path: Path, terms: Terms) -> Iterator[Begin]:
    """Begins the process at HERE, in the first term."""
    made = []

    def start(server: str, copy: str) -> Service:
        terms.use(Term(1, (server,), (copy,)))
        standing = Standing(terms, HERE, None, is_sync=True)
        made.append(Service(journal=(tmp_path / "server-0", "OS"), standing=standing))
        return made[-1]

    yield start
    for one in made:
        one.close()


def record(service: Service) -> None:
    """Put something into the journal, as a change does, and wait for the copy."""
    service.core.record(Kind.LEAVE, [RecordPart(b"")])


def test_a_copy_that_cannot_lead_ends_and_says_why(begin: Begin, terms: Terms, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise JournalWriteError("no room on the disk")

    service = begin(THERE, HERE)
    assert service.standby is not None
    monkeypatch.setattr(service.core.durability, "lead", refuse)
    terms.use(Term(2, (HERE,), ("",)))
    assert service.standby.ended.wait(LIMIT_S)
    assert service.standby.failure.endswith("cannot be a server in term 2: no room on the disk; start the job again")


def test_terms_that_cannot_be_read_are_looked_at_again(
    begin: Begin, terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    later = terms.later

    def stumble(number: int) -> Term | None:
        looked.append(number)
        if len(looked) == 1:
            raise OSError("the disk is away")
        return later(number)

    service = begin(HERE, "")
    assert service.standby is not None
    monkeypatch.setattr(terms, "later", stumble)
    wait_until(lambda: looked, LIMIT_S, "the process to look")
    terms.use(Term(2, (THERE,), ("",)))
    assert service.standby.ended.wait(LIMIT_S)
    assert not service.standby.failure

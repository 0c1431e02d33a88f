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


def test_a_copy_that_is_not_whole_ends_once_it_should_lead(begin: Begin, terms: Terms) -> None:
    service = begin(THERE, HERE)
    assert service.standby is not None
    assert service.standby._following is not None
    service.standby._following._failure = "it was being filled"
    terms.use(Term(2, (HERE,), ("",)))
    assert service.standby.ended.wait(LIMIT_S)
    assert "cannot take its place: it was being filled; load a checkpoint" in service.standby.failure
    service.standby._thread.join(LIMIT_S)  # it does not try again and again
    assert not service.standby._thread.is_alive()


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


def declare_behind(service: Service, terms: Terms, last: Term) -> None:
    """Write a declaration down while the thread of terms waits for the lock with a copy, and the last term comes."""

    def declare() -> None:
        with service.core.changed:
            terms.use(Term(2, (HERE,), (THERE,)))
            wait_until(lambda: service.core.term == 2, LIMIT_S, "the thread to wait for the lock")
            terms.use(last)
            record(service)

    started(declare)[0].result(LIMIT_S)


def test_a_term_without_the_copy_frees_also_who_holds_what_the_thread_of_terms_waits_for(
    begin: Begin, terms: Terms
) -> None:
    declare_behind(begin(HERE, THERE), terms, Term(3, (HERE,), ("",)))


def test_who_holds_what_the_thread_of_terms_waits_for_hears_that_this_is_a_server_no_more(
    begin: Begin, terms: Terms
) -> None:
    with pytest.raises(MovedError):
        declare_behind(begin(HERE, THERE), terms, Term(3, (THERE,), ("",)))


def test_two_that_wait_in_vain_do_not_wait_for_each_other(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    service = begin(HERE, THERE)
    monkeypatch.setattr(copies, "longest_wait_s", lambda: 0.3)

    def holding() -> None:
        with service.core.changed:
            record(service)

    for one in started(lambda: record(service), holding):
        with pytest.raises(CommunicationError, match="waited 0.3 s for its copy"):
            one.result(LIMIT_S)


def test_a_copy_that_was_promoted_and_is_given_up_later_is_no_copy_again(terms: Terms) -> None:
    terms.use(Term(1, (THERE,), (HERE,)))
    standing = Standing(terms, HERE, 0, is_sync=True)
    parts = [standing.part]
    for number, server in ((2, HERE), (3, THERE)):
        terms.use(Term(number, (server,), ("",)))
        standing.look()
        parts.append(standing.part)
    assert parts == [Part.COPY, Part.SERVER, Part.DEPOSED]


def test_a_copy_begins_anew_only_when_no_snapshot_of_it_is_written(begin: Begin) -> None:
    service = begin(THERE, HERE)
    durability, found = service.core.durability, []
    assert durability is not None
    begin_anew = durability.begin_anew

    def look() -> None:
        found.append(durability.snapshotting.locked())
        begin_anew()

    durability.begin_anew = look  # type: ignore[method-assign]
    durability.fill_again("a file on its disk is damaged")
    wait_until(lambda: found, LIMIT_S, "the copy to begin anew")
    assert found[0]

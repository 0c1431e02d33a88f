"""Terms of a job whose servers have copies: in use or only decided, and never written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import UsageError
from fleet.jobfiles import copy_notes
from fleet.jobfiles.process_files import ProcessFiles
from fleet.jobfiles.terms import Term, Terms, own_terms

FIRST = Term(1, ("a:1", "b:1"), ("b:2", ""))


def test_a_term_counts_once_it_is_in_use(tmp_path: Path) -> None:
    terms, second = Terms(tmp_path), Term(2, ("b:2", "b:1"), ("", ""))
    assert terms.newest() is None
    assert terms.newest_decided() is None
    terms.use(FIRST)
    terms.write_down(second)
    assert terms.newest() == FIRST
    assert terms.later(1) is None
    assert terms.newest_decided() == second == Terms(tmp_path).newest_decided()
    terms.use(second)
    assert terms.newest() == second == terms.later(1) == Terms(tmp_path).newest_decided()
    assert sorted(path.name for path in terms.folder.iterdir()) == ["term-1.json", "term-2.json"]
    terms.remove()
    assert Terms(tmp_path).newest() is None


def test_a_term_in_use_stays_as_it_is(tmp_path: Path) -> None:
    terms = Terms(tmp_path)
    terms.use(FIRST)
    terms.use(FIRST)
    with pytest.raises(UsageError, match="another term 1"):
        terms.use(Term(1, ("c:1", "b:1"), ("", "")))
    assert Terms(tmp_path).newest() == FIRST


def test_what_was_only_decided_may_be_decided_again(tmp_path: Path) -> None:
    terms = Terms(tmp_path)
    terms.use(FIRST)
    terms.write_down(Term(2, ("c:1", "b:1"), ("", "")))
    other = Term(2, ("b:2", "b:1"), ("", ""))
    terms.write_down(other)
    assert terms.newest_decided() == other


def test_numbers_are_compared_as_numbers(tmp_path: Path) -> None:
    terms = Terms(tmp_path)
    for number in range(1, 12):
        terms.use(Term(number, ("a:1",), ("",)))
    newest = terms.newest()
    assert newest is not None
    assert newest.number == 11


def test_only_jobs_with_copies_have_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DURABLE", str(tmp_path))
    assert own_terms() is None
    monkeypatch.setenv("FLEET_STANDBY", "SYNC")
    terms = own_terms()
    assert terms is not None
    assert terms.folder == tmp_path / "terms"


def test_servers_and_copies_say_how_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ProcessFiles.beside(tmp_path / "serverlog.0")
    assert copy_notes.copy_note(files.copy) is None
    assert copy_notes.copyless_note(files.copyless) is None
    monkeypatch.setenv("FLEET_NOTE_FILE", str(files.note))
    copy_notes.note_copy(1, 4, is_whole=True, lsn=70, lag=2)
    copy_notes.note_copyless(1, 4, "no answer for 1 s")
    said = copy_notes.copy_note(files.copy)
    assert said is not None
    assert said[:5] == (1, 4, True, 70, 2)
    assert said.time > 0
    assert copy_notes.copyless_note(files.copyless) == (1, 4, "no answer for 1 s")
    files.remove()
    assert copy_notes.copy_note(files.copy) is None
    assert copy_notes.copyless_note(files.copyless) is None

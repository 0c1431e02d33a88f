"""What a process leaves for fleetrun: nothing where there is no fleetrun, and otherwise all of a note or nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fleet.jobfiles import whole
from fleet.jobfiles.ending import EndNote, read_end, write_end
from fleet.jobfiles.joining import joined_since, note_joined, note_stopped
from fleet.jobfiles.process_files import ProcessFiles
from fleet.jobfiles.serving import note_serving, serving_since


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessFiles:
    found = ProcessFiles.beside(tmp_path / "serverlog.1")
    monkeypatch.setenv("FLEET_NOTE_FILE", str(found.note))
    assert ProcessFiles.own() == found
    return found


def test_a_server_that_serves_is_known_by_a_file(files: ProcessFiles) -> None:
    assert serving_since(files.serving) is None
    before = time.time()
    note_serving("127.0.0.1:6170")
    since = serving_since(files.serving)
    assert since is not None
    assert before <= since <= time.time()
    assert (whole.read(files.serving) or {})["endpoint"] == "127.0.0.1:6170"
    assert [path.name for path in files.note.parent.iterdir()] == ["serverlog.1.note.serving"]


def test_a_worker_owes_its_servers_a_word_from_joining_to_leaving(files: ProcessFiles) -> None:
    assert note_joined()
    since = joined_since(files.unstopped)
    assert note_joined()
    assert joined_since(files.unstopped) == since, "the first note stays"
    note_stopped()
    assert joined_since(files.unstopped) is None


def test_without_fleetrun_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEET_NOTE_FILE", raising=False)
    assert ProcessFiles.own() is None
    note_serving("127.0.0.1:6170")
    assert not note_joined()


def test_the_first_word_about_an_end_stays(files: ProcessFiles) -> None:
    path = files.end(os.getpid())
    assert read_end(path) is None
    write_end(path, is_refusal=True)
    first = read_end(path)
    write_end(path)
    assert first is not None
    assert read_end(path) == first == EndNote(first.time, is_refusal=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"time": "soon"}', "[" * 100_000])
def test_what_cannot_be_read_is_not_there(files: ProcessFiles, text: str) -> None:
    files.serving.write_text(text)
    assert serving_since(files.serving) is None


def test_what_one_life_has_left_goes_and_what_is_of_all_lives_stays(files: ProcessFiles) -> None:
    for path in (
        files.log,
        files.serving,
        files.end(7),
        *(files.log.with_name(f"{files.log.name}.{ending}") for ending in ("chaos", "acks")),  # by fleet_tools
        files.log.with_name("serverlog.10.note.7"),
    ):
        path.touch()
    files.remove()
    names = {path.name for path in files.note.parent.iterdir()}
    assert names == {"serverlog.1", "serverlog.1.chaos", "serverlog.1.acks", "serverlog.10.note.7"}


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "note"
    assert whole.replace(path, {"a": 1})
    assert whole.replace(path, {"a": 2})
    assert whole.read(path) == {"a": 2}
    assert not whole.replace(tmp_path / "gone" / "note", {})
    assert [one.name for one in tmp_path.iterdir()] == ["note"]

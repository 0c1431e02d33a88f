"""The end of a durable job in its folder: marks first, then files; a kill in between leaves no half of a job."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.errors import UsageError
from fleet.launch.arguments.options import Options
from fleet.launch.durable import finished
from fleet.launch.durable import folder as durable
from fleet.launch.planning.plan import ProcessPlan

FOLDERS = {"server-0": "journal-1.log", "server-1": "journal-1.log", "worker-0": "answers", "worker-1": "answers"}

OTHERS = ["worker-1/answers", "worker-1/finished", "worker-1/left"]


def children(folder: Path) -> list[Any]:
    variables = {"FLEET_DURABLE": str(folder)}
    plans = [
        ProcessPlan(role, index, "", "cpu", (), variables, folder / "log")
        for role in ("server", "worker")
        for index in range(2)
    ]
    return [SimpleNamespace(plan=plan) for plan in plans]


def fill(folder: Path, *left: str) -> None:
    for name, file in FOLDERS.items():
        (folder / name).mkdir()
        (folder / name / file).touch()
    for name in left:
        (folder / name / "left").touch()


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def options(folder: Path) -> Options:
    return Options(script="train.py", server_num=2, worker_num=2, durable=str(folder))


def test_a_job_that_has_finished_leaves_no_files(tmp_path: Path) -> None:
    fill(tmp_path, "worker-0", "worker-1")
    (tmp_path / "server-0/snapshot-1.runs").mkdir()
    (tmp_path / "server-0/lock").touch()
    finished.mark(children(tmp_path), is_whole=True)
    assert not durable.has_journal(str(tmp_path), "server-*")
    finished.clear(children(tmp_path))
    assert files(tmp_path) == ["server-0/lock"]


def test_a_worker_that_has_not_left_keeps_everything(tmp_path: Path) -> None:
    fill(tmp_path, "worker-0")
    before = files(tmp_path)
    finished.mark(children(tmp_path), is_whole=True)
    finished.clear(children(tmp_path))
    assert files(tmp_path) == before
    assert durable.has_journal(str(tmp_path), "server-*")


def test_servers_of_several_machines_are_left_to_themselves(tmp_path: Path) -> None:
    fill(tmp_path, "worker-0", "worker-1")
    finished.mark(children(tmp_path), is_whole=False)
    assert durable.has_journal(str(tmp_path), "server-*")
    durable.begin(options(tmp_path), ["server-0", "worker-0"])
    assert files(tmp_path) == ["server-0/journal-1.log", "server-1/journal-1.log", *OTHERS]
    finished.clear(children(tmp_path))
    assert files(tmp_path) == ["server-0/journal-1.log", "server-1/journal-1.log"]


@pytest.mark.parametrize("num_gone", range(5))
def test_after_a_kill_in_between_the_next_job_begins_anew(tmp_path: Path, num_gone: int) -> None:
    """Whatever was removed when the kill came, all of the rest goes when the next fleetrun begins."""
    fill(tmp_path, "worker-0", "worker-1")
    finished.mark(children(tmp_path), is_whole=True)
    for name in list(FOLDERS)[:num_gone]:
        os.unlink(tmp_path / name / FOLDERS[name])
    assert durable.what_is_there(options(tmp_path)) is None
    durable.begin(options(tmp_path), list(FOLDERS))
    assert files(tmp_path) == []


def test_what_is_not_marked_stays(tmp_path: Path) -> None:
    fill(tmp_path, "worker-0", "worker-1")
    before = files(tmp_path)
    durable.begin(options(tmp_path), list(FOLDERS))
    assert files(tmp_path) == before


@pytest.mark.parametrize(("number", "said"), [(1, "2 servers, not 1"), (2, None), (3, "2 servers, not 3")])
def test_another_number_of_servers_than_the_job_has_is_refused(tmp_path: Path, number: int, said: str | None) -> None:
    given = replace(options(tmp_path), server_num=number)
    durable.refuse_other_number(given)
    fill(tmp_path)
    if said is None:
        os.unlink(tmp_path / "server-1/journal-1.log")  # the job was killed before that server had begun
        durable.refuse_other_number(given)
        return
    with pytest.raises(UsageError, match=f"the job there has {said}; go on with --server_num 2, or choose another"):
        durable.refuse_other_number(given)
    (tmp_path / "finished").touch()
    durable.refuse_other_number(given)

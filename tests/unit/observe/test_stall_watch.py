"""The watch itself when things are at their worst: no room on a disk, a file system that hangs, no new threads."""

from __future__ import annotations

import atexit
import linecache
import logging
import os
import runpy
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch.distributed as dist

from fleet.collective.stall import flight
from fleet.collective.stall.mailbox import Mailbox
from fleet.collective.stall.report import Stall, StallFindings, look_around, report
from fleet.collective.stall.watch import StallWatch
from fleet.errors import CommunicationError
from fleet.observe import whereabouts
from fleet.observe.stall import watch
from fleet.observe.stall.words import EXIT_CODE, StallOutcome

STALL = Stall("gloo", "0", "the default group", (0, 1), 3, "all_reduce #3", worker=0, waited_s=2.0)


@pytest.fixture
def store() -> Any:
    return dist.HashStore()


@pytest.fixture
def watcher(store: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[StallWatch]:
    """The watch of worker 0 of two, not started; nobody else is there."""
    monkeypatch.delenv("FLEET_NOTE_FILE", raising=False)
    identity = SimpleNamespace(index=0, num_workers=2, rendezvous=None)
    made = StallWatch(store, identity, timeout_s=2.0)  # type: ignore[arg-type]
    yield made
    made._stopping.set()
    atexit.unregister(made.stop)


class Ended(BaseException):
    """Stands for the end of the process."""


def test_a_report_that_cannot_be_written_does_not_keep_the_process(
    watcher: StallWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError("no space left on device")

    def leave(code: int) -> NoReturn:
        raise Ended(code)

    monkeypatch.setattr("sys.excepthook", sys.excepthook)
    monkeypatch.setattr(watch, "os", SimpleNamespace(write=full, _exit=leave))
    monkeypatch.setattr(watch, "exit_within", [].append)
    with pytest.raises(Ended) as caught:
        watcher._end(StallOutcome("a collective has stalled", (), num_answers=1))
    assert caught.value.args == (EXIT_CODE,)


def test_a_process_that_hangs_while_it_reports_ends_all_the_same(
    watcher: StallWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    ended = threading.Event()

    def leave(code: int) -> None:
        codes.append(code)
        ended.set()

    def hang() -> NoReturn:
        assert ended.wait(60)
        raise Ended

    monkeypatch.setattr("sys.excepthook", sys.excepthook)
    monkeypatch.setattr(watch, "os", SimpleNamespace(_exit=leave))
    monkeypatch.setattr(watch, "flush", hang)
    watcher._answer_s = -4.9
    with pytest.raises(Ended):
        watcher._end(StallOutcome("a collective has stalled", (), num_answers=1))
    assert codes == [EXIT_CODE]


def test_a_file_system_that_hangs_costs_the_code_and_not_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(whereabouts, "CODE_LIMIT_S", 0.1)
    monkeypatch.setattr(linecache, "getline", lambda *_: "slow" if over.wait(60) else "")
    try:
        found = look_around(0, STALL, [], None, quiet_s=0.0)
    finally:
        over.set()
    assert found.where.startswith(f"{os.path.basename(__file__)}:")
    assert found.where.endswith(" in test_a_file_system_that_hangs_costs_the_code_and_not_the_place")


def test_the_line_of_a_worker_is_the_users_though_torch_is_borrowed_from_elsewhere(tmp_path: Path) -> None:
    borrowed = tmp_path / "system" / "site-packages" / "distributed.py"
    borrowed.parent.mkdir(parents=True)
    borrowed.write_text("def wait(look):\n    return look()\n")
    wait = runpy.run_path(str(borrowed))["wait"]
    found = wait(partial(look_around, 0, STALL, [], None, quiet_s=0.0))
    assert any(line.startswith(f"{borrowed}:2 in wait") for line in found.stack)
    assert found.where.startswith(f"{os.path.basename(__file__)}:")


def test_at_the_end_of_the_interpreter_the_last_word_is_still_said(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox(store)

    def refuse(*_: object) -> NoReturn:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as late:
        late.setattr(threading.Thread, "start", refuse)
        with pytest.raises(CommunicationError, match="can't create new thread"):
            mailbox.put("call/0", "hello")
        mailbox.put_last("left/0", "on purpose")
        watch.flush()
        watch.exit_within(0.0)
        assert look_around(0, STALL, [], None, quiet_s=0.0).where
    assert mailbox.get_all(["call/0", "left/0"]) == {"left/0": "on purpose"}


def test_a_watch_that_breaks_says_so(
    watcher: StallWatch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def odd() -> NoReturn:
        raise KeyError("pg_status")

    monkeypatch.setattr(logging.getLogger("fleet"), "propagate", True)
    monkeypatch.setattr(watcher, "_watch", odd)
    watcher.start()
    watcher.join(60)
    assert "a collective that hangs will not be reported: KeyError('pg_status')" in caplog.text
    assert watcher._mailbox.get("left/0") is None  # it has not left: nobody is told that it has


def test_what_torch_s_recorder_has_forgotten_is_reported_without_its_name(
    watcher: StallWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: list[dict[str, object]] = [{"pg_id": 4, "is_p2p": True}]
    monkeypatch.setattr(flight, "_dump", lambda *_, **__: {"entries": entries})
    assert watcher._stall(("recorder", "4"), None, 2.0) is None  # what it has is done, or is not watched
    stall = watcher._stall(("recorder", "5"), None, 2.0)
    assert stall is not None
    text = report(StallFindings(stall, {0: look_around(0, stall, [], None, 0.0)}, set(), {}), 60)
    assert "worker 0 has waited 2 s in a collective of a group for worker 1\n" in text
    assert "worker 1 does not answer" in text
    assert "torch's recorder has forgotten which one: the stacks say where those who answered are\n" in text
    assert "every worker of the group came" not in text

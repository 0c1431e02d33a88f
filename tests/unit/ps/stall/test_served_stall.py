"""Who keeps a job with servers waiting, the words for it, and the notes on server 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.errors import UsageError
from fleet.observe.waits.waiting import Awaited, LongWait, present_waits
from fleet.ps.proto import ps_pb2
from fleet.ps.server.board import MAX_BYTES, MAX_KEY, MAX_TEXT, BoardNotes
from fleet.ps.server.service import Service
from fleet.ps.stall.remote_board import RemoteBoard
from fleet.ps.stall.report import Limits, OverdueWait, WaitFindings, WorkerState, judge, outcome_of, report
from fleet.ps.stall.watch import RanTime, interval_s
from fleet.ps.wire.transport import LocalTransport

Act = ps_pb2.BoardRequest.Act
LIMITS = Limits(60.0)
STALL = OverdueWait(0, "the gradients of worker 1, step 120", (1,), "", 62.4)
WAITING = WorkerState(
    *(0, "left", 10, "train.py:12 in main: optimizer.step()"),
    num_steps=120,
    idle_s=62.5,
    waits_for=STALL.what,
    waited_s=62.4,
)
LATE = WorkerState(
    worker=1,
    host="left",
    pid=11,
    num_steps=120,
    idle_s=63.0,
    age_s=500.0,
    where="train.py:9 in next_batch: time.sleep(600)",
    stack=("/home/me/train.py:21 in <module>: main()", "/home/me/train.py:9 in next_batch: time.sleep(600)"),
)


def findings(
    *states: WorkerState, stall: OverdueWait = STALL, left: set[int] | None = None, trouble: str = ""
) -> WaitFindings:
    addresses = {worker: f"pid {worker + 10} on left" for worker in range(3)}
    return WaitFindings(stall, {state.worker: state for state in states}, left or set(), addresses, trouble)


def test_the_report_names_the_step_the_late_worker_and_its_line() -> None:
    assert report(findings(WAITING, LATE, replace(WAITING, worker=2)), LIMITS).splitlines() == [
        "a job with servers has stalled",
        "stack of worker 1 (pid 11 on left):",
        "  /home/me/train.py:21 in <module>: main()",
        "  /home/me/train.py:9 in next_batch: time.sleep(600)",
        "worker 0 has waited 62 s for the gradients of worker 1, step 120",
        "worker 1 did not come: it finished step 119 63 s ago and is at train.py:9 in next_batch: time.sleep(600)",
        "also waiting: worker 2",
        "the job ends with exit code 124; FLEET_STALL_TIMEOUT_S says how long a wait for others may take (now 60)",
    ]


@pytest.mark.parametrize(
    ("late", "words"),
    [
        (replace(LATE, num_steps=None), "did not come: it has not joined the servers and is at train.py:9"),
        (replace(LATE, num_steps=0, idle_s=0.0), "did not come: it has finished no step and is at"),
        (
            replace(LATE, waits_for="worker 0 to come to fleet.save_persistables()", waited_s=61.0),
            "63 s ago, has waited 61 s for worker 0 to come to fleet.save_persistables() and is at",
        ),
        (
            replace(LATE, waits_for="server left:6170 to answer Pull", waited_s=61.0, server="left:6170"),
            "has waited 61 s for server left:6170 to answer Pull (which does not answer) and is at",
        ),
    ],
    ids=["init", "first step", "save", "stopped server"],
)
def test_what_the_late_worker_did_last(late: WorkerState, words: str) -> None:
    found = findings(WAITING, late)
    assert judge(found, LIMITS).behind == (1,)
    assert words in report(found, LIMITS)


def test_the_silent_and_those_who_left() -> None:
    stall = replace(STALL, what="workers 1 and 2 to come to barrier", workers=(1, 2))
    text = report(findings(WAITING, stall=stall, left={2}), LIMITS)
    assert "\nworker 1 (pid 11 on left) does not answer: its process is stopped" in text
    assert "\nworker 2 did not come: its script has ended or has called fleet.shutdown()\n" in text
    text = report(findings(WAITING, stall=stall, trouble="server 0 is silent"), LIMITS)
    assert "\nserver 0 is silent\n" in text
    assert "does not answer" not in text


def test_a_server_that_does_not_answer() -> None:
    stall = replace(STALL, what="server left:6170 to answer Push", workers=(), server="left:6170")
    text = report(findings(WAITING, stall=stall), LIMITS)
    assert "worker 0 has waited 62 s for server left:6170 to answer Push\nserver left:6170 does not answer: " in text
    assert "\nworker 0 is at train.py:12 in main: optimizer.step()\n" in text


@pytest.mark.parametrize(
    ("late", "limits", "is_stall"),
    [
        (LATE, LIMITS, True),
        (replace(LATE, idle_s=59.0), LIMITS, False),  # it makes steps, as in async mode
        (replace(LATE, idle_s=59.0, waits_for="worker 0 to come to barrier"), LIMITS, True),
        (replace(LATE, is_served=True), LIMITS, False),  # a server loads or saves for it
        (replace(LATE, age_s=59.0), LIMITS, True),
        (replace(LATE, age_s=59.0), Limits(60.0, 300.0), False),  # in a durable job: it has just come back
        (replace(LATE, num_steps=None, age_s=200.0), Limits(60.0, 300.0), False),  # it has not yet joined again
        (replace(LATE, num_steps=None, age_s=301.0), Limits(60.0, 300.0), True),
        (None, LIMITS, True),
        (None, Limits(60.0, 300.0), False),  # it is being started again
        (None, Limits(60.0, 62.0), True),  # it was not started again in time
    ],
)
def test_who_is_at_work_or_on_its_way_is_no_stall(late: WorkerState | None, limits: Limits, is_stall: bool) -> None:
    found = findings(WAITING) if late is None else findings(WAITING, late)
    assert (outcome_of(found, limits) is not None) is is_stall


def test_whoever_waits_for_nobody_knows_whom_waits_for_those_at_work() -> None:
    stall = replace(STALL, what="the others to come to barrier", workers=())
    assert outcome_of(findings(WAITING, replace(LATE, idle_s=1.0), stall=stall), LIMITS) is None
    assert outcome_of(findings(WAITING, LATE, stall=stall), LIMITS) is not None


def test_one_who_is_stuck_beside_one_who_works_is_a_stall() -> None:
    found = findings(WAITING, LATE, replace(LATE, worker=2, idle_s=1.0), stall=replace(STALL, workers=(1, 2)))
    outcome = outcome_of(found, LIMITS)
    assert outcome is not None
    assert outcome.behind == (1,)
    assert "\nworker 2 is at work\n" in outcome.text


@pytest.mark.parametrize(
    ("third", "is_stall"),
    [
        (replace(LATE, worker=2, idle_s=30.0), False),  # it makes the step that worker 1 waits for
        (replace(LATE, worker=2, idle_s=61.0), True),
        (replace(LATE, worker=2, idle_s=30.0, waits_for="worker 0 to come", waits_for_workers=(0,)), True),
        (replace(LATE, worker=2, idle_s=30.0, waits_for="worker 1 to come", waits_for_workers=(1,)), True),
        (None, True),
    ],
    ids=["at work", "stuck", "waits for the caller", "in a circle", "silent"],
)
def test_slow_steps_are_work_also_for_one_that_waits_for_another_just_now(
    third: WorkerState | None, is_stall: bool
) -> None:
    """Worker 0 has no batches left and waits at a barrier; the others make steps of half a minute."""
    text = "the gradients of worker 2, step 130"
    second = replace(LATE, idle_s=30.0, waits_for=text, waits_for_workers=(2,), waited_s=12.0)
    found = findings(WAITING, second, *([] if third is None else [third]))
    assert (outcome_of(found, LIMITS) is not None) is is_stall


def test_one_that_was_at_work_a_while_ago_may_be_started_again_just_now() -> None:
    stall = replace(STALL, waited_s=7000.0)
    assert outcome_of(findings(WAITING, stall=stall), Limits(60.0, 300.0)) is not None
    found = replace(findings(WAITING, stall=stall), seen={1})
    assert outcome_of(found, Limits(60.0, 300.0)) is None
    assert outcome_of(found, LIMITS) is not None  # nobody starts it again


def test_a_report_on_many_workers_is_a_note_that_server_0_takes() -> None:
    late = range(1, 2000)
    stall = replace(STALL, workers=tuple(late))
    states = [replace(LATE, worker=one, where="train.py:9 in next_batch: " + "x" * 100) for one in late]
    for found in (findings(WAITING, *states, stall=stall), findings(WAITING, stall=stall)):
        outcome = outcome_of(found, LIMITS)
        assert outcome is not None
        assert "\nand 1983 more, likewise\n" in outcome.text
        assert len(outcome.to_json()) < MAX_TEXT


def test_what_travels_arrives() -> None:
    assert OverdueWait.from_json(STALL.to_json()) == STALL
    assert WorkerState.from_json(LATE.to_json()) == LATE


def test_time_in_which_the_process_did_not_run_does_not_count() -> None:
    now = [0.0]
    ran = RanTime(1.0, lambda: now[0])
    for moment in (1.0, 2.0, 3602.0, 3603.0):  # an hour of suspension is a look of two seconds
        now[0] = moment
        ran.look()
    assert ran.since(0.0) == 5.0
    assert ran.since(3602.5) == 0.5


def test_many_workers_look_less_often() -> None:
    assert [interval_s(600.0, number) for number in (2, 400, 2000)] == [5.0, 10.0, 15.0]
    assert interval_s(2.0, 2) == 0.2


def test_notes_on_a_server_before_anybody_has_declared_a_job() -> None:
    board = RemoteBoard(lambda: LocalTransport(Service()), 0, 2)
    assert board.get("call/0") is None
    assert board.put_first("call/0", "mine") == "mine"
    assert board.put_first("call/0", "yours") == "mine"
    board.put("call/0", "other")
    assert board.get_all(["call/0", "call/1"]) == {"call/0": "other"}
    assert [board.count("reported", 1), board.count("reported", 1), board.count("reported", 0)] == [1, 2, 2]
    board.wait(["call/0", "reported"], 60.0)
    board.wait(["call/1"], 0.0)
    board.close()


def test_notes_are_few_and_small() -> None:
    notes = BoardNotes()
    text = "x" * MAX_TEXT
    for number in range(MAX_BYTES // MAX_TEXT + 1):
        notes.answer(ps_pb2.BoardRequest.Header(act=Act.PUT, keys=[str(number)], text=text))
    assert set(notes.answer(ps_pb2.BoardRequest.Header(keys=["0", "2"])).notes) == {"2"}
    with pytest.raises(UsageError, match="a note has up to"):
        notes.answer(ps_pb2.BoardRequest.Header(act=Act.PUT, keys=["key"], text=text + "x"))
    names = [f"{number:0{MAX_KEY}}" for number in range(MAX_BYTES // MAX_KEY + 1)]  # they take room, too
    notes.answer(ps_pb2.BoardRequest.Header(act=Act.PUT, keys=names))
    assert set(notes.answer(ps_pb2.BoardRequest.Header(keys=["2", *names[:2]])).notes) == {names[1]}
    notes.answer(ps_pb2.BoardRequest.Header(act=Act.PUT, keys=["1"], text="x"))
    with pytest.raises(UsageError, match="1 is no count"):
        notes.answer(ps_pb2.BoardRequest.Header(act=Act.ADD, keys=["1"], number=1))


def test_a_wait_is_seen_once_it_was_told_until_it_is_over() -> None:
    with LongWait("worker 0") as wait:
        assert wait not in present_waits()
        wait.tell(Awaited("worker 1 to come", (1,)))
        assert wait in present_waits()
        before = wait.sign_at
        wait.signed()
        assert wait.sign_at >= before
    assert wait not in present_waits()

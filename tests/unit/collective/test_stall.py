"""Who did not come to a collective, how long it has waited, and the words for both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.collective.stall.flight import Operation, Progress, Status, first_pending
from fleet.collective.stall.report import Stall, StallFindings, State, judge, notice, outcome_of, report
from fleet.observe.stall.words import StallOutcome

STALL = Stall(
    backend="gloo",
    group="0",
    group_title="the default group",
    members=(0, 1, 2),
    number=418,
    title="all_reduce #418 (1024 float32)",
    worker=0,
    waited_s=62.4,
)
LATE = State(
    worker=1,
    host="left",
    pid=11,
    reached=417,
    reached_title="all_reduce #417 (8 float32)",
    quiet_s=62.0,
    where="train.py:33 in main: time.sleep(60)",
    stack=("/home/me/train.py:50 in <module>: main()", "/home/me/train.py:33 in main: time.sleep(60)"),
)


def waiting(worker: int, title: str = STALL.title, where: str = "train.py:35 in main: dist.all_reduce(x)") -> State:
    return State(worker, "left", 10 + worker, where, (f"/home/me/{where}",), 418, title, title, title)


def findings(*states: State, left: set[int] | None = None, trouble: str = "") -> StallFindings:
    addresses = {worker: f"pid {worker + 10} on left" for worker in STALL.members}
    return StallFindings(STALL, {state.worker: state for state in states}, left or set(), addresses, trouble)


def test_the_report_names_the_operation_the_late_worker_and_its_line() -> None:
    assert report(findings(waiting(0), LATE, waiting(2)), 60).splitlines() == [
        "a collective has stalled",
        "stack of worker 1 (pid 11 on left):",
        "  /home/me/train.py:50 in <module>: main()",
        "  /home/me/train.py:33 in main: time.sleep(60)",
        "worker 0 has waited 62 s in all_reduce #418 (1024 float32) of the default group for worker 1",
        "worker 1 did not come: it finished all_reduce #417 (8 float32) 62 s ago"
        " and is at train.py:33 in main: time.sleep(60)",
        "also waiting: worker 2",
        "the job ends with exit code 124; FLEET_STALL_TIMEOUT_S says how long a collective may take (now 60)",
    ]


def test_the_notice_is_one_line() -> None:
    assert notice(findings(waiting(0), LATE, waiting(2)), 600) == (
        "worker 0 has waited 62 s in all_reduce #418 (1024 float32) of the default group for worker 1, "
        "at train.py:33 in main: time.sleep(60); after 600 s the job ends (FLEET_STALL_TIMEOUT_S)"
    )


@pytest.mark.parametrize(
    ("late", "words"),
    [
        (replace(LATE, reached=0), "worker 1 did not come: it has not been in this group lately and is at"),
        (
            replace(LATE, waits_in="broadcast #3 (1 int64)"),
            "#417 (8 float32) 62 s ago, waits in broadcast #3 (1 int64) of another group and is at train.py:33",
        ),
        (replace(LATE, waits_in=LATE.reached_title), "did not come: it still waits in all_reduce #417 (8 float32)"),
    ],
    ids=["never", "elsewhere", "behind"],
)
def test_where_the_late_worker_is(late: State, words: str) -> None:
    assert words in report(findings(waiting(0), late, waiting(2)), 60)


@pytest.mark.parametrize(
    ("other", "is_different"),
    [
        ("broadcast #418 (1024 float32)", True),
        ("all_reduce #418 (8 float32)", True),
        ("all_reduce #418 (1024 float32)", False),
    ],
)
def test_different_operations_under_one_number(other: str, is_different: bool) -> None:
    found = findings(waiting(0), waiting(1, other, "eval.py:7 in score: gather()"), waiting(2))
    assert judge(found).differing == ({STALL.title: (0, 2), other: (1,)} if is_different else {})
    text = report(found, 60)
    assert (f"  worker 1: {other} at eval.py:7 in score: gather()\n" in text) is is_different
    assert ("  workers 0 and 2: all_reduce #418 (1024 float32) at train.py:35" in text) is is_different
    assert ("every worker of the group came" in text) is not is_different


def test_gathering_different_sizes_is_no_mistake() -> None:
    titles = [f"all_gather #418 ({size} uint8)" for size in (3, 5, 7)]
    assert judge(findings(*(waiting(worker, title) for worker, title in enumerate(titles)))).differing == {}


def test_silence_a_worker_that_left_and_a_store_that_cannot_be_reached() -> None:
    text = report(findings(waiting(0), left={2}), 60)
    assert "of the default group for workers 1 and 2\n" in text
    assert "worker 1 (pid 11 on left) does not answer: its process is stopped" in text
    assert "worker 2 did not come: its script has ended or has called fleet.shutdown()\n" in text
    text = report(findings(waiting(0), trouble="worker 0 is silent"), 60)
    assert "of the default group\nworker 0 is silent\n" in text
    assert "does not answer" not in text


def test_a_stack_that_many_share_is_shown_once() -> None:
    everywhere = replace(STALL, members=tuple(range(10)))
    late = {worker: replace(LATE, worker=worker) for worker in range(1, 10)}
    text = report(StallFindings(everywhere, {0: waiting(0), **late}, set(), {}), 60)
    assert "stack of workers 1, 2, 3, 4, 5, 6 and 3 more (pid 11 on left):\n" in text
    assert text.count("in <module>") == 1


def test_what_travels_arrives() -> None:
    assert Stall.from_json(STALL.to_json()) == STALL
    assert State.from_json(LATE.to_json()) == LATE
    outcome = outcome_of(findings(waiting(0), LATE), 60)
    assert (outcome.behind, outcome.num_answers) == ((1,), 2)
    assert StallOutcome.from_json(outcome.to_json()) == outcome


KEY = ("recorder", "0")


def test_a_wait_counts_only_time_in_which_the_process_ran() -> None:
    progress = Progress({}, interval_s=1.0)
    for elapsed_s in (1.0, 1.0, 3600.0, 1.0):  # an hour of suspension is a look of two seconds
        progress.look({KEY: Status(enqueued=5, completed=4)}, elapsed_s)
    assert progress.waits() == {KEY: 4.0}
    progress.look({KEY: Status(enqueued=6, completed=5)}, 1.0)
    assert progress.waits() == {KEY: 0.0}
    progress.look({KEY: Status(enqueued=6, completed=6)}, 1.0)
    assert progress.waits() == {}


def test_what_was_pending_before_the_watch_is_no_wait() -> None:
    stuck = Status(enqueued=5, completed=4)
    progress = Progress({KEY: stuck}, interval_s=1.0)
    progress.look({KEY: stuck}, 1.0)
    assert progress.waits() == {}
    progress.look({KEY: Status(enqueued=6, completed=4)}, 1.0)
    assert progress.waits() == {KEY: 0.0}
    progress.forget(KEY)
    assert progress.waits() == {}


def test_an_operation_waits_only_if_none_after_it_is_done() -> None:
    def operation(number: int, is_done: bool) -> Operation:
        return Operation(KEY, "gloo", "0", number, "all_reduce", "", is_done, thread=0)

    done, coalesced, later, stuck = (operation(1, True), operation(2, False), operation(3, True), operation(4, False))
    assert first_pending([done, coalesced, later], KEY) is None
    assert first_pending([done, coalesced, later, stuck, operation(5, False)], KEY) is stuck
    assert first_pending([done, stuck], ("recorder", "1")) is None

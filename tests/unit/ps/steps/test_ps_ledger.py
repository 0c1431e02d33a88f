"""Which pushes count: each once, in whatever order and however often they come, of a worker's last life only."""

from __future__ import annotations

import threading

import pytest

from fleet.errors import CommunicationError, NotReadyError
from fleet.ps.held.requests import PushedUpdate
from fleet.ps.steps.ledger import Ledger
from fleet.ps.steps.rounds import Rounds


def take(ledger: Ledger, sequence: int, worker: int = 0, incarnation: int = 1) -> bool:
    with ledger.once(worker, incarnation, sequence) as is_new:
        return is_new


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger(2)
    for worker in range(2):
        assert made.greet(worker, 1)
    return made


def test_a_push_counts_once(ledger: Ledger) -> None:
    assert [take(ledger, sequence) for sequence in (1, 1, 2, 1, 2, 3)] == [True, False, True, False, False, True]
    assert take(ledger, 1, worker=1)


def test_pushes_may_overtake_each_other(ledger: Ledger) -> None:
    assert [take(ledger, sequence) for sequence in (3, 1, 3, 2, 2, 5, 4, 1)] == [
        *(True, True, False, True, False, True, True, False)
    ]
    entry = ledger._workers[0]
    assert (entry.upto, entry.later) == (5, set())  # nothing is remembered for ever


def test_a_push_that_never_comes_is_given_up(ledger: Ledger) -> None:
    for sequence in range(2, 5000):
        assert take(ledger, sequence)
    entry = ledger._workers[0]
    assert (entry.upto, entry.later) == (4999, set())
    assert not take(ledger, 3)


def test_a_push_that_failed_may_come_again(ledger: Ledger) -> None:
    with pytest.raises(ValueError), ledger.once(0, 1, 1):
        raise ValueError
    assert take(ledger, 1)


def test_a_repetition_waits_for_the_first(ledger: Ledger) -> None:
    began, may_end = threading.Event(), threading.Event()
    outcomes: list[bool] = []

    def first() -> None:
        with ledger.once(0, 1, 1) as is_new:
            began.set()
            may_end.wait(10)
            outcomes.append(is_new)

    def second() -> None:
        began.wait(10)
        outcomes.append(take(ledger, 1))

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    began.wait(10)
    assert take(ledger, 1, worker=1)  # others need not wait
    may_end.set()
    for thread in threads:
        thread.join()
    assert outcomes == [True, False]


def test_a_worker_that_starts_again_counts_anew_and_its_former_life_is_refused(ledger: Ledger) -> None:
    assert take(ledger, 1)
    assert not ledger.greet(0, 1)  # said again
    assert not take(ledger, 1)
    assert ledger.greet(0, 2)
    assert take(ledger, 1, incarnation=2)
    for refused in (lambda: take(ledger, 2), lambda: ledger.greet(0, 1), lambda: ledger.check(0, 1)):
        with pytest.raises(CommunicationError, match="worker 0 was started again; this process is its former life"):
            refused()
    assert take(ledger, 2, worker=1)


def test_a_worker_that_has_not_declared_is_refused(ledger: Ledger) -> None:
    for refused in (lambda: take(ledger, 1, incarnation=9), lambda: ledger.check(0, 9)):
        with pytest.raises(NotReadyError, match="worker 0 has not declared its job"):
            refused()


def update(worker: int, step: int = 0) -> PushedUpdate:
    return PushedUpdate(worker, step)


def test_a_step_is_complete_when_all_that_are_present_have_pushed() -> None:
    rounds = Rounds(3)
    assert rounds.complete() is None
    for worker in (2, 0):
        rounds.add(update(worker))
    assert rounds.missing() == [1]
    assert rounds.complete() is None
    rounds.leave(1)
    complete = rounds.complete()
    assert complete is not None
    assert [each.worker for each in complete] == [0, 2]  # in the order of the workers
    rounds.advance()
    assert (rounds.version, rounds.missing()) == (1, [0, 2])
    rounds.join(1)
    assert rounds.missing() == [0, 1, 2]


def test_what_a_worker_pushed_before_it_left_counts() -> None:
    rounds = Rounds(2)
    rounds.add(update(1))
    rounds.leave(1)
    assert rounds.complete() is None
    rounds.leave(0)
    complete = rounds.complete()
    assert complete is not None
    assert [each.worker for each in complete] == [1]


def test_what_a_former_life_pushed_does_not_count() -> None:
    rounds = Rounds(2)
    rounds.add(update(1))
    rounds.join(1)
    assert rounds.missing() == [0, 1]


@pytest.mark.parametrize("step", [0, 2])
def test_a_push_of_another_step_is_refused(step: int) -> None:
    rounds = Rounds(1, version=1)
    with pytest.raises(CommunicationError, match=f"worker 0 pushed step {step}, but the workers are at step 1"):
        rounds.add(update(0, step))

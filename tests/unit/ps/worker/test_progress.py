"""What a worker keeps for its next life: the file of what it was told, turns, and places in the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.errors import CommunicationError, UsageError
from fleet.observe.metrics.steps import StepCount
from fleet.ps.worker.life.answer_file import AnswerFile
from fleet.ps.worker.life.progress import ScriptProgress


class Batches:
    """Three batches an epoch."""

    def __init__(self, progress: ScriptProgress) -> None:
        self.epoch = self.count = 0
        self.place = progress.add(self)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "count": self.count}

    def settings(self) -> dict[str, Any]:
        return {}

    def go_on_at(self, state: Mapping[str, Any]) -> None:
        self.epoch, self.count = state["epoch"], state["count"]

    def _rest(self) -> Any:
        while self.count < 3:
            self.count += 1
            yield self.epoch, self.count

    def __iter__(self) -> Any:
        if not self.place.is_over(self.epoch):
            yield from self.place.watched(self._rest())
            self.place.end_epoch(self.epoch)
        self.epoch, self.count = self.epoch + 1, 0
        self.place.remember()


@pytest.mark.parametrize("left", [b"1234", b"00000000 [", b'deadbeef ["third", 3]\n'])
def test_what_was_told_is_there_in_the_next_life_without_a_torn_end(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "worker-0" / "answers"
    first = AnswerFile(path)
    first.put("one", ["a", "\xff"])
    first.put("two", 2)
    first.close()
    with path.open("ab") as file:
        file.write(left)
    second = AnswerFile(path)
    assert (second.get("one"), second.get("two"), "third" in second) == (["a", "\xff"], 2, False)
    second.put("third", 3)
    second.close()
    third = AnswerFile(path)
    assert third.get("third") == 3
    third.remove()
    assert not path.exists()


def test_a_script_goes_on_with_the_batch_of_its_last_push(tmp_path: Path) -> None:
    former = ScriptProgress(tmp_path)
    position = b""
    for _ in range(2):
        for batch in Batches(former) if former.turns.take("loop") == 1 else ():
            position = former.capture(batch[1] - 1, 0, is_new=True)
            if batch == (0, 2):
                break
    former.answers.close()
    present = ScriptProgress(tmp_path)
    present.resume(position)
    data = Batches(present)
    assert (present.num_redone, present.num_steps) == (1, 1)
    assert list(data) == [(0, 2), (0, 3)]
    assert list(data) == [(1, 1), (1, 2), (1, 3)]
    present.answers.close()


def test_epochs_that_are_done_are_passed_over_unless_the_script_asks(tmp_path: Path) -> None:
    stored = {"data": {"0": {"epoch": 2, "count": 1}}, "turns": {"util": 5}, "parts": {}, "redone": 1, "open": [0]}
    stored |= {"step": 7, "of_others": 0}
    for asks, expected in ((False, [[], [], [(2, 2), (2, 3)]]), (True, [[(2, 2), (2, 3)]])):
        progress = ScriptProgress(tmp_path)
        progress.resume(json.dumps(stored).encode())
        data = Batches(progress)
        if asks:
            data.place.asked()
            assert data.epoch == 2
        assert [list(data) for _ in expected] == expected
        assert progress.turns.take("util") == 6
        progress.answers.remove()


@pytest.mark.parametrize("asks", [True, False])
def test_a_script_that_counts_steps_before_loops_that_are_passed_over_is_warned(
    asks: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may begin behind these epochs itself, as `range(fleet.steps_done() // 3, 6)` does, and so leave out four."""
    stored = {"data": {"0": {"epoch": 2, "count": 1}}, "turns": {}, "parts": {}, "redone": 1, "open": [0]}
    progress = ScriptProgress(tmp_path)
    progress.resume(json.dumps(stored | {"step": 7, "of_others": 0}).encode())
    data = Batches(progress)
    if asks:
        progress.count_asked()
    for _ in range(2):
        assert list(data) == []
        progress.count_asked()  # as a script does that prints the step after each epoch
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == asks
    for one in said:
        assert "behind 7 steps" in one
        assert "2 epochs of data that are done are empty" in one
        assert "trains 2 epochs less; let it begin at data.epoch" in one
    progress.answers.remove()


def test_what_is_of_another_run_is_refused(tmp_path: Path) -> None:
    former = ScriptProgress(tmp_path)
    former.check_run(7)
    former.answers.close()
    present = ScriptProgress(tmp_path)
    present.check_run(7)
    with pytest.raises(UsageError, match="answers is of another run of the job than the servers' state"):
        present.check_run(8)
    with pytest.raises(CommunicationError, match="a position of this worker that cannot be read"):
        present.resume(b"{}")
    present.answers.close()


def test_a_step_of_two_optimizers_is_made_again_from_its_first_batch(tmp_path: Path) -> None:
    former = ScriptProgress(tmp_path)
    real, fake = Batches(former), Batches(former)
    fakes = iter(fake)
    for step, _ in enumerate(real):
        former.capture(step, 0, is_new=True)
        next(fakes)
        position = former.capture(step, 0, is_new=False)
        if step == 1:
            break
    former.answers.close()
    present = ScriptProgress(tmp_path)
    present.resume(position)
    assert (present.num_redone, present.num_steps) == (2, 1)
    real, fake = Batches(present), Batches(present)
    assert next(iter(real)) == (0, 2)
    assert next(iter(fake)) == (0, 2)
    present.answers.close()


def test_steps_on_data_of_the_scripts_own_are_of_the_moment_of_their_first_lookup(tmp_path: Path) -> None:
    class Count:
        value = 0

    def life(count: Count) -> ScriptProgress:
        progress = ScriptProgress(tmp_path)
        progress.add_part("count", lambda: count.value, lambda value: setattr(count, "value", value))
        return progress

    former, steps, count, optimizer = life(had := Count()), StepCount(), Count(), object()
    for step in range(3):
        former.begin_forward(steps)
        had.value += 10  # between the lookup and the step, as a mean of losses
        position = former.capture(step, 0, is_new=steps.enter(optimizer))
    former.answers.close()
    present = life(count)
    present.resume(position)
    with pytest.raises(UsageError, match="2 steps lie behind it, and its script begins to train at step 0"):
        present.begin_forward(StepCount())
    present.count_asked()
    present.begin_forward(StepCount())
    assert (present.num_steps, present.num_redone, count.value) == (2, 1, 20)
    present.answers.close()


@pytest.mark.parametrize("asks", [False, True])
def test_a_script_may_make_a_reader_for_each_epoch(asks: bool, tmp_path: Path) -> None:
    former = ScriptProgress(tmp_path)
    position, numbers = b"", []
    for epoch in range(3):
        data: Any = None  # the reader before is gone, as where a function made it
        data = Batches(former)
        numbers.append((data.place.number, former.turns.take("made")))
        for count, _ in enumerate(data):
            former.turns.take("util")
            position = former.capture(3 * epoch + count, 0, is_new=True)
            if (epoch, count) == (2, 1):
                break
    former.answers.close()
    present = ScriptProgress(tmp_path)
    present.resume(position)
    if asks:
        present.data_asked()
    seen, made = [], []
    for _ in range(2 if asks else 0, 3):
        data = Batches(present)
        made.append(present.turns.take("made"))
        seen.append(list(data))
    assert numbers == [(0, 1), (1, 2), (2, 3)]
    assert (seen, made) == (([[(0, 2), (0, 3)]], [1]) if asks else ([[], [], [(0, 2), (0, 3)]], [1, 2, 3]))
    assert data.place.number == 2
    assert (present.turns.take("util"), present.turns.take("made")) == (8, 4)
    assert Batches(present).place.number == 3
    present.answers.close()


def told_to_leave(progress: ScriptProgress) -> list[Any]:
    """A worker that was told to leave: what it hands back when it does."""
    nothing = SimpleNamespace(flush=lambda: None, step_aside=lambda: None, take_part=lambda **_: None)
    left: list[Any] = []
    assert progress.membership is not None
    progress.membership.join(SimpleNamespace(has_caught_up=True, policy=nothing, go_on_at=lambda _: None), left.append)
    progress.membership.is_told = True
    return left


def test_a_worker_does_not_leave_with_batches_whose_gradients_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_ELASTIC", "1")
    progress = ScriptProgress(tmp_path / "worker-0")
    membership = progress.membership
    assert membership is not None
    batches = iter(Batches(progress))
    next(batches)
    left = told_to_leave(progress)
    next(batches)
    membership.idle()  # the queue is empty, and the script has not stepped
    assert not left
    progress.capture(0, 0, is_new=True)
    with pytest.raises(SystemExit):
        membership.idle()
    assert left == [[]]


def test_a_worker_does_not_leave_between_the_batches_of_two_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_ELASTIC", "1")
    progress = ScriptProgress(tmp_path / "worker-0")
    first, second = iter(Batches(progress)), iter(Batches(progress))
    next(first)
    left = told_to_leave(progress)
    next(second)
    assert not left
    progress.capture(0, 0, is_new=True)
    with pytest.raises(SystemExit):
        next(first)
    assert left == [[]]


def test_a_worker_does_not_leave_before_the_step_that_has_what_was_left_of_the_epoch_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_ELASTIC", "1")
    progress = ScriptProgress(tmp_path / "worker-0")
    data = Batches(progress)
    for count, _ in enumerate(data):
        if count < 2:
            progress.capture(count, 0, is_new=True)
    left = told_to_leave(progress)
    batches = iter(data)
    next(batches)
    assert not left
    progress.capture(2, 0, is_new=True)
    with pytest.raises(SystemExit):
        next(batches)
    assert left == [[]]

"""What counts as one step, in the scripts that there are: one batch, however many optimizers step on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fleet.observe.metrics.steps import StepCount, StepFigures

A, B, C = object(), object(), object()


class Script:
    """What scripts do: loop over data, and let optimizers step."""

    def __init__(self) -> None:
        self._steps = StepFigures()

    @property
    def count(self) -> StepCount:
        return self._steps.count

    def loop(self, number: int) -> Iterator[int]:
        return self._steps.data(iter(range(number)))

    def step(self, *optimizers: object) -> None:
        for one in optimizers:
            self._steps.begin_step(is_new=self.count.enter(one))
            self._steps.end_step(is_whole=self.count.is_whole)
        assert self._steps.num_steps == self.count.num


def one_optimizer(script: Script) -> None:
    for _ in range(12):
        script.step(A)


def three_optimizers(script: Script) -> None:
    for _ in range(12):
        script.step(A, B, C)


def three_optimizers_over_data(script: Script) -> None:
    for _ in range(3):
        for _ in script.loop(4):
            script.step(A, B, C)


def one_steps_every_third_time(script: Script) -> None:
    for step in range(12):
        script.step(A, B) if step % 3 == 2 else script.step(A)


def one_steps_every_third_time_over_data(script: Script) -> None:
    for step in script.loop(12):
        script.step(B, A) if step % 3 == 2 else script.step(A)


def accumulated(script: Script) -> None:
    for step in script.loop(48):
        if step % 4 == 3:
            script.step(A, B)


def critic_and_generator(script: Script) -> None:
    for _ in script.loop(12):
        for _ in range(5):
            script.step(A)
        script.step(B)


def critic_and_generator_with_data_of_its_own(script: Script) -> None:
    noise = script.loop(12)
    for _ in script.loop(12):
        script.step(A)
        next(noise)
        script.step(B)


def one_optimizer_after_the_other(script: Script) -> None:
    for optimizer in (A, B, C):
        for _ in script.loop(4):
            script.step(optimizer)


def evaluation_in_mid_epoch(script: Script) -> None:
    for step in script.loop(12):
        script.step(A)
        if step % 3 == 0:
            list(script.loop(5))
        script.step(B)


def a_loop_in_a_loop(script: Script) -> None:
    for _ in script.loop(3):
        for _ in script.loop(4):
            script.step(A, B)


def a_loop_that_looks_at_one_batch_first(script: Script) -> None:
    next(iter(script.loop(3)))
    for _ in range(12):
        script.step(A, B)


def a_batch_read_ahead(script: Script) -> None:
    batches = script.loop(12)
    ahead = next(batches, None)
    while ahead is not None:
        ahead = next(batches, None)
        script.step(A, B)


@pytest.mark.parametrize(
    "train",
    [
        one_optimizer,
        three_optimizers,
        three_optimizers_over_data,
        one_steps_every_third_time,
        one_steps_every_third_time_over_data,
        accumulated,
        critic_and_generator,
        critic_and_generator_with_data_of_its_own,
        one_optimizer_after_the_other,
        evaluation_in_mid_epoch,
        a_loop_in_a_loop,
        a_loop_that_looks_at_one_batch_first,
        a_batch_read_ahead,
    ],
)
def test_twelve_batches_are_twelve_steps(train: Callable[[Script], None]) -> None:
    script = Script()
    train(script)
    assert script.count.num == 12

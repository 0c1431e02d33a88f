"""From which step on a synchronous job waits for a worker that comes, where a batch makes several steps."""

from __future__ import annotations

import json

import pytest

from fleet.ps.steps.rounds import Rounds


@pytest.mark.parametrize(("step", "first"), [(7, 7), (8, 9), (9, 9), (10, 11)])
def test_a_worker_joins_where_the_others_begin_a_batch(step: int, first: int) -> None:
    rounds = Rounds(3, version=5, is_elastic=True)
    assert rounds.join_steps(0, 5, every=2) == 5, "nobody else is there: the batch is its own"
    rounds.version = step
    again = Rounds(3, is_elastic=True)
    again.restore(json.loads(json.dumps(rounds.to_json())))
    for one in (rounds, again):
        assert one.join_steps(1, step, every=2) == first
        assert one.join_steps(1, step + 3, every=2) == max(first, step), "it takes part already"


def test_one_optimizer_makes_one_step() -> None:
    rounds = Rounds(3, is_elastic=True)
    for worker, step in ((0, 3), (1, 4), (2, 6)):
        assert rounds.join_steps(worker, step, every=0) == step

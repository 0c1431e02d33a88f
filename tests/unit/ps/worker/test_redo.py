"""What a step was computed from, for the next life of a worker that makes it again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fleet.errors import UsageError
from fleet.ps.worker.life.inputs import StepInputs


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values)


def read_back(inputs: StepInputs, num: int) -> list[tuple[list[float], list[float]]]:
    """Of some updates, the dense parameters and the rows of one lookup."""
    found = []
    for _ in range(num):
        rows = torch.zeros(2)
        assert inputs.dense is not None
        dense = inputs.dense.tolist()
        inputs.give(rows)
        found.append((dense, rows.tolist()))
        inputs.end_update()
    assert inputs.dense is None
    return found


def test_a_step_of_two_updates_comes_back_whatever_was_written_after_it(tmp_path: Path) -> None:
    former = StepInputs(tmp_path)
    for step in range(1, 4):
        for update in (2 * step - 1, 2 * step):
            former.keep(update, floats(update), [floats(step, update)], is_new=update % 2 == 1)
    former.keep(7, floats(7), [floats(4, 7)], is_new=True)  # nobody has heard of it
    former.close()
    present = StepInputs(tmp_path)
    assert present.begin_again(5, 6)
    assert read_back(present, 2) == [([5], [3, 5]), ([6], [3, 6])]
    assert not StepInputs(tmp_path).begin_again(3, 4)


def test_a_life_that_ends_in_the_step_that_it_made_again_leaves_it_whole(tmp_path: Path) -> None:
    former = StepInputs(tmp_path)
    former.keep(1, floats(1), [floats(1, 1)], is_new=True)
    former.keep(2, floats(2), [floats(1, 2)], is_new=False)  # not sent: it is computed again
    former.close()
    second = StepInputs(tmp_path)
    assert second.begin_again(1, 1)
    read_back(second, 1)
    second.keep(2, floats(9), [floats(9, 9)], is_new=False)
    second.close()
    third = StepInputs(tmp_path)
    assert third.begin_again(1, 2)
    assert read_back(third, 2) == [([1], [1, 1]), ([9], [9, 9])]


def test_a_record_that_was_half_written_is_none(tmp_path: Path) -> None:
    former = StepInputs(tmp_path)
    former.keep(1, None, [floats(1, 2)], is_new=True)
    former.close()
    path = tmp_path / "inputs-1"
    path.write_bytes(path.read_bytes()[:-3])
    assert not StepInputs(tmp_path).begin_again(1, 1)


def test_a_disk_that_is_full_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="writes down what it computes with, and cannot in .*file/inputs-1"):
        StepInputs(tmp_path / "file").keep(1, None, [], is_new=True)

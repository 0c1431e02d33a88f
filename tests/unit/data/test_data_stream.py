"""fleet.data.shard of each worker's own stream of batches: three ways to an end, positions, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

import fleet
from fleet.data import Shard, shard
from fleet.data.shards.base import Uneven
from fleet.errors import CommunicationError, UsageError, UsageTypeError
from support.serving.readers import ThreadJob

LENGTHS = (7, 9)


@pytest.fixture
def alone() -> Iterator[None]:
    fleet.init()
    yield
    fleet.shutdown()


def own(index: int) -> Callable[[], list[int]]:
    """A worker's stream, as a function that makes it."""
    return lambda: list(range(LENGTHS[index]))


ENDS = {
    "drop": [list(range(7)), list(range(7))],
    "pad": [[*range(7), 0, 1], list(range(9))],
    "join": [list(range(7)), list(range(9))],
}


@pytest.mark.parametrize("uneven", ["drop", "pad"])
@pytest.mark.parametrize("good", [None, 0, 2])
def test_a_stream_that_fails_ends_those_of_all(uneven: Any, good: int | None) -> None:
    """With None the stream of worker 1 cannot even be opened. The others are told, and wait for nobody."""

    def work(index: int) -> tuple[list[int], str]:
        def breaks() -> Iterator[int]:
            yield from range(good or 0)
            raise OSError("the disk is gone")

        def refuses() -> Iterator[int]:
            raise OSError("the disk is gone")

        reader = shard(own(0) if index == 0 else refuses if good is None else breaks, uneven=uneven)
        found: list[int] = []
        try:
            found.extend(reader)
        except (OSError, CommunicationError) as error:
            return found, str(error)
        return found, "nothing"

    found = list(range(good or 0))
    told = "worker 1 could not read the next batch; the error stands there"
    assert ThreadJob(2).run(work) == [(found, told), (found, "the disk is gone")]


@pytest.mark.parametrize("uneven", ["drop", "pad", "join"])
def test_streams_of_different_lengths_end_together_or_each_by_itself(uneven: Any) -> None:
    def work(index: int) -> list[list[int]]:
        reader = shard(own(index), uneven=uneven)
        epochs = [list(reader), list(reader)]
        assert reader.epoch == 2
        return epochs

    assert ThreadJob(2).run(work) == [[batches, batches] for batches in ENDS[uneven]]


@pytest.mark.parametrize("uneven", ["drop", "pad", "join"])
def test_a_position_is_the_same_on_all_workers_and_goes_on(uneven: Any) -> None:
    job = ThreadJob(2)

    def begin(index: int) -> list[dict[str, Any]]:
        reader = shard(own(index), uneven=uneven)
        return [reader.state_dict() for _ in reader]

    states = max(job.run(begin), key=len)
    assert states[1] == {"kind": "batches", "epoch": 0, "batches_taken": 2, "num_workers": 2}
    for step, state in enumerate(states):

        def finish(index: int, state: dict[str, Any] = state) -> list[list[int]]:
            reader = shard(own(index), uneven=uneven)
            reader.load_state_dict(state)
            return [list(reader), list(reader)]

        assert job.run(finish) == [[batches[step + 1 :], batches] for batches in ENDS[uneven]], step

    def resume(_: int) -> None:
        shard(own(0), uneven=uneven).load_state_dict(states[0])

    with pytest.raises(UsageError, match="num_workers was 2 when saved and is 3 now; own streams go on with"):
        ThreadJob(3).run(resume)


def generator(count: int) -> Iterator[int]:
    yield from range(count)


def test_what_can_be_read_once_is_read_once() -> None:
    def work(index: int) -> list[int]:
        reader = shard(generator(LENGTHS[index]), uneven="drop")
        batches = list(reader)
        with pytest.raises(UsageError, match="a generator that can be read once, and was; for another epoch"):
            list(reader)
        return batches

    assert ThreadJob(2).run(work) == ENDS["drop"]


@pytest.mark.parametrize("uneven", ["drop", "pad", "join"])
def test_a_loop_that_was_left_goes_on(uneven: Any) -> None:
    def work(index: int) -> tuple[list[int], int]:
        reader = shard(own(index), uneven=uneven)
        for _ in reader:
            break
        seen = next(iter(reader))
        assert seen == reader.state_dict()["batches_taken"] - 1 == 1
        return list(reader), reader.epoch

    assert ThreadJob(2).run(work) == [(batches[2:], 1) for batches in ENDS[uneven]]


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_a_worker_without_any_batch_is_named_on_all(uneven: Any) -> None:
    def work(index: int) -> str:
        reader = shard(lambda: [] if index else [1, 2], uneven=uneven)
        with pytest.raises(UsageError) as caught:
            list(reader)
        return str(caught.value)

    first, second = ThreadJob(2).run(work)
    assert first == second
    assert "but worker 1 had none at all; give it data, or use uneven='join'" in first


@pytest.mark.parametrize(("uneven", "questions"), [("drop", 8), ("pad", 10), ("join", 0)])
def test_questions_are_asked_once_for_each_batch(uneven: Any, questions: int) -> None:
    job = ThreadJob(2)
    readers: list[Shard] = job.run(lambda index: shard(own(index), uneven=uneven))
    job.num_gathers = 0
    job.run(lambda index: list(readers[index]))
    assert job.num_gathers == questions


def test_join_is_entered_for_a_stream_and_left_early_as_by_an_error() -> None:
    job = ThreadJob(2, is_collective=True)

    def work(index: int) -> None:
        reader = shard(own(index), uneven="join")
        for _ in reader:
            pass
        with pytest.raises(ZeroDivisionError):
            for _ in reader:
                _ = 1 / 0

    job.run(work)
    assert job.joins == [["entered", "left", "entered", "GeneratorExit"]] * 2


class Three(IterableDataset[int]):
    """Has a length and, from its parent, `__getitem__`; it is a stream all the same."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        yield from range(3)


@pytest.mark.usefixtures("alone")
def test_a_job_of_one_reads_its_stream_as_it_is() -> None:
    for data in (Three(), DataLoader(Three(), batch_size=None), Three):
        for uneven in get_args(Uneven):
            assert list(shard(data, uneven=uneven)) == [0, 1, 2]
    assert list(shard(list)) == [], "nothing to agree on, so nothing to refuse"
    with pytest.raises(UsageTypeError, match="a stream of batches has no length"):
        len(shard(Three()))
    with pytest.raises(UsageTypeError, match="must return an iterable, got a int"):
        list(shard(lambda: 3))
    once_only = iter([1, 2])

    class Worn:
        def __iter__(self) -> Iterator[int]:
            return once_only

    def work(index: int) -> str:
        with pytest.raises((UsageError, CommunicationError)) as caught:
            list(shard(Worn() if index == 0 else own(1)))
        return str(caught.value)

    first, second = ThreadJob(2).run(work)
    assert "none when it was read again" in first
    assert second.startswith("worker 0 could not read the next batch")


@pytest.mark.usefixtures("alone")
def test_samplers_learn_the_epoch() -> None:
    data = list(range(8))
    numbers = TensorDataset(torch.tensor(data))
    sampler: DistributedSampler[Any] = DistributedSampler(numbers, num_replicas=1, rank=0, seed=3)
    reader = shard(DataLoader(numbers, batch_size=8, sampler=sampler))
    epochs = [[number for [batch] in reader for number in batch.tolist()] for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == data
    assert epochs[0] != epochs[1]
    sampler.set_epoch(1)
    assert list(iter(sampler)) == epochs[1]

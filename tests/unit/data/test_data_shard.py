"""fleet.data.shard of samples: how they are divided, what a batch is, positions, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

import fleet
from fleet.data import shard
from fleet.errors import FleetError, NotReadyError, RoleError, UsageError, UsageTypeError
from support.serving.readers import ThreadJob

BATCH = 4
SAMPLES = 23


@pytest.fixture
def alone() -> Iterator[None]:
    fleet.init()
    yield
    fleet.shutdown()


def epoch_of(num_workers: int, samples: int = SAMPLES, **options: Any) -> list[list[list[int]]]:
    """The batches of every worker."""

    def work(_: int) -> list[list[int]]:
        reader = shard(torch.arange(samples), BATCH, **options)
        batches = [batch.tolist() for batch in reader]
        assert len(batches) == len(reader)
        return batches

    return ThreadJob(num_workers).run(work)


def in_order(workers: list[list[list[int]]]) -> list[int]:
    """The samples in the order of the epoch: step by step, worker by worker."""
    steps = max(map(len, workers))
    return [sample for step in range(steps) for batches in workers if step < len(batches) for sample in batches[step]]


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
@pytest.mark.parametrize("samples", [23, 24, 25])
def test_samples_are_divided_step_by_step(num_workers: int, samples: int) -> None:
    whole = BATCH * num_workers
    padded = epoch_of(num_workers, samples, uneven="pad")
    assert {len(batch) for batches in padded for batch in batches} == {BATCH}
    assert len({len(batches) for batches in padded}) == 1
    assert in_order(padded) == [place % samples for place in range(-(-samples // whole) * whole)]
    assert in_order(epoch_of(num_workers, samples, uneven="drop")) == list(range(samples // whole * whole))
    joined = epoch_of(num_workers, samples, uneven="join")
    assert in_order(joined) == list(range(samples))
    last = [len(batches[-1]) for batches in joined if len(batches) == len(joined[0])]
    assert max(last) - min(last) <= 1, "what is left is divided evenly"


def test_few_samples_fill_a_step_several_times_over() -> None:
    assert epoch_of(2, samples=3) == [[[0, 1, 2, 0]], [[1, 2, 0, 1]]]
    assert epoch_of(3, samples=2, uneven="join") == [[[0]], [[1]], []]


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    def epochs(num_workers: int, seed: int) -> list[list[int]]:
        def work(_: int) -> list[list[list[int]]]:
            reader = shard(torch.arange(SAMPLES), BATCH, uneven="join", shuffle=True, seed=seed)
            return [[batch.tolist() for batch in reader] for _ in range(2)]

        by_worker = ThreadJob(num_workers).run(work)
        return [in_order([epochs[number] for epochs in by_worker]) for number in range(2)]

    first, second = epochs(2, seed=0)
    assert sorted(first) == sorted(second) == list(range(SAMPLES))
    assert first != second
    assert epochs(3, seed=0) == [first, second]
    assert epochs(2, seed=1)[0] not in (first, second)


class Squares(Dataset[dict[str, int]]):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"x": index, "y": index**2}


class AtOnce(Squares):
    def __getitems__(self, indices: list[int]) -> list[dict[str, int]]:
        return [{"x": -index, "y": index} for index in indices]


class Pair(NamedTuple):
    x: Any
    y: Any


@pytest.mark.usefixtures("alone")
def test_a_batch_is_what_the_data_is_made_of() -> None:
    x, y = torch.arange(10.0).reshape(5, 2), np.arange(5, dtype=np.int32)

    def first(data: Any, **options: Any) -> Any:
        return next(iter(fleet.data.shard(data, 2, **options)))

    assert torch.equal(first(x), x[:2])
    assert torch.equal(first(y), torch.tensor([0, 1], dtype=torch.int32))
    assert first(np.array(["a", "b", "c"])).tolist() == ["a", "b"]
    for data in ((x, y), Pair(x, y), TensorDataset(x, torch.from_numpy(y))):
        batch = first(data)
        assert torch.equal(batch[0], x[:2])
        assert torch.equal(batch[1], torch.from_numpy(y[:2]))
    assert type(first((x, y))) is tuple
    assert first(Pair(x, y)).y.tolist() == [0, 1]
    assert {name: column.tolist() for name, column in first(Squares()).items()} == {"x": [0, 1], "y": [0, 1]}
    assert first(AtOnce())["x"].tolist() == [0, -1]
    assert first([3, 1, 2]).tolist() == [3, 1]
    assert first([3, 1, 2], collate=sum) == 4
    first(x).zero_()
    first(y).zero_()
    assert (x.sum().item(), y.sum().item()) == (45, 10), "a batch shares no memory with the data"


@pytest.mark.parametrize(("before", "after"), [((2, 4), (3, 2)), ((3, 2), (1, 5)), ((1, 1), (4, 4))])
def test_a_position_goes_on_with_other_workers_and_batch_sizes(before: tuple[int, int], after: tuple[int, int]) -> None:
    def reader(batch_size: int) -> fleet.data.Shard:
        return shard(torch.arange(SAMPLES), batch_size, uneven="join", shuffle=True, seed=5)

    def begin(_: int) -> tuple[list[list[int]], str]:
        own = reader(before[1])
        seen = [batch.tolist() for batch in own]
        for step, batch in enumerate(own):
            seen.append(batch.tolist())
            if step == 1:
                break
        return seen, json.dumps(own.state_dict())

    begun = ThreadJob(before[0], is_collective=True).run(begin)
    [state] = {state for _, state in begun}
    taken = 2 * before[0] * before[1]
    order = {"num_samples": SAMPLES, "shuffle": True, "seed": 5}
    assert json.loads(state) == {"kind": "samples", "epoch": 1, "samples_seen": taken, **order}

    def finish(_: int) -> list[list[int]]:
        own = reader(after[1])
        own.load_state_dict(json.loads(state))
        seen = [batch.tolist() for batch in own]
        assert own.epoch == 2
        return seen

    finished = ThreadJob(after[0], is_collective=True).run(finish)
    used = Counter(in_order([batches for batches, _ in begun]) + in_order(finished))
    assert used == dict.fromkeys(range(SAMPLES), 2)


@pytest.mark.usefixtures("alone")
def test_a_state_of_the_last_batch_ends_its_epoch_first() -> None:
    reader = shard(range(6), 2)
    states = [reader.state_dict() for _ in reader]
    assert [(state["epoch"], state["samples_seen"]) for state in states] == [(0, 2), (0, 4), (0, 6)]
    reader.load_state_dict(states[-1])
    assert (list(reader), reader.epoch) == ([], 1), "what a script does after an epoch is done once"
    assert len(list(reader)) == 3


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_samples": 7}, "num_samples was 7 when saved and is 6 now; go on with the same data"),
        ({"seed": 1}, "seed was 1"),
        ({"shuffle": True}, "shuffle was True"),
        ({"kind": "batches"}, "the state of a reader of samples has kind, epoch, samples_seen"),
        ({"samples_seen": -1}, "samples_seen of a reader's state must be a count, got -1"),
        ({"epoch": "x"}, "epoch of a reader's state must be a count, got 'x'"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    reader = shard(range(6), 2)
    with pytest.raises(UsageError, match=message):
        reader.load_state_dict(reader.state_dict() | change)
    assert len(list(reader)) == 3


def test_join_is_entered_where_workers_differ_and_left_early_as_by_an_error() -> None:
    job = ThreadJob(2, is_collective=True)

    def work(_: int) -> None:
        for _ in shard(range(16), BATCH, uneven="join"):
            pass
        for _ in shard(range(17), BATCH, uneven="join"):
            pass
        for _ in shard(range(17), BATCH, uneven="join"):
            break

    job.run(work)
    assert job.joins == [["entered", "left", "entered", "GeneratorExit"]] * 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            [{"data": range(9)}, {}, {}],
            r"len\(data\) is not the same .*: 9 on worker 0, 8 on workers 1, 2;",
        ),
        ([{}, {"seed": 1}, {"seed": 1}], "seed is not the same on all workers: 0 on worker 0, 1 on workers 1, 2;"),
        ([{}, {}, {"data": lambda: [1], "batch_size": None}], "is not the same on all workers"),
    ],
)
def test_workers_that_differ_are_named(settings: list[dict[str, Any]], message: str) -> None:
    job = ThreadJob(3)
    with pytest.raises(UsageError, match=message):
        job.run(lambda index: shard(**{"data": range(8), "batch_size": 1, **settings[index]}))


def test_a_worker_that_did_not_load_the_state_is_named() -> None:
    def work(index: int) -> None:
        reader = shard(range(16), BATCH)
        if index == 0:
            reader.load_state_dict(reader.state_dict() | {"samples_seen": 8})
        next(iter(reader))

    message = "samples_seen is not the same on all workers: 8 on worker 0, 0 on worker 1; load the same state"
    with pytest.raises(UsageError, match=message):
        ThreadJob(2, is_collective=True).run(work)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"data": [1], "batch_size": 1, "uneven": "fill"}, UsageError, "must be 'pad', 'drop' or 'join', got 'fill'"),
        ({"data": [1]}, UsageError, "batch_size is missing"),
        ({"data": [1], "batch_size": 0}, UsageError, "batch_size must be at least 1, got 0"),
        ({"data": [1], "batch_size": 2.0}, UsageTypeError, "batch_size must be an int, got 2.0"),
        ({"data": [], "batch_size": 2}, UsageError, "data has no samples"),
        ({"data": [1], "batch_size": 2, "uneven": "drop"}, UsageError, "would drop all 1 samples, a step takes 2 on"),
        ({"data": (torch.ones(2), np.ones(3)), "batch_size": 1}, UsageError, r"got \[2, 3\] rows"),
        ({"data": (1, 2), "batch_size": 1}, UsageTypeError, "got int; give samples of other kinds as a list"),
        ({"data": torch.tensor(1.0), "batch_size": 1}, UsageTypeError, r"got Tensor of shape \[\]"),
        ({"data": {"x": [1]}, "batch_size": 1}, UsageTypeError, "has its samples in a dict"),
        ({"data": torch.ones(2), "batch_size": 1, "collate": sum}, UsageError, "collate is for samples"),
        ({"data": [1], "batch_size": 1, "collate": 3}, UsageTypeError, "collate must be a function"),
        ({"data": [1], "batch_size": 1, "shuffle": 1}, UsageTypeError, "shuffle must be True or False, got 1"),
        ({"data": [1], "batch_size": 1, "seed": "a"}, UsageTypeError, "seed must be an int, got 'a'"),
        ({"data": 3}, UsageTypeError, "got int"),
        ({"data": Dataset[int](), "batch_size": 1}, UsageTypeError, "of type Dataset has no length"),
        ({"data": iter([1]), "batch_size": 1, "uneven": "drop"}, UsageError, "batch_size cannot be used with data of"),
        ({"data": iter([1]), "shuffle": True}, UsageError, "shuffle cannot be used with data of type list_iterator"),
        ({"data": iter([1])}, UsageError, "a list_iterator that can be read once; give the function that makes it"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], kind: type[FleetError], message: str) -> None:
    with pytest.raises(kind, match=message):
        shard(**arguments)


@pytest.mark.usefixtures("alone")
def test_samples_that_cannot_be_collated_are_named() -> None:
    with pytest.raises(UsageTypeError, match="samples like object need collate="):
        next(iter(shard([object()], 1)))


def test_a_reader_needs_a_worker() -> None:
    with pytest.raises(NotReadyError, match=r"call fleet.init\(\) first"):
        shard([1], 1)
    server = fleet.UserDefinedRoleMaker(role=fleet.Role.SERVER, worker_num=1, server_endpoints=["127.0.0.1:1"])
    fleet.init(server)
    try:
        with pytest.raises(RoleError, match="this process is a server"):
            shard([1], 1)
    finally:
        fleet.shutdown()

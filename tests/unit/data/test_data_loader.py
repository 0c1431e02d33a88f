"""fleet.data.shard of a DataLoader: divided where torch decides its batches, named where nobody has divided it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    get_worker_info,
)

import fleet
from fleet.data import Shard, shard, sharding
from fleet.errors import UsageError
from support.serving.readers import ThreadJob

SAMPLES = 23


class Numbers(Dataset[int]):
    """Tells which process has made a sample, and is told the epoch."""

    def __init__(self, num: int = SAMPLES) -> None:
        self.num = num
        self.epochs: list[int] = []

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, index: int) -> int:
        return index if get_worker_info() is None else 100 + index

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


class Seeds(Dataset[int]):
    """One sample: what the process that makes it was seeded with."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return torch.initial_seed() % 2**62


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


class OwnPart(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(fleet.worker_index(), 4, fleet.worker_num()))


@pytest.fixture(autouse=True)
def nothing_was_said() -> None:
    sharding._say.cache_clear()


def values(reader: Shard) -> list[list[int]]:
    return [batch.tolist() for batch in reader]


def epoch_of(num_workers: int, uneven: Any = "pad", num: int = SAMPLES, **options: Any) -> list[list[list[int]]]:
    def work(_: int) -> list[list[int]]:
        reader = shard(DataLoader(Numbers(num), batch_size=4, **options), uneven=uneven)
        found = values(reader)
        assert len(found) == len(reader)
        return found

    return ThreadJob(num_workers).run(work)


def flat(workers: list[list[list[int]]]) -> list[int]:
    return [sample for batches in workers for batch in batches for sample in batch]


def test_a_loader_is_divided_as_its_samples_are() -> None:
    assert epoch_of(2)[1][0] == [4, 5, 6, 7], "a step's second block is worker 1's"
    for uneven in ("pad", "drop", "join"):

        def of_samples(_: int, uneven: Any = uneven) -> list[list[int]]:
            return values(shard(torch.arange(SAMPLES), 4, uneven=uneven))

        assert epoch_of(2, uneven) == ThreadJob(2).run(of_samples)
    shuffled = epoch_of(2, "join", shuffle=True)
    assert sorted(flat(shuffled)) == list(range(SAMPLES))
    assert flat(shuffled) != list(range(SAMPLES))
    assert sorted(flat(epoch_of(3, "pad", drop_last=True))) == list(range(12)), "drop_last leaves out, as it says"
    with pytest.raises(UsageError, match="drop_last would drop all 7 samples .* 4 on each of 2 workers"):
        epoch_of(2, num=7, drop_last=True)


def test_one_worker_gets_what_the_loader_gives() -> None:
    plain = [batch.tolist() for batch in DataLoader(Numbers(), batch_size=4)]
    assert epoch_of(1) == [plain]
    assert epoch_of(1, drop_last=True) == [plain[:-1]]
    assert sorted(flat(epoch_of(1, shuffle=True))) == list(range(SAMPLES))


def test_processes_and_collate_of_the_loader_are_kept() -> None:
    def work(_: int) -> tuple[list[Any], list[int]]:
        data = Numbers(8)
        loader = DataLoader(data, batch_size=2, num_workers=1, collate_fn=sum, persistent_workers=True, timeout=60)
        reader = shard(loader)
        found = [list(reader), list(reader)]
        reader._loader._iterator._shutdown_workers()  # type: ignore[attr-defined]
        return found, data.epochs

    assert ThreadJob(2).run(work) == [([[201, 209]] * 2, [0, 1]), ([[205, 213]] * 2, [0, 1])]


def test_what_a_loader_was_made_with_is_made_anew() -> None:
    settings: dict[str, Any] = {
        "num_workers": 2,
        "pin_memory": True,
        "timeout": 7,
        "worker_init_fn": print,
        "multiprocessing_context": "spawn",
        "generator": torch.Generator(),
        "prefetch_factor": 3,
        "persistent_workers": True,
    }
    unordered = {**settings, "in_order": False}
    [made] = ThreadJob(1).run(lambda _: shard(DataLoader(Numbers(), batch_size=4, **unordered))._loader)  # type: ignore[attr-defined]
    assert made.in_order, "a position counts batches from the first"
    own = DataLoader(Numbers(), batch_size=4, **settings)
    assert {name: getattr(made, name) for name in settings} == {name: getattr(own, name) for name in settings}


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1), (1, 2)])
def test_a_position_goes_on_with_other_workers(before: int, after: int) -> None:
    def reader() -> Shard:
        return shard(DataLoader(Numbers(24), batch_size=2, shuffle=True), uneven="join", seed=5)

    def begin(_: int) -> tuple[list[list[int]], str]:
        own, seen = reader(), []
        for batch in own:
            seen.append(batch.tolist())
            if len(seen) == 2:
                break
        return seen, json.dumps(own.state_dict())

    begun = ThreadJob(before, is_collective=True).run(begin)
    [state] = {state for _, state in begun}
    assert json.loads(state)["samples_seen"] == 4 * before

    def finish(_: int) -> list[list[int]]:
        own = reader()
        own.load_state_dict(json.loads(state))
        return values(own)

    rest = ThreadJob(after, is_collective=True).run(finish)
    assert sorted(flat([seen for seen, _ in begun]) + flat(rest)) == list(range(24))


@pytest.mark.parametrize("num_processes", [0, 1])
def test_a_resumed_loop_draws_the_same_random_numbers(num_processes: int) -> None:
    def reader() -> Shard:
        return shard(DataLoader(Numbers(12), batch_size=2, shuffle=True, num_workers=num_processes))

    def draws(own: Shard, num: int) -> list[float]:
        return [float(torch.rand(())) for _ in zip(range(num), own, strict=False)]

    def work(_: int) -> tuple[list[float], list[float]]:
        torch.manual_seed(3)
        whole = draws(reader(), 6)
        torch.manual_seed(3)
        own = reader()
        begun = draws(own, 3)
        position, numbers = own.state_dict(), torch.get_rng_state()
        torch.manual_seed(4)
        again = reader()
        again.load_state_dict(position)
        torch.set_rng_state(numbers)
        return whole, begun + draws(again, 6)

    [(whole, resumed)] = ThreadJob(1).run(work)
    assert len(whole) == 6
    assert resumed == whole


def test_processes_get_other_seeds_in_every_epoch() -> None:
    def work(_: int) -> list[int]:
        torch.manual_seed(3)
        own = shard(DataLoader(Seeds(), batch_size=1, num_workers=1))
        found = [int(batch) for _ in range(2) for batch in own]
        torch.manual_seed(4)
        return found + [int(batch) for batch in shard(DataLoader(Seeds(), batch_size=1, num_workers=1))]

    [seeds] = ThreadJob(1).run(work)
    assert len(set(seeds)) == 3, "of two epochs, and of another seed of the program"


def warnings_of(loader: Any, caplog: pytest.LogCaptureFixture, num_workers: int = 2) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            ThreadJob(num_workers).run(lambda _: shard(loader))
    return [record.getMessage() for record in caplog.records]


def test_a_loader_that_nobody_has_divided_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    numbers = Numbers()
    for loader, kind in (
        (DataLoader(numbers, sampler=SubsetRandomSampler([1, 2, 3])), "SubsetRandomSampler"),
        (DataLoader(numbers, batch_sampler=[[1, 2], [3]]), "list"),
        (DataLoader(numbers, sampler=RandomSampler(numbers, replacement=True)), "RandomSampler"),
        (DataLoader(numbers, sampler=SequentialSampler(range(5))), "SequentialSampler"),
        (DataLoader(Stream(), batch_size=2), "Stream says nothing of workers"),
        (Stream(), "Stream says nothing of workers"),
    ):
        [line] = warnings_of(loader, caplog)
        assert kind in line
        assert line.startswith(f"fleet.data.shard does not divide this {type(loader).__name__}")
        assert "every worker trains on" in line
        assert "shard(lambda: loader)" in line
        assert "\n" not in line


def test_nothing_is_said_of_what_is_divided(caplog: pytest.LogCaptureFixture) -> None:
    numbers = TensorDataset(torch.arange(8))
    sampler: DistributedSampler[Any] = DistributedSampler(numbers, num_replicas=2, rank=0)
    silent = (
        DataLoader(numbers, sampler=sampler),
        DataLoader(numbers, batch_sampler=BatchSampler(sampler, 2, drop_last=False)),
        DataLoader(OwnPart(), batch_size=2),
        DataLoader(numbers, batch_size=2, shuffle=True),
        lambda: DataLoader(Stream()),
    )
    assert [warnings_of(loader, caplog) for loader in silent] == [[]] * len(silent)
    assert warnings_of(DataLoader(Stream()), caplog, num_workers=1) == []


def test_what_the_loader_does_itself_is_not_asked_for_twice() -> None:
    with pytest.raises(UsageError, match="batch_size and shuffle cannot be used with data of type DataLoader, which"):
        ThreadJob(2).run(lambda _: shard(DataLoader(Numbers()), 4, shuffle=True))

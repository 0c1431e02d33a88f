"""Readers made of readers: what comes out, in which order, and what a mistake says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.batches import reader


def numbers(count: int) -> Callable[[], Iterator[int]]:
    return lambda: iter(range(count))


def test_batches_end_with_a_short_one_or_without_it() -> None:
    assert list(reader.batch(numbers(5), 2)()) == [[0, 1], [2, 3], [4]]
    assert list(reader.batch(numbers(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]


def test_every_call_is_a_new_pass() -> None:
    once = reader.batch(numbers(3), 2)
    assert list(once()) == list(once())


def test_shuffle_mixes_within_its_buffer_as_random_says() -> None:
    random.seed(1)
    mixed = list(reader.shuffle(numbers(10), 5)())
    assert sorted(mixed[:5]) == [0, 1, 2, 3, 4]
    assert sorted(mixed) == list(range(10)) != mixed
    random.seed(1)
    assert list(reader.shuffle(numbers(10), 5)()) == mixed


def test_chain_firstn_map_and_cache() -> None:
    assert list(reader.chain(numbers(2), numbers(1))()) == [0, 1, 0]
    assert list(reader.firstn(numbers(9), 3)()) == [0, 1, 2]
    assert list(reader.map_readers(lambda a, b: a + b, numbers(3), numbers(2))()) == [0, 2]
    calls: list[int] = []

    def counted() -> Iterator[int]:
        calls.append(1)
        return iter((7, 8))

    kept = reader.cache(counted)
    assert list(kept()) == list(kept()) == [7, 8]
    assert calls == [1]


def test_compose_joins_samples_and_finds_uneven_ones() -> None:
    pairs = reader.compose(numbers(2), lambda: iter([(1, 2), (3, 4)]))
    assert list(pairs()) == [(0, 1, 2), (1, 3, 4)]
    with pytest.raises(reader.ComposeNotAligned, match="reader 0 has fewer samples"):
        list(reader.compose(numbers(1), numbers(2))())
    assert list(reader.compose(numbers(1), numbers(2), check_alignment=False)()) == [(0, 0)]


@pytest.mark.parametrize(
    "ahead",
    [
        reader.buffered(numbers(20), 3),
        reader.xmap_readers(lambda x: x, numbers(20), 2, 4, order=True),
        reader.multiprocess_reader([numbers(20)], queue_size=2),
    ],
    ids=["buffered", "xmap", "multiprocess"],
)
def test_threads_keep_the_order(ahead: Callable[[], Iterator[int]]) -> None:
    assert list(ahead()) == list(range(20))


def test_threads_give_everything_and_pass_errors_on() -> None:
    assert sorted(reader.xmap_readers(lambda x: x * 2, numbers(9), 3, 2)()) == list(range(0, 18, 2))
    assert sorted(reader.multiprocess_reader([numbers(3), numbers(5)])()) == [0, 0, 1, 1, 2, 2, 3, 4]

    def broken(sample: int) -> int:
        raise RuntimeError(f"sample {sample}")

    with pytest.raises(RuntimeError, match="sample 0"):
        list(reader.xmap_readers(broken, numbers(3), 1, 1)())
    left_early = reader.buffered(numbers(1000), 2)()
    assert next(iter(left_early)) == 0
    left_early.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: reader.batch(numbers(3)(), 2), UsageTypeError, "give the function itself"),  # type: ignore[arg-type]
        (lambda: reader.batch(numbers(3), 0), UsageError, "batch: batch_size must be at least 1, got 0"),
        (lambda: reader.shuffle(numbers(3), 2.5), UsageTypeError, "buf_size must be an int"),  # type: ignore[arg-type]
        (lambda: reader.multiprocess_reader([]), UsageError, "got an empty one"),
    ],
)
def test_mistakes(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

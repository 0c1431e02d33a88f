"""Collective calls of a job of one worker, and what they refuse; `test_two_workers.py` has those of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch.distributed as dist

import fleet_paddle.imperative as paddle
from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_paddle.imperative import exchange

X = paddle.to_tensor([1.0, 2.0])


@pytest.fixture
def alone() -> Iterator[None]:
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    exchange._groups.clear()


def test_a_job_of_one_worker(alone: None) -> None:
    group, x = exchange.new_group([0]), paddle.to_tensor([1.0, 2.0])
    assert (group.id, group.rank, group.nranks, exchange.get_group(1)) == (1, 0, 1, group)
    assert exchange.get_group().ranks == [0]
    assert group.get_group_rank(3) == -1
    found: list[Any] = []
    exchange.alltoall([x], found, group)
    gathered: list[Any] = []
    exchange.all_gather(gathered, x, group)
    part = paddle.zeros([2])
    exchange.scatter(part, [x * 2])
    exchange.broadcast(x, 0, group)
    exchange.reduce(x, 0, group=group)
    exchange.wait(x)
    assert [one.tolist() for one in (*found, *gathered, part, x)] == [[1, 2], [1, 2], [2, 4], [1, 2]]


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: exchange.new_group([0, 1]), UsageError, r"different ones of 1 workers, got \[0, 1\]"),
        (lambda: exchange.new_group(backend="mpi"), NotSupportedError, "backend must be left out, got 'mpi'"),
        (lambda: exchange.get_group(9), UsageError, "there is no group 9"),
        (lambda: exchange.send(X, 1), UsageError, r"worker 1 is not in the group, which has \[0\]"),
        (lambda: exchange.all_reduce(X, group=cast(Any, 1)), UsageError, "group must be what new_group gave"),
        (lambda: exchange.alltoall([X, X], []), UsageError, "must have 1 tensors, one for each, got 2"),
        (lambda: exchange.alltoall([X], [X]), UsageError, "out_tensor_list must be an empty list, got 1"),
        (lambda: exchange.scatter(X, [X, X]), UsageError, "must have 1 tensors, one for each, got 2"),
    ],
)
def test_refusals(alone: None, call: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        call()


def test_nobody_is_there() -> None:
    with pytest.raises(NotReadyError, match=r"recv needs the other workers; call init_parallel_env\(\) first"):
        exchange.recv(paddle.ones([2]), 0)

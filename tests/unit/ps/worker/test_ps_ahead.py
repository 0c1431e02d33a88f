"""Buckets of dense gradients, and when it is no longer worth while to send them ahead."""

from __future__ import annotations

import pytest
import torch

from fleet.ps.job.dense_spec import DenseBlock
from fleet.ps.worker.sending import dense_ahead
from fleet.ps.worker.sending.dense_ahead import FIRST_REST, LONGEST_REST, PATIENCE, Backoff, buckets_of
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.sending.flat_layout import Portion


def flat_of(sizes: dict[str, int], blocks: list[DenseBlock], groups: dict[str, int] | None = None) -> FlatParameters:
    named = [(name, torch.nn.Parameter(torch.zeros(size)), (groups or {}).get(name, 0)) for name, size in sizes.items()]
    return FlatParameters(named, blocks)


def fill(flat: FlatParameters) -> None:
    """Every gradient is another number."""
    flat.gradient_buffer.copy_(torch.arange(len(flat.gradient_buffer)))
    for slot in flat._slots:
        slot.parameter.grad = slot.gradient


def test_portions_are_the_pieces() -> None:
    """Whatever lies where: a parameter on two servers, two in one span, one in a group of its own."""
    flat = flat_of(
        {"a": 30, "b": 16, "c": 16, "d": 5},
        [
            DenseBlock("a", 0, 20, 0, 0),
            DenseBlock("a", 20, 30, 1, 0),
            DenseBlock("b", 0, 16, 1, 0),
            DenseBlock("c", 0, 16, 1, 0),
            DenseBlock("d", 0, 5, 1, 1),
        ],
        {"d": 1},
    )
    fill(flat)
    found = flat.portions()
    assert {place: sum(one.size for one in portions) for place, portions in found.items()} == {
        (0, 0): 80,
        (1, 0): 168,
        (1, 1): 20,
    }
    for (server, group), portions in found.items():
        pieces = [flat.gradient_bytes(portion) for portion in portions]
        assert b"".join(piece for piece in pieces if piece is not None) == b"".join(flat.pieces(server, group))


def test_gradients_that_lie_elsewhere() -> None:
    flat = flat_of({"a": 6}, [DenseBlock("a", 0, 6, 0, 0)])
    portion, parameter = Portion(0, 2, 4), flat.parameter(0)
    parameter.grad = None
    assert flat.gradient_bytes(portion) == bytes(8)
    parameter.grad = torch.arange(6.0)
    assert torch.frombuffer(bytearray(flat.gradient_bytes(portion) or b""), dtype=torch.float32).tolist() == [2.0, 3.0]
    parameter.grad = torch.arange(12.0)[::2]  # not in one piece
    assert flat.gradient_bytes(portion) is None
    parameter.grad = torch.arange(6.0).to_sparse()
    assert flat.gradient_bytes(portion) is None


def test_buckets_begin_with_the_last_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_ahead, "BUCKET_BYTES", 100)
    monkeypatch.setattr(dense_ahead, "LEAST_BYTES", 60)
    sizes = {"a": 10, "b": 20, "c": 2, "d": 30, "e": 1}
    blocks = [DenseBlock(name, 0, size, 0, int(name == "e")) for name, size in sizes.items()]
    flat = flat_of(sizes, blocks, {"e": 1})
    found = buckets_of(flat)
    names = [[flat.names[number] for number in sorted(bucket.parameters)] for bucket in found]
    assert names == [["d"], ["a", "b", "c"]]
    assert [(bucket.begin, bucket.size) for bucket in found] == [(4 * 32, 4 * 30), (0, 4 * 32)]


def test_waste_is_noticed() -> None:
    worth = Backoff()
    for _ in range(PATIENCE - 1):
        assert not worth.note(100, 0)
    assert not worth.note(100, 50)  # half of it is enough
    for _ in range(PATIENCE - 1):
        assert not worth.note(100, 49)
    assert not worth.note(0, 0)  # nothing was tried
    assert worth.note(100, 49)
    assert worth.resting == FIRST_REST


def test_rests_grow_while_it_is_in_vain() -> None:
    worth = Backoff()
    rests = [worth.resting for _ in range(20 * LONGEST_REST) if worth.note(0 if worth.resting else 100, 0)]
    assert rests[:4] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST, 8 * FIRST_REST]
    assert rests[-1] == LONGEST_REST
    while worth.resting:
        worth.note(0, 0)
    assert not worth.note(100, 100)
    for _ in range(PATIENCE):
        worth.note(100, 0)
    assert worth.resting == FIRST_REST

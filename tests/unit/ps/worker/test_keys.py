"""fleet.ps.worker.asking.keys: shapes, dtypes and errors on top of the native core."""

from __future__ import annotations

import doctest

import pytest
import torch

from fleet.ps.worker.asking import keys

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz]


def test_examples() -> None:
    assert doctest.testmod(keys).failed == 0


@pytest.mark.parametrize("shape", [(), (0,), (6,), (2, 3), (2, 0, 3), (2, 3, 4)])
def test_unique_has_torchs_shapes(shape: tuple[int, ...]) -> None:
    batch = torch.randint(-3, 3, shape, generator=torch.Generator().manual_seed(0))
    for ours, theirs in zip(keys.unique(batch), torch.unique(batch, return_inverse=True), strict=True):
        assert ours.shape == theirs.shape
        assert torch.equal(ours, theirs)


def test_unique_of_a_transposed_batch() -> None:
    batch = torch.arange(6).view(2, 3).t()
    distinct, inverse = keys.unique(batch)
    assert torch.equal(distinct[inverse], batch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, *FLOAT8])
def test_there_and_back(dtype: torch.dtype) -> None:
    batch = torch.randint(0, 10**9, (500,), generator=torch.Generator().manual_seed(0))
    parts = keys.split(batch, 3)
    assert torch.equal(parts.grouped, batch[parts.order])
    rows = (batch % 100)[:, None].expand(-1, 5).to(dtype)
    merged = keys.merge([(piece % 100)[:, None].repeat(1, 5).to(dtype) for piece in parts.pieces()], parts.order)
    assert merged.dtype == dtype
    assert torch.equal(merged.to(torch.float32), rows.to(torch.float32))  # torch compares no float8


@pytest.mark.parametrize("shape", [(), (0,), (500,), (26, 100), (2, 0, 3)])
@pytest.mark.parametrize("num_servers", [1, 3])
def test_route_needs_no_merge(shape: tuple[int, ...], num_servers: int) -> None:
    batch = torch.randint(0, 10**9, shape, generator=torch.Generator().manual_seed(0))
    parts = keys.route(batch, num_servers)
    answers = torch.cat(parts.pieces())
    assert parts.inverse.shape == batch.shape
    assert torch.equal(answers[parts.inverse], batch)
    for server, piece in enumerate(parts.pieces()):
        assert torch.equal(piece, piece.unique())
        assert (keys.server_of(piece, num_servers) == server).all()
    assert parts.counts is None


def test_route_counts() -> None:
    batch = torch.randint(0, 50, (4, 100), generator=torch.Generator().manual_seed(0)).t()
    parts = keys.route(batch, 3, counts=True)
    assert parts.counts is not None
    assert parts.counts.dtype == torch.uint32
    times = dict(zip(*(tensor.tolist() for tensor in batch.unique(return_counts=True)), strict=True))
    assert parts.counts.tolist() == [times[key] for key in parts.grouped.tolist()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2])
def test_merge_refuses_rows_of_two_types(dtype: torch.dtype) -> None:
    pieces = [torch.zeros(1, dtype=torch.float8_e4m3fn), torch.zeros(1, dtype=dtype)]
    with pytest.raises(TypeError, match=r"pieces\[1\] and pieces\[0\] differ in dtype"):
        keys.merge(pieces, torch.arange(2))


def test_merge_of_rows_that_torch_conjugates_later() -> None:
    rows = torch.tensor([1 + 2j, 3 - 4j])
    assert rows.conj().is_conj()
    assert keys.merge([rows.conj()], torch.tensor([1, 0])).tolist() == [3 + 4j, 1 - 2j]


def test_merge_of_rows_that_torch_negates_later() -> None:
    rows = torch.tensor([1 + 2j, 3 - 4j]).conj().imag.contiguous()
    later = torch._neg_view(rows)
    assert later.is_neg()
    assert keys.merge([later], torch.tensor([1, 0])).tolist() == [-4.0, 2.0]
    assert keys.merge([torch.ones(2)], torch._neg_view(torch.tensor([-1, 0]))).tolist() == [1.0, 1.0]


def test_keys_that_torch_negates_later() -> None:
    later, now = torch._neg_view(torch.tensor([3, 1, 3])), torch.tensor([-3, -1, -3])
    assert later.is_neg()
    assert torch.equal(keys.unique(later)[0], torch.tensor([-3, -1]))
    assert torch.equal(keys.split(later, 5).grouped, keys.split(now, 5).grouped)
    assert torch.equal(keys.route(later, 5).grouped, keys.route(now, 5).grouped)
    assert torch.equal(keys.server_of(later, 1000), keys.server_of(now, 1000))


def test_server_of_agrees_with_split() -> None:
    batch = torch.arange(1000)
    for server, piece in enumerate(keys.split(batch, 4).pieces()):
        assert (keys.server_of(piece, 4) == server).all()


def test_a_tensor_elsewhere_is_refused() -> None:
    elsewhere = torch.zeros(3, dtype=torch.int64, device="meta")
    with pytest.raises(ValueError, match="keys must lie in CPU memory, got a tensor on meta"):
        keys.unique(elsewhere)
    with pytest.raises(ValueError, match=r"pieces\[0\] must lie in CPU memory"):
        keys.merge([elsewhere], torch.arange(3))


def test_a_list_is_refused() -> None:
    with pytest.raises(TypeError, match="keys must be a torch.Tensor, got list"):
        keys.unique([1, 2])  # type: ignore[arg-type]


def test_int32_is_refused() -> None:
    with pytest.raises(TypeError, match=r"keys must be int64, got torch\.int32"):
        keys.unique(torch.zeros(3, dtype=torch.int32))

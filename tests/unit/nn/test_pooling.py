"""fleet.nn.pooling against torch's embedding and embedding_bag, forward and backward."""

from __future__ import annotations

import doctest
from typing import Any, get_args

import pytest
import torch
from torch.nn import functional

from fleet.errors import UsageError
from fleet.nn import pooling
from fleet.nn.pooling import Pooling, pool, pool_slots

WIDTHS = [1, 2, 5, 10, 16, 33]


def leaf(num_rows: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(num_rows, width, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()


def indices(num_rows: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, num_rows, shape, generator=torch.Generator().manual_seed(1))


def assert_same(ours: torch.Tensor, rows: torch.Tensor, theirs: torch.Tensor, doubles: torch.Tensor) -> None:
    """Values and gradients in float32 are those of torch in double precision, up to float32's rounding."""
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-6)
    grad = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2))
    (grads,) = torch.autograd.grad(ours, rows, grad)
    (expected,) = torch.autograd.grad(theirs, doubles, grad.double())
    torch.testing.assert_close(grads.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ids", [indices(4, 3), indices(4, 2, 3)])
def test_what_was_looked_up_may_be_changed_in_place(ids: torch.Tensor) -> None:
    rows, slots = leaf(4, 5), leaf(4, 5)
    pool(rows, ids).mul_(3.0).sum().backward()
    counts = torch.bincount(ids.flatten(), minlength=4).float()
    assert rows.grad is not None
    assert torch.equal(rows.grad, 3.0 * counts[:, None].expand(4, 5))
    functional.relu(pool_slots(slots, ids.reshape(1, -1)), inplace=True).sum().backward()
    assert slots.grad is not None


def test_examples() -> None:
    assert doctest.testmod(pooling).failed == 0


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (300,), (20, 26), (2, 0, 3), (2, 3, 4)])
def test_a_lookup_is_torchs_embedding(width: int, shape: tuple[int, ...]) -> None:
    rows, inverse = leaf(40, width), indices(40, *shape)
    doubles = rows.detach().double().requires_grad_()
    assert_same(pool(rows, inverse), rows, functional.embedding(inverse, doubles), doubles)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("slots", "batch"), [(1, 30), (26, 100), (3, 64), (4, 0), (0, 4)])
def test_slots_are_torchs_embedding_transposed(width: int, slots: int, batch: int) -> None:
    rows, inverse = leaf(40, width), indices(40, slots, batch)
    doubles = rows.detach().double().requires_grad_()
    out = pool_slots(rows, inverse)
    assert out.is_contiguous()
    assert_same(out, rows, functional.embedding(inverse.t(), doubles), doubles)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("include_last_offset", [False, True])
@pytest.mark.parametrize("lengths", [[0], [5], [0, 0, 3, 0], [1, 1, 1], [2, 0, 30, 7, 0], [50] * 20])
def test_bags_are_torchs(width: int, mode: Pooling, include_last_offset: bool, lengths: list[int]) -> None:
    rows, inverse = leaf(40, width), indices(40, sum(lengths))
    doubles = rows.detach().double().requires_grad_()
    ends = torch.tensor([0, *lengths]).cumsum(0)
    offsets = ends if include_last_offset else ends[:-1]
    theirs = functional.embedding_bag(inverse, doubles, offsets, mode=mode, include_last_offset=include_last_offset)
    assert_same(pool(rows, inverse, offsets, mode, include_last_offset), rows, theirs, doubles)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("shape", [(6, 4), (1, 1), (3, 0), (0, 3)])
def test_bags_of_one_length(mode: Pooling, shape: tuple[int, int]) -> None:
    rows, inverse = leaf(40, 8), indices(40, *shape)
    doubles = rows.detach().double().requires_grad_()
    looked_up = functional.embedding(inverse, doubles)
    theirs = looked_up.sum(1) if mode == "sum" or shape[1] == 0 else looked_up.mean(1)
    assert_same(pool(rows, inverse, mode=mode), rows, theirs, doubles)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_no_bags(mode: Pooling) -> None:
    rows, none = leaf(4, 3), torch.zeros(0, dtype=torch.int64)
    out = pool(rows, none, none, mode)
    out.sum().backward()
    assert out.shape == (0, 3)
    assert rows.grad is not None
    assert not rows.grad.any()


def test_one_row_for_all() -> None:
    rows = leaf(1, 10)
    pool_slots(rows, torch.zeros(26, 1000, dtype=torch.int64)).sum().backward()
    assert rows.grad is not None
    assert (rows.grad == 26_000).all()


def test_rows_that_nobody_uses_get_zeros() -> None:
    rows = leaf(3, 2)
    pool(rows, torch.tensor([1])).sum().backward()
    assert rows.grad is not None
    assert rows.grad.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_the_bits_are_those_of_torchs_embedding() -> None:
    """Both add up the uses of a row in the order of the batch."""
    rows, inverse = leaf(50, 10), indices(50, 26, 500)
    grad = torch.randn(500, 26, 10, generator=torch.Generator().manual_seed(3))
    (ours,) = torch.autograd.grad(pool_slots(rows, inverse), rows, grad)
    (theirs,) = torch.autograd.grad(functional.embedding(inverse.t(), rows), rows, grad)
    assert torch.equal(ours, theirs)


class Copying(torch.Tensor):
    """A tensor whose `numpy()` is a copy, as that of `fleet_paddle.imperative` is."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def numpy(self, *, force: bool = False) -> Any:
        return super().numpy(force=force).copy()

    def new_empty(self, *size: Any, **options: Any) -> Any:
        return super().new_full(size, 7.0, **options).as_subclass(Copying)

    def new_zeros(self, *size: Any, **options: Any) -> Any:
        return super().new_zeros(*size, **options).as_subclass(Copying)


@pytest.mark.parametrize("mode", [None, *get_args(Pooling)])
def test_rows_of_another_class(mode: Pooling | None) -> None:
    rows, inverse = leaf(9, 3), indices(9, 4, 5)
    made = [
        pool_slots(one, many) if mode is None else pool(one, many, mode=mode)
        for one, many in ((rows, inverse), (rows.as_subclass(Copying), inverse.as_subclass(Copying)))
    ]
    assert torch.equal(*made)
    grads = [torch.autograd.grad(made[0], rows, torch.ones_like(made[0]))[0]]
    grads += torch.autograd.grad(made[1], rows, torch.ones_like(made[0]).as_subclass(Copying))
    assert torch.equal(*grads)


def grads_through(model: Any, rows: torch.Tensor, *args: Any) -> torch.Tensor:
    leaf_rows = rows.detach().clone().requires_grad_()
    model(leaf_rows, *args).backward()
    assert leaf_rows.grad is not None
    return leaf_rows.grad


@pytest.mark.parametrize("width", [1, 3, 10])
def test_gradients_of_any_layout(width: int) -> None:
    inverse, dense = indices(30, 4, 20), torch.ones(20, 5)
    rows = leaf(30, width).detach()

    def beside_dense(out: torch.Tensor) -> torch.Tensor:
        """The gradient is some columns of a wider matrix."""
        return torch.cat([dense, out.flatten(1), dense], 1).square().sum()

    def expanded(out: torch.Tensor) -> torch.Tensor:
        """The gradient has strides of 0."""
        return out.sum()

    def transposed(out: torch.Tensor) -> torch.Tensor:
        return (out.permute(2, 1, 0).contiguous() * torch.arange(20.0)).sum()

    def some(out: torch.Tensor) -> torch.Tensor:
        return out[::2, 1:].pow(3).sum()

    flat, offsets = inverse.flatten(), torch.arange(0, 80, 5)
    for head in (beside_dense, expanded, transposed, some):
        ours = grads_through(lambda r, head=head: head(pool_slots(r, inverse)), rows)
        theirs = grads_through(lambda r, head=head: head(functional.embedding(inverse.t(), r)), rows)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for head in (expanded, lambda out: out.t().contiguous().cumsum(1).sum()):
        ours = grads_through(lambda r, head=head: head(pool(r, flat, offsets, "mean")), rows)
        theirs = grads_through(lambda r, head=head: head(functional.embedding_bag(flat, r, offsets, mode="mean")), rows)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_rows_and_inverse_of_any_layout() -> None:
    wide = leaf(10, 8)
    inverse = indices(10, 6, 4).t()
    out = pool_slots(wide[:, ::2], inverse)
    assert torch.equal(out, wide[:, ::2][inverse.t()])
    out.sum().backward()
    assert wide.grad is not None
    assert (wide.grad[:, 1::2] == 0).all()
    later = torch._neg_view(wide.detach())
    assert torch.equal(pool(later, torch.arange(10)), -wide)


def test_rows_that_are_no_leaf() -> None:
    rows, inverse = leaf(10, 4), indices(10, 3, 5)
    pool_slots(rows * 2, inverse).sum().backward()
    assert rows.grad is not None
    assert rows.grad.sum() == 2 * 15 * 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", get_args(Pooling))
def test_other_dtypes_go_through_torch(dtype: torch.dtype, mode: Pooling) -> None:
    rows, inverse = leaf(10, 4, dtype), indices(10, 12)
    offsets = None if mode == "none" else torch.tensor([0, 5, 5])
    out = pool(rows, inverse, offsets, mode)
    out.sum().backward()
    single = pool(rows.detach().float(), inverse, offsets, mode)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), single, rtol=2e-2, atol=2e-2)
    assert pool_slots(rows, inverse.view(3, 4)).shape == (4, 3, 4)


def test_other_devices_go_through_torch() -> None:
    rows, inverse = torch.empty(10, 4, device="meta"), torch.empty(3, 5, dtype=torch.int64, device="meta")
    assert pool_slots(rows, inverse).shape == (5, 3, 4)
    assert pool(rows, inverse).shape == (3, 5, 4)


def test_the_defaults_of_torch_do_not_matter() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        rows = leaf(4, 2, torch.float32)
        out = pool(rows, torch.tensor([3, 3]))
        out.sum().backward()
    finally:
        torch.set_default_dtype(torch.float32)
    assert rows.grad is not None
    assert out.dtype == rows.grad.dtype == torch.float32


def test_no_second_derivative() -> None:
    rows = leaf(4, 2)
    (grad,) = torch.autograd.grad(pool(rows, torch.tensor([1, 1])).square().sum(), rows, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_an_inverse_that_changed_before_the_backward() -> None:
    rows, inverse = leaf(4, 2), torch.tensor([[1, 2]])
    out = pool_slots(rows, inverse)
    inverse[0, 0] = 99
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("bad", [-1, 4])
def test_an_inverse_that_names_no_row(bad: int) -> None:
    with pytest.raises(ValueError, match=f"inverse names row {bad}, but there are 4 rows"):
        pool(leaf(4, 2), torch.tensor([0, bad]))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((torch.zeros(4), torch.tensor([0])), r"rows must have shape \[num_rows, width\], got \[4\]"),
        ((torch.zeros(4, 2), torch.tensor([0]), None, "max"), "mode must be one of none, sum, mean, got 'max'"),
        ((torch.zeros(4, 2), torch.tensor([0]), torch.tensor([0])), "offsets make bags, and pooling 'none' has none"),
        ((torch.zeros(4, 2), torch.tensor([0]), None, "sum"), "offsets are missing: ids are 1-D; pooling 'sum' takes"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pool(*args)


def test_slots_need_two_dimensions() -> None:
    with pytest.raises(UsageError, match=r"inverse must have shape \[slots, batch\], got \[3\]"):
        pool_slots(torch.zeros(4, 2), torch.zeros(3, dtype=torch.int64))


def test_offsets_with_two_dimensions_of_ids_are_refused() -> None:
    with pytest.raises(UsageError, match="offsets cut bags out of 1-D ids, and these are 2-D"):
        pool(torch.ones(2, 3), torch.zeros(2, 2, dtype=torch.int64), torch.tensor([0, 2]), "sum")

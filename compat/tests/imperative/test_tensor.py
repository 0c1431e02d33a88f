"""Tensors of the imperative mode: what makes them, what they can do, and that torch takes them for its own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_paddle.imperative as paddle
from fleet.errors import CheckpointError, NotSupportedError, UsageError, UsageTypeError
from fleet.strategy import DistributedStrategy
from fleet_paddle.imperative.shape import Shape
from fleet_paddle.programs.variables.var_types import VarDesc

X = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])


def weight() -> paddle.Tensor:
    return paddle.to_tensor([[1.0, -1.0], [0.5, 2.0]], stop_gradient=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda w: w + 1,
        lambda w: 1 - w,
        lambda w: torch.ones(2, 2) * w,
        lambda w: X @ w,
        lambda w: -w,
        lambda w: w[0],
        lambda w: w > 0,
        lambda w: w.T,
        lambda w: w.sum(axis=0, keepdim=True),
        lambda w: w.reshape([4]),
        lambda w: w.max(axis=1),
        lambda w: w.split(2)[0],
        lambda w: w.astype("float64"),
        lambda w: w.detach(),
        lambda w: w.transpose([1, 0]),
        lambda w: w.transpose(0, 1),
        lambda w: paddle.topk(w, 1)[1],
        lambda w: paddle.exp(w),
        lambda w: paddle.add(w, X),
        lambda w: paddle.nn.functional.relu(w),
        lambda w: paddle.nn.ReLU()(torch.ones(2)) + w[0],
        lambda w: copy.deepcopy(w),
        lambda w: paddle.grad([(w * w).sum()], [w])[0],
    ],
)
def test_what_is_made_of_one_is_one_and_gives_an_array(make: Callable[[paddle.Tensor], Any]) -> None:
    made = make(weight())
    assert type(made) is paddle.Tensor
    assert isinstance(made.numpy(), np.ndarray)


def test_a_loss_prints_as_the_documents_do_and_leaves_gradients() -> None:
    w: Any = weight()
    loss = (X @ w).mean()
    assert str(loss.numpy()) == "[3.75]"
    assert (float(loss), int(loss), f"{loss:.2f}", "%.2f" % loss) == (3.75, 3, "3.75", "3.75")  # noqa: UP031 - as scripts do
    loss.backward()
    np.testing.assert_allclose(w.gradient(), np.array([[1, 1], [1.5, 1.5]]))
    np.testing.assert_allclose(w.grad.numpy(), w.gradient())
    w.clear_grad()
    assert w.grad is None is w.gradient()
    (X @ w).backward()  # several elements: of their sum
    np.testing.assert_allclose(w.gradient(), [[4, 4], [6, 6]])
    np.testing.assert_allclose(np.asarray(w), w.numpy())


def test_arrays_are_copies_and_one_value_is_a_number() -> None:
    w: Any = weight()
    (w * 2).backward()
    before = w.numpy(), np.asarray(w), w.gradient()
    with paddle.no_grad():
        w.add_(1)
        w.grad += 1
    for array, value in zip(before, (1, 1, 2), strict=True):
        assert array[0, 0] == value
        array[:] = 9
    assert (w[0, 0], w.grad[0, 0]) == (2, 3)
    loss: Any = w.mean().numpy()
    assert (float(loss), int(loss), f"{loss:.2f}", "%.2f" % loss) == (1.625, 1, "1.62", "1.62")  # noqa: UP031
    assert (str(loss), repr(loss), f"{loss}") == ("[1.625]", "array([1.625], dtype=float32)", "[1.625]")
    assert type(loss * np.ones(3)) is np.ndarray
    assert type(loss.sum()) is np.float32
    with pytest.raises(ValueError, match="is a copy of its values"):
        np.array(w, copy=False)


def test_indexing_as_scripts_do() -> None:
    w: Any = weight()
    loss = (w * w).mean()
    assert type(loss[0]) is paddle.Tensor
    loss[0].backward()
    np.testing.assert_allclose(w.gradient(), w.numpy() / 2)
    np.testing.assert_array_equal(paddle.concat([loss, loss]).numpy(), [loss.item()] * 2)
    array = np.arange(12.0).reshape(3, 4)
    x: Any = paddle.to_tensor(array)
    steps: list[Any] = [
        np.s_[::-1],
        np.s_[:, ::-1],
        np.s_[::-2, 1:3],
        np.s_[1, ::-1],
        np.s_[5:1:-1],
        np.s_[0:2, 3:0:-2],
    ]
    for index in steps:
        np.testing.assert_array_equal(x[index].numpy(), array[index])
    for bad in (np.s_[5], np.s_[0, 0, 0]):
        with pytest.raises(IndexError):
            x[bad]
    x[:, 0] = np.array([7, 8, 9])
    assert x[:, 0].tolist() == [7, 8, 9]
    assert (x.size, x.size(), x.size(0)) == (12, [3, 4], 3)


def test_numbers_of_two_types() -> None:
    w: Any = weight()
    wide = paddle.to_tensor(np.ones((2, 2)))
    assert ((w * wide).dtype, (wide * w).dtype, (w > wide).dtype) == (torch.float32, torch.float64, torch.bool)
    assert (paddle.to_tensor([1, 2]) * w).dtype is torch.float32
    for made in (np.ones((2, 2)) * w, w * np.ones((2, 2)), np.float64(2) * w, np.ones(2) - w, w @ np.ones((2, 2))):
        assert type(made) is paddle.Tensor
        assert made.dtype is torch.float32
        assert not made.stop_gradient
    assert w.dtype == VarDesc.VarType.FP32 == "float32"
    assert w.dtype != VarDesc.VarType.FP64


def test_torch_itself_means_what_it_says() -> None:
    x: Any = paddle.ones([3, 6])
    by_size: Any = torch.split
    assert [tuple(part.shape) for part in by_size(x, 2, 1)] == [(3, 2)] * 3
    assert [part.shape for part in x.split(2, 1)] == [[3, 3]] * 2
    x = X
    np.testing.assert_array_equal(x.gather(0, torch.tensor([[1, 0]])).numpy(), [[3, 2]])
    np.testing.assert_array_equal(x.gather(paddle.to_tensor([1])).numpy(), [[3, 4]])


def test_stop_gradient() -> None:
    w: Any = weight()
    part = w[0:1]
    part.stop_gradient = True
    assert not part.requires_grad
    assert type(part) is paddle.Tensor
    used = w[0:1]
    square = used * used
    with pytest.raises(UsageError, match="a part of another one and was used already"):
        used.stop_gradient = True
    assert square.requires_grad
    assert (w.stop_gradient, X.stop_gradient) == (False, True)
    w.stop_gradient = True
    assert not w.requires_grad
    w.stop_gradient = False
    product = w * 2
    product.stop_gradient = True
    assert not product.requires_grad
    with paddle.no_grad():
        assert (w * 2).stop_gradient
    whole = paddle.to_tensor([1])
    whole.stop_gradient = False  # nothing flows there, and it is no error
    assert not whole.stop_gradient
    assert not whole.requires_grad


def test_shapes_read_as_lists_and_serve_torch_as_tuples() -> None:
    assert X.shape == [2, 2] == X.shape
    assert X.shape == torch.Size([2, 2]) == X.shape
    assert X.shape != [2]
    assert repr(X.shape) == "[2, 2]"
    assert X.shape + [1] == [2, 2, 1]  # noqa: RUF005 - as scripts do
    assert X.shape[:-1] + [4] == [2, 4]  # noqa: RUF005
    assert X.shape[1:] == [2]
    assert [3] + X.shape == [3, 2, 2]  # noqa: RUF005
    assert torch.zeros(X.shape).shape == (2, 2)
    assert X.shape.numel() == 4
    assert hash(Shape((2,))) == hash((2,))


@pytest.mark.parametrize(
    ("made", "dtype", "values"),
    [
        (lambda: paddle.to_tensor([1, 2]), torch.int64, [1, 2]),
        (lambda: paddle.to_tensor(1.5), torch.float32, 1.5),
        (lambda: paddle.to_tensor(np.array([1.5])), torch.float64, [1.5]),
        (lambda: paddle.to_tensor([1], dtype="float16"), torch.float16, [1]),
        (lambda: paddle.zeros([2], "int32"), torch.int32, [0, 0]),
        (lambda: paddle.full([1], 3), torch.float32, [3]),
        (lambda: paddle.ones_like(X), torch.float32, [[1, 1], [1, 1]]),
        (lambda: paddle.arange(3), torch.int64, [0, 1, 2]),
        (lambda: paddle.arange(0, paddle.shape(paddle.ones([4, 3]))[-1]), torch.int64, [0, 1, 2]),
        (lambda: paddle.arange(1, 2, 0.5), torch.float32, [1, 1.5]),
        (lambda: paddle.linspace(0, 1, 3), torch.float32, [0, 0.5, 1]),
        (lambda: paddle.eye(2), torch.float32, [[1, 0], [0, 1]]),
        (lambda: paddle.concat([X, X], axis=1), torch.float32, [[1, 2, 1, 2], [3, 4, 3, 4]]),
        (lambda: paddle.stack([X[0], X[1]]), torch.float32, [[1, 2], [3, 4]]),
        (lambda: paddle.reshape(X, [0, -1, 1]), torch.float32, [[[1], [2]], [[3], [4]]]),
        (lambda: paddle.transpose(X, [1, 0]), torch.float32, [[1, 3], [2, 4]]),
        (lambda: paddle.split(X, [1, -1], axis=1)[1], torch.float32, [[2], [4]]),
        (lambda: paddle.matmul(X, X, transpose_y=True), torch.float32, [[5, 11], [11, 25]]),
        (lambda: paddle.sum(X, axis=[0, 1]), torch.float32, 10),
        (lambda: paddle.mean(X, 0), torch.float32, [2, 3]),
        (lambda: paddle.max(X), torch.float32, 4),
        (lambda: paddle.argmax(X, axis=1, dtype="int32"), torch.int32, [1, 1]),
        (lambda: paddle.cast(X, "bool"), torch.bool, [[True] * 2] * 2),
        (lambda: paddle.gather(X, paddle.to_tensor([1])), torch.float32, [[3, 4]]),
        (lambda: paddle.equal(X, 2.0), torch.bool, [[False, True], [False, False]]),
        (lambda: paddle.scale(X, 2.0, 1.0), torch.float32, [[3, 5], [7, 9]]),
        (lambda: paddle.clip(X, 2.0, 3.0), torch.float32, [[2, 2], [3, 3]]),
        (lambda: paddle.norm(X[1]), torch.float32, 5),
        (lambda: paddle.unsqueeze(X[0], [0, 2]), torch.float32, [[[1], [2]]]),
        (lambda: paddle.nn.functional.one_hot(paddle.to_tensor([1]), 3), torch.float32, [[0, 1, 0]]),
    ],
)  # fmt: skip
def test_functions(made: Callable[[], Any], dtype: torch.dtype, values: Any) -> None:
    tensor = made()
    assert type(tensor) is paddle.Tensor
    assert tensor.dtype is dtype
    np.testing.assert_array_equal(tensor.numpy(), np.atleast_1d(values))


def test_random_numbers_begin_at_the_seed() -> None:
    def some() -> list[Any]:
        paddle.seed(3)
        return [
            paddle.randn([4]).numpy(),
            paddle.rand([4]).numpy(),
            paddle.randint(0, 9, [4]).numpy(),
            paddle.randperm(4).numpy(),
            paddle.normal(1.0, 2.0, [3]).numpy(),
        ]

    for one, other in zip(some(), some(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert paddle.uniform([9], min=5.0, max=6.0, seed=1).min() >= 5


def test_parameters_are_torchs_and_change_in_place() -> None:
    made = paddle.create_parameter([2, 2])
    assert isinstance(made, torch.nn.Parameter)
    assert type(copy.deepcopy(made)) is paddle.Parameter
    assert type(made * 2) is paddle.Tensor
    made.set_value(np.eye(2))
    np.testing.assert_array_equal(made.numpy(), np.eye(2))
    made.trainable = False
    assert made.stop_gradient
    with pytest.raises(UsageError, match=r"the tensor has shape \[2, 2\], the values \[3\]"):
        made.set_value([1, 2, 3])


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    plain = {"w": X, "flags": paddle.to_tensor([True]), "half": X.astype("bfloat16"), "array": np.arange(3)}
    paddle.save(plain, tmp_path / "model.pdparams")
    loaded = paddle.load(tmp_path / "model.pdparams")
    assert sorted(loaded) == sorted(plain)
    assert all(type(one) is paddle.Tensor for one in loaded.values())
    assert loaded["half"].dtype is torch.bfloat16
    np.testing.assert_array_equal(loaded["w"].numpy(), X.numpy())
    deep = {"state": {0: {"step": X, "n": 3}}, "groups": [{"lr": 0.5, "name": "a", "no": None, "on": True}]}
    paddle.save(deep, tmp_path / "deep")
    found = paddle.load(tmp_path / "deep")
    assert found["groups"] == deep["groups"]
    assert found["state"][0]["n"] == 3
    np.testing.assert_array_equal(found["state"][0]["step"].numpy(), X.numpy())
    torch.save({"w": torch.ones(1)}, tmp_path / "zip")
    with pytest.raises(CheckpointError, match="zip is a zip archive with a pickle"):
        paddle.load(tmp_path / "zip")
    (tmp_path / "pickle").write_bytes(pickle.dumps({"w": np.ones(2)}, 2))
    assert paddle.load(tmp_path / "pickle")["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("value", [[1, "a", None, 2.5], 3, {"a": np.float32(0.5)}, "text", {"value": {"b": True}}, {}])
def test_whatever_is_saved_is_loaded(value: Any, tmp_path: Path) -> None:
    paddle.save(value, tmp_path / "it")
    assert paddle.load(tmp_path / "it") == value
    paddle.save([value, X], tmp_path / "it")
    found, array = paddle.load(tmp_path / "it", return_numpy=True)
    assert found == value
    assert type(array) is np.ndarray
    np.testing.assert_array_equal(array, X.numpy())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: paddle.to_tensor([[1], [1, 2]]), UsageTypeError, "rows must be of one length"),
        (lambda: paddle.to_tensor("text"), UsageTypeError, "data must be numbers, got str"),
        (lambda: paddle.zeros([1], "float31"), UsageError, "dtype must be one of float32"),
        (lambda: paddle.split(X, 3), UsageError, "3 does not divide 2"),
        (lambda: paddle.set_device("gpu:x"), UsageError, "device must be 'cpu', 'gpu' or 'gpu:INDEX', got 'gpu:x'"),
        (
            lambda: paddle.save({"x": {2.5: X}}, "x"),
            UsageTypeError,
            "keys must be texts or whole numbers, got 2.5 in x",
        ),
        (lambda: paddle.save({"x": object()}, "x"), UsageTypeError, "x must be a tensor, a number"),
        (lambda: paddle.load("nowhere"), CheckpointError, "there is no file nowhere"),
        (lambda: paddle.all_reduce(X), Exception, "needs the other workers; call init_parallel_env"),
        (
            lambda: paddle.set_default_dtype("int64"),
            UsageError,
            "must be a type of floats, such as 'float32', got 'int64'",
        ),
        (
            lambda: paddle.DataParallel(paddle.nn.ReLU(), DistributedStrategy(), comm_buffer_size=1),
            UsageError,
            "a strategy is given alone; set its fuse_grad_size_in_MB",
        ),
        (lambda: paddle.DataParallel(paddle.nn.ReLU(), group=1), NotSupportedError, "group must be left out"),
    ],
)
def test_mistakes(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_who_is_who_without_others() -> None:
    assert (paddle.get_rank(), paddle.get_world_size(), paddle.ParallelEnv().nranks) == (0, 1, 1)
    if not torch.cuda.is_available():
        assert paddle.get_device() == "cpu"

"""Which object a result is, what it prints, and what becomes of it in copies, pickles and files."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet_paddle import imperative as paddle
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.tensor import Parameter, Tensor


def test_tensors_of_any_type_are_printed() -> None:
    assert repr(paddle.to_tensor([3, 1])) == "Tensor([3, 1])" == f"{paddle.to_tensor([3, 1])}"
    assert "True" in str(paddle.to_tensor([True, False]))
    assert "0.5" in str(paddle.to_tensor([[0.5, 2.0]]))
    assert (f"{paddle.to_tensor(3)}", f"{paddle.to_tensor(True)}", f"{paddle.to_tensor(2.5)}") == ("3", "True", "2.5")
    assert (f"{paddle.to_tensor([2.5]):.2f}", f"{paddle.to_tensor(7):03d}") == ("2.50", "007")
    assert str(paddle.argmax(paddle.to_tensor([[0.1, 0.9]]), axis=1)) == "Tensor([1])"
    assert "device='meta'" in f"{torch.empty((), device='meta').as_subclass(Tensor)}"


def test_an_operator_with_an_assignment_makes_another_tensor() -> None:
    x: Any = paddle.to_tensor([1.0, 2.0])
    for change in ("+= 1", "-= 1", "*= 2", "/= 2", "**= 2", "//= 1"):
        names = {"h": x}
        exec(f"h {change}", names)
        assert names["h"] is not x
        assert type(names["h"]) is Tensor
        assert x.tolist() == [1, 2]
    z: Any = paddle.to_tensor([0.0], stop_gradient=False)
    a: Any = F.sigmoid(z)
    a += 1
    a.backward()
    assert z.grad.tolist() == [0.25]
    w: Any = nn.Linear(2, 2).weight
    doubled = w
    doubled *= 2
    assert type(w) is Parameter
    assert doubled is not w


def test_code_of_torch_changes_a_loaded_state_in_place(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    made = paddle.optimizer.Adam(parameters=net.parameters())
    net(paddle.ones([1, 2])).backward()
    made.step()
    paddle.save(made.state_dict(), tmp_path / "state")
    made.set_state_dict(paddle.load(tmp_path / "state"))
    made.step()
    assert [int(made.state[one]["step"]) for one in net.parameters()] == [2, 2]


def test_a_result_is_never_what_was_given() -> None:
    x: Any = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    y: Any = x * 1
    for same in (
        y.astype("float32"),
        paddle.cast(y, "float32"),
        paddle.clip(y),
        paddle.flatten(y),
        F.dropout(y, training=False),
        F.alpha_dropout(y, training=False),
        paddle.to_tensor(y),
    ):
        assert same is not y
        same.stop_gradient = True
        same.fill_(9)
    assert y.tolist() == [1, 2]
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_a_plain_tensor_of_the_caller_keeps_its_class() -> None:
    p = torch.ones(2)
    for made in (nn.Identity()(p), paddle.clip(p), F.dropout(p, training=False), paddle.flatten(p), nn.Flatten(0)(p)):
        assert type(made) is Tensor
    assert type(p) is torch.Tensor


def test_pickles_and_copies() -> None:
    net: Any = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1D(2))
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    assert all(type(one) is torch.Tensor for one in torch.load(file, weights_only=True).values())
    net[0].weight.need_clip = False
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert type(other[0].weight) is Parameter
        assert (other[0].weight.name, other[0].weight.need_clip) == (net[0].weight.name, False)
        assert all(type(one) is Tensor for one in other.buffers())
        assert len(other.parameters()) == 4
    x = paddle.to_tensor([1.0], stop_gradient=False)
    assert (type(copy.copy(x)), copy.copy(x).stop_gradient) == (Tensor, False)
    assert type(copy.copy(net[0].weight)) is Parameter


def test_files_hold_tensors_whose_paths_spell_alike(tmp_path: Path) -> None:
    one, zero = np.ones(2), np.zeros(2)
    for given in (
        {"a": {"b": one}, "a/b": zero},
        {1: one, "1": zero},
        {"": one, "value": zero},
        {"fleet.structure": one, "b": zero},
        {"": one},
    ):
        paddle.save(given, tmp_path / "file")
        read = paddle.load(tmp_path / "file", return_numpy=True)
        assert str(read) == str(given)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_backward_takes_what_torch_takes() -> None:
    x: Any = paddle.to_tensor([3.0], stop_gradient=False)
    y: Any = paddle.to_tensor([2.0], stop_gradient=False)
    (x * x * y).backward(create_graph=True, inputs=[x])
    assert y.grad is None
    slope = x.grad
    x.grad = None
    slope.backward()
    assert x.grad.tolist() == [4]


def test_steps_back_in_any_index() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    x: Any = paddle.to_tensor(array)
    for index in (
        np.s_[..., ::-1],
        np.s_[None, ::-1],
        np.s_[1, ..., None, ::-2],
        np.s_[::-1, 1],
        np.s_[0, ::-1, 3:0:-1],
    ):
        np.testing.assert_array_equal(x[index].numpy(), array[index])
        values = np.random.default_rng(0).random(array[index].shape)
        x[index] = values
        array[index] = values
        np.testing.assert_array_equal(x.numpy(), array)
    x[::-1] = 0
    assert x.sum() == 0
    x[0, 0, 0:2] = [1.0, 2.0]
    x[0, 0, 2:][::-1] = [4.0, 3.0]
    x[1, 1, 1] = np.float32(7)
    assert (x[0, 0].tolist(), x[1, 1, 1].item()) == ([1, 2, 3, 4], 7)
    for wrong in (np.s_[[0], ::-1], np.s_[::-1, 0, 0, 0]):
        with pytest.raises((IndexError, ValueError)):
            x[wrong]


def test_transposed_and_data() -> None:
    x: Any = paddle.arange(24).reshape([2, 3, 4])
    assert (x.T.shape, x.mT.shape, x[0].T.shape, x[0, 0].T.shape) == ([4, 3, 2], [2, 4, 3], [4, 3], [4])
    assert type(x.T) is type(x.mT) is type(x.data) is Tensor
    weight = nn.Linear(2, 2).weight
    assert type(weight.data) is torch.Tensor
    weight.data = torch.zeros(2, 2)
    assert weight.abs().sum() == 0

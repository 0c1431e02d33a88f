"""What is inside a layer, with Paddle's arguments; initialisers of tensors; optimizers copied, given closures."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from fleet import DistributedStrategy
from fleet.collective import tuning
from fleet.errors import NotSupportedError, UsageError
from fleet_paddle import imperative as paddle
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_programs.executor.place import CPUPlace


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.own = self.create_parameter([2])
        self.norm = nn.BatchNorm1D(3)


def test_lists_with_and_without_sublayers() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters(include_sublayers=False)] == ["own"]
    assert [name for name, _ in net.named_parameters("p", False)] == ["p.own"]
    assert len(net.buffers()) == len(list(net.named_buffers(include_sublayers=True))) > 0
    assert net.buffers(include_sublayers=False) == list(net.named_buffers(include_sublayers=False)) == []
    assert list(net.state_dict(include_sublayers=False)) == ["own"]
    given: dict[str, Any] = {"before": 1}
    assert net.state_dict(given, structured_name_prefix="a.") is given
    assert {"before", "a.own", "a.norm.weight"} <= set(given)


def test_layers_are_moved() -> None:
    net = Net()
    assert net.to(dtype="float64").own.dtype == torch.float64
    assert net.to("cpu", "float32", blocking=True).own.dtype == torch.float32
    assert net.to(device=CPUPlace()).to(CPUPlace()).to(torch.float64).own.dtype == torch.float64
    with pytest.raises(UsageError, match="to: device must be 'cpu', 'gpu'"):
        net.to("gpu:x")
    for method in (net.create_variable, net.create_tensor):
        with pytest.raises(NotSupportedError, match=r"name='v'.*use zeros\(shape\)"):
            method(name="v")


def test_initialisers_fill_tensors() -> None:
    weight = nn.Linear(2, 2).weight
    nn.initializer.Constant(2.0)(weight)
    assert weight.tolist() == [[2, 2], [2, 2]]
    nn.initializer.Assign(np.eye(2))(weight)
    assert weight.tolist() == [[1, 0], [0, 1]]
    nn.initializer.XavierUniform()(weight)
    assert weight.abs().max() < 1.3
    assert not weight.stop_gradient


def test_labels_of_32_bits() -> None:
    label = paddle.to_tensor(np.array([1, 0], "int32"))
    assert F.one_hot(label, 2).tolist() == [[0, 1], [1, 0]]
    scores = paddle.to_tensor([[0.5, 1.0], [2.0, 0.0]])
    assert F.nll_loss(scores, label).item() == -1.5


def clipped(learning_rate: Any = 1.0) -> tuple[Any, Any]:
    weight = paddle.create_parameter([2], default_initializer=nn.initializer.Constant(0.0))
    clip = nn.ClipGradByValue(0.5)
    return weight, paddle.optimizer.SGD(learning_rate, parameters=[weight], grad_clip=clip)


def test_gradients_of_a_closure_are_clipped() -> None:
    weight, made = clipped()
    calls = []

    def closure() -> Any:
        made.clear_grad()
        loss = (weight * 4).sum()
        loss.backward()
        calls.append(loss)
        return loss

    assert made.step(closure) is calls[0]
    assert made.step(closure=closure) is calls[1]
    assert (len(calls), weight.tolist()) == (2, [-1, -1])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_an_optimizer_clips_and_follows_a_schedule_of_its_own(duplicate: Any) -> None:
    rate = paddle.optimizer.lr.StepDecay(1.0, step_size=1, gamma=0.5)
    weight, made = clipped(rate)
    other = duplicate(made)
    theirs = other.param_groups[0]["params"][0]
    assert theirs is not weight
    (theirs * 4).sum().backward()
    other.step()
    assert (theirs.tolist(), weight.tolist()) == ([-0.5, -0.5], [0, 0])
    other.scheduler.step()
    assert (other.get_lr(), made.get_lr()) == (0.5, 1.0)
    other.load_state_dict(other.state_dict())
    theirs.grad = None
    (theirs * 4).sum().backward()
    other.step()
    assert theirs.tolist() == [-0.75, -0.75]


def test_auto_leaves_layers_alone_that_cannot_be_compiled() -> None:
    auto, asked = DistributedStrategy(), DistributedStrategy()
    auto.auto = asked.compile = True
    layer, gpu = nn.Linear(2, 2), torch.device("cuda")
    assert not tuning.choose(auto, layer, gpu).compile
    assert tuning.choose(auto, torch.nn.Linear(2, 2), gpu).compile
    with pytest.raises(NotSupportedError, match=r"parameter 'weight' is a Parameter of its own; leave it False"):
        tuning.choose(asked, layer, gpu)

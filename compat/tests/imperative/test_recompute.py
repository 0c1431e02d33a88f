"""Parts of a network that are computed twice, and layers by name."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch

paddle: Any = importlib.import_module("paddle")
recompute = paddle.distributed.fleet.utils.recompute


def test_gradients_are_the_same_and_forward_runs_twice() -> None:
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Dropout(0.5), paddle.nn.Linear(8, 1))
    calls: list[int] = []
    net.register_forward_pre_hook(lambda *_: calls.append(1))
    x = paddle.randn([6, 4])
    found = []
    for run in (net, lambda given: recompute(net, given)):
        torch.manual_seed(3)
        net.clear_gradients()
        run(x).sum().backward()
        found.append([np.array(one.grad) for one in net.parameters()])
    assert len(calls) == 3
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def test_layers_by_name() -> None:
    net = paddle.nn.LayerDict({"first": paddle.nn.Linear(2, 3), "act": paddle.nn.ReLU()})
    net["last"] = paddle.nn.Linear(3, 1)
    assert list(net.keys()) == ["first", "act", "last"]
    assert [list(one.shape) for one in net.parameters()] == [[2, 3], [3], [3, 1], [1]]
    assert len(net) == 3
    assert "act" in net
    net.pop("act")
    assert net["last"](net["first"](paddle.ones([5, 2]))).shape == [5, 1]


def test_no_other_devices() -> None:
    assert not paddle.is_compiled_with_xpu()
    assert not paddle.is_compiled_with_npu()
    assert not paddle.is_compiled_with_rocm()

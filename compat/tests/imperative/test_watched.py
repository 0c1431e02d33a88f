"""Calls go straight to what computes unless somebody watches: hooks, profilers and tracers see all of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

import fleet_paddle.imperative as paddle
from fleet_paddle import dygraph
from fleet_paddle.imperative import nn, optimizer


def trained(layer: Any, steps: Any, closure: Any = None) -> Any:
    nn.functional.mse_loss(layer(paddle.ones([2, 3])), paddle.zeros([2, 1])).backward()
    return steps.step(closure) if closure else steps.step()


def test_hooks_of_a_layer() -> None:
    seen: list[str] = []
    layer = nn.Linear(3, 1)
    handles = [
        layer.register_forward_pre_hook(lambda *_: seen.append("before")),
        layer.register_forward_post_hook(lambda *_: seen.append("after")),
        register_module_forward_hook(lambda *_: seen.append("all")),
    ]
    layer(paddle.ones([2, 3]))
    assert sorted(seen) == ["after", "all", "before"]
    for one in handles:
        one.remove()
    layer(paddle.ones([2, 3]))
    assert len(seen) == 3


def test_a_hook_may_change_what_comes_out() -> None:
    layer = nn.Identity()
    layer.register_forward_hook(lambda _, __, made: made + 1)
    assert layer(paddle.zeros([1])).tolist() == [1.0]


@pytest.mark.parametrize("kind", [optimizer.SGD, optimizer.Adam])
def test_hooks_of_an_optimizer(kind: Any) -> None:
    seen: list[str] = []
    layer = nn.Linear(3, 1)
    steps = kind(learning_rate=0.1, parameters=layer.parameters())
    handles = [
        steps.register_step_pre_hook(lambda *_: seen.append("before")),
        steps.register_step_post_hook(lambda *_: seen.append("after")),
        register_optimizer_step_post_hook(lambda *_: seen.append("all")),
    ]
    trained(layer, steps)
    assert seen == ["before", "after", "all"]
    for one in handles:
        one.remove()
    trained(layer, steps)
    assert len(seen) == 3


def test_a_profiler_sees_steps() -> None:
    layer = nn.Linear(3, 1)
    steps = optimizer.SGD(learning_rate=0.1, parameters=layer.parameters())
    with torch.profiler.profile() as found:
        trained(layer, steps)
    assert "Optimizer.step#SGD.step" in {one.key for one in found.key_averages()}


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_closure_makes_the_gradients_of_a_step(is_watched: bool) -> None:
    layer = nn.Linear(3, 1)
    steps = optimizer.SGD(learning_rate=0.1, parameters=layer.parameters(), grad_clip=nn.ClipGradByValue(0.5))
    if is_watched:
        steps.register_step_pre_hook(lambda *_: None)
    before = layer.weight.clone()

    def closure() -> Any:
        steps.clear_grad()
        loss = (layer(paddle.ones([2, 3])) * 1000).sum()
        loss.backward()
        return loss

    assert steps.step(closure).shape == [1]
    torch.testing.assert_close(layer.weight, before - 0.05)


def test_a_layer_can_be_traced() -> None:
    traced = torch.jit.trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), (torch.ones(2, 3),))
    assert traced(torch.ones(5, 3)).shape == (5, 1)


def test_gradients_are_dropped_or_filled_with_zeros() -> None:
    layer: Any = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    steps = optimizer.SGD(learning_rate=0.1, parameters=layer.parameters())
    trained(layer, steps)
    steps.zero_grad(set_to_none=False)
    assert not any(one.gradient().any() for one in layer.parameters())
    steps.clear_grad()
    assert all(one.grad is None for one in layer.parameters())
    trained(layer, steps)
    layer.clear_gradients()
    assert all(one.grad is None for one in layer.parameters())


def test_backward_of_several_elements_is_that_of_their_sum() -> None:
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    (x * x).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        paddle.to_tensor([1.0]).backward()
    y = x * x
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_updates_take_one_pass_on_the_cpu_where_torch_has_one() -> None:
    layer = dygraph.Linear(3, 1)
    kinds = {optimizer.Adam: True, optimizer.AdamW: True, optimizer.SGD: None, optimizer.Adamax: None}
    for kind, is_fused in kinds.items():
        made: Any = kind(learning_rate=0.1, parameters=layer.parameters())
        assert made.param_groups[0].get("fused") is is_fused, kind
        assert not made._step_supports_amp_scaling

"""Dense groups: the torch form of every rule gives what the native form gives, and both share one form of state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from fleet.errors import UsageError
from fleet.ps.held.dense import DenseGroup, HostGroup, dense_group
from fleet.ps.held.dense_cuda import DeviceGroup
from fleet.ps.job.rule_table import RULES
from support.worker.dense_rules import SIZE, STEPS, VARIANTS, assert_same, gradients, train, values

Make = Callable[[str, Mapping[str, float], int], DenseGroup]


def host_group(rule: str, args: Mapping[str, float], size: int) -> DenseGroup:
    return dense_group(rule, args, [size], "cpu")


def device_group(rule: str, args: Mapping[str, float], size: int) -> DeviceGroup:
    return DeviceGroup(rule, args, [size], "cpu")


@pytest.mark.parametrize(("rule", "args"), VARIANTS, ids=str)
def test_state_goes_from_one_to_the_other(rule: str, args: dict[str, float]) -> None:
    host, device = host_group(rule, args, SIZE), DeviceGroup(rule, args, [SIZE], "cpu")
    host.start(values())
    device.start(values())
    train(host, 0, 50)
    train(device, 0, 50)
    crossed_host, crossed_device = host_group(rule, args, SIZE), DeviceGroup(rule, args, [SIZE], "cpu")
    crossed_host.restore(device.read(), device.state())
    crossed_device.restore(host.read(), host.state())
    for group in (host, device, crossed_host, crossed_device):
        train(group, 50, STEPS)
    assert_same(crossed_host, host)
    assert_same(crossed_device, host)


PARTS = (40, 1, 200, 60)
ABSENT = ((), (1, 2), (), (0,), (0, 1, 2, 3), (3,))
"""Of each step; the first is whole, so that the state that all parts share has begun."""


@pytest.mark.parametrize(("rule", "args"), [one for one in VARIANTS if one[0] not in ("lars", "lamb")], ids=str)
def test_parts_that_sit_a_step_out_have_a_life_of_their_own(rule: str, args: dict[str, float]) -> None:
    """As if each were a group by itself: values, momentum, counts of steps."""
    ends = np.cumsum(PARTS)
    alone = [host_group(rule, args, size) for size in PARTS]
    whole = [dense_group(rule, args, PARTS, "cpu"), DeviceGroup(rule, args, PARTS, "cpu")]
    for group, first in zip(alone, np.split(values(), ends[:-1]), strict=True):
        group.start(first)
    for one in whole:
        one.start(values())
    for step, absent in enumerate(ABSENT * 3):
        grads = gradients()[step]
        for one in whole:
            one.apply(grads, 0.02, absent)
        for number, part in enumerate(np.split(grads, ends[:-1])):
            if number not in absent:
                alone[number].apply(part, 0.02)
        if step == 9:  # and saved, and gone on from
            again = dense_group(rule, args, PARTS, "cpu")
            again.restore(whole[1].read(), whole[1].state())
            whole.append(again)
    wanted = np.concatenate([group.read() for group in alone])
    assert np.array_equal(whole[0].read(), wanted)
    for other in whole[1:]:
        np.testing.assert_allclose(other.read(), wanted, rtol=RULES[rule].bound, atol=RULES[rule].bound)


@pytest.mark.parametrize("make", [host_group, device_group])
def test_copies_go_in_and_out(make: Make) -> None:
    group = make("adam", {}, 4)
    first, grads = np.ones(4, np.float32), np.ones(4, np.float32)
    group.start(first)
    first[:] = 7
    read, state = group.read(), group.state()
    group.apply(grads, 0.1)
    assert grads.tolist() == [1] * 4
    assert read.tolist() == [1] * 4
    assert state.tolist() == [0] * 9
    after, state = group.read(), group.state()
    group.restore(after, state)
    state[:] = 9
    assert group.read().tolist() == pytest.approx([0.9] * 4)
    assert group.state()[-1] == 1


@pytest.mark.parametrize("make", [host_group, device_group])
@pytest.mark.parametrize("rule", ["adam", "sgd", "ftrl", "lamb"])
def test_a_server_without_a_share_of_the_group(make: Make, rule: str) -> None:
    group = make(rule, {}, 0)
    nothing = np.zeros(0, np.float32)
    group.start(nothing)
    group.apply(nothing, 0.1)
    group.restore(group.read(), group.state())
    group.restore(nothing, nothing)  # what a checkpoint has of it
    group.apply(nothing, 0.1)
    assert len(group.read()) == 0


def test_mistakes_are_named() -> None:
    with pytest.raises(
        UsageError, match="rule adagrad_row has no form for a server's GPU; choose one of adagrad, adam"
    ):
        dense_group("adagrad_row", {}, [3], "cuda")
    with pytest.raises(UsageError, match="dense parameters: .*'adamx'"):
        DeviceGroup("adamx", {}, [3], "cpu")


def test_a_server_on_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UsageError, match="torch sees none; start it with --server_device cpu"):
        dense_group("adam", {}, [3], "cuda")


def test_a_server_on_the_cpu_needs_no_torch() -> None:
    assert isinstance(dense_group("adam", {}, [3], "cpu"), HostGroup)
    assert "torch" not in vars(sys.modules["fleet.ps.held.dense"])

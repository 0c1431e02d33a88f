"""One update of many parameters: the same bits as one after the other, and only of those that can be together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fleet_programs import layers
from fleet_programs import optimizer as of
from fleet_programs.executor import fuse
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.fuse.updates import FUSED
from fleet_programs.executor.memory import memory_optimize
from fleet_programs.executor.scope import Scope
from fleet_programs.kernel.lowering import Lowering
from fleet_programs.layers.io import fed
from fleet_programs.parameters.regularizer import L1Decay, L2Decay
from program_support.programs import Built, building
from program_support.update_cases import MANY, NUM_MANY, many_updates, many_values


def train(built: Built) -> tuple[Scope, list[str]]:
    """What some steps leave behind, and the operators they were made of."""
    built.start(**many_values(built))
    exe, scope = Executor(), Scope()
    scope.tensors.update({name: tensor.clone() for name, tensor in built.scope.tensors.items()})
    for seed in (1, 2, 3):
        exe.run(built.main, many_values(built, "_g", seed), scope=scope)
    return scope, [op.type for op in next(iter(exe._steps.values())).step.ops]


def same(built: Built) -> list[str]:
    """Train with and without the pass, compare every bit; the operators there were."""
    scope, ops = train(built)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse, "PASSES", fuse.PASSES[:-1])
        plain, none = train(built)
    assert not set(none) & set(FUSED.values())
    for name, tensor in scope.tensors.items():
        assert torch.equal(tensor, plain.tensors[name]), name
    return ops


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("penalty", [None, L2Decay(0.1), L1Decay(0.1)], ids=["plain", "l2", "l1"])
@pytest.mark.parametrize("name", MANY)
def test_the_same_bits(name: str, penalty: Any, dtype: str) -> None:
    built = many_updates(MANY[name](0.1, regularization=penalty), dtype=dtype)
    assert same(built) == [f"fused_{'momentum' if name == 'nesterov' else name}"]


@pytest.mark.parametrize("name", MANY)
def test_the_way_of_a_gpu_reads_no_number(name: str) -> None:
    """The kernels that a GPU gets, run on the CPU, where they must come to the same."""
    built = many_updates(MANY[name](0.1))
    block, results = built.main.global_block(), []
    for passes in (fuse.PASSES, ()):
        built.start(**many_values(built))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fuse, "PASSES", passes)
            ops = fuse.fuse(block.ops, block, (), on_host=False)
        given = {
            **built.scope.tensors,
            **{key: torch.from_numpy(one) for key, one in many_values(built, "_g", 1).items()},
        }
        for op in ops:
            kernel = Lowering(block, torch.device("cuda"), built.scope).kernel(op)
            kernel(*(given[one] for one in op.input_names))
        results.append((len(ops), {key: tensor.clone() for key, tensor in given.items()}))
    assert [count for count, _ in results] == [1, NUM_MANY]
    for key, tensor in results[0][1].items():
        torch.testing.assert_close(tensor, results[1][1][key], rtol=1e-6, atol=1e-7)


def test_only_what_differs_in_nothing_else_is_together() -> None:
    """Two rates, two attributes, and updates that have no call for many."""
    built = many_updates(of.Momentum(0.1, 0.9), of.Momentum(0.2, 0.9), of.Momentum(0.1, 0.8), of.Adagrad(0.1))
    assert same(built) == ["fused_momentum"] * 3 + ["adagrad"] * 3
    adam = of.Adam(0.1)
    assert same(many_updates(adam, adam)) == ["fused_adam"]


def test_memory_may_lie_as_it_likes() -> None:
    built, plain = many_updates(of.Adam(0.1)), many_updates(of.Adam(0.1))
    for one in (built, plain):
        one.start(**many_values(one))
    turned = built.scope.tensors["a0"] = built.scope.tensors["a0"].t().contiguous().t()
    for one in (built, plain):
        one.run(many_values(one, "_g", 1))
    assert built.scope.tensors["a0"] is turned
    assert not turned.is_contiguous()
    np.testing.assert_array_equal(built["a0"], plain["a0"])


def test_gradients_of_rows_and_parameters_that_are_updated_twice() -> None:
    with building() as built:
        rows = layers.embedding(fed("ids", [-1, 1], "int64"), [6, 4], is_sparse=True, param_attr="table")
        out = layers.fc(rows, 3, param_attr="w", bias_attr="b")
        losses = [layers.mean(out), layers.mean(layers.square(out))]
        for loss in losses:
            of.Adam(0.1).minimize(loss)
    memory_optimize(built.main, skip_grads=False)
    built.startup.random_seed = 3
    built.start()
    results = []
    for passes in (fuse.PASSES, fuse.PASSES[:-1]):
        exe, scope = Executor(), Scope()
        scope.tensors.update({name: tensor.clone() for name, tensor in built.scope.tensors.items()})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fuse, "PASSES", passes)
            found = [exe.run(built.main, {"ids": np.array([[1], [2], [1]])}, losses, scope) for _ in range(3)]
        ops = [op.type for op in next(iter(exe._steps.values())).step.ops]
        results.append((np.array(found), scope, ops.count("adam"), ops.count("fused_adam")))
    assert [result[2:] for result in results] == [(2, 2), (6, 0)]
    np.testing.assert_array_equal(results[0][0], results[1][0])
    for name, tensor in results[0][1].tensors.items():
        assert torch.equal(tensor, results[1][1].tensors[name]), name

"""Tensor layers, losses and metrics of programs on a GPU, forward and backward, against the same on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fleet_programs import layers
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.place import CUDAPlace
from fleet_programs.layers.io import fed
from program_support.loss_cases import LOSS_CASES
from program_support.programs import building
from program_support.static_ops import SEED, Build, Tried, normal
from program_support.tensor_cases import TENSOR_CASES, X

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

CASES: dict[str, tuple[Build, dict[str, Any]]] = {
    **{name: (build, {"x": X}) for name, build, _ in TENSOR_CASES},
    **{name: (lambda build=build, **given: build(*given.values()), feeds) for name, feeds, build, _ in LOSS_CASES},
    "elementwise": (lambda x, y: layers.elementwise_div(x * y, y + 3.0) ** 2, {"x": X, "y": normal(4, 3, 2)}),
    "elementwise axis": (lambda x, y: layers.elementwise_mul(x, y, axis=0), {"x": X, "y": normal(4)}),
    "matmul": (lambda x, y: layers.matmul(x, y, transpose_y=True), {"x": X, "y": normal(4, 5, 2)}),
    "gather": (layers.gather, {"input": X, "index": np.array([2, 0, 2])}),
    "one_hot": (
        lambda x, ids: layers.matmul(layers.cast(layers.one_hot(ids, 4), "float64"), layers.flatten(x)),
        {"x": X, "ids": np.array([[3], [0]])},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_the_same_and_waits_for_nothing(name: str) -> None:
    build, feeds = CASES[name]
    on_cpu, on_gpu = (Tried(build, feeds, place) for place in (None, CUDAPlace(0)))
    weights = normal(*on_cpu.built.run(feeds, on_cpu.out)[0].shape)
    out, slopes = on_cpu.run(weights)
    same_out, same_slopes = on_gpu.run(weights)
    np.testing.assert_allclose(same_out, out, rtol=1e-8, atol=1e-9)
    for slope, same in zip(slopes, same_slopes, strict=True):
        assert (slope is None) == (same is None)
        if slope is not None:
            np.testing.assert_allclose(same, slope, rtol=1e-8, atol=1e-8)

    feed = {key: torch.from_numpy(value).cuda() for key, value in {**feeds, SEED: weights}.items()}
    fetches = [on_gpu.out, *[slope for slope in on_gpu.slopes if slope is not None]]
    executor = Executor(CUDAPlace(0))
    executor.run(on_gpu.built.main, feed, fetches, scope=on_gpu.built.scope, return_numpy=False)
    torch.cuda.set_sync_debug_mode("error")
    try:
        executor.run(on_gpu.built.main, feed, fetches, scope=on_gpu.built.scope, return_numpy=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_metrics_count_on_the_gpu() -> None:
    probability = np.array([[0.9], [0.8], [0.3], [0.6]], np.float32)
    feed = {"x": np.concatenate([1 - probability, probability], 1), "label": np.array([[1], [0], [0], [1]])}
    with building(CUDAPlace(0)) as built:
        x, label = fed("x", [-1, 2]), fed("label", [-1, 1], "int64")
        total, last, _ = layers.auc(x, label)
        outs = [layers.accuracy(x, label), total, last]
    built.start()
    for _ in range(2):
        assert [one.tolist() for one in built.run(feed, *outs)] == [[0.75], [0.75], [0.75]]

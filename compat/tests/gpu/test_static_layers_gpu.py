"""Layers of programs on a GPU, forward and backward, against the same on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fleet_programs import layers
from fleet_programs.backward.backward import gradients
from fleet_programs.executor.executor import Executor
from fleet_programs.executor.place import CUDAPlace
from fleet_programs.layers.images.conv import conv2d, conv3d
from fleet_programs.layers.images.conv_transpose import conv2d_transpose
from fleet_programs.layers.images.pool import adaptive_pool2d, pool2d
from fleet_programs.layers.io import fed
from fleet_programs.layers.lookup import embedding
from fleet_programs.layers.nn import fc
from fleet_programs.operators.networks.sequence_pool import KINDS
from program_support.programs import building
from program_support.static_ops import SEED, Build, Tried, normal

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

IMAGE = {"x": normal(3, 4, 7, 6)}
MATRIX = {"x": normal(5, 4)}
RAGGED = {"x": (normal(6, 3), np.array([0, 2, 2, 5, 6]))}
IDS = {"x": np.array([[3], [1], [3], [0]])}

DENSE: dict[str, tuple[Build, dict[str, Any]]] = {
    **{
        name: (getattr(layers, name), MATRIX)
        for name in (
            "relu",
            "tanh",
            "sigmoid",
            "gelu",
            "elu",
            "swish",
            "softplus",
            "leaky_relu",
            "relu6",
            "square",
            "exp",
        )
    },
    "softmax": (lambda x: layers.softmax(x), MATRIX),
    "log_softmax": (lambda x: layers.log_softmax(x), MATRIX),
    "prelu": (lambda x: layers.prelu(x, "channel"), IMAGE),
    "fc": (lambda x: fc([x, x], 3, act="tanh"), MATRIX),
    "conv2d": (lambda x: conv2d(x, 4, 3, 2, 1, groups=2, act="relu"), IMAGE),
    "conv2d last": (lambda x: conv2d(x, 4, 3, data_format="NHWC"), IMAGE),
    "conv2d_transpose": (lambda x: conv2d_transpose(x, 2, filter_size=3, stride=2), IMAGE),
    "conv3d": (lambda x: conv3d(x, 2, 2), {"x": normal(2, 3, 3, 4, 3)}),
    "max": (lambda x: pool2d(x, 3, "max", 2, 1, ceil_mode=True), IMAGE),
    "max last": (lambda x: pool2d(x, 2, "max", 2, data_format="NHWC"), IMAGE),
    "avg": (lambda x: pool2d(x, 3, "avg", 2, 1), IMAGE),
    "avg of all": (lambda x: pool2d(x, pool_type="avg", global_pooling=True), IMAGE),
    "max of all": (lambda x: pool2d(x, global_pooling=True), IMAGE),
    "adaptive": (lambda x: adaptive_pool2d(x, 3, "avg"), IMAGE),
    "batch_norm": (lambda x: layers.batch_norm(x, act="relu"), IMAGE),
    "batch_norm last": (lambda x: layers.batch_norm(x, data_layout="NHWC"), IMAGE),
    "batch_norm kept": (lambda x: layers.batch_norm(x, use_global_stats=True), IMAGE),
    "layer_norm": (lambda x: layers.layer_norm(x), IMAGE),
    "layer_norm bare": (lambda x: layers.layer_norm(x, scale=False), IMAGE),
    "group_norm": (lambda x: layers.group_norm(x, 2), IMAGE),
    "instance_norm": (layers.instance_norm, {"input": IMAGE["x"]}),
    "l2_normalize": (lambda x: layers.l2_normalize(x, 1), MATRIX),
    "lrn": (lambda x: layers.lrn(x), IMAGE),
    "attention": (
        layers.scaled_dot_product_attention,
        {name: normal(2, 3, 5, 4) for name in ("query", "key", "value")},
    ),
    "embedding": (lambda x: embedding(x, [5, 2], padding_idx=3, dtype="float64"), IDS),
}

OTHERS: dict[str, tuple[Build, dict[str, Any]]] = {
    **{kind: (lambda x, kind=kind: layers.sequence_pool(x, kind), RAGGED) for kind in KINDS},
    "expand_as": (layers.expand_as, {"x": normal(1, 4), "target_tensor": MATRIX["x"]}),
    "strided": (lambda x: layers.strided_slice(x, [1], [3], [0], [-2]), MATRIX),
    "where": (lambda x: layers.where(x > 0.0, x, x * 2.0), MATRIX),
    "selu": (lambda x: layers.selu(x), MATRIX),
}

RANDOM: dict[str, Build] = {
    "uniform": lambda x: x + layers.uniform_random(layers.shape(x), "float64"),
    "gaussian": lambda x: x + layers.gaussian_random_batch_size_like(x, [1, 4], dtype="float64"),
    "shuffle": lambda x: layers.shuffle_batch(x),
    "print": lambda x: layers.Print(x),
}


@pytest.mark.parametrize("case", [*DENSE.values(), *OTHERS.values()], ids=[*DENSE, *OTHERS])
def test_a_layer(case: tuple[Build, dict[str, Any]]) -> None:
    on_cpu, on_gpu = (Tried(*case, place=place) for place in (None, CUDAPlace(0)))
    weights = normal(*on_cpu.built.run(case[1], on_cpu.out)[0].shape)
    out, slopes = on_cpu.run(weights)
    same_out, same_slopes = on_gpu.run(weights)
    np.testing.assert_allclose(same_out, out, rtol=1e-8, atol=1e-9)
    for slope, same in zip(slopes, same_slopes, strict=True):
        assert (slope is None) == (same is None)
        if slope is not None:
            np.testing.assert_allclose(same, slope, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", DENSE)
def test_a_layer_waits_for_nothing(name: str) -> None:
    build, feeds = DENSE[name]
    tried, executor = Tried(build, feeds, CUDAPlace(0)), Executor(CUDAPlace(0))
    shape = tried.built.run(feeds, tried.out)[0].shape
    feed = {key: torch.from_numpy(value).cuda() for key, value in feeds.items()}
    feed[SEED] = torch.ones(shape, dtype=torch.float64, device="cuda")
    fetches = [tried.out, *[slope for slope in tried.slopes if slope is not None]]
    executor.run(tried.built.main, feed, fetches, scope=tried.built.scope, return_numpy=False)
    torch.cuda.set_sync_debug_mode("error")
    try:
        executor.run(tried.built.main, feed, fetches, scope=tried.built.scope, return_numpy=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", RANDOM)
def test_a_random_layer_runs(name: str) -> None:
    tried = Tried(RANDOM[name], MATRIX, place=CUDAPlace(0))
    out, slopes = tried.run(np.ones(tried.built.run(MATRIX, tried.out)[0].shape))
    assert np.isfinite(out).all()
    assert all(slope is None or np.isfinite(slope).all() for slope in slopes)


def test_unique_ids() -> None:
    found = []
    for place in (None, CUDAPlace(0)):
        with building(place) as built:
            out = layers.unique(layers.reshape(fed("x", [-1, 1], "int64"), [-1]))[0]
        found.append(built.run(IDS, out)[0])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 3e-2)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_the_fused_kernel_of_attention_finds_what_torch_does(dtype: str, tolerance: float, is_causal: bool) -> None:
    """In float64, as above, there is none."""
    q, k, v = (torch.randn(2, 3, 40, 16, device="cuda", dtype=getattr(torch, dtype)) for _ in range(3))
    with building(CUDAPlace(0)) as built:
        x, y, z = (fed(name, [2, 3, 40, 16], dtype) for name in "qkv")
        for one in (x, y, z):
            one.stop_gradient = False
        out = layers.scaled_dot_product_attention(x, y, z, is_causal)
        slopes = gradients(layers.reduce_sum(layers.square(out)), [x, y, z])
    found = built.run(dict(zip("qkv", (q, k, v), strict=True)), out, *slopes)
    q, k, v = leaves = [one.float().requires_grad_() for one in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    expected.square().sum().backward()
    for one, other in zip(found, [expected, *(leaf.grad for leaf in leaves)], strict=True):
        assert other is not None
        np.testing.assert_allclose(one, other.detach().cpu().numpy(), rtol=tolerance, atol=tolerance)

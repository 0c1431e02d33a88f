"""Layers of programs that Fleet itself does not have, on a GPU, forward and backward, against the same on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fleet_paddle.fluid import layers
from fleet_programs.executor.place import CUDAPlace
from program_support.static_ops import Build, Tried, normal

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]

OFFSETS = np.array([0, 2, 2, 5, 6])
ROWS = {"x": (normal(6, 12), OFFSETS)}
MATRIX = {"x": normal(4, 6)}
IMAGE = {"x": normal(2, 4, 5, 4)}
IDS = (np.array([[3], [1], [3], [0], [2], [1]]), OFFSETS)
CLASSES = np.array([[1], [0], [5], [6]])

CASES: dict[str, tuple[Build, dict[str, Any]]] = {
    "lstm": (lambda x, h: layers.dynamic_lstm(x, 12, h, h, is_reverse=True)[0], {**ROWS, "h": normal(4, 3)}),
    "gru": (lambda x, h: layers.dynamic_gru(x, 4, h_0=h), {**ROWS, "h": normal(4, 4)}),
    "empty": (lambda x: layers.dynamic_lstm(x, 12)[1], {"x": (normal(0, 12), np.array([0, 0]))}),
    "gru_unit": (lambda x, h: layers.gru_unit(x, h, 6)[0], {**MATRIX, "h": normal(4, 2)}),
    "lstm_unit": (lambda x, h: layers.lstm_unit(x, h, h)[0], {**MATRIX, "h": normal(4, 2)}),
    "crf": (layers.linear_chain_crf, {"input": ROWS["x"], "label": IDS}),
    "reshape": (lambda x: layers.sequence_reshape(x, 4), ROWS),
    "slice": (layers.sequence_slice, {"input": ROWS["x"], "offset": CLASSES * 0, "length": np.array([1, 0, 2, 1])}),
    "scatter": (layers.sequence_scatter, {"input": normal(4, 5), "index": IDS, "updates": normal(6, 1)}),
    "lod_reset": (lambda x: layers.sequence_pool(layers.lod_reset(x, target_lod=[0, 4, 6]), "sum"), ROWS),
    "row_conv": (lambda x: layers.row_conv(x, 2), ROWS),
    "softmax": (lambda x: layers.sequence_softmax(x), {"x": (normal(6, 1), OFFSETS)}),
    "reverse": (layers.sequence_reverse, ROWS),
    "conv": (lambda x: layers.sequence_conv(x, 4, act="relu"), ROWS),
    "expand": (layers.sequence_expand, {"x": normal(4, 2), "y": ROWS["x"]}),
    "expand ragged": (lambda x: layers.sequence_expand(x, x), ROWS),
    "concat": (lambda x: layers.sequence_concat([x, x]), ROWS),
    "pad": (lambda x: layers.sequence_pad(x, layers.fill_constant([1], "float64", 0.0))[0], ROWS),
    "unpad": (
        lambda x: layers.sequence_unpad(*layers.sequence_pad(x, layers.fill_constant([1], "float64", 0.0))),
        ROWS,
    ),
    "attention": (
        lambda q, k: layers.scaled_dot_product_attention(q, k, k, num_heads=2),
        {"q": normal(2, 3, 4), "k": normal(2, 5, 4)},
    ),
    "resize": (lambda x: layers.resize_bilinear(x, [3, 7], align_corners=False), IMAGE),
    "pad2d": (lambda x: layers.pad2d(x, [1, 0, 2, 1], "reflect"), IMAGE),
    "data_norm": (lambda x: layers.data_norm(x, slot_dim=3), MATRIX),
    "cvm": (layers.continuous_value_model, {"input": np.abs(normal(4, 5)), "cvm": normal(4, 2)}),
    "teacher": (layers.teacher_student_sigmoid_loss, {"input": normal(4, 1), "label": normal(4, 1)}),
    "hsigmoid": (lambda x, label: layers.hsigmoid(x, label, 7), {**MATRIX, "label": CLASSES}),
    "bilinear": (lambda x, y: layers.bilinear_tensor_product(x, y, 3), {**MATRIX, "y": normal(4, 2)}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer(name: str) -> None:
    case = CASES[name]
    on_cpu, on_gpu = (Tried(*case, place=place) for place in (None, CUDAPlace(0)))
    shape, same_shape = (one.built.run(case[1], one.out)[0].shape for one in (on_cpu, on_gpu))
    assert shape == same_shape
    weights = normal(*shape)
    out, slopes = on_cpu.run(weights)
    same_out, same_slopes = on_gpu.run(weights)
    np.testing.assert_allclose(same_out, out, rtol=1e-8, atol=1e-9)
    for slope, same in zip(slopes, same_slopes, strict=True):
        assert (slope is None) == (same is None)
        if slope is not None:
            np.testing.assert_allclose(same, slope, rtol=1e-8, atol=1e-8)


RANDOM: dict[str, tuple[Build, dict[str, Any]]] = {
    "nce": (lambda x, label: layers.nce(x, label, 9, sampler="log_uniform"), {**MATRIX, "label": CLASSES}),
    "sampled": (
        lambda x, label: layers.sampled_softmax_with_cross_entropy(x, label, 3),
        {"x": normal(4, 9), "label": CLASSES},
    ),
}


@pytest.mark.parametrize("name", RANDOM)
def test_a_random_layer_runs(name: str) -> None:
    tried = Tried(*RANDOM[name], place=CUDAPlace(0))
    shape = tried.built.run(tried.feeds, tried.out)[0].shape
    out, slopes = tried.run(np.ones(shape))
    assert np.isfinite(out).all()
    assert all(slope is None or np.isfinite(slope).all() for slope in slopes)


def test_ids_and_metrics() -> None:
    def build(words: Any, label: Any) -> Any:
        found = [
            layers.sequence_enumerate(words, 2),
            layers.sequence_erase(words, [3]),
            layers.hash(words, 1000, 2),
            layers.crf_decoding(layers.cast(layers.sequence_enumerate(words, 3), "float64"), None),
            *layers.chunk_eval(words, label, "IOB", 2),
        ]
        outs.append(found)
        return layers.cast(words, "float64")

    outs: list[list[Any]] = []
    feeds = {"words": IDS, "label": IDS}
    results = []
    for place in (None, CUDAPlace(0)):
        tried = Tried(build, feeds, place)
        results.append(tried.built.run(feeds, *outs[-1]))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)

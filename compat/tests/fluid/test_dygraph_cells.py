"""Cells, volumes and pairings of version 1.8's imperative mode: what torch computes with the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle import dygraph, mode
from fleet_paddle.fluid import layers
from fleet_programs import ParamAttr

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def imperative_mode() -> Iterator[None]:
    with mode.guard():
        yield


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def given(*shape: int) -> tuple[Any, torch.Tensor]:
    one = values(*shape)
    return dygraph.to_variable(one), torch.from_numpy(one.copy())


def plain(one: Any) -> torch.Tensor:
    return torch.from_numpy(one.numpy().copy())


def fill(layer: Any) -> dict[str, torch.Tensor]:
    """Other values for every parameter: a bias of zeros would hide a mistake."""
    for one in layer.parameters():
        one.set_value(values(*one.shape))
    return {name: plain(one) for name, one in layer.state_dict().items()}


def same(found: Any, wanted: torch.Tensor) -> None:
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


WORDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def test_cells_with_cudnns_weights_are_torchs() -> None:
    (x, tx), (h, th), (c, tc) = given(4, 3), given(4, 5), given(4, 5)
    lstm: Any = dygraph.LSTMCell(5, 3, param_attr=ParamAttr("own"), dtype="float32")
    assert [one.name for one in lstm.parameters()][:2] == ["own_weight_ih", "own_weight_hh"]
    kept = fill(lstm)
    wanted = torch.lstm_cell(tx, (th, tc), *[kept[f"_{word}"] for word in WORDS])
    for found, one in zip(lstm(x, h, c), wanted, strict=True):
        same(found, one)
    gru: Any = dygraph.GRUCell(5, 3, dtype="float32")
    kept = fill(gru)
    found = gru(x, h)
    same(found, torch.gru_cell(tx, th, *[kept[f"_{word}"] for word in WORDS]))
    found.sum().backward()
    assert all(one.gradient() is not None for one in gru.parameters())


def test_cells_with_one_matrix() -> None:
    (x, tx), (h, th), (c, tc) = given(4, 3), given(4, 5), given(4, 5)
    lstm = dygraph.LSTMCell(5, 3, forget_bias=0.7, activation=layers.relu, use_cudnn_impl=False, dtype="float32")
    kept = fill(lstm)
    taken, new, forgotten, shown = (torch.cat([tx, th], 1) @ kept["_weight"] + kept["_bias"]).chunk(4, 1)
    cell = tc * torch.sigmoid(forgotten + 0.7) + torch.sigmoid(taken) * torch.relu(new)
    hidden, after = lstm(x, h, c)
    same(after, cell)
    same(hidden, torch.relu(cell) * torch.sigmoid(shown))
    gru = dygraph.GRUCell(5, 3, use_cudnn_impl=False, dtype="float32")
    kept = fill(gru)
    gates = torch.sigmoid(torch.cat([tx, th], 1) @ kept["_gate_weight"] + kept["_gate_bias"])
    reset, update = gates.chunk(2, 1)
    product = torch.cat([tx, reset * th], 1) @ kept["_candidate_weight"] + kept["_candidate_bias"]
    same(gru(x, h), update * th + (1 - update) * torch.tanh(product))
    assert dygraph.GRUCell(2, 2)._weight_ih.dtype is torch.float64


def test_convolutions_of_volumes() -> None:
    x, tx = given(2, 4, 5, 6, 6)
    layer = dygraph.Conv3D(4, 6, 3, stride=2, padding=[1, 0, 1], groups=2, act="relu")
    kept = fill(layer)
    same(layer(x), F.conv3d(tx, kept["weight"], kept["bias"], 2, (1, 0, 1), 1, 2).relu())
    back = dygraph.Conv3DTranspose(4, 6, [2, 3, 3], padding=1, stride=2, groups=2)
    kept = fill(back)
    same(back(x), F.conv_transpose3d(tx, kept["weight"], kept["bias"], 2, 1, 0, 2))
    with pytest.raises(UsageError, match=r"Conv3D: filter_size must be a number or 3, got \[3, 3\]"):
        dygraph.Conv3D(4, 6, [3, 3])


def test_a_bilinear_product_and_a_spectral_norm() -> None:
    (x, tx), (y, ty) = given(4, 3), given(4, 5)
    layer = dygraph.BilinearTensorProduct(3, 5, 2, act="tanh")
    kept = fill(layer)
    same(layer(x, y), torch.tanh(F.bilinear(tx, ty, kept["weight"], kept["bias"].view(-1))))
    weight, tw = given(4, 3)
    norm = dygraph.SpectralNorm([4, 3], power_iters=60)
    assert isinstance(norm, dygraph.Layer)
    same(norm(weight), tw / torch.linalg.matrix_norm(tw, 2))


@pytest.mark.parametrize("weighted", [False, True])
def test_noise_contrastive_estimation(weighted: bool) -> None:
    x, tx = given(4, 3)
    labels = np.array([[0], [1], [0], [1]])
    weights = np.array([[1.0], [2.0], [0.5], [0.0]], np.float32) if weighted else np.ones((4, 1), np.float32)
    chances = [0.0, 0.0, 1.0]  # class 2 is what is drawn, every time
    layer = dygraph.NCE(3, 3, num_neg_samples=2, sampler="custom_dist", custom_dist=chances)
    kept = fill(layer)
    more = [dygraph.to_variable(weights)] if weighted else []
    cost = layer(x, dygraph.to_variable(labels), *more)
    scores = torch.sigmoid(tx @ kept["weight"].T + kept["bias"].view(-1))
    right = scores.gather(1, torch.from_numpy(labels))
    drawn = scores[:, 2:]
    # No noise has class 0 or 1, so that what is right costs nothing; class 2 is drawn twice, with a chance of 2.
    wanted = -torch.log(right / (right + 0.0)) - 2 * torch.log(2.0 / (drawn + 2.0))
    same(cost, wanted * torch.from_numpy(weights))
    cost.sum().backward()
    assert layer.weight.gradient().shape == (3, 3)


def test_mistakes_are_named() -> None:
    with pytest.raises(UsageError, match="LSTMCell: param_attr and bias_attr must not be False"):
        dygraph.LSTMCell(2, 3, bias_attr=False)
    with pytest.raises(UsageTypeError, match="GRUCell: activation must be a function"):
        dygraph.GRUCell(2, 3, activation="tanh")
    with pytest.raises(UsageError, match="GRUCell: hidden_size must be a whole number >= 1, got 0"):
        dygraph.GRUCell(0, 3)
    with pytest.raises(UsageError, match="NCE: param_attr must not be False"):
        dygraph.NCE(3, 3, param_attr=False)

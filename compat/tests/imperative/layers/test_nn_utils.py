"""Weight norm, spectral norm and parameters as one row."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle import mode

paddle: Any = importlib.import_module("paddle")
utils: Any = paddle.nn.utils
X = np.random.default_rng(0).standard_normal((5, 3, 6)).astype(np.float32)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_trains_lengths_and_directions_as_torch_does(dim: int | None) -> None:
    ours, theirs = paddle.nn.Conv1D(3, 4, 2), torch.nn.Conv1d(3, 4, 2)
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(np.array(ours.weight)))
        theirs.bias.copy_(torch.tensor(np.array(ours.bias)))  # type: ignore[union-attr]
    before = np.array(ours.weight)
    assert utils.weight_norm(ours, dim=dim) is ours
    of_torch: Any = torch.nn.utils.parametrizations.weight_norm
    of_torch(theirs, dim=dim)
    np.testing.assert_allclose(np.array(ours.weight), before, rtol=1e-6)
    assert sorted(dict(ours.named_parameters())) == ["bias", "weight_g", "weight_v"]
    assert list(ours.weight_g.shape) == [1 if dim is None else [4, 3][dim]]
    for _ in range(2):
        ours(paddle.to_tensor(X)).pow(2).sum().backward()
        theirs(torch.tensor(X)).pow(2).sum().backward()
        with torch.no_grad():
            for model in (ours, theirs):
                one: Any
                for one in model.parameters():
                    one.copy_(one - 0.01 * one.grad)
                    one.grad = None
    ours(paddle.to_tensor(X))
    np.testing.assert_allclose(np.array(ours.weight), theirs.weight.detach().numpy(), rtol=1e-4, atol=1e-6)
    utils.remove_weight_norm(ours)
    assert sorted(dict(ours.named_parameters())) == ["bias", "weight"]
    np.testing.assert_allclose(np.array(ours.weight), theirs.weight.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_spectral_norm_leaves_a_largest_stretch_of_one() -> None:
    layer = utils.spectral_norm(paddle.nn.Linear(6, 4), n_power_iterations=30)
    layer(paddle.to_tensor(X[0]))
    assert abs(np.linalg.svd(np.array(layer.weight))[1][0] - 1) < 1e-3
    assert "weight_orig" in dict(layer.named_parameters())
    layer(paddle.to_tensor(X[0])).sum().backward()
    assert np.abs(np.array(layer.weight_orig.grad)).sum() > 0


def test_one_row() -> None:
    layer = paddle.nn.Linear(3, 2)
    row = utils.parameters_to_vector(layer.parameters())
    assert row.shape == [8]
    utils.vector_to_parameters(row * 2, layer.parameters())
    np.testing.assert_allclose(np.array(layer.weight), np.array(row)[:6].reshape(3, 2) * 2)


def test_what_cannot_be() -> None:
    with pytest.raises(UsageError, match="weight_norm: Linear has no parameter 'wait'"):
        utils.weight_norm(paddle.nn.Linear(3, 2), "wait")
    with pytest.raises(UsageError, match="dim must be None or from 0 to 1, got 2"):
        utils.weight_norm(paddle.nn.Linear(3, 2), dim=2)
    with pytest.raises(UsageError, match=r"remove_weight_norm: Linear.weight has no weight norm"):
        utils.remove_weight_norm(paddle.nn.Linear(3, 2))
    with mode.kept():
        paddle.enable_static()
        with pytest.raises(NotSupportedError, match="weight_norm: it is not built for programs"):
            utils.weight_norm(paddle.nn.Linear(3, 2))


def test_removed_weight_norm_has_the_last_step_in_it() -> None:
    line = utils.weight_norm(paddle.nn.Linear(3, 2))
    sgd = paddle.optimizer.SGD(0.5, parameters=line.parameters())
    line(paddle.ones([1, 3])).pow(2).sum().backward()
    sgd.step()
    way = np.array(line.weight_v)
    right = way * np.array(line.weight_g)[:, None] / np.linalg.norm(way, axis=1, keepdims=True)
    utils.remove_weight_norm(line)
    np.testing.assert_allclose(np.array(line.weight), right, rtol=1e-5)


@pytest.mark.parametrize(("norm", "part"), [("weight_norm", "weight_g"), ("spectral_norm", "weight_orig")])
def test_a_copy_computes_its_own_weight(norm: str, part: str) -> None:
    with paddle.no_grad():
        line = getattr(utils, norm)(paddle.nn.Linear(3, 2))
        before = np.array(line.weight)
        other = copy.deepcopy(line)
        getattr(other, part).zero_()
        bias = np.array(other.bias)[None]
        np.testing.assert_allclose(np.nan_to_num(np.array(other(paddle.ones([1, 3]))), nan=0.0), bias)
        np.testing.assert_array_equal(np.array(line.weight), before)

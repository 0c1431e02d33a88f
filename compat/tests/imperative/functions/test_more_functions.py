"""Activations, losses and functions of vectors equal torch's, or numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

import fleet_paddle.imperative as paddle
from fleet.errors import FleetError
from fleet_paddle.imperative import nn

f = nn.functional
ONE, SIGN = torch.full((4,), 0.3, dtype=torch.float64), torch.tensor([1.0, -1, -1, 1], dtype=torch.float64)
MATRIX, PAIR = torch.arange(24.0, dtype=torch.float64).view(2, 3, 4), torch.ones(2, 4, dtype=torch.float64)
LENGTHS, LABELS = (torch.tensor([5, 4]), torch.tensor([3, 2])), torch.tensor([[1, 2, 2], [2, 1, 0]])


def focal(x: torch.Tensor) -> torch.Tensor:
    loss = F.binary_cross_entropy_with_logits(x, torch.ones_like(x), reduction="none")
    return (0.25 * (1 - x.sigmoid()) ** 2 * loss).sum() / 2


def pairs(x: torch.Tensor) -> torch.Tensor:
    lengths = x.square().sum(1).mean() + MATRIX[0].square().sum(1).mean()
    return F.cross_entropy(x @ MATRIX[0].T, torch.arange(3)) + 0.25 * 0.002 * lengths


def probability(x: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy(x.sigmoid(), ONE, reduction="none")


def slowed(x: torch.Tensor) -> torch.Tensor:
    slow = x / LENGTHS[0].view(1, 2, 1)
    return F.ctc_loss((slow + (x - slow).detach()).log_softmax(-1), LABELS, *LENGTHS, 0, "sum")


def dice(x: torch.Tensor) -> torch.Tensor:
    overlap = x[0, 0, 1] + x[0, 1, 0]
    return 1 - 2 * overlap / (x.sum() + 2 + 1e-5)


@pytest.mark.parametrize(
    ("ours", "plain", "shape"),
    [
        (nn.Hardtanh(-0.5, 0.7), lambda x: F.hardtanh(x, -0.5, 0.7), [3, 4]),
        (nn.Hardswish(), F.hardswish, [3, 4]),
        (nn.Hardshrink(0.3), lambda x: F.hardshrink(x, 0.3), [3, 4]),
        (nn.Softshrink(0.3), lambda x: F.softshrink(x, 0.3), [3, 4]),
        (nn.Tanhshrink(), F.tanhshrink, [3, 4]),
        (nn.SELU(), F.selu, [3, 4]),
        (nn.ThresholdedReLU(0.5), lambda x: F.threshold(x, 0.5, 0), [3, 4]),
        (nn.Maxout(2), lambda x: x.unflatten(1, (2, 2)).amax(2), [3, 4, 2]),
        (lambda x: f.prelu(x, ONE), lambda x: F.prelu(x, ONE), [2, 4, 3]),
        (lambda x: f.relu_(x * 1), F.relu, [3, 4]),
        (lambda x: f.tanh_(x * 1), torch.tanh, [3, 4]),
        (lambda x: f.softmax_(x * 1, 0), lambda x: x.softmax(0), [3, 4]),
        (lambda x: f.elu_(x * 1, 0.5), lambda x: F.elu(x, 0.5), [3, 4]),
        (lambda x: f.cosine_similarity(x, PAIR), lambda x: F.cosine_similarity(x, PAIR), [2, 4]),
        (lambda x: nn.CosineSimilarity(0)(x, PAIR), lambda x: F.cosine_similarity(x, PAIR, 0), [2, 4]),
        (lambda x: nn.PairwiseDistance(1.0)(x, PAIR), lambda x: F.pairwise_distance(x, PAIR, 1.0), [2, 4]),
        (lambda x: f.bilinear(x, PAIR, MATRIX, ONE[:2]), lambda x: F.bilinear(x, PAIR, MATRIX, ONE[:2]), [2, 3]),
        (f.label_smooth, lambda x: 0.9 * x + 0.1 / 4, [2, 4]),
        (lambda x: f.label_smooth(x, ONE, 0.5), lambda x: 0.5 * x + 0.15, [2, 4]),
        (f.diag_embed, torch.diag_embed, [2, 3]),
        (lambda x: f.log_loss(f.sigmoid(x), ONE, 0), probability, [4]),
        (
            lambda x: nn.MarginRankingLoss(0.2)(x, ONE, SIGN),
            lambda x: F.margin_ranking_loss(x, ONE, SIGN, 0.2),
            [4],
        ),
        (
            lambda x: nn.MarginRankingLoss(reduction="none")(x, other=ONE, label=SIGN),
            lambda x: F.margin_ranking_loss(x, ONE, SIGN, reduction="none"),
            [4],
        ),
        (lambda x: f.sigmoid_focal_loss(x, torch.ones(3, 4), torch.tensor(2.0)), focal, [3, 4]),
        (lambda x: f.npair_loss(x, MATRIX[0], torch.arange(3)), pairs, [3, 4]),
        (lambda x: f.dice_loss(x, torch.tensor([[[1], [0]]])), dice, [1, 2, 2]),
        (
            lambda x: nn.CTCLoss()(x, LABELS, *LENGTHS),
            lambda x: F.ctc_loss(x.log_softmax(-1), LABELS, *LENGTHS),
            [5, 2, 4],
        ),
        (
            lambda x: nn.CTCLoss(reduction="sum")(x, LABELS, *LENGTHS, norm_by_times=True),
            slowed,
            [5, 2, 4],
        ),
    ],
)
def test_equal_to_torch(ours: Callable[[Any], Any], plain: Callable[[Any], torch.Tensor], shape: list[int]) -> None:
    torch.manual_seed(1)
    reference = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    x = paddle.to_tensor(reference.detach().clone(), stop_gradient=False)
    made, wanted = ours(x), plain(reference)
    assert type(made) is paddle.Tensor
    assert tuple(made.shape) == (tuple(wanted.shape) or (1,))
    np.testing.assert_allclose(made.numpy(), np.atleast_1d(wanted.detach().numpy()), rtol=1e-6, atol=1e-6)
    made.sum().backward()
    wanted.sum().backward()
    assert reference.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), reference.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_masks_of_lengths() -> None:
    made = f.sequence_mask(paddle.to_tensor([1, 3]), dtype="bool")
    assert made.numpy().tolist() == [[True, False, False], [True, True, True]]
    assert f.sequence_mask(paddle.to_tensor([[1], [2]]), maxlen=2).numpy().tolist() == [[[1, 0]], [[1, 1]]]


def test_ways_of_a_beam_search() -> None:
    ids, parents = [[[2, 2]], [[6, 1]], [[3, 9]]], [[[0, 0]], [[1, 1]], [[1, 0]]]
    made = f.gather_tree(paddle.to_tensor(ids), paddle.to_tensor(parents))
    assert made.numpy().tolist() == [[[2, 2]], [[1, 6]], [[3, 9]]]


def test_layers_with_weights() -> None:
    prelu, bilinear = nn.PReLU(2, 0.5), nn.Bilinear(3, 4, 2)
    assert prelu(paddle.to_tensor([[-1.0, 2.0]])).numpy().tolist() == [[-0.5, 2.0]]
    assert list(prelu.state_dict()) == ["_weight"]
    x, y = paddle.randn([5, 3]), paddle.randn([5, 4])
    torch.testing.assert_close(
        bilinear(x, y), F.bilinear(x, y, bilinear.weight, bilinear.bias[0]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("classes", [2, 5, 8])
def test_a_tree_of_classes_gives_chances_that_sum_to_one(classes: int) -> None:
    loss = nn.HSigmoidLoss(3, classes)
    with torch.no_grad():
        loss.bias.normal_()
    x = paddle.randn([1, 3])
    losses = loss(x.expand(classes, 3), paddle.to_tensor(np.arange(classes)))
    assert losses.shape == [classes, 1]
    assert math.isclose(float(torch.exp(-losses.detach()).sum()), 1, rel_tol=1e-5)


def test_a_tree_may_be_given() -> None:
    loss = nn.HSigmoidLoss(2, 3, is_custom=True, is_sparse=True, bias_attr=False)
    table, code = paddle.to_tensor([[0, 2, -1], [1, -1, -1]]), paddle.to_tensor([[1, 0, 0], [1, 0, 0]])
    x = paddle.randn([2, 2])
    made = loss(x, paddle.to_tensor([0, 1]), table, code)
    scores = x @ loss.weight.T
    wanted = [F.softplus(-scores[0, 0]) + F.softplus(scores[0, 2]), F.softplus(-scores[1, 1])]
    np.testing.assert_allclose(made.numpy().reshape(-1), [float(one.detach()) for one in wanted], rtol=1e-5)
    made.sum().backward()
    assert loss.weight.grad.is_sparse


@pytest.mark.parametrize(
    ("layer", "shape", "each"),
    [
        (nn.Dropout2D(0.5), [50, 4, 3, 3], (2, 3)),
        (nn.Dropout2D(0.5, "NHWC"), [50, 3, 3, 4], (1, 2)),
        (nn.Dropout3D(0.5), [50, 4, 2, 2, 2], (2, 3, 4)),
        (nn.Dropout(0.5, axis=1), [3, 100, 4], (0, 2)),
        (nn.Dropout(0.5, axis=[0, 1]), [20, 10, 4], (2,)),
    ],
)
def test_dropout_of_whole_channels(layer: Any, shape: list[int], each: tuple[int, ...]) -> None:
    made = layer(paddle.ones(shape)).as_subclass(torch.Tensor)
    assert set(made.unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(made.amin(each), made.amax(each))
    assert torch.equal(layer.eval()(paddle.ones(shape)), torch.ones(shape))


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    made = nn.AlphaDropout(0.3)(paddle.randn([200, 200]))
    assert abs(float(made.mean())) < 0.05
    assert abs(float(made.var()) - 1) < 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Dropout3D(-1.0), "Dropout3D: p must be from 0 to 1, got -1.0"),
        (lambda: nn.Maxout(3)(paddle.ones([1, 4])), "groups must divide the 4 channels, got 3"),
        (lambda: nn.HSigmoidLoss(3, 1), "num_classes must be at least 2, got 1"),
        (lambda: nn.HSigmoidLoss(3, 4, is_custom=True)(paddle.ones([1, 3]), None), "given with is_custom=True"),
        (lambda: f.hsigmoid_loss(paddle.ones([1, 3]), LABELS, 4, PAIR, path_code=PAIR), "must be given together"),
    ],
)
def test_mistakes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        call()

"""Losses against torch's, forward and backward, and labels that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fleet.errors import NotSupportedError, UsageError
from fleet_programs import layers
from fleet_programs.backward.backward import append_backward, gradients
from fleet_programs.layers.io import fed
from fleet_programs.program.variable import Variable
from program_support.loss_cases import LABELS, LOGITS, LOSS_CASES, Build, softened
from program_support.programs import building
from program_support.static_ops import RNG, check


def test_cross_entropy_with_an_index_to_ignore_and_more_dimensions() -> None:
    label = np.array([[[0], [1]], [[2], [1]], [[0], [2]]])
    check(
        lambda x, label: layers.cross_entropy(x, label, ignore_index=1),
        {"x": softened((3, 2, 3)), "label": label},
        lambda x, label: -x.log().gather(-1, label) * (label != 1),
    )


def test_cross_entropy_with_soft_labels() -> None:
    label = torch.from_numpy(softened((6, 5)))

    def build(x: Variable) -> Variable:
        return layers.cross_entropy(x, layers.assign(label.numpy()), soft_label=True)

    check(build, {"x": softened((6, 5))}, lambda x: -(label * x.log()).sum(1, keepdim=True))


def test_softmax_with_cross_entropy_with_soft_labels() -> None:
    label = torch.from_numpy(RNG.uniform(size=(6, 5)))  # need not add up to 1

    def build(x: Variable) -> Any:
        return layers.softmax_with_cross_entropy(x, layers.assign(label.numpy()), soft_label=True)

    check(build, {"x": LOGITS}, lambda x: -(label * x.log_softmax(1)).sum(1, keepdim=True))


def test_the_softmax_that_is_returned_has_a_gradient() -> None:
    def build(x: Variable, label: Variable) -> Variable:
        loss, softmax = layers.softmax_with_cross_entropy(x, label, return_softmax=True)
        return layers.elementwise_mul(softmax, loss, axis=0)

    check(
        build,
        {"x": LOGITS, "label": LABELS},
        lambda x, label: x.softmax(1) * functional.cross_entropy(x, label[:, 0], reduction="none").unsqueeze(1),
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_sigmoid_cross_entropy_with_logits(normalize: bool) -> None:
    label = torch.from_numpy(np.where(RNG.uniform(size=(6, 5)) < 0.3, -1.0, RNG.uniform(size=(6, 5))))

    def reference(x: torch.Tensor) -> torch.Tensor:
        loss = functional.binary_cross_entropy_with_logits(x, label, reduction="none") * (label != -1)
        return loss / (label != -1).sum() if normalize else loss

    def build(x: Variable) -> Variable:
        return layers.sigmoid_cross_entropy_with_logits(
            x, layers.assign(label.numpy()), ignore_index=-1, normalize=normalize
        )

    check(build, {"x": LOGITS * 10}, reference)


@pytest.mark.parametrize(
    ("feeds", "build", "reference"), [case[1:] for case in LOSS_CASES], ids=[case[0] for case in LOSS_CASES]
)
def test_equals_torch(feeds: dict[str, Any], build: Build, reference: Build) -> None:
    check(lambda **given: build(*given.values()), feeds, reference)


def test_a_program_learns_nothing_from_ignored_rows() -> None:
    with building() as built:
        x, label = fed("x", [-1, 2]), fed("label", [-1, 1], "int64")
        loss = layers.mean(layers.cross_entropy(layers.fc(x, 3, act="softmax"), label))
        slopes = [slope for _, slope in append_backward(loss)]
    built.start()
    found = built.run({"x": np.ones((2, 2), np.float32), "label": np.full((2, 1), -100)}, loss, *slopes)
    assert all(not one.any() for one in found)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: layers.cross_entropy(x, fed("y", [-1, 1])), "Label 'y' must be int64, got float32; with soft_label"),
        (
            lambda x: layers.cross_entropy(x, fed("y", [-1], "int64")),
            r"Label 'y' must have shape \[-1, 1\] .* got \[-1\]",
        ),
        (lambda x: layers.cross_entropy(x, fed("y", [-1, 3]), soft_label=True), "make them equal"),
        (lambda x: layers.softmax_with_cross_entropy(x, fed("y", [-1, 5], "int64")), "Label 'y' must have shape"),
        (lambda x: layers.softmax_with_cross_entropy(x, fed("y", [-1, 1], "int64"), axis=2), "axis must be between"),
        (lambda x: layers.square_error_cost(x, fed("y", [-1, 4])), "label 'y' has .-1, 4.; make them equal"),
        (lambda x: layers.square_error_cost(x, fed("y", [-1])), "label 'y' has .-1.; make them equal"),
        (lambda x: layers.mse_loss(x, fed("y", [-1, 1])), "make them equal"),
        (lambda x: layers.sigmoid_cross_entropy_with_logits(x, fed("y", [-1, 5], "int64")), "cast one of them"),
        (lambda x: layers.log_loss(x, x, 0.0), "epsilon must be > 0"),
        (lambda x: layers.huber_loss(x, x, 0.0), "delta must be > 0"),
        (lambda x: layers.kldiv_loss(x, x, "max"), "reduction must be none, mean, sum or batchmean, got 'max'"),
        (lambda x: layers.cos_sim(x, fed("y", [2, 4])), r"Y 'y' must have the shape \[-1, 5\]"),
        (lambda x: layers.bpr_loss(x, fed("y", [-1, 2], "int64")), "Label 'y' must have shape"),
    ],
)
def test_labels_that_do_not_fit_are_found_while_building(build: Callable[[Variable], Any], message: str) -> None:
    with building(), pytest.raises(UsageError, match=rf"test_losses.py:\d+: .*{message}"):
        build(fed("x", [-1, 5]))


def test_what_is_not_built_says_so() -> None:
    with building(), pytest.raises(NotSupportedError, match="numeric_stable_mode must be True"):
        layers.softmax_with_cross_entropy(fed("x", [-1, 5]), fed("y", [-1, 1], "int64"), numeric_stable_mode=False)


def test_a_label_past_the_classes_is_an_error() -> None:
    with building() as built:
        loss = layers.cross_entropy(fed("x", [-1, 2]), fed("y", [-1, 1], "int64"))
        logits = layers.softmax_with_cross_entropy(fed("x", [-1, 2]), fed("y", [-1, 1], "int64"), ignore_index=-1)
    feed = {"x": np.full((2, 2), 0.5, np.float32), "y": np.array([[-1], [2]])}
    with pytest.raises(UsageError, match="cross_entropy: label -1 of 'y' is no class of 'x', whose classes are 0 to 1"):
        built.run(feed, loss)
    with pytest.raises(UsageError, match="softmax_with_cross_entropy: label 2 of 'y' is no class of 'x', .*; -1 is t"):
        built.run(feed, logits)


@pytest.mark.parametrize(
    "label", [np.array([[1], [0]]), np.array([[0, 1], [1, 0]], np.float32)], ids=["class", "distribution"]
)
@pytest.mark.parametrize("num_dims", [2, 3])
def test_a_probability_of_zero_has_a_finite_loss_and_slope(label: Any, num_dims: int) -> None:
    with building() as built:
        shape = [1] * (num_dims - 2)
        x, y = fed("x", [-1, *shape, 2]), fed("y", [-1, *shape, label.shape[1]], str(label.dtype))
        loss = layers.reduce_sum(layers.cross_entropy(x, y, soft_label=label.dtype == np.float32))
        slopes = gradients(loss, x)
    probabilities = np.array([[1, 0], [1, 0]], np.float32).reshape(2, *shape, 2)
    found, slope = built.run({"x": probabilities, "y": label.reshape(2, *shape, -1)}, loss, *slopes)
    np.testing.assert_allclose(found, [1e20], rtol=1e-6)
    np.testing.assert_allclose(slope.reshape(2, 2), np.array([[0, -1e20], [-1, 0]]), rtol=1e-6)

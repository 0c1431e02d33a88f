"""Distributions beside torch's, for tensors and for variables."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributions as of_torch

from fleet.errors import NotSupportedError, UsageError
from fleet_paddle.distribution import Categorical, MultivariateNormalDiag, Normal, Uniform

paddle: Any = importlib.import_module("paddle")
fluid: Any = paddle.fluid

LOC = np.array([[0.5, -1.0], [2.0, 0.0]], np.float32)
SCALE = np.array([[1.0, 0.5], [2.0, 3.0]], np.float32)
VALUE = np.array([[0.1, -0.4], [3.0, 9.0]], np.float32)
WEIGHTS = np.array([[0.2, 0.5, 0.3], [4.0, 1.0, 5.0]], np.float32)


def close(ours: Any, theirs: torch.Tensor) -> None:
    np.testing.assert_allclose(np.asarray(ours), theirs.numpy(), rtol=2e-5, atol=1e-6)


def test_normal() -> None:
    ours, other = Normal(LOC, SCALE), Normal(LOC * 2, SCALE + 1)
    theirs = of_torch.Normal(torch.tensor(LOC), torch.tensor(SCALE))
    their_other = of_torch.Normal(torch.tensor(LOC * 2), torch.tensor(SCALE + 1))
    close(ours.log_prob(VALUE), theirs.log_prob(torch.tensor(VALUE)))
    close(ours.probs(VALUE), theirs.log_prob(torch.tensor(VALUE)).exp())
    close(ours.entropy(), theirs.entropy())
    close(ours.kl_divergence(other), of_torch.kl_divergence(theirs, their_other))


def test_uniform() -> None:
    ours, theirs = Uniform(LOC, LOC + SCALE), of_torch.Uniform(torch.tensor(LOC), torch.tensor(LOC + SCALE))
    close(ours.entropy(), theirs.entropy())
    inside = LOC + SCALE / 3
    close(ours.log_prob(inside), theirs.log_prob(torch.tensor(inside)))
    assert np.asarray(ours.probs(LOC - 1)).tolist() == [[0, 0], [0, 0]]


def test_categorical_reads_logits_in_two_ways() -> None:
    ours, other = Categorical(WEIGHTS), Categorical(WEIGHTS[:, ::-1].copy())
    theirs = of_torch.Categorical(logits=torch.tensor(WEIGHTS))
    their_other = of_torch.Categorical(logits=torch.tensor(WEIGHTS[:, ::-1].copy()))
    close(ours.entropy()[:, 0], theirs.entropy())
    close(ours.kl_divergence(other)[:, 0], of_torch.kl_divergence(theirs, their_other))
    places = paddle.to_tensor([[2, 0], [1, 1]])
    close(ours.probs(places), torch.tensor([[0.3, 0.2], [0.1, 0.1]]))
    close(Categorical(WEIGHTS[1]).log_prob(paddle.to_tensor([2, 1, 0])), torch.tensor([0.5, 0.1, 0.4]).log())
    close(Categorical(WEIGHTS[None]).probs(places[None]), torch.tensor([[[0.3, 0.2], [0.1, 0.1]]]))


def test_diagonal() -> None:
    ours = MultivariateNormalDiag(LOC[0], np.diag(SCALE[0]))
    other = MultivariateNormalDiag(LOC[1], np.diag(SCALE[1]))
    theirs = of_torch.MultivariateNormal(torch.tensor(LOC[0]), torch.tensor(np.diag(SCALE[0])))
    their_other = of_torch.MultivariateNormal(torch.tensor(LOC[1]), torch.tensor(np.diag(SCALE[1])))
    close(ours.entropy(), theirs.entropy())
    close(ours.kl_divergence(other), of_torch.kl_divergence(theirs, their_other))


@pytest.mark.parametrize(
    ("made", "mean", "deviation"),
    [(Normal(3.0, 2.0), 3.0, 2.0), (Uniform(0.0, 6.0), 3.0, 12**0.5 / 2)],
    ids=["normal", "uniform"],
)
def test_samples_have_the_mean_and_the_deviation(made: Any, mean: float, deviation: float) -> None:
    drawn = np.asarray(made.sample([20_000], seed=7))
    assert drawn.shape == (20_000,)
    assert abs(drawn.mean() - mean) < 0.1
    assert abs(drawn.std() - deviation) < 0.1
    assert np.array_equal(drawn, np.asarray(made.sample([20_000], seed=7)))
    assert not np.array_equal(drawn, np.asarray(made.sample([20_000])))


def test_samples_of_weights() -> None:
    drawn = np.asarray(Categorical(WEIGHTS).sample([8, 500], seed=3))
    assert drawn.shape == (8, 500, 2)
    shares = [[np.mean(drawn[..., row] == number) for number in range(3)] for row in range(2)]
    np.testing.assert_allclose(shares, WEIGHTS / WEIGHTS.sum(1, keepdims=True), atol=0.03)


def test_gradients_reach_the_parameters() -> None:
    loc = paddle.to_tensor(LOC, stop_gradient=False)
    Normal(loc, SCALE).log_prob(VALUE).sum().backward()
    close(loc.grad, torch.tensor((VALUE - LOC) / SCALE**2))


def test_what_cannot_be() -> None:
    with pytest.raises(UsageError, match="other must be a Normal as well, got a Uniform"):
        Normal(0.0, 1.0).kl_divergence(Uniform(0.0, 1.0))
    with pytest.raises(UsageError, match="logits are taken for weights and must be >= 0"):
        Categorical([-1.0, 1.0]).sample([1])
    with pytest.raises(NotImplementedError, match="Uniform has no kl_divergence"):
        Uniform(0.0, 1.0).kl_divergence(Uniform(0.0, 1.0))


def test_in_a_program_the_batch_may_be_unknown() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        mean = fluid.data("mean", [None, 2], "float32")
        value = fluid.data("value", [None, 2], "float32")
        normal = fluid.layers.distributions.Normal(mean, SCALE)
        logs, entropy, drawn = normal.log_prob(value), normal.entropy(), normal.sample([4000])
        within = fluid.layers.Uniform(mean, mean + 1.0).sample([2, 3])
        with pytest.raises(NotSupportedError, match="not built for programs; fetch the logits"):
            fluid.layers.Categorical(mean).sample([1])
        entropies = fluid.layers.Categorical(mean).entropy()
    found = fluid.Executor(fluid.CPUPlace()).run(
        main, {"mean": LOC, "value": VALUE}, [logs, entropy, drawn, within, entropies]
    )
    theirs = of_torch.Normal(torch.tensor(LOC), torch.tensor(SCALE))
    close(found[0], theirs.log_prob(torch.tensor(VALUE)))
    close(found[1], theirs.entropy())
    np.testing.assert_allclose(found[2].mean(0), LOC, atol=0.3)
    np.testing.assert_allclose(found[2].std(0), SCALE, rtol=0.1)
    assert found[3].shape == (2, 3, 2, 2)
    assert ((found[3] >= LOC) & (found[3] < LOC + 1)).all()
    close(found[4][:, 0], of_torch.Categorical(logits=torch.tensor(LOC)).entropy())

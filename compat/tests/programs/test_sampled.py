"""Losses over many classes, with the classes that were drawn taken from the run, against torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import fleet_programs as static
from fleet.errors import UsageError
from fleet_paddle.programs.layers import sampled
from fleet_paddle.programs.ops.losses import sampled as ops
from fleet_programs.layers.io import fed
from fleet_programs.layers.table import mean
from program_support.programs import building
from program_support.static_ops import SEED, Tried, check, normal

X, LABEL = normal(4, 3), np.array([[1], [0], [5], [6]])
PROBABILITIES = [0.1, 0.2, 0.1, 0.1, 0.2, 0.1, 0.2]


SAMPLERS: dict[str, Any] = {
    "uniform": lambda classes: torch.full(classes.shape, 1 / 7, dtype=torch.float64),
    "log_uniform": lambda classes: torch.log1p(1 / (classes.double() + 1)) / math.log(8),
    "custom_dist": lambda classes: torch.tensor(PROBABILITIES, dtype=torch.float64)[classes],
}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_nce(sampler: str, is_sparse: bool) -> None:
    feeds = {"x": X, "label": LABEL, "weights": np.abs(normal(4, 1))}
    tried = Tried(
        lambda x, label, weights: sampled.nce(
            x,
            label,
            7,
            weights,
            num_neg_samples=5,
            sampler=sampler,
            custom_dist=PROBABILITIES if sampler == "custom_dist" else None,
            is_sparse=is_sparse,
        ),
        feeds,
    )
    given = [torch.from_numpy(one).requires_grad_() for one in (X, *tried.parameters.values())]
    slopes = normal(4, 1)
    wanted = [tried.out, "nce_0.tmp_2", "x@GRAD", "nce_0.w_0@GRAD", "nce_0.b_0@GRAD"]
    out, drawn, *found = tried.built.run({**feeds, SEED: slopes}, *wanted)
    classes = torch.from_numpy(drawn)
    np.testing.assert_array_equal(drawn[:, :1], LABEL)
    x, weight, bias = given
    probability = torch.sigmoid((weight[classes] * x.unsqueeze(1)).sum(2) + bias[classes].squeeze(2))
    noise = SAMPLERS[sampler](classes) * 5
    right = torch.arange(6) < 1
    shares = torch.where(right, probability / (probability + noise), noise / (probability + noise))
    cost = -shares.log().sum(1, keepdim=True)
    cost = cost * torch.from_numpy(feeds["weights"])
    np.testing.assert_allclose(out, cost.detach())
    for one, slope in zip(found, torch.autograd.grad(cost, given, torch.from_numpy(slopes)), strict=True):
        np.testing.assert_allclose(one, slope, atol=1e-12)


def test_a_step_with_sparse_gradients() -> None:
    with building() as built:
        loss = mean(sampled.nce(fed("x", [-1, 3]), fed("label", [-1, 1], "int64"), 50, seed=3, is_sparse=True))
        static.optimizer.Adam(0.1).minimize(loss)
    built.start()
    feed = {"x": X.astype(np.float32), "label": LABEL}
    losses = [float(built.run(feed, loss)[0][0]) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_sampled_softmax() -> None:
    logits, label = normal(4, 9), np.array([[1, 0], [0, 3], [5, 6], [6, 8]])
    feeds = {"logits": logits, "label": label}
    tried = Tried(lambda logits, label: sampled.sampled_softmax_with_cross_entropy(logits, label, 4, 2), feeds)
    slopes = normal(4, 1)
    out, drawn, shifted, slope = tried.built.run(
        {**feeds, SEED: slopes}, tried.out, "sample_logits_0.tmp_1", "sample_logits_0.tmp_0", "logits@GRAD"
    )
    np.testing.assert_array_equal(drawn[:, :2], label)
    assert all(len({*row[2:].tolist()}) == 4 and row[2:].tolist() == drawn[0, 2:].tolist() for row in drawn)
    hits = (drawn[:, 2:, None] == label[:, None]).any(2)
    assert (shifted[:, 2:][hits] < -1e19).all()
    assert (shifted[:, 2:][~hits] > -1e3).all()
    taken = torch.from_numpy(logits).requires_grad_()
    away = torch.from_numpy(shifted) - taken.detach().gather(1, torch.from_numpy(drawn))
    logs = (taken.gather(1, torch.from_numpy(drawn)) + away).log_softmax(1)
    loss = -logs[:, :2].mean(1, keepdim=True)
    np.testing.assert_allclose(out, loss.detach())
    np.testing.assert_allclose(slope, torch.autograd.grad(loss, taken, torch.from_numpy(slopes))[0], atol=1e-12)


def test_sampled_softmax_of_one_s_own_samples() -> None:
    drawn = np.concatenate([LABEL, np.array([[2, 3]] * 4)], 1)
    feeds = {"logits": normal(4, 9), "label": LABEL, "drawn": drawn, "probabilities": np.full((4, 3), 0.5)}

    def reference(logits: torch.Tensor, label: Any, drawn: torch.Tensor, probabilities: Any) -> torch.Tensor:
        return functional.cross_entropy(
            logits.gather(1, drawn) + np.log(2), torch.zeros(4, dtype=torch.int64), reduction="none"
        ).unsqueeze(1)

    tried = Tried(
        lambda logits, label, drawn, probabilities: sampled.sampled_softmax_with_cross_entropy(
            logits, label, 2, 1, False, True, drawn, probabilities
        ),
        feeds,
    )
    out, _ = tried.run(np.ones((4, 1)))
    np.testing.assert_allclose(out, reference(*(torch.from_numpy(one) for one in feeds.values())))


def test_hsigmoid_over_a_complete_tree() -> None:
    def reference(x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        rows = []
        for one, leaf in zip(x, label.reshape(-1).tolist(), strict=True):
            code, loss = leaf + 7, x.new_zeros(1)
            while code > 1:
                node, bit, code = code // 2 - 1, code % 2, code // 2
                logit = weight[node] @ one + bias[node]
                loss = loss + torch.log(1 + torch.exp(logit)) - bit * logit
            rows.append(loss)
        return torch.stack(rows)

    check(lambda x, label: sampled.hsigmoid(x, label, 7), {"x": X, "label": LABEL}, reference)


def test_hsigmoid_over_a_tree_of_one_s_own() -> None:
    table, code = np.array([[0, 1], [0, -1], [0, 2], [0, 2]]), np.array([[0, 1], [1, 0], [0, 0], [1, 1]])

    def reference(x: torch.Tensor, label: Any, table: Any, code: Any, *parameters: torch.Tensor) -> torch.Tensor:
        weight, bias = parameters
        logits = (weight[table.clamp(min=0)] * x.unsqueeze(1)).sum(2) + bias[table.clamp(min=0)].squeeze(2)
        losses: torch.Tensor = functional.softplus(logits) - code * logits
        return losses.masked_fill(table < 0, 0).sum(1, keepdim=True)

    check(
        lambda x, label, table, code: sampled.hsigmoid(x, label, 3, None, None, None, table, code, True),
        {"x": X, "label": LABEL, "table": table, "code": code},
        reference,
    )


def test_bad_arguments() -> None:
    with building():
        x, label = fed("x", [-1, 3]), fed("label", [-1, 1], "int64")
        with pytest.raises(UsageError, match="sampler must be one of uniform, log_uniform, custom_dist, the last with"):
            sampled.nce(x, label, 7, sampler="custom_dist", custom_dist=[1.0])
        with pytest.raises(UsageError, match="num_samples must be from 1 to 3, the number of classes, got 5"):
            sampled.sampled_softmax_with_cross_entropy(x, label, 5)
        with pytest.raises(UsageError, match="is_custom needs path_table and path_code"):
            sampled.hsigmoid(x, label, 7, is_custom=True)


@pytest.mark.parametrize("label", [-1, 7])
@pytest.mark.parametrize("kind", ["nce", "hsigmoid"])
def test_labels_that_are_no_class_are_refused(kind: str, label: int) -> None:
    with building() as built:
        out = getattr(sampled, kind)(fed("x", [-1, 3]), fed("label", [-1, 1], "int64"), 7)
    built.start()
    with pytest.raises(UsageError, match="index .*out of (range|bounds)"):
        built.run({"x": X[:1].astype(np.float32), "label": np.array([[label]])}, out)


def test_many_distinct_classes_are_drawn_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways have the same distribution: how often each class comes, and how many draws it takes."""
    found = []
    for least in (0.0, 1.0):
        monkeypatch.setattr(ops, "_LARGE", least)
        generator = torch.Generator().manual_seed(3)
        drawn, tries = zip(*(ops._distinct(generator, 6, 4, torch.device("cpu")) for _ in range(1500)), strict=True)
        assert all(len(set(one.tolist())) == 4 for one in drawn)
        found.append([*(torch.cat(drawn).bincount(minlength=6) / 1500).tolist(), sum(tries) / 15000])
    np.testing.assert_allclose(found[0], found[1], atol=0.06)
    monkeypatch.setattr(ops, "_LARGE", 0.125)
    every, count = ops._distinct(None, 20000, 20000, torch.device("cpu"))
    assert len(every.unique()) == 20000 < count

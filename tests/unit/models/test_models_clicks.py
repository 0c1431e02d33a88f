"""Layers of `fleet.models` against their formulas, written out; models against what they are given."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
import torch

import fleet
from fleet import models
from fleet.data.columns.records import Batch
from fleet.errors import UsageError, UsageTypeError
from fleet.models.esmm import logit_of_both
from fleet.models.finalnet import Factorized, FieldGate
from fleet.models.parts import layers
from fleet.models.parts.base import log_loss
from fleet.models.parts.features import Features, beside
from fleet.models.ple import Level

FIELDS = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(3))
VECTORS = torch.randn(5, 6, generator=torch.Generator().manual_seed(4))


def batch(
    num_tasks: int = 1, num_dense: int = 3, num_slots: int = 4, weight: torch.Tensor | None = None, **slots: Any
) -> Batch:
    label = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])
    if num_tasks > 1:
        label = torch.stack([label] * num_tasks, dim=1)
    ids = torch.arange(5 * num_slots).view(5, num_slots)
    return Batch(label, torch.rand(5, num_dense), ids, slots, weight)


def dry(model: torch.nn.Module) -> Any:
    """The model, whose rows are read as zeros: it needs no job."""
    for module in model.modules():
        if isinstance(module, fleet.nn.SparseModule):
            module.run_dry()
    return model


def test_sum_of_pairs_is_a_factorisation_machine() -> None:
    wanted = sum((FIELDS[:, a] * FIELDS[:, b]).sum(1) for a, b in combinations(range(4), 2))
    torch.testing.assert_close(layers.sum_of_pairs(FIELDS), wanted)


def test_pairs_are_all_dot_products_once() -> None:
    wanted = [(FIELDS[:, a] * FIELDS[:, b]).sum(1) for b in range(4) for a in range(b)]
    torch.testing.assert_close(layers.pairs(FIELDS), torch.stack(wanted, dim=1))


def test_numbers_are_fields() -> None:
    layer = layers.NumberFields(6, 3)
    fields = layer(VECTORS)
    assert fields.shape == (5, 6, 3)
    torch.testing.assert_close(fields[2, 4], VECTORS[2, 4] * layer.weight[4])


def test_cross_layers() -> None:
    network = layers.CrossNetwork(6, 2)
    first, second = (layer.linear for layer in network.layers)
    for place in range(5):
        start = VECTORS[place]
        x = start * (first.weight @ start + first.bias) + start  # type: ignore[union-attr,operator]
        x = start * (second.weight @ x + second.bias) + x  # type: ignore[union-attr,operator]
        torch.testing.assert_close(network(VECTORS)[place], x)


def test_a_cross_layer_of_low_rank() -> None:
    layer: Any = layers.LowRankCross(6, 2, 3)
    start, x = VECTORS[0], VECTORS[1]
    weights = torch.softmax(layer.gate.linear.weight @ x + layer.gate.linear.bias, dim=0)
    total = torch.zeros(6)
    for n in range(3):
        inner = torch.tanh(layer.core[n].weight @ torch.tanh(layer.down[n].weight @ x))
        total += weights[n] * (layer.up[n].weight @ inner + layer.up[n].bias)
    torch.testing.assert_close(layer(start[None], x[None])[0], start * total + x)


def test_cin_by_loops() -> None:
    cin = layers.CIN(4, (3, 2))
    found = cin(FIELDS)
    assert found.shape == (5, cin.width) == (5, 5)
    x, sums = FIELDS, []
    for number, maps in enumerate((3, 2)):
        weight = cin.layers[number].weight.view(maps, 4, -1)  # type: ignore[operator]
        after = torch.zeros(5, maps, 3)
        for n in range(maps):
            for h in range(x.shape[1]):
                for m in range(4):
                    after[:, n] += weight[n, m, h] * x[:, h] * FIELDS[:, m]
        x = after
        sums.append(x.sum(2))
    torch.testing.assert_close(found, torch.cat(sums, dim=1))


def test_a_gate_is_a_mean_of_its_experts() -> None:
    gate, experts = layers.Gate(6, 3), layers.Experts(6, (7, 2), 3)
    said, weights = experts(VECTORS), gate.weights(VECTORS)
    assert said.shape == (5, 3, 2)
    torch.testing.assert_close(weights.sum(1), torch.ones(5))
    wanted = sum(weights[:, n, None] * experts.experts[n](VECTORS) for n in range(3))
    torch.testing.assert_close(gate(VECTORS, said), wanted)
    torch.testing.assert_close(gate(VECTORS, torch.ones(5, 3, 2)), torch.ones(5, 2))


def test_a_task_of_ple_does_not_hear_experts_of_another() -> None:
    level = Level(6, (4,), num_tasks=2, own=2, shared=1, dropout=0.0, is_last=False)
    before = level([VECTORS] * 3)
    with torch.no_grad():
        for one in level.own[1].parameters():
            one.add_(1.0)
    after = level([VECTORS] * 3)
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])
    assert not torch.equal(before[2], after[2])
    assert len(Level(6, (4,), 2, 2, 1, 0.0, is_last=True)([VECTORS] * 3)) == 2


def test_factorized_layers_and_the_field_gate() -> None:
    layer = Factorized(6, 2)
    a, b = (VECTORS @ layer.linear.weight.T + layer.linear.bias).split(2, dim=1)
    torch.testing.assert_close(layer(VECTORS), a + a * b)
    gate = FieldGate(4)
    mixed = torch.einsum("fg,bgd->bfd", gate.linear.weight, FIELDS) + gate.linear.bias[:, None]
    torch.testing.assert_close(gate(FIELDS), torch.cat([FIELDS, FIELDS * mixed], dim=1))


def test_the_loss_of_esmm_is_over_everything_shown() -> None:
    a, b = torch.tensor([0.3, -2.0, 40.0, -60.0]), torch.tensor([1.0, 3.0, 50.0, -60.0])
    product = torch.sigmoid(a.double()) * torch.sigmoid(b.double())
    torch.testing.assert_close(torch.sigmoid(logit_of_both(a, b)).double(), product)
    assert logit_of_both(a, b).isfinite().all()
    net = dry(models.ESMM(3, 4, hidden=(5,)))
    data = batch(2)
    data.label[:, 1] = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0])
    outputs = net(data)
    click, both = net.scores(outputs).unbind(1)
    x = beside(*net.features(data))
    torch.testing.assert_close(both, torch.sigmoid(net.click(x)).squeeze(1) * torch.sigmoid(net.convert(x)).squeeze(1))
    torch.testing.assert_close(net.conversion(outputs), torch.sigmoid(net.convert(x)).squeeze(1))
    bce = torch.nn.functional.binary_cross_entropy
    torch.testing.assert_close(net.loss(outputs, data), bce(click, data.label[:, 0]) + bce(both, data.label[:, 1]))


def test_the_loss_of_finalnet_teaches_both_streams() -> None:
    net = dry(models.FinalNet(3, 4, hidden=(5,)))
    data = batch()
    outputs = net(data)
    bce = torch.nn.functional.binary_cross_entropy
    mean = torch.sigmoid(outputs.mean(1))
    torch.testing.assert_close(net.scores(outputs), mean)
    streams = [bce(torch.sigmoid(outputs[:, n]), mean.detach()) for n in (0, 1)]
    torch.testing.assert_close(net.loss(outputs, data), bce(mean, data.label) + sum(streams))


def test_weights_count_for_every_label_of_a_sample() -> None:
    logits, weight = torch.randn(5, 2), torch.tensor([2.0, 0.0, 1.0, 0.5, 3.0])
    data = batch(2, weight=weight)
    each = torch.nn.functional.binary_cross_entropy_with_logits(logits, data.label, reduction="none")
    torch.testing.assert_close(log_loss(logits, data), (each.sum(1) * weight).sum() / 5)


@pytest.mark.parametrize("name", ["dnn", "wide_deep", "deepfm", "xdeepfm", "dcn", "dlrm", "finalnet"])
@pytest.mark.parametrize(("num_dense", "num_slots", "bags"), [(0, 4, ()), (3, 0, ("bag",)), (0, 1, ("bag",))])
@pytest.mark.filterwarnings("error")
def test_models_do_without_numbers_or_without_single_categories(
    name: str, num_dense: int, num_slots: int, bags: tuple[str, ...]
) -> None:
    net = dry(models.build(name, num_dense=num_dense, num_slots=num_slots, dim=2, hidden=(4,), bags=bags))
    data = batch(num_dense=num_dense, num_slots=num_slots, bag=torch.ones(5, 2, dtype=torch.int64))
    assert net.scores(net(data)).shape == (5,)
    net.loss(net(data), data).backward()


@pytest.mark.parametrize(("name", "num_tasks"), [("mmoe", 1), ("mmoe", 3), ("ple", 1), ("ple", 3)])
def test_any_number_of_tasks(name: str, num_tasks: int) -> None:
    net = dry(models.build(name, num_dense=3, num_slots=4, num_tasks=num_tasks, experts=(4,)))
    data = batch(num_tasks)
    if num_tasks == 1:
        data = data._replace(label=data.label.unsqueeze(1))
    assert net.scores(net(data)).shape == (5, num_tasks)
    assert net.loss(net(data), data).isfinite()


def test_dropout_is_between_the_layers() -> None:
    for name in ("dnn", "deepfm", "finalnet", "mmoe"):
        net = models.build(name, num_dense=3, num_slots=4, dropout=0.3)
        assert {one.p for one in net.modules() if isinstance(one, torch.nn.Dropout)} == {0.3}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_slots": 0}, "the model has no categories: num_slots is 0 and bags are empty; give it at least one"),
        ({"num_dense": -1}, "the model: num_dense must be >= 0, got -1"),
        ({"dim": 0}, "the model: dim must be >= 1, got 0"),
        ({"hidden": 400}, "the model: hidden must be a list of int >= 1, got 400"),
        ({"dropout": 1.5}, "the model: dropout must be"),
        ({"bags": "genres"}, "bags must be a list of slots' names, got 'genres'; write bags=('genres',)"),
    ],
)
@pytest.mark.parametrize("name", ["dnn", "deepfm"])
def test_wrong_settings_are_told_in_one_line(name: str, settings: Mapping[str, Any], said: str) -> None:
    with pytest.raises((UsageError, UsageTypeError)) as error:
        models.build(name, **{"num_dense": 3, "num_slots": 4, **settings})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_batches_are_told_in_one_line() -> None:
    net = dry(models.DNN(3, 4, hidden=(4,)))
    with pytest.raises(UsageError, match=r"^the model was made with num_dense=3, and the batch has 2$"):
        net(batch(num_dense=2))
    with pytest.raises(UsageError, match=r"^the model was made with num_slots=4, and the batch has 5$"):
        net(batch(num_slots=5))
    with pytest.raises(
        UsageError, match=r"^the batch has labels of shape \[5, 2\], and the model predicts \[5\]; name as"
    ):
        net.loss(net(batch()), batch(2))
    with pytest.raises(UsageError, match=r"^the batch has no slot 'genres' for the model's bags; its slots: 'other'$"):
        dry(Features(3, 4, 2, bags=["genres"]))(batch(other=torch.ones(5, 1).long()))


def test_names_that_nothing_has() -> None:
    with pytest.raises(UsageError, match=r"^no model is called 'deepfn'; did you mean 'deepfm'\?$"):
        models.build("deepfn")
    with pytest.raises(UsageError, match=r"^no model is called 'qqq'; there are dnn, "):
        models.build("qqq")
    with pytest.raises(
        UsageTypeError, match=r"^model 'dnn' has no setting 'depth'; it has num_dense, num_slots, dim, "
    ):
        models.build("dnn", depth=3)
    with pytest.raises(UsageTypeError, match=r"^model 'dnn' needs num_slots$"):
        models.build("dnn", num_dense=3)


def test_every_name_has_a_line() -> None:
    assert "deepfm" in models.NAMES
    assert all(about and "\n" not in about for about in models.NAMES.values())

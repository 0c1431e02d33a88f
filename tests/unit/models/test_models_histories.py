"""Models of histories: padding changes nothing, the future is not seen, and mistakes get one clear line."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fleet import models
from fleet.data import Batch
from fleet.errors import UsageError
from fleet.models.dien import AUGRU
from fleet.models.parts.histories import TargetAttention, causal, masked_softmax
from support.worker.model_cases import sequences

B, L = 3, 6


def padded(left: int, right: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of histories of 4 items, and where those are."""
    rows = torch.randn(B, 4, 8, generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(B, left + 4 + right, dtype=torch.bool)
    mask[:, left : left + 4] = True
    return torch.nn.functional.pad(rows, (0, 0, left, right)), mask


@pytest.mark.parametrize("name", ["sasrec", "hstu"])
def test_a_place_sees_what_was_before_it_only(name: str) -> None:
    torch.manual_seed(0)
    net: Any = models.build(name, dim=8, length=L, items=torch.arange(1, 10)).eval()
    rows, mask = padded(0, 2)
    changed = rows.clone()
    changed[:, 2] = torch.arange(8.0)
    with torch.no_grad():
        before, after = net.encode(rows, mask, None), net.encode(changed, mask, None)
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2:4], after[:, 2:4])


class Rows(torch.nn.Module):
    """A plain matrix in the place of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Embedding(40, 8, padding_idx=0)

    def forward(self, keys: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: self.matrix(ids) for name, ids in keys.items()}


def with_history(*placed: list[int], weight: torch.Tensor | None = None) -> Batch:
    history = torch.tensor(placed)
    negatives = (history + 20).where(history > 0, 0)
    ids = torch.arange(10, 10 + 2 * len(placed)).view(-1, 2)
    slots = {"history": history, "negatives": negatives}
    return Batch(torch.ones(len(placed)), torch.zeros(len(placed), 1), ids, slots, weight)


@pytest.mark.parametrize("name", ["din", "dien"])
def test_padding_on_either_side_is_the_same_to_models_of_clicks(name: str) -> None:
    torch.manual_seed(0)
    net: Any = models.build(name, num_dense=1, num_slots=2, dim=8, activation="prelu")
    net.rows = Rows()
    front, behind, none = (with_history(one) for one in ([0, 0, 3, 4, 5], [3, 4, 5, 0, 0], [3, 4, 5]))
    torch.testing.assert_close(net(front), net(behind))
    torch.testing.assert_close(net(front), net(none))
    assert not torch.allclose(net(front), net(with_history([0, 0, 4, 3, 5]))) or name == "din"


def test_weights_count_for_the_loss_beside_too() -> None:
    torch.manual_seed(0)
    net: Any = models.build("dien", num_dense=1, num_slots=2, dim=8, activation="prelu")
    net.rows = Rows()
    first, second = [1, 2, 3], [6, 7, 0]
    weighted = with_history(first, second, weight=torch.tensor([2.0, 0.0]))
    alone = with_history(first)
    torch.testing.assert_close(net.loss(net(weighted), weighted), net.loss(net(alone), alone))


@pytest.mark.parametrize("name", ["din", "dien"])
@pytest.mark.parametrize("settings", [{"num_dense": 3, "num_slots": 2}, {"num_dense": 1, "num_slots": 4}])
def test_a_batch_of_other_columns_is_refused(name: str, settings: dict[str, int]) -> None:
    net = models.build(name, **settings)
    with pytest.raises(UsageError, match=r"the model was made with num_\w+=\d, and the batch has \d"):
        net(with_history([1, 2]))


@pytest.mark.parametrize("name", ["sasrec", "hstu"])
def test_padding_on_either_side_is_the_same_to_models_of_sequences(name: str) -> None:
    torch.manual_seed(0)
    net: Any = models.build(name, dim=8, length=L, items=torch.arange(1, 10)).eval()
    with torch.no_grad():
        front, behind = net.encode(*padded(2, 0), None), net.encode(*padded(0, 2), None)
    torch.testing.assert_close(front[:, 2:], behind[:, :4])


@pytest.mark.parametrize("softmax", [False, True])
def test_attention_passes_over_padding(softmax: bool) -> None:
    torch.manual_seed(0)
    attention = TargetAttention(8, softmax=softmax)
    target = torch.randn(B, 8)
    (front, front_mask), (behind, behind_mask) = padded(2, 0), padded(0, 2)
    a, b = attention(front, target, front_mask), attention(behind, target, behind_mask)
    torch.testing.assert_close(a[:, 2:], b[:, :4])
    assert (a[:, :2] == 0).all()
    if softmax:
        torch.testing.assert_close(a.sum(1), torch.ones(B))


def test_what_sees_nothing_has_no_weights() -> None:
    assert masked_softmax(torch.randn(2, 3), torch.zeros(2, 3, dtype=torch.bool)).tolist() == [[0.0] * 3] * 2
    assert causal(torch.tensor([[False, True, True]])).tolist() == [
        [[True, False, False], [False, True, False], [False, True, True]]
    ]


def test_augru_without_attention_stays_where_it_is() -> None:
    cell = AUGRU(8)
    rows, mask = padded(0, 2)
    assert (cell(rows, torch.zeros_like(mask, dtype=torch.float32)) == 0).all()
    full, short = cell(rows, mask.float()), cell(rows[:, :4], torch.ones(B, 4))
    torch.testing.assert_close(full, short)


def test_what_follows_each_place() -> None:
    net: Any = models.build("sasrec", dim=4, length=4, items=torch.tensor([5, 6, 7, 8]))
    history = torch.tensor([[5, 6, 0, 0], [0, 0, 7, 5]])
    found = net._following(history, torch.tensor([8, 8]), history != 0)
    assert found[0, :2].tolist() == [6, 8]
    assert found[1, 2:].tolist() == [5, 8]


def test_an_item_that_stands_twice_in_a_batch_is_no_negative() -> None:
    batch = sequences()[0]
    batch.ids[1, 1] = batch.ids[0, 1]
    net: Any = models.build("two_tower", user=(0,), item=(1,), dim=4)
    net.vectors = lambda _: (torch.ones(batch.size, 4), torch.ones(batch.size, 4))
    logits = net(batch)
    assert logits[0, 1] == logits[1, 0] == torch.finfo(torch.float32).min
    assert logits.diagonal().eq(40.0).all()


def test_popular_items_are_corrected_in_training_only() -> None:
    batch = sequences()[0]
    net: Any = models.build("two_tower", user=(0,), item=(1,), log_q=0, dim=4)
    net.vectors = lambda _: (torch.zeros(batch.size, 4), torch.zeros(batch.size, 4))
    assert torch.equal(net(batch).diagonal(), -batch.dense[:, 0])
    assert (net.eval()(batch).diagonal() == 0).all()


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("sasrec", {"dim": 6, "heads": 4}, "dim must be a multiple of heads, got dim=6 and heads=4"),
        ("hstu", {"dim": 6, "heads": 4}, "dim must be a multiple of heads, got dim=6 and heads=4"),
        ("sasrec", {"objective": "hinge"}, "objective must be .*got 'hinge'"),
        ("sasrec", {"objective": "bce", "items": torch.arange(3)}, "or without items"),
        ("din", {"num_dense": 0, "num_slots": 1, "activation": "tanh"}, 'activation must be "dice" or "prelu"'),
        ("two_tower", {"user": (), "item": (1,)}, "needs columns of both user and item"),
        ("two_tower", {"user": (0,), "item": (1,), "temperature": 0.0}, "temperature must be above 0, got 0.0"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(name: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        models.build(name, **settings)


def test_a_batch_without_its_slot_is_refused() -> None:
    batch = sequences()[0]
    net = models.build("sasrec", history="watched", dim=4)
    with pytest.raises(UsageError, match=r"the batch has no slot 'watched'; it has 'history'.* Declare one:"):
        net.keys(batch)
    with pytest.raises(UsageError, match=r"slot 'any' must be a matrix of ids; give its fleet.data.Category a length"):
        models.build("sasrec", history="any", dim=4).keys(batch)
    with pytest.raises(UsageError, match="the batch has no slot 'ask'"):
        models.build("simnet_bow", query="ask", dim=4).keys(batch)


def test_an_item_that_the_model_does_not_know_is_named() -> None:
    batch = sequences()[0]
    net = models.build("sasrec", dim=4, items=torch.arange(1, 20))
    known = net.loss
    with pytest.raises(UsageError, match=r"the data has item \d+, which is not among the items of the model"):
        known(torch.zeros(batch.size, 5, 19), batch)

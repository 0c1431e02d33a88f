"""`padding_idx`, `max_norm`, weights and offsets, against `torch.nn.Embedding` and `EmbeddingBag`.

Each case has the same first values on both sides, and compares forward, gradients and the rows after some steps of SGD.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError
from fleet.nn import Embedding, EmbeddingCollection, Slot, pool
from support.parity.training import Trainer, exported, joined, served, strategy

WIDTH = 3
NUM_IDS = 10
FIRST = fleet.initializers.Uniform(-1.0, 1.0)
LR = 0.5
IDS = torch.tensor([[1, 4, 0], [4, 4, 7], [0, 0, 0], [9, 0, 1]])
OFFSETS = torch.tensor([0, 2, 2, 7])
PADDINGS = [None, 0, 4, -1]
POOLINGS: list[Any] = ["sum", "mean"]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=LR)


def rows_of(one: Trainer) -> torch.Tensor:
    """What the ids 0 to NUM_IDS - 1 are when they are trained, their padding apart."""
    module = one.model
    assert isinstance(module, Embedding)
    spec = one.worker.client.job.tables[0]
    assert spec.name == "embedding"
    plain = one.worker.lookups([module.requests(torch.arange(NUM_IDS))[0]._replace(paddings=())], with_grad=True)
    one.worker.give_up()
    rows = plain[0].rows
    assert rows is not None
    return rows.detach()[plain[0].inverse]


def theirs(one: Trainer, **given: Any) -> tuple[nn.Embedding, torch.optim.Optimizer]:
    """torch's module with the same first values, and an optimizer for it."""
    made = nn.Embedding(NUM_IDS, WIDTH, **given)
    with torch.no_grad():
        made.weight.copy_(rows_of(one))
        if made.padding_idx is not None:
            made.weight[made.padding_idx] = 0.0
    return made, torch.optim.SGD(made.parameters(), lr=LR)


def bags_of(one: Trainer, **given: Any) -> tuple[nn.EmbeddingBag, torch.optim.Optimizer]:
    made = nn.EmbeddingBag(NUM_IDS, WIDTH, **given)
    with torch.no_grad():
        made.weight.copy_(rows_of(one))
        if made.padding_idx is not None:
            made.weight[made.padding_idx] = 0.0
    return made, torch.optim.SGD(made.parameters(), lr=LR)


def compare(
    one: Trainer, other: nn.Module, optimizer: torch.optim.Optimizer, call: Callable[[nn.Module], torch.Tensor]
) -> None:
    """Three steps of both, on a loss whose gradient differs from place to place."""
    for _ in range(3):
        outs = [call(one.model), call(other)]
        torch.testing.assert_close(outs[0], outs[1], rtol=0, atol=1e-6)
        factors = torch.linspace(-1, 2, outs[0].numel()).view(outs[0].shape)
        for out, step in zip(outs, (one.optimizer, optimizer), strict=True):
            step.zero_grad()
            (out * factors).sum().backward()
            step.step()
    one.model.eval()
    other.eval()
    torch.testing.assert_close(call(one.model), call(other).detach(), rtol=0, atol=1e-6)


def known(padding: int | None) -> int | None:
    """The padding as torch takes it: there, -1 is the last id; here, one that does not occur."""
    return None if padding == -1 else padding


@pytest.mark.parametrize("padding", PADDINGS)
def test_padding_without_pooling(padding: int | None) -> None:
    with joined(model=Embedding(WIDTH, initializer=FIRST, padding_idx=padding), optimizer=sgd) as one:
        compare(one, *theirs(one, padding_idx=known(padding)), lambda module: module(IDS))
        trained = {int(key) for key in IDS.unique()} - {padding}
        assert one.stats()[0]["tables"]["embedding"]["rows"] == len(trained)


@pytest.mark.parametrize("mode", ["sync", "async", "half", "geo"])
def test_padding_in_every_mode(mode: str) -> None:
    """In geo mode rows come from the worker's own copies. Two servers: the row of padding lies behind those of both."""
    with served(2) as (endpoints, services):
        model = Embedding(WIDTH, initializer=FIRST, padding_idx=0)
        given = strategy(mode, k_steps=2)
        with joined(endpoints, model=model, optimizer=sgd, strategy=given) as one:
            other, optimizer = theirs(one, padding_idx=0)
            for number in range(4):
                ids = (IDS + 3 * number) % NUM_IDS
                for module, step in ((one.model, one.optimizer), (other, optimizer)):
                    step.zero_grad()
                    module(ids).square().sum().backward()
                    step.step()
                one.fleet.flush()
            one.model.eval()
            torch.testing.assert_close(one.model(IDS), other(IDS).detach(), rtol=0, atol=1e-6)
        keys = {int(key) for service in services for key in exported(service)["keys"]}
        assert keys == set(range(1, NUM_IDS))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("form", ["2-D", "offsets", "last"])
def test_padding_in_bags(padding: int | None, pooling: Any, form: str) -> None:
    last = form == "last"
    model = Embedding(WIDTH, initializer=FIRST, padding_idx=padding, pooling=pooling, include_last_offset=last)
    flat, offsets = IDS.reshape(-1), torch.cat([OFFSETS, torch.tensor([12])]) if last else OFFSETS
    with joined(model=model, optimizer=sgd) as one:
        other = bags_of(one, padding_idx=known(padding), mode=pooling, include_last_offset=last)
        if form == "2-D":
            compare(one, *other, lambda module: module(IDS))
        else:
            compare(one, *other, lambda module: module(flat, offsets))


@pytest.mark.parametrize("padding", [None, 0])
@pytest.mark.parametrize("form", ["2-D", "offsets"])
def test_weights_and_their_gradients(padding: int | None, form: str) -> None:
    model = Embedding(WIDTH, initializer=FIRST, padding_idx=padding, pooling="sum")
    ids = IDS if form == "2-D" else IDS.reshape(-1)
    offsets = None if form == "2-D" else OFFSETS
    weights = torch.linspace(-0.4, 0.6, IDS.numel()).view(ids.shape)
    with joined(model=model, optimizer=sgd) as one:
        other, optimizer = bags_of(one, padding_idx=padding, mode="sum")
        grads = []
        for module in (one.model, other):
            own = weights.clone().requires_grad_()
            module(ids, offsets, per_sample_weights=own).square().sum().backward()
            grads.append(own.grad)
        one.worker.give_up()
        torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-6)
        compare(one, other, optimizer, lambda module: module(ids, offsets, per_sample_weights=weights))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_weight_of_padding_may_be_no_number(bad: float, dtype: torch.dtype) -> None:
    """Weights that are divided by their sum are none in a bag of nothing but padding."""
    ids, offsets = torch.tensor([1, 0, 0, 2]), torch.tensor([0, 2, 3])
    found = []
    for given in ("ours", "torch"):
        rows = torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
        weights = torch.tensor([0.5, bad, bad, 2.0], dtype=dtype, requires_grad=True)
        if given == "ours":
            out = pool(rows, ids, offsets, "sum", weights=weights, padding_row=0)
        else:
            bags = nn.functional.embedding_bag
            out = bags(ids, rows, offsets, mode="sum", per_sample_weights=weights, padding_idx=0)
        out.square().sum().backward()
        found.append((out.detach(), rows.grad, weights.grad))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.4, 5.0])
def test_max_norm(max_norm: float, norm_type: float) -> None:
    with joined(model=Embedding(WIDTH, initializer=FIRST), optimizer=sgd) as one:
        first = rows_of(one)
    model = Embedding(WIDTH, initializer=FIRST, max_norm=max_norm, norm_type=norm_type)
    with joined(model=model, optimizer=sgd) as one:
        other, optimizer = theirs(one, max_norm=max_norm, norm_type=norm_type)
        with torch.no_grad():
            other.weight.copy_(first)  # above the norm: torch scales what is looked up
        compare(one, other, optimizer, lambda module: module(IDS))
        with torch.no_grad():
            other(torch.arange(NUM_IDS))
        torch.testing.assert_close(rows_of(one), other.weight.detach(), rtol=0, atol=1e-6)
        assert rows_of(one).norm(norm_type, 1).max() <= max_norm * (1 + 1e-6)


def test_max_norm_with_bags_and_padding() -> None:
    given: Any = {"max_norm": 0.3, "padding_idx": 0}
    with joined(model=Embedding(WIDTH, initializer=FIRST, pooling="mean", **given), optimizer=sgd) as one:
        compare(one, *bags_of(one, mode="mean", **given), lambda module: module(IDS))


def test_slots_have_padding_weights_and_last_offsets() -> None:
    """Slots of one table have a padding each; what is padding to one is an id to the other."""
    slots = [
        Slot("a", WIDTH, table="t", initializer=FIRST, padding_idx=0),
        Slot("b", WIDTH, table="t", initializer=FIRST, pooling="sum", include_last_offset=True),
        Slot("c", WIDTH, table="t", initializer=FIRST, pooling="mean", padding_idx=4),
        Slot("d", WIDTH, initializer=FIRST, pooling="sum", max_norm=0.5),
    ]
    ids, weights = torch.tensor([0, 4, 1]), torch.tensor([0.5, 2.0, -1.0])
    batch: dict[str, Any] = {
        "a": ids,
        "b": (ids, torch.tensor([0, 1, 3]), weights),
        "c": torch.stack([ids, ids]),
        "d": (ids, None, weights),
    }
    with joined(model=EmbeddingCollection(slots), optimizer=sgd) as one:
        rows = one.model(batch)
        values = one.model({**batch, "a": torch.tensor([4, 1, 9])})["a"]
        zero = rows["c"][0] * 2 - values[1]  # of 0 and 1, for 4 is padding there
        torch.testing.assert_close(rows["a"], torch.stack([torch.zeros(WIDTH), values[0], values[1]]))
        torch.testing.assert_close(rows["b"], torch.stack([zero * 0.5, values[0] * 2 - values[1]]))
        assert rows["d"].shape == (3, WIDTH)
        assert rows["d"].detach().norm(dim=1).max() <= 1.0


def test_a_padded_batch_can_be_prefetched() -> None:
    batches = [IDS, IDS + 1, IDS]
    with joined(model=Embedding(WIDTH, initializer=FIRST, padding_idx=0), optimizer=sgd) as one:
        other, optimizer = theirs(one, padding_idx=0)
        for ids in one.fleet.prefetch(batches, one.model):
            for module, step in ((one.model, one.optimizer), (other, optimizer)):
                step.zero_grad()
                module(ids % NUM_IDS if ids is not IDS else ids).square().sum().backward()
                step.step()
        one.model.eval()
        torch.testing.assert_close(one.model(IDS), other(IDS).detach(), rtol=0, atol=1e-6)


def test_padding_is_not_counted() -> None:
    """Neither as an occurrence nor by its shows and clicks."""
    entry = fleet.ShowClickEntry(threshold=4.0)
    with joined(model=Embedding(WIDTH, padding_idx=0, entry=entry), optimizer=sgd) as one:
        ids, shows, clicks = torch.tensor([0, 5, 0, 6]), torch.tensor([9.0, 5, 9, 4]), torch.tensor([9.0, 4, 9, 3])
        one.model(ids, show=shows, click=clicks).sum().backward()
        one.optimizer.step()
        stats = one.stats()[0]["tables"]["embedding"]
        assert (stats["rows"], stats["waiting"]) == (1, 1)  # 5 has a score of 4.1, and 6 one of 3.1


def test_nothing_but_padding() -> None:
    with joined(model=Embedding(WIDTH, padding_idx=0), optimizer=sgd) as one:
        out = one.model(torch.zeros(2, 3, dtype=torch.int64))
        assert torch.equal(out, torch.zeros(2, 3, WIDTH))
        out.sum().backward()
        one.optimizer.step()
        assert one.stats()[0]["tables"]["embedding"]["rows"] == 0


@pytest.mark.parametrize("mode", [*POOLINGS, "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pool_takes_the_same_arguments_whoever_computes(mode: Any, dtype: torch.dtype) -> None:
    """float64 goes through torch's own functions, as a GPU does."""
    rows = torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 0.0]], dtype=dtype, requires_grad=True)
    inverse = torch.tensor([[0, 2, 1], [2, 2, 2]])
    pool(rows, inverse, mode=mode, padding_row=2).sum().backward()
    assert rows.grad is not None
    share = 0.5 if mode == "mean" else 1.0
    assert rows.grad[:2].tolist() == [[share, share], [share, share]]
    if mode == "sum":
        weights = torch.tensor([[2.0, 7.0, 3.0], [1.0, 1.0, 1.0]], dtype=dtype, requires_grad=True)
        out = pool(rows, inverse, mode=mode, weights=weights, padding_row=2)
        assert out.tolist() == [[11.0, 19.0], [0.0, 0.0]]
        out.sum().backward()
        assert weights.grad is not None
        assert weights.grad.tolist() == [[3.0, 0.0, 8.0], [0.0, 0.0, 0.0]]


def test_what_is_refused() -> None:
    rows, inverse = torch.zeros(2, 2), torch.tensor([[0, 1]])
    with pytest.raises(UsageError, match="weights need bags that are summed, got mode 'mean'"):
        pool(rows, inverse, mode="mean", weights=torch.ones(1, 2))
    with pytest.raises(UsageError, match=r"weights must be torch.float32 of shape \[1, 2\].* got torch.float64"):
        pool(rows, inverse, mode="sum", weights=torch.ones(1, 2, dtype=torch.float64))
    with pytest.raises(UsageError, match=r"of shape \[1, 2\], one for each id, got torch.float32 of shape \[2\]"):
        pool(rows, inverse, mode="sum", weights=torch.ones(2))
    with pytest.raises(UsageError, match="padding_idx must be an int, got 'a'"):
        Embedding(2, padding_idx="a")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="embedding: include_last_offset is about bags; leave it out, or set pooling"):
        Embedding(2, include_last_offset=True)
    with pytest.raises(UsageError, match="max_norm must be > 0, got 0"):
        Embedding(2, max_norm=0)
    with pytest.raises(UsageError, match="norm_type must be > 0, got -1"):
        Slot("a", 2, max_norm=1, norm_type=-1)

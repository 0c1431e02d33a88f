"""Batches of TorchRec in and out, with a stand-in that has the documented interface, and with TorchRec where it is."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

import fleet
from fleet.errors import UsageError
from fleet.nn import EmbeddingCollection, Slot, from_keyed_jagged, to_keyed_jagged
from support.parity.training import joined


class Jagged:
    """What `torchrec.KeyedJaggedTensor` documents, as far as it matters here."""

    def __init__(
        self, keys: list[str], values: torch.Tensor, lengths: torch.Tensor, weights: torch.Tensor | None = None
    ) -> None:
        self._keys, self._values, self._lengths, self._weights = keys, values, lengths, weights

    def keys(self) -> list[str]:
        return self._keys

    def values(self) -> torch.Tensor:
        return self._values

    def lengths(self) -> torch.Tensor:
        return self._lengths

    def weights_or_none(self) -> torch.Tensor | None:
        return self._weights

    def stride(self) -> int:
        return len(self._lengths) // max(1, len(self._keys))


class WithOffsets(Jagged):
    def offsets(self) -> torch.Tensor:
        return torch.cat([torch.zeros(1, dtype=torch.int64), self._lengths.cumsum(0)])


VALUES = torch.tensor([11, 12, 13, 21, 22, 23, 24])
LENGTHS = torch.tensor([2, 0, 1, 0, 1, 3])
WEIGHTS = torch.linspace(0, 1, 7)


@pytest.mark.parametrize("kind", [Jagged, WithOffsets])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_every_key_has_its_ids_offsets_and_weights(kind: type[Jagged], dtype: torch.dtype) -> None:
    found: Any = from_keyed_jagged(kind(["a", "b"], VALUES, LENGTHS.to(dtype), WEIGHTS))
    assert list(found) == ["a", "b"]
    assert [part.tolist() for part in found["a"][:2]] == [[11, 12, 13], [0, 2, 2]]
    assert [part.tolist() for part in found["b"][:2]] == [[21, 22, 23, 24], [0, 0, 1]]
    assert found["b"][1].dtype == torch.int64
    torch.testing.assert_close(found["b"][2], WEIGHTS[3:])
    assert found["b"][0].data_ptr() == VALUES[3:].data_ptr()
    assert found["b"][2].data_ptr() == WEIGHTS[3:].data_ptr()


def test_an_empty_batch() -> None:
    none = torch.empty(0, dtype=torch.int64)
    found = from_keyed_jagged(Jagged(["a"], none, none))
    assert [part.tolist() for part in found["a"]] == [[], []]
    assert from_keyed_jagged(Jagged([], none, none)) == {}


def test_keys_with_batch_sizes_of_their_own_are_refused() -> None:
    given = Jagged(["a", "b"], VALUES[:3], torch.tensor([1, 1, 1]))
    with pytest.raises(UsageError, match="2 keys and 1 samples must have 3 offsets, got 4; keys with batch sizes"):
        from_keyed_jagged(given)


def test_a_collection_takes_it() -> None:
    first = fleet.initializers.Uniform(-1.0, 1.0)
    slots = [Slot(name, 2, table="t", pooling="sum", initializer=first, rule=fleet.rules.SGD()) for name in "ab"]
    slots.append(Slot("each", 2, table="t", initializer=first, rule=fleet.rules.SGD()))
    with joined(model=EmbeddingCollection(slots)) as one:
        found = one.model({**from_keyed_jagged(WithOffsets(["a", "b"], VALUES, LENGTHS, WEIGHTS)), "each": VALUES})
        weighted = found["each"] * WEIGHTS.unsqueeze(1)
        expected = [weighted[begin:end].sum(0) for begin, end in ((0, 2), (2, 2), (2, 3), (3, 3), (3, 4), (4, 7))]
        torch.testing.assert_close(torch.cat([found["a"], found["b"]]), torch.stack(expected))


def test_torchrec_must_be_there_to_make_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchrec", None)
    with pytest.raises(UsageError, match="torchrec is not installed; pip install torchrec"):
        to_keyed_jagged({"a": VALUES})


@pytest.fixture(params=["stand-in", "torchrec"])
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `to_keyed_jagged` find a KeyedJaggedTensor: ours, and TorchRec's where it is installed."""
    if request.param == "torchrec":
        pytest.importorskip("torchrec")
    else:
        module = type(sys)("torchrec")
        module.KeyedJaggedTensor = WithOffsets  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torchrec", module)


@pytest.mark.usefixtures("maker")
def test_there_and_back() -> None:
    batch: Any = {
        "bags": (torch.tensor([5, 6, 7]), torch.tensor([0, 0]), torch.tensor([0.5, 1.0, 2.0])),
        "pairs": (torch.tensor([[1, 2], [3, 4]]), None, torch.ones(2, 2)),
    }
    jagged = to_keyed_jagged(batch)
    assert jagged.lengths().tolist() == [0, 3, 2, 2]
    back = from_keyed_jagged(jagged)
    assert [[part.tolist() for part in given] for given in back.values()] == [
        [[5, 6, 7], [0, 0], [0.5, 1.0, 2.0]],
        [[1, 2, 3, 4], [0, 2], [1.0] * 4],
    ]
    plain = to_keyed_jagged({"one": torch.tensor([8, 9]), "bags": batch["bags"][:2]})
    assert [[part.tolist() for part in given] for given in from_keyed_jagged(plain).values()] == [
        [[8, 9], [0, 1]],
        [[5, 6, 7], [0, 0]],
    ]


@pytest.mark.usefixtures("maker")
@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"a": VALUES, "b": VALUES[:2]}, "slots must have as many samples as each other, got {'a': 7, 'b': 2}"),
        ({"a": VALUES, "b": (VALUES, None, WEIGHTS)}, "slot 'a' has no weights, and others have"),
        ({"a": VALUES.view(7, 1, 1)}, r"slot 'a': ids without offsets must be \[B\] or \[B, L\], got \[7, 1, 1\]"),
    ],
)
def test_what_cannot_be_one(batch: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        to_keyed_jagged(batch)

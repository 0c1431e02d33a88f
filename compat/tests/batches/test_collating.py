"""How samples become batches; what is expected here is what PaddlePaddle 2.6.2 has given for the same samples."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageTypeError
from fleet_paddle.batches import io
from fleet_paddle.batches.collating import RaggedError, default_collate_fn, default_convert_fn
from fleet_paddle.imperative import Tensor, to_tensor

Point = namedtuple("Point", "a b")


class Samples(io.Dataset[Any]):
    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> Any:
        return self.samples[place]


def plain(batch: Any) -> Any:
    """A batch with (dtype, values) in the place of each array or tensor."""
    if isinstance(batch, np.ndarray | torch.Tensor):
        return str(batch.dtype).removeprefix("torch."), batch.tolist()
    if isinstance(batch, dict):
        return {key: plain(one) for key, one in batch.items()}
    return [plain(one) for one in batch] if isinstance(batch, list) else batch


CASES: dict[str, tuple[list[Any], Any]] = {
    "numbers": ([1, 2], ("int64", [1, 2])),
    "floats": ([1.5, 2.0], ("float64", [1.5, 2.0])),
    "whole and broken numbers": ([1, 2.5], ("float64", [1.0, 2.5])),
    "bools": ([True, False], ("bool", [True, False])),
    "numbers of numpy": ([np.float32(1), np.float32(2)], ("float32", [1.0, 2.0])),
    "two kinds of numbers": ([np.int32(1), 2], ("int64", [1, 2])),
    "text": (["a", "b"], ["a", "b"]),
    "bytes": ([b"a", b"b"], [b"a", b"b"]),
    "lists in tuples": (
        [([1, 2], [3.5]), ([4, 5], [6.5])],
        [[("int64", [1, 4]), ("int64", [2, 5])], [("float64", [3.5, 6.5])]],
    ),
    "text beside numbers": ([("a", 1), ("b", 2)], [["a", "b"], ("int64", [1, 2])]),
    "dicts": (
        [{"a": 1, "b": [1, 2]}, {"a": 2, "b": [3, 4]}],
        {"a": ("int64", [1, 2]), "b": [("int64", [1, 3]), ("int64", [2, 4])]},
    ),
    "a key that the first sample has not": ([{"a": 1}, {"a": 2, "b": 3}], {"a": ("int64", [1, 2])}),
    "named tuples": ([Point(1, 2), Point(3, 4)], [("int64", [1, 3]), ("int64", [2, 4])]),
    "ranges": ([range(2), range(2, 4)], [("int64", [0, 2]), ("int64", [1, 3])]),
    "nothing": ([[], []], []),
    "arrays": ([np.ones((1, 2), "int8")] * 2, ("int8", [[[1, 1]], [[1, 1]]])),
}


@pytest.mark.parametrize("case", CASES)
def test_batches_are_those_of_paddle(case: str) -> None:
    samples, expected = CASES[case]
    assert plain(default_collate_fn(samples)) == expected
    if case in ("text", "bytes", "nothing"):
        return
    (batch,) = io.DataLoader(Samples(samples), batch_size=2)
    found = plain(batch)
    assert found == ([expected] if isinstance(expected, tuple) else expected)


def test_tensors_are_stacked() -> None:
    (batch,) = io.DataLoader(Samples([to_tensor([1.0, 2.0]), to_tensor([3.0, 4.0])]), batch_size=2)
    assert isinstance(batch[0], Tensor)
    assert batch[0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([[1, 2], [3]], "lists of a batch have the lengths 2, 1; pad them in a collate_fn"),
        ([([1, 2], 0), ([3], 1)], "lists of a batch have the lengths 2, 1"),
        ([{"b": [1, 2]}, {"b": [3]}], "lists of a batch have the lengths 2, 1"),
        ([[1], 2], "lists of a batch have the lengths 1, no list"),
        ([np.zeros(2), np.zeros(3)], r"arrays of a batch have the shapes \(2,\), \(3,\)"),
        ([torch.zeros(2), torch.zeros(3)], r"tensors of a batch have the shapes \(2,\), \(3,\)"),
    ],
)
def test_what_is_ragged_is_refused(samples: list[Any], says: str) -> None:
    with pytest.raises(RaggedError, match=says) as told:
        list(io.DataLoader(Samples(samples), batch_size=2))
    assert isinstance(told.value, RuntimeError)  # as there


def test_what_is_no_sample() -> None:
    with pytest.raises(UsageTypeError, match="a sample has a NoneType"):
        list(io.DataLoader(Samples([None, None]), batch_size=2))


def test_samples_that_are_batches() -> None:
    assert plain(default_convert_fn((np.ones(2), "a", {"x": (1, 2)}))) == [("float64", [1, 1]), "a", {"x": [1, 2]}]
    found = list(io.DataLoader(Samples([(np.ones(2), 3)]), batch_size=None))
    assert plain(found) == [[("float64", [1, 1]), 3]]


def test_lists_of_samples_of_a_generator() -> None:
    loader = io.DataLoader.from_generator(capacity=2)
    loader.set_sample_list_generator(lambda: iter([[([1, 2], 0.5), ([3, 4], 1.5)]]))
    (batch,) = loader()
    assert plain(batch)[0] == ("int64", [[1, 2], [3, 4]])
    assert batch[1].tolist() == [0.5, 1.5]
    for samples in ([([1, 2], 0), ([3], 1)], [([[1], [2, 3]], 0)], [(1, 2), (3,)]):
        loader.set_sample_list_generator(lambda samples=samples: iter([samples]))
        with pytest.raises(RaggedError, match="different lengths|the shapes|the lengths"):
            list(loader())

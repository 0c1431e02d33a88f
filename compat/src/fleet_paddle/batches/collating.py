"""How samples become a batch where a script says nothing: `default_collate_fn`, by the rules of PaddlePaddle.

    numbers                     one array; 1 and 2.5 together are floats
    arrays, tensors             stacked
    text, bytes                 as they are, in a list
    dicts                       a dict: each key of the first sample collated by itself
    lists, tuples               a list: the first elements collated, the second ones, and so on

So a list of numbers as a field becomes as many arrays as it has elements, and lists of different lengths are refused: a
script that wants them padded or ragged says so in a `collate_fn`, or feeds a program, whose variables say `lod_level`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleet.errors import UsageError, UsageTypeError

_REMEDY = "pad them in a collate_fn, as DataLoader(dataset, collate_fn=...)"


class RaggedError(UsageError, RuntimeError):
    """Samples of a batch that do not fit together; a RuntimeError too, which scripts of PaddlePaddle know."""


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """One batch of several samples; RaggedError if their lists or arrays are of different lengths."""
    first = batch[0]
    if isinstance(first, np.ndarray):
        shapes = [np.shape(one) for one in batch]
        if any(shape != shapes[0] for shape in shapes):
            raise RaggedError(f"DataLoader: arrays of a batch have the shapes {_listed(shapes)}; {_REMEDY}")
        return np.stack(batch)
    if isinstance(first, torch.Tensor):
        shapes = [tuple(one.shape) for one in batch]
        if any(shape != shapes[0] for shape in shapes):
            raise RaggedError(f"DataLoader: tensors of a batch have the shapes {_listed(shapes)}; {_REMEDY}")
        return torch.stack(list(batch))
    if isinstance(first, Number):
        return np.array(batch)
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate_fn([one[key] for one in batch]) for key in first}
    if isinstance(first, Sequence):
        return [default_collate_fn(field) for field in fields_of(batch)]
    raise UsageTypeError(
        f"DataLoader: a sample has a {type(first).__name__}, and batches are made of tensors, arrays, numbers, text, "
        "lists and dicts; give it a collate_fn"
    )


def fields_of(samples: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The first elements of all samples, then the second ones, and so on; RaggedError if one has more than another."""
    lengths = [len(one) if isinstance(one, Sequence) else -1 for one in samples]
    if any(length != lengths[0] for length in lengths):
        raise RaggedError(f"DataLoader: lists of a batch have the lengths {_listed(lengths)}; {_REMEDY}")
    return list(zip(*samples, strict=True))


def regular(value: Any) -> npt.NDArray[Any]:
    """A list, however nested, as one array; RaggedError if it has lists of different lengths."""
    try:
        found = np.asarray(value)
    except ValueError:
        raise RaggedError(f"DataLoader: a list of a sample has lists of different lengths; {_REMEDY}") from None
    return found


def _listed(sizes: Sequence[object]) -> str:
    shown = ", ".join("no list" if one == -1 else str(one) for one in sizes[:6])
    return shown + (", ..." if len(sizes) > 6 else "")


def default_convert_fn(batch: Any) -> Any:
    """A sample that is a batch already: the same, with lists where it has tuples."""
    if isinstance(batch, str | bytes | np.ndarray | torch.Tensor):
        return batch
    if isinstance(batch, Mapping):
        return {key: default_convert_fn(one) for key, one in batch.items()}
    return [default_convert_fn(one) for one in batch] if isinstance(batch, Sequence) else batch

"""A state_dict of any object, as JSON and tensors. Nothing is pickled: what has no place in either is refused.

Numbers, text, None and lists stand for themselves. Everything else is an object with one name that says what it is:

    {"dict": {...}}   {"items": [[key, value], ...]}   {"tuple": [...]}   {"counter": [[key, count], ...]}
    {"float": "inf"}   {"tensor": KEY}   {"array": KEY}
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from fleet.errors import CheckpointError, UsageTypeError

Add = Callable[[str, torch.Tensor], None]


def encode(value: Any, key: str, add: Add, where: str) -> Any:
    """JSON for `value`. Its tensors go to `add` under names below `key`; `where` names it in errors."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, torch.Tensor):
        add(key, value)
        return {"tensor": key}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        add(key, torch.from_numpy(np.ascontiguousarray(value)))
        return {"array": key}
    if isinstance(value, Counter):
        return {"counter": _pairs(value, key, add, where)}
    if isinstance(value, Mapping):
        if all(type(name) is str for name in value):
            return {
                "dict": {name: encode(one, f"{key}/{name}", add, f"{where}[{name!r}]") for name, one in value.items()}
            }
        return {"items": _pairs(value, key, add, where)}
    if type(value) in (list, tuple):
        items = [encode(one, f"{key}/{number}", add, f"{where}[{number}]") for number, one in enumerate(value)]
        return items if type(value) is list else {"tuple": items}
    raise UsageTypeError(
        f"{where} is a {type(value).__name__}, which no checkpoint can hold; "
        "give numbers, text, tensors, and lists and dicts of them"
    )


def _pairs(value: Mapping[Any, Any], key: str, add: Add, where: str) -> list[list[Any]]:
    pairs = []
    for number, (name, one) in enumerate(value.items()):
        at = f"{where}[{name!r}]"
        pairs.append([encode(name, f"{key}/{number}.key", add, at), encode(one, f"{key}/{number}", add, at)])
    return pairs


def decode(tree: Any, fetch: Callable[[str], torch.Tensor], where: str) -> Any:
    """The value that `encode` was given; `fetch` gives a tensor by its key."""
    if isinstance(tree, list):
        return [decode(one, fetch, where) for one in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) == 1:
        ((kind, inside),) = tree.items()
        if kind == "dict" and isinstance(inside, dict):
            return {name: decode(one, fetch, where) for name, one in inside.items()}
        if kind in ("items", "counter") and isinstance(inside, list):
            pairs = {decode(name, fetch, where): decode(one, fetch, where) for name, one in inside}
            return Counter(pairs) if kind == "counter" else pairs
        if kind == "tuple" and isinstance(inside, list):
            return tuple(decode(one, fetch, where) for one in inside)
        if kind == "float" and inside in ("inf", "-inf", "nan"):
            return float(inside)
        if kind in ("tensor", "array") and isinstance(inside, str):
            return fetch(inside) if kind == "tensor" else fetch(inside).numpy()
    raise CheckpointError(f"{where} is damaged: {str(tree)[:60]} is no value")

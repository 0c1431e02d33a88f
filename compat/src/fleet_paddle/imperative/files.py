"""`save` and `load`: what `state_dict()` gives, in one safetensors file that any program can read; never a pickle.

Tensors of a plain dict stand under their names. Dicts within dicts, lists and numbers, as optimizers have them, are
described in JSON, which is the tensor `fleet.structure` of the same file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fleet.checkpoint.files.fields import parse_json
from fleet.errors import CheckpointError, UsageError, UsageTypeError
from fleet_paddle.foreign.loading import NAME_TABLE, head
from fleet_paddle.foreign.pickled import is_pickle, read_pickle
from fleet_paddle.foreign.tensors import read_one
from fleet_paddle.imperative.tensor import as_paddle
from fleet_programs.io.files import read_safetensors, write_alone

__all__ = ["load", "save"]

STRUCTURE = "fleet.structure"


def save(obj: Any, path: str | os.PathLike[str], protocol: int = 4) -> None:
    """Save a dict, such as `state_dict()`, or a list, a tensor, a number: whatever is made of them, arrays and texts.

    The file is whole or not there, and has its checksum in it. `protocol` is one of pickle's, 2 to 4, and says how
    PaddlePaddle writes; no file here is a pickle.
    """
    if protocol not in (2, 3, 4):
        raise UsageError(f"save: protocol must be 2, 3 or 4, got {protocol!r}")
    place = Path(path)
    tensors: dict[str, torch.Tensor] = {}
    tree = _described(obj, "", tensors)
    if not _is_plain(obj):
        text = json.dumps(tree if isinstance(tree, dict) else {"value": tree}, separators=(",", ":")).encode()
        tensors[STRUCTURE] = torch.from_numpy(np.frombuffer(text, np.uint8).copy())
    write_alone(place, tensors)


def load(path: str | os.PathLike[str], return_numpy: bool = False) -> Any:
    """What `save` wrote; with `return_numpy` arrays are in the places of tensors.

    What PaddlePaddle wrote is read as well: one variable, or a pickle of arrays, of which nothing but data is built.
    CheckpointError for a file that is missing, damaged or something else.
    """
    place = Path(path)
    if not place.is_file():
        raise CheckpointError(f"there is no file {place}; give the path that was saved to")
    begin = head(place)
    if is_pickle(begin):
        return _taken(read_pickle(place), return_numpy, {})
    if begin[:4] == bytes(4):  # the version of a variable
        return _taken(read_one(place), return_numpy, {})
    read = read_safetensors(place)
    text = read.pop(STRUCTURE, None)
    tensors: dict[str, Any] = {name: as_paddle(tensor.clone()) for name, tensor in read.items()}
    if return_numpy:
        tensors = {name: np.asarray(tensor) for name, tensor in tensors.items()}
    if text is None:
        return tensors
    tree = parse_json(text.numpy().tobytes(), f"{place}, {STRUCTURE}").value
    try:
        return _restored(tree["value"] if list(tree) == ["value"] else tree, tensors, place)
    except (RecursionError, TypeError, ValueError) as error:  # pairs that are none, keys that are lists, endless depth
        raise CheckpointError(f"{place} is damaged: its {STRUCTURE} is none ({error}); copy the file again") from None


def _taken(value: Any, return_numpy: bool, seen: dict[int, Any]) -> Any:
    """What a pickle of PaddlePaddle holds, with tensors where it has arrays, or arrays with their names.

    What is shared there is taken once: lists of twice the same list, and so on, would be endless otherwise.
    """
    if id(value) in seen:
        return seen[id(value)]
    made = value
    if isinstance(value, np.ndarray):
        made = value if return_numpy else as_paddle(torch.from_numpy(value))
    elif (
        isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], np.ndarray)
    ):
        made = _taken(value[1], return_numpy, seen)
    elif isinstance(value, dict):
        made = {key: _taken(one, return_numpy, seen) for key, one in value.items() if key != NAME_TABLE}
    elif isinstance(value, list | tuple):
        made = type(value)(_taken(one, return_numpy, seen) for one in value)
    else:
        return value
    seen[id(value)] = made
    return made


def _is_plain(obj: Any) -> bool:
    """Whether it is a dict of named tensors and nothing else, so that their names in the file say all."""
    return isinstance(obj, dict) and all(
        isinstance(key, str) and key not in ("", STRUCTURE) and isinstance(one, torch.Tensor | np.ndarray)
        for key, one in obj.items()
    )


def _described(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """The value as JSON; tensors are put aside, and their names stand for them."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str | int):
                raise UsageTypeError(f"save: keys must be texts or whole numbers, got {key!r} in {name or 'the dict'}")
        parts = {key: _described(one, f"{name}/{key}" if name else str(key), tensors) for key, one in value.items()}
        return {"dict": [[key, one] for key, one in parts.items()]}
    name = name or "value"
    if isinstance(value, list | tuple):
        return {"list": [_described(one, f"{name}/{place}", tensors) for place, one in enumerate(value)]}
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        while name in tensors or name == STRUCTURE:  # {"a": {"b": x}, "a/b": y} spells two alike
            name += "'"
        tensors[name] = value.detach()
        return f"tensor:{name}"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return f"text:{value}"
    if value is None or isinstance(value, bool | int | float):
        return value
    raise UsageTypeError(
        f"save: {name} must be a tensor, a number, a text, a list or a dict, got {type(value).__name__}"
    )


def _restored(tree: Any, tensors: dict[str, Any], place: Path) -> Any:
    if isinstance(tree, dict) and list(tree) == ["dict"]:
        return {key: _restored(one, tensors, place) for key, one in tree["dict"]}
    if isinstance(tree, dict) and list(tree) == ["list"]:
        return [_restored(one, tensors, place) for one in tree["list"]]
    if isinstance(tree, str):
        kind, _, rest = tree.partition(":")
        if kind == "text":
            return rest
        if kind == "tensor" and rest in tensors:
            return tensors[rest]
    elif tree is None or isinstance(tree, bool | int | float):
        return tree
    raise CheckpointError(f"{place} is damaged: its {STRUCTURE} holds {str(tree)[:60]!r}")

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

from fleet.checkpoint.fields import parse_json
from fleet.checkpoint.files import reading
from fleet.checkpoint.pieces import decode
from fleet.errors import CheckpointError, UsageTypeError
from fleet.imperative.tensor import own
from fleet.static.io.files import write_tensors

STRUCTURE = "fleet.structure"

_BITS = {"BF16": torch.bfloat16, "BOOL": torch.bool}


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Save a dict of tensors, arrays, numbers, texts, lists and dicts. The file is whole or not there."""
    if not isinstance(obj, dict):
        raise UsageTypeError(f"save: give a dict, such as layer.state_dict(), got {type(obj).__name__}")
    place = Path(path)
    tensors: dict[str, torch.Tensor] = {}
    tree = _described(obj, "", tensors)
    is_plain = all(isinstance(key, str) and isinstance(one, torch.Tensor | np.ndarray) for key, one in obj.items())
    if not is_plain:
        text = json.dumps(tree, separators=(",", ":")).encode()
        tensors[STRUCTURE] = torch.from_numpy(np.frombuffer(text, np.uint8).copy())
    write_tensors(place.parent, tensors, place.name)


def load(path: str | os.PathLike[str]) -> dict[Any, Any]:
    """What `save` wrote. CheckpointError for a file that is missing, damaged or something else, such as a pickle."""
    place = Path(path)
    if not place.is_file():
        raise CheckpointError(f"there is no file {place}; give the path that was saved to")
    with reading(place) as descriptor, open(descriptor, "rb", closefd=False) as file:
        data = np.frombuffer(file.read(), np.uint8)
    arrays = decode(data, str(place))
    header = parse_json(data[8 : 8 + int.from_bytes(data[:8].tobytes(), "little")].tobytes(), str(place)).value
    tensors = {}
    for name, array in arrays.items():
        tensor = torch.from_numpy(array.copy())
        bits = _BITS.get(header[name]["dtype"])
        tensors[name] = own(tensor if bits is None or tensor.dtype is bits else tensor.view(bits))
    if STRUCTURE not in tensors:
        return dict(tensors)
    tree = parse_json(tensors.pop(STRUCTURE).numpy().tobytes(), f"{place}, {STRUCTURE}").value
    made: dict[Any, Any] = _restored(tree, tensors, place)
    return made


def _described(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """The value as JSON; tensors are put aside, and their names stand for them."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str | int):
                raise UsageTypeError(f"save: keys must be texts or whole numbers, got {key!r} in {name or 'the dict'}")
        parts = {key: _described(one, f"{name}/{key}" if name else str(key), tensors) for key, one in value.items()}
        return {"dict": [[key, one] for key, one in parts.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_described(one, f"{name}/{place}", tensors) for place, one in enumerate(value)]}
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        tensors[name] = value.detach()
        return f"tensor:{name}"
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

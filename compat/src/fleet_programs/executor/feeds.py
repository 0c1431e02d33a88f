"""Feeds on their way to a program: sent to a device ahead, and several of them as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet_programs.executor.lod import LoDTensor
from fleet_programs.executor.place import device_of

if TYPE_CHECKING:
    from fleet_programs.program.variable import Variable

Feed = dict[str, Any]


def device_for(places: Any) -> tuple[torch.device, int]:
    """The device of some places, and how many there are; several GPUs in one process are refused.

    Several CPU places are the same CPU, whose cores compute one batch together.
    """
    several = places() if callable(places) else places
    several = list(several) if isinstance(several, list | tuple) else [] if several is None else [several]
    devices = [device_of(place) for place in several]
    if len(devices) > 1 and any(device.type != "cpu" for device in devices):
        raise NotSupportedError(
            f"{len(devices)} places in one process are not built; start a process for each: fleetrun --worker_num"
        )
    return (devices[0] if devices else torch.device("cpu")), max(1, len(devices))


def sent(batch: Any, device: torch.device) -> Any:
    """A batch on its way to a device."""
    if isinstance(batch, Mapping):
        return {name: _moved(value, device) for name, value in batch.items()}
    return [_moved(value, device) for value in batch]


def joined(feeds: Sequence[Mapping[str, Any]], variables: Mapping[str, Variable]) -> Feed:
    """One feed of several, which hold values for the same variables: the rows of all, one after the other.

    Of a variable whose first size is fixed, such as a learning rate of shape [1], each feed may hold the same value.
    """
    if not feeds or not all(isinstance(feed, Mapping) for feed in feeds):
        raise UsageTypeError(
            f"feed must be a dictionary of names and values, or a list with one for each place, got {feeds!r}"
        )
    first = feeds[0]
    if len(feeds) == 1:
        return dict(first)
    for feed in feeds[1:]:
        if feed.keys() != first.keys():
            raise UsageError(f"feeds for several places must have the same names, got {sorted(first)}, {sorted(feed)}")
    return {name: _rows(name, [feed[name] for feed in feeds], variables.get(name)) for name in first}


def copied(value: Any) -> Any:
    """A copy of a value whose memory its maker may use again; numbers as they are."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, LoDTensor):
        made = LoDTensor(value.values.clone())
        made.set_lod(value.lod())
        return made
    return type(value)(map(copied, value)) if type(value) in (list, tuple) else value


def num_rows(feed: Feed) -> int:
    """How many rows a feed has; ragged values have one for each sequence."""
    value = next(iter(feed.values()))
    if isinstance(value, LoDTensor):
        return len(value)
    return len(value[1]) - 1 if isinstance(value, tuple) else len(value)


def _rows(name: str, parts: Sequence[Any], var: Variable | None) -> Any:
    if var is not None and var.lod is not None:
        several = [LoDTensor.of(part, var) for part in parts]
        whole = LoDTensor(torch.cat([part.values for part in several]))
        levels = zip(*(part.recursive_sequence_lengths() for part in several), strict=True)
        whole.set_recursive_sequence_lengths([[length for part in level for length in part] for level in levels])
        return whole
    parts = [part.values if isinstance(part, LoDTensor) else part for part in parts]
    if var is not None and var.shape and np.shape(parts[0])[:1] == var.shape[:1]:
        first, *others = (part.cpu() if isinstance(part, torch.Tensor) else part for part in parts)
        if not all(np.array_equal(first, other) for other in others):
            raise UsageError(
                f"feed {name!r} has the shape {list(var.shape)} for all places together; give each the same value"
            )
        return parts[0]
    if isinstance(parts[0], torch.Tensor):
        return torch.cat([torch.as_tensor(part) for part in parts])
    return np.concatenate([np.asarray(part) for part in parts])


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, LoDTensor):
        return LoDTensor(value.values.to(device), value.offsets, value.groups)
    if isinstance(value, tuple):
        return _moved(value[0], device), value[1]
    tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
    return tensor.to(device) if isinstance(tensor, torch.Tensor) else tensor

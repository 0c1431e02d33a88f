"""Lists, tuples and dicts inside each other, taken apart and put together: `fluid.layers.utils`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fleet.errors import UsageError
from fleet_programs.layers.building.nested import flat, form, packed


def is_sequence(seq: Any) -> bool:
    """Whether it has parts: a list, a tuple or a dict."""
    return isinstance(seq, list | tuple | dict)


def flatten(nest: Any) -> list[Any]:
    """What is at the ends, in order; of a dict in the order of its sorted keys."""
    return flat(nest)


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """The same structure with other ends, given in the order of `flatten`."""
    num = len(flat(structure))
    if num != len(flat_sequence):
        raise UsageError(f"pack_sequence_as: the structure has {num} ends, and {len(flat_sequence)} were given")
    return packed(structure, list(flat_sequence))


def map_structure(func: Callable[..., Any], *structure: Any) -> Any:
    """`func` of the ends that stand in the same place, in a structure like the first."""
    if not structure:
        raise UsageError("map_structure needs a structure beside the function")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types=False)
    return packed(structure[0], [func(*ends) for ends in zip(*map(flat, structure), strict=True)])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """UsageError if two structures differ; with `check_types` a list is another one than a tuple."""
    if form(nest1) != form(nest2):
        raise UsageError(f"the structures differ: {form(nest1)} and {form(nest2)}")
    if check_types:
        _check_types(nest1, nest2)


def _check_types(nest1: Any, nest2: Any) -> None:
    if not is_sequence(nest1):
        return
    if type(nest1) is not type(nest2):
        raise UsageError(f"the structures differ: a {type(nest1).__name__} and a {type(nest2).__name__}")
    keys = nest1 if isinstance(nest1, dict) else range(len(nest1))
    for key in keys:
        _check_types(nest1[key], nest2[key])

"""Control flow on tensors: what Python does anyway, under the names that scripts call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Function = Callable[[], Any]


def cond(pred: Any, true_fn: Function | None = None, false_fn: Function | None = None, name: str | None = None) -> Any:  # noqa: ARG001
    """What one of two functions returns."""
    chosen = true_fn if bool(pred) else false_fn
    return None if chosen is None else chosen()


def case(pred_fn_pairs: Sequence[Any], default: Function | None = None, name: str | None = None) -> Any:  # noqa: ARG001
    """What the function of the first pair whose tensor holds returns."""
    for pred, function in pred_fn_pairs:
        if bool(pred):
            return function()
    return (default or pred_fn_pairs[-1][1])()


def switch_case(branch_index: Any, branch_fns: Any, default: Function | None = None, name: str | None = None) -> Any:  # noqa: ARG001
    """What the function of a number returns."""
    given = list(branch_fns.items()) if isinstance(branch_fns, Mapping) else list(branch_fns)
    numbered: dict[int, Function] = dict(
        one if isinstance(one, tuple) else (place, one) for place, one in enumerate(given)
    )
    return numbered.get(int(branch_index), default or numbered[max(numbered)])()


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool = False,  # noqa: ARG001
    name: str | None = None,  # noqa: ARG001
) -> Any:
    """The tensors after a loop."""
    found = list(loop_vars)
    while bool(cond(*found)):
        made = body(*found)
        found = list(made) if isinstance(made, list | tuple) else [made]
    return found


def create_array(dtype: Any = "float32", name: str | None = None) -> list[torch.Tensor]:  # noqa: ARG001
    """An empty list."""
    return []


def array_write(x: torch.Tensor, i: Any, array: list[Any] | None = None) -> list[Any]:
    """The list with `x` at a place."""
    found = [] if array is None else array
    place = int(i)
    found += [None] * (place + 1 - len(found))
    found[place] = x
    return found


def array_read(array: list[Any], i: Any) -> Any:
    """The tensor at a place."""
    return array[int(i)]


def array_length(array: list[Any]) -> torch.Tensor:
    """How many tensors there are."""
    return torch.tensor([len(array)])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (array_length, array_read, array_write, case, cond, create_array, switch_case, while_loop)
}

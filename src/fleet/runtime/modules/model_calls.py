"""Tells `fleet.observe.metrics` when a model is called to be trained, and with how many samples."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from fleet.observe.metrics.steps import steps
from fleet.observe.metrics.writer import is_on


def watch(model: nn.Module) -> None:
    """Count the calls of this model; nothing where the figures of this process are not wanted."""
    if is_on() and not getattr(model, "_fleet_is_watched", False):
        model._fleet_is_watched = True  # type: ignore[assignment]  # an attribute as any
        model.register_forward_pre_hook(_before, with_kwargs=True)
        model.register_forward_hook(_after)


def _before(model: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    if model.training and torch.is_grad_enabled():
        steps.begin_forward(_num_samples((*inputs, *named.values()), depth=3) or 0)


def _after(model: nn.Module, _inputs: object, _outputs: object) -> None:
    if model.training and torch.is_grad_enabled():
        steps.end_forward()


def _num_samples(values: Iterable[Any], depth: int) -> int | None:
    """The first dimension of the first tensor, or array, among the arguments and what they hold."""
    for value in values:
        if isinstance(value, str | bytes):
            continue
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape):
            return int(shape[0])
        held = _held(value) if depth else None
        if held is not None and (found := _num_samples(held, depth - 1)) is not None:
            return found
    return None


def _held(value: Any) -> Iterable[Any] | None:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, tuple | list):
        return value
    return vars(value).values() if hasattr(value, "__dict__") else None

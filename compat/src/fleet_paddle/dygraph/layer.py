"""`Layer` of version 1.8, and those that only hold other layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.errors import UsageError, UsageTypeError
from fleet_paddle.fluid import layers
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_programs.operators import definition, known


class Layer(nn.Layer):
    """A layer of `fleet_paddle.imperative` with version 1.8's arguments."""

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        super().__init__(name_scope, dtype)

    def set_dict(  # type: ignore[override]
        self, stat_dict: Mapping[str, Any], include_sublayers: bool = True, use_structured_name: bool = True
    ) -> None:
        """Take the values that `state_dict()` gave."""
        if not include_sublayers:
            raise UsageTypeError("set_dict: include_sublayers must be True; call it on the layer that is meant")
        self.set_state_dict(stat_dict, use_structured_name)

    load_dict = set_dict  # type: ignore[assignment]


class ActingLayer(TakingLayer, Layer):
    """A layer that says in `takes` what its arguments are; after it comes the function that `act` of them names."""

    def make_of(self, given: Any) -> None:
        self._act = activation(type(self).__name__, getattr(given, "act", None))

    def acted(self, made: Any) -> Any:
        """What the activation makes of it."""
        return made if self._act is None else self._act(made)


class Sequential(Layer, nn.Sequential):
    """Layers one after the other: given in order, or as pairs of a name and a layer."""

    def __init__(self, *layers: Any) -> None:
        nn.Sequential.__init__(self, *layers)


class LayerList(Layer, nn.LayerList):
    """A list of layers."""

    def __init__(self, sublayers: Any = None) -> None:
        nn.LayerList.__init__(self, sublayers)


class ParameterList(Layer, nn.ParameterList):
    """A list of parameters."""

    def __init__(self, parameters: Any = None) -> None:
        nn.ParameterList.__init__(self, parameters)


def activation(what: str, act: str | None) -> Callable[[Any], Any] | None:
    """The function behind `act`; None for none."""
    if act is None:
        return None
    if not isinstance(act, str):
        raise UsageTypeError(f"{what}: act must be the name of an activation, such as 'relu', got {act!r}")
    if act not in layers.__all__ or act not in known() or list(definition(act).input_slots) != ["X"]:
        raise UsageError(f"{what}: there is no activation {act!r}; use relu, tanh, sigmoid, softmax, ...")
    made: Callable[[Any], Any] = getattr(layers, act)
    return made


def whole(what: str, name: str, value: Any) -> int:
    """A count; version 1.5's layers began with a name, which is told what to do."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(
            f"{what}: {name} must be a whole number >= 1, got {value!r}"
            + ("; layers no longer begin with a name_scope" if isinstance(value, str) else "")
        )
    return value

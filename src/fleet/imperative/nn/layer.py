"""`Layer`, what every layer and every user's network is; and those that only hold other layers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from fleet.errors import UsageError, UsageTypeError
from fleet.imperative.creation import sizes
from fleet.imperative.nn.parameter import make
from fleet.imperative.tensor import Parameter, Tensor, own
from fleet.static import names
from fleet.static.variable import Variable


class Layer(nn.Module):
    """A torch module with the methods that layers have in imperative Paddle; what it returns are our tensors."""

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        super().__init__()
        self.name_it(name_scope, dtype)

    def name_it(self, name_scope: str | None, dtype: Any = "float32") -> None:
        """What `__init__` does after torch's: find a name that no other layer has."""
        self._dtype = dtype
        stem = name_scope or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()
        self._full_name = names.generate(stem)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        if inputs and isinstance(inputs[0], Variable):
            raise UsageError(
                f"{type(self).__name__} takes tensors, and {inputs[0].name!r} is a variable of a program; use the "
                "layers of static.nn there, such as static.nn.fc"
            )
        return own(super().__call__(*inputs, **kwargs))

    def full_name(self) -> str:
        """A name that no other layer of this process has."""
        return self._full_name

    def parameters(self, include_sublayers: bool = True, *, recurse: bool = True) -> list[nn.Parameter]:  # type: ignore[override]
        """Its parameters, with those of the layers inside it or without."""
        return list(super().parameters(include_sublayers and recurse))

    def sublayers(self, include_self: bool = False) -> list[nn.Module]:
        """The layers inside it, at any depth."""
        return [one for one in self.modules() if include_self or one is not self]

    def named_sublayers(self, prefix: str = "", include_self: bool = False) -> Iterator[tuple[str, nn.Module]]:
        """The layers inside it, at any depth, with their names."""
        return ((name, one) for name, one in self.named_modules(prefix=prefix) if include_self or one is not self)

    def add_sublayer(self, name: str, sublayer: nn.Module) -> nn.Module:
        """Put a layer into this one."""
        self.add_module(str(name), sublayer)
        return sublayer

    def add_parameter(self, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        """Put a parameter into this layer."""
        self.register_parameter(name, parameter)
        return parameter

    def create_parameter(
        self, shape: Any, attr: Any = None, dtype: Any = None, is_bias: bool = False, default_initializer: Any = None
    ) -> Parameter | None:
        """A parameter to put into this layer; None if `attr` is False."""
        made = make(sizes(shape), attr, dtype or self._dtype, is_bias, default_initializer)
        if made is not None and made.name is None:
            made.name = names.generate(f"{self._full_name}.{'b' if is_bias else 'w'}")
        return made

    def register_buffer(  # type: ignore[override]
        self, name: str, tensor: torch.Tensor | None, persistable: bool = True, *, persistent: bool = True
    ) -> None:
        """A tensor that is part of the layer and is not trained; saved with it if `persistable`."""
        super().register_buffer(name, tensor, persistable and persistent)

    def set_state_dict(self, state_dict: Mapping[str, Any], use_structured_name: bool = True) -> None:
        """Take the values that `state_dict()` gave: tensors or arrays, one for each name."""
        if not use_structured_name:
            raise UsageTypeError(
                "set_state_dict: use_structured_name must be True; parameters are known by their place"
            )
        try:
            self.load_state_dict({name: torch.as_tensor(value) for name, value in state_dict.items()})
        except RuntimeError as error:
            raise UsageError(f"set_state_dict: {' '.join(str(error).split())}") from None

    set_dict = set_state_dict
    load_dict = set_state_dict

    def clear_gradients(self) -> None:
        """Drop what backward has left."""
        self.zero_grad()

    def register_forward_post_hook(self, hook: Any) -> Any:
        """Call `hook(layer, inputs, outputs)` after each forward."""
        return self.register_forward_hook(hook)


class Sequential(Layer):
    """Layers one after the other: given in order, or as pairs of a name and a layer."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        for place, one in enumerate(layers):
            name, layer = one if isinstance(one, tuple | list) else (str(place), one)
            self.add_sublayer(name, layer)

    def forward(self, input: Any) -> Any:
        for layer in self._modules.values():
            assert layer is not None
            input = layer(input)
        return input

    def __getitem__(self, place: int | str) -> nn.Module:
        found = list(self._modules.values())[place] if isinstance(place, int) else self._modules[place]
        assert found is not None
        return found

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())


class LayerList(Layer, nn.ModuleList):
    """A list of layers."""

    def __init__(self, sublayers: Iterable[nn.Module] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or ())


class ParameterList(Layer, nn.ParameterList):
    """A list of parameters."""

    def __init__(self, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(parameters or ())


class Flatten(Layer):
    """The dimensions from one to another as one."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self._axes = start_axis, stop_axis

    def forward(self, x: torch.Tensor) -> Tensor:
        return own(torch.flatten(x, *self._axes))


class Identity(Layer):
    """What comes in."""

    def forward(self, x: Any) -> Any:
        return x

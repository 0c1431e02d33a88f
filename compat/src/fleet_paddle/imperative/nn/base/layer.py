"""`Layer`, what every layer and every user's network is; and those that only hold other layers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import torch
from torch import nn
from torch.nn.modules import module as of_torch

from fleet.errors import NotSupportedError, UsageTypeError
from fleet_paddle.imperative.creation import sizes
from fleet_paddle.imperative.functions import table
from fleet_paddle.imperative.nn.base import programs
from fleet_paddle.imperative.nn.base.listing import Listing
from fleet_paddle.imperative.nn.base.parameter import make
from fleet_paddle.imperative.optimizer.gradients import drop
from fleet_paddle.imperative.state import chosen
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_programs.expressions import names

_WORDS = re.compile(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])")


class Layer(Listing):
    """A torch module with the methods that layers have in imperative Paddle; what it returns are our tensors.

    After `enable_static()` its parameters are those of the default programs, and it is called with variables: see
    `imperative.nn.base.programs`. `dtype` is the type of the parameters that it makes: that of new floats unless given.
    """

    def __init__(self, name_scope: str | None = None, dtype: Any = None) -> None:
        super().__init__()
        self.name_it(name_scope, dtype)

    def name_it(self, name_scope: str | None, dtype: Any = None) -> None:
        """What `__init__` does after torch's: find a name that no other layer has."""
        self._dtype = dtype
        stem = name_scope or _WORDS.sub("_", type(self).__name__).lower()
        self._full_name = names.generate(stem)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        is_watched = (  # hooks, a compiled or traced layer: then a call is more than `forward`
            self._forward_pre_hooks
            or self._forward_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _BEFORE
            or _AFTER
            or _BACK
            or _BEFORE_BACK
            or self._compiled_call_impl is not None
            or _TRACING()
        )
        try:
            made = super().__call__(*inputs, **kwargs) if is_watched else self.forward(*inputs, **kwargs)
        except TypeError:
            programs.check_operands(self, inputs)
            raise
        if type(made) is torch.Tensor and any(made is one for one in inputs):
            return made.as_subclass(Tensor)  # the caller's own keeps its class
        return as_paddle(made)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        as_paddle(list(self._buffers.values()))  # which pickles hold as plain tensors

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, programs.Parameter):
            programs.put(self, name, value)
        else:
            super().__setattr__(name, value)

    def train(self, mode: bool = True) -> Self:
        """From now on it is trained, or evaluated, and so are functions without a layer, such as 1.8's dropout."""
        chosen.training = bool(mode)
        return super().train(mode)

    def full_name(self) -> str:
        """A name that no other layer of this process has."""
        return self._full_name

    def add_sublayer(self, name: str, sublayer: nn.Module) -> nn.Module:
        """Put a layer into this one."""
        self.add_module(str(name), sublayer)
        return sublayer

    def add_parameter(self, name: str, parameter: Any) -> Any:
        """Put a parameter into this layer."""
        if isinstance(parameter, programs.Parameter):
            programs.put(self, name, parameter)
        else:
            self.register_parameter(name, parameter)
        return parameter

    def create_parameter(
        self, shape: Any, attr: Any = None, dtype: Any = None, is_bias: bool = False, default_initializer: Any = None
    ) -> Any:
        """A parameter to put into this layer: a tensor, or after `enable_static()` one of a program; None for False."""
        wanted = dtype or self._dtype
        if programs.are_meant():
            return programs.make(self._full_name, sizes(shape), attr, wanted, is_bias, default_initializer)
        made = make(sizes(shape), attr, wanted, is_bias, default_initializer)
        if made is not None and made.name is None:
            made.name = names.generate(f"{self._full_name}.{'b' if is_bias else 'w'}")
        return made

    def create_variable(self, name: str | None = None, persistable: bool | None = None, dtype: Any = None) -> Any:
        """Refused: a tensor begins with values here."""
        raise NotSupportedError(
            f"create_variable: a tensor without values (name={name!r}, persistable={persistable}, dtype={dtype}) is "
            "not built; use zeros(shape), and register_buffer(name, tensor) to keep it"
        )

    create_tensor = create_variable

    def register_buffer(  # type: ignore[override]
        self, name: str, tensor: torch.Tensor | None, persistable: bool = True, *, persistent: bool = True
    ) -> None:
        """A tensor that is part of the layer and is not trained; saved with it if `persistable`."""
        if programs.are_meant() and tensor is not None:
            programs.put_buffer(self, self._full_name, name, tensor)
        else:
            super().register_buffer(name, tensor, persistable and persistent)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        if programs.are_in(self):
            destination.update({prefix + name: one for name, one in programs.held(self).items()})
        else:
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def set_state_dict(self, state_dict: Mapping[str, Any], use_structured_name: bool = True) -> None:
        """Take the values that `state_dict()` gave: tensors or arrays, by name.

        What is not given, is of another shape, or has no place here is left as it is, with a warning.
        """
        if not use_structured_name:
            raise UsageTypeError(
                "set_state_dict: use_structured_name must be True; parameters are known by their place"
            )
        given = {name: torch.as_tensor(value) for name, value in state_dict.items()}
        known = self.state_dict()
        skipped = [f"{name} is not given" for name in known if name not in given]
        skipped += [f"{name} is not part of the layer" for name in given if name not in known]
        skipped += [
            f"{name} has shape {list(known[name].shape)}, the value {list(value.shape)}"
            for name, value in given.items()
            if name in known and tuple(value.shape) != tuple(known[name].shape)
        ]
        if skipped:
            left = {text.partition(" ")[0] for text in skipped}
            given = {name: value for name, value in given.items() if name not in left}
            warnings.warn(f"set_state_dict: left as they are: {'; '.join(skipped)}", stacklevel=2)
        if programs.are_in(self, deep=True):
            programs.load(known, given)
        else:
            self.load_state_dict(given, strict=False)

    set_dict = set_state_dict
    load_dict = set_state_dict

    def clear_gradients(self) -> None:
        """Drop what backward has left."""
        _drop_gradients(self)

    def register_forward_post_hook(self, hook: Any) -> Any:
        """Call `hook(layer, inputs, outputs)` after each forward."""
        return self.register_forward_hook(hook)


def _drop_gradients(layer: nn.Module) -> None:
    for one in layer._parameters.values():
        if isinstance(one, torch.Tensor):
            drop(one)
    for inner in layer._modules.values():
        if inner is not None:
            _drop_gradients(inner)


# Those of all modules, by themselves: a layer asks for them at every call.
_BEFORE, _AFTER = of_torch._global_forward_pre_hooks, of_torch._global_forward_hooks
_BACK, _BEFORE_BACK = of_torch._global_backward_hooks, of_torch._global_backward_pre_hooks
_TRACING = torch._C._get_tracing_state


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


class LayerDict(Layer, nn.ModuleDict):
    """Layers by name, in the order in which they were given."""

    def __init__(self, sublayers: Mapping[str, nn.Module] | Iterable[tuple[str, nn.Module]] | None = None) -> None:
        super().__init__()
        self.update(dict(sublayers or ()))


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

    def forward(self, x: Any) -> Any:
        return table.flatten(x, *self._axes)


class Identity(Layer):
    """What comes in."""

    def forward(self, x: Any) -> Any:
        return x

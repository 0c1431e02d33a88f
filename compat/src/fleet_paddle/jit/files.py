"""`jit.save` and `jit.load`: a layer's computation and parameters in files, to be run without its class.

`PATH.pdmodel` is a TorchScript archive, which any program with torch runs without running Python that it brings;
`PATH.pdiparams` has the parameters by name, in safetensors. What is saved is what `forward` does for inputs of the
given shapes: branches that look at values are decided then. It is traced twice, as trained and as evaluated, so that
a loaded layer can be trained further.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fleet.errors import CheckpointError, UsageError, UsageTypeError
from fleet_paddle.hapi.spec import InputSpec
from fleet_paddle.imperative.creation import to_tensor
from fleet_paddle.imperative.files import save as save_values
from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_paddle.imperative.tensor import as_paddle
from fleet_paddle.jit.functions import StaticFunction

__all__ = ["TranslatedLayer", "load", "save"]

_SIZES = (2, 32), (3, 32), (3, 64)
"""Samples and other sizes in place of those that may be any: traced with the first pair, checked with the others."""


class _Both(nn.Module):
    """A layer with a method for each of its two states, which is what tracing needs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: torch.Tensor) -> Any:
        self.layer.eval()
        return _plain(self.layer(*as_paddle(list(inputs))))

    def trained(self, *inputs: torch.Tensor) -> Any:
        self.layer.train()
        return _plain(self.layer(*as_paddle(list(inputs))))


def save(layer: Any, path: str | os.PathLike[str], input_spec: Any = None) -> None:
    """Save a layer, or a function of `to_static`; `input_spec` describes the inputs, unless `to_static` did.

    UsageError where the computation depends on how many samples there are, or on another size that may be any.
    """
    function = layer if isinstance(layer, StaticFunction) else getattr(layer, "forward", None)
    if not isinstance(layer, nn.Module):
        layer = _OfFunction(layer)
    specs = _specs(input_spec, function)
    modes, kept = [(one, one.training) for one in layer.modules()], [one.clone() for one in layer.buffers()]
    try:
        with torch.random.fork_rng():  # what a script draws next is what it would have been
            traced = _traced(_Both(layer), specs)
    finally:
        for inner, was_training in modes:  # each its own: a part may be frozen
            inner.training = was_training
        for one, before in zip(layer.buffers(), kept, strict=True):
            one.copy_(before)  # running statistics have seen the zeros that it was traced with
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f"{place.name}.pdmodel.partial")
    traced.save(str(partial))
    os.replace(partial, f"{place}.pdmodel")
    save_values(dict(layer.state_dict()), f"{place}.pdiparams")


def load(path: str | os.PathLike[str]) -> TranslatedLayer:
    """What `save` wrote, as a layer; CheckpointError where it is missing or something else."""
    place = Path(f"{os.fspath(path)}.pdmodel")
    if not place.is_file():
        raise CheckpointError(f"there is no file {place}; give the path that jit.save was given")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return TranslatedLayer(torch.jit.load(str(place)))
    except RuntimeError as error:
        raise CheckpointError(f"{place} is no layer that jit.save wrote here: {str(error).splitlines()[0]}") from None


class TranslatedLayer(Layer):
    """A layer out of a file: called, trained and evaluated like the one that was saved."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.program = program
        self.training = False  # what is loaded is to be used, unless somebody calls `train()`

    def forward(self, *inputs: Any) -> Any:
        run = self.program.trained if self.training else self.program
        given = (one if isinstance(one, torch.Tensor) else to_tensor(one) for one in inputs)  # arrays are taken too
        return as_paddle(run(*(one.as_subclass(torch.Tensor) for one in given)))

    def train(self, mode: bool = True) -> TranslatedLayer:
        """As every layer; what is inside was traced for both."""
        self.training = mode
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Parameters and buffers by the names that they had in the layer that was saved."""
        return type(made := super().state_dict(*args, **kwargs))(
            (name.replace("program.layer.", "", 1), value) for name, value in made.items()
        )


class _OfFunction(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        if not callable(function):
            raise UsageTypeError(f"jit.save takes a layer or a function, got {type(function).__name__}")
        self._function = function

    def forward(self, *inputs: Any) -> Any:
        return self._function(*inputs)


def _specs(given: Any, function: Any) -> list[InputSpec]:
    several = given
    if several is None and isinstance(function, StaticFunction):
        several = function.input_spec if function.input_spec is not None else function.called_with
    if not several:
        raise UsageError("jit.save: give input_spec, a list of paddle.static.InputSpec, or call to_static with one")
    several = several if isinstance(several, list | tuple) else [several]
    return [one if isinstance(one, InputSpec) else InputSpec.from_tensor(one) for one in several]


def _traced(both: _Both, specs: list[InputSpec]) -> Any:
    device = next((one.device for one in both.parameters()), torch.device("cpu"))
    first, *others = ([one.example(*sizes).to(device) for one in specs] for sizes in _SIZES)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch's tracer warns of every shape that is read; what matters is checked
        traced = torch.jit.trace_module(both, {"forward": tuple(first), "trained": tuple(first)}, check_trace=False)
        before = first
        for inputs in others:
            if any(one.shape != other.shape for one, other in zip(before, inputs, strict=True)):
                _check(traced, both, [torch.rand_like(one) if one.is_floating_point() else one for one in inputs])
            before = inputs
    return traced


def _check(traced: Any, both: _Both, inputs: list[torch.Tensor]) -> None:
    """UsageError where what was traced gives something else than the layer for these inputs."""
    torch.manual_seed(0)
    try:
        right = _flat(both(*inputs))
    except RuntimeError:
        return  # such sizes are none that the layer itself takes
    torch.manual_seed(0)
    try:
        is_same = all(_are_same(*pair) for pair in zip(_flat(traced(*inputs)), right, strict=True))
    except RuntimeError:
        is_same = False
    if not is_same:
        raise UsageError(
            "jit.save: forward uses the number of samples or another size that may be any as a number, such as "
            "int(x.shape[0]); use -1 there, or give input_spec a fixed size"
        )


def _are_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return not one.is_floating_point() or torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)


def _flat(made: Any) -> list[torch.Tensor]:
    return [inner for one in made for inner in _flat(one)] if isinstance(made, list | tuple) else [made]


def _plain(made: Any) -> Any:
    if isinstance(made, torch.Tensor):
        return made.as_subclass(torch.Tensor)
    return tuple(_plain(one) for one in made) if isinstance(made, list | tuple) else made

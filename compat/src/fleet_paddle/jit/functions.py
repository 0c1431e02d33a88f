"""`to_static`: a function or a layer that may be saved; called, it runs as the Python that it is.

PaddlePaddle makes a program of it, and rewrites `if`, `while` and `for` over tensors for that. Python does what they
say without being rewritten, so that results are the same; what is asked for, a description of the inputs, is kept for
`jit.save`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, ClassVar, Self

import torch
from torch import nn

from fleet.errors import UsageTypeError
from fleet_paddle.hapi.spec import InputSpec

__all__ = ["ProgramTranslator", "StaticFunction", "not_to_static", "to_static"]


class StaticFunction:
    """A function with a description of its inputs; as a method, each object has one of its own."""

    def __init__(self, function: Callable[..., Any], input_spec: Any = None) -> None:
        functools.update_wrapper(self, function)
        self.dygraph_function = function
        self.input_spec = input_spec
        self.called_with: list[InputSpec] | None = None
        """What describes the tensors of the last call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and all(isinstance(one, torch.Tensor) for one in args):
            self.called_with = [InputSpec.from_tensor(one) for one in args]
        return self.dygraph_function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> StaticFunction:
        if instance is None:
            return self
        name = self.__dict__.get("__name__", "")
        bound = StaticFunction(MethodType(self.dygraph_function, instance), self.input_spec)
        if isinstance(instance, nn.Module) and name:
            instance.__dict__[name] = bound  # so that `layer.forward` is the same each time it is asked for
        return bound

    @property
    def code(self) -> str:
        """The source, which is what runs."""
        import inspect

        return inspect.getsource(self.dygraph_function)


def to_static(function: Any = None, input_spec: Any = None, build_strategy: Any = None) -> Any:
    """A function or a layer with a description of its inputs; as a decorator, with arguments or without.

    `build_strategy` says how a program is compiled, and there is none.
    """
    del build_strategy

    def decorated(given: Any) -> Any:
        if isinstance(given, nn.Module):
            given.__dict__["forward"] = StaticFunction(_plain(given.forward), input_spec)
            return given
        if not callable(given):
            raise UsageTypeError(f"to_static takes a function or a layer, got {type(given).__name__}")
        return StaticFunction(_plain(given), input_spec)

    return decorated if function is None else decorated(function)


def not_to_static(func: Any = None) -> Any:
    """A function that is to stay Python, as all do here."""
    return not_to_static if func is None else func


def _plain(function: Any) -> Any:
    return function.dygraph_function if isinstance(function, StaticFunction) else function


class ProgramTranslator:
    """Whether functions become programs: there is one for all, and Python is run either way."""

    _only: ClassVar[ProgramTranslator | None] = None
    enable_to_static = True

    def __new__(cls) -> Self:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only  # type: ignore[return-value]

    @classmethod
    def get_instance(cls) -> ProgramTranslator:
        """The only one."""
        return cls()

    def enable(self, enable_to_static: bool) -> None:
        """Remember what was asked for."""
        self.enable_to_static = bool(enable_to_static)

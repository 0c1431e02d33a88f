"""`to_static`: a function or a layer that may be saved; called, it runs as the Python that it is.

PaddlePaddle makes a program of it, and rewrites `if`, `while` and `for` over tensors for that. Python does what they
say without being rewritten, so that results are the same; what is asked for, a description of the inputs, is kept for
`jit.save`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from types import MethodType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import nn

from fleet.errors import UsageTypeError
from fleet_paddle.hapi.spec import InputSpec

__all__ = [
    "ProgramTranslator",
    "StaticFunction",
    "not_to_static",
    "set_code_level",
    "set_verbosity",
    "to_static",
]

_log = logging.getLogger(f"fleet.{__name__}")  # below Fleet, which shows what it logs
_level = logging.DEBUG


class StaticFunction:
    """A function with a description of its inputs; as a method, each object has one of its own."""

    def __init__(self, function: Callable[..., Any], input_spec: Any = None) -> None:
        functools.update_wrapper(self, function)
        self.dygraph_function = function
        self.input_spec = input_spec
        self.called_with: list[InputSpec] | None = None
        """What describes the tensors of the last call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.called_with is None:
            _log.log(_level, "%s runs as it is written", getattr(self.dygraph_function, "__qualname__", "a function"))
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


def set_code_level(level: int = 100, also_to_stdout: bool = False) -> None:
    """From now on the log says of every function of `to_static` that it runs as written: that is the code here."""
    del also_to_stdout  # what Fleet logs is on the terminal already
    set_verbosity(level)


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """With 1 or more, the same; with 0 it is silent."""
    global _level
    del also_to_stdout
    _level = logging.INFO if level > 0 else logging.DEBUG


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

    def get_output(self, dygraph_func: Any, *args: Any, **kwargs: Any) -> Any:
        """What the function gives."""
        return to_static(dygraph_func)(*args, **kwargs)

    def get_func(self, dygraph_func: Any) -> Any:
        """The function that runs, which is the same one."""
        return _plain(dygraph_func)

    def get_code(self, dygraph_func: Any) -> str:
        """The code that runs, which is the function's own."""
        return StaticFunction(_plain(dygraph_func)).code

    def get_program(self, dygraph_func: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any, list[Any], list[Any]]:
        """(main, startup, inputs, outputs): the program that the function builds, with a variable for each tensor."""
        from fleet_paddle.mode import in_programs
        from fleet_programs import Program, data, program_guard
        from fleet_programs.definition.dtypes import canonical
        from fleet_programs.layers.building.nested import flat

        main, startup = Program(), Program()
        inputs: list[Any] = []

        def fed(one: Any) -> Any:
            if not isinstance(one, torch.Tensor | np.ndarray):
                return one
            inputs.append(data(f"x_{len(inputs)}", list(one.shape), canonical(one.dtype)))
            return inputs[-1]

        with in_programs(), program_guard(main, startup):
            made = _plain(dygraph_func)(*map(fed, args), **{name: fed(one) for name, one in kwargs.items()})
        return main, startup, inputs, flat(made)

    def enable(self, enable_to_static: bool) -> None:
        """Remember what was asked for."""
        self.enable_to_static = bool(enable_to_static)

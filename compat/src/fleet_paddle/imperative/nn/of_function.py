"""A function as a layer: it is made with the function's settings, and called with its tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from fleet_paddle.imperative.nn.layer import Layer


class FunctionLayer(Layer):
    """Calls `function` with what it is given, and with the settings that it was made with.

    Its own arguments are the function's, in the same order, without the first `inputs`, which are tensors.
    """

    function: ClassVar[Callable[..., Any]]
    inputs: ClassVar[int] = 1
    settings: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        given = list(inspect.signature(cls.function).parameters.values())[cls.inputs :]
        cls.settings = cls.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]

    def __init__(self, *settings: Any, **named: Any) -> None:
        bound = self.settings.bind(*settings, **named).arguments
        super().__init__(bound.pop("name", None))
        self._settings = bound

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return type(self).function(*inputs, **named, **self._settings)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._settings.items())

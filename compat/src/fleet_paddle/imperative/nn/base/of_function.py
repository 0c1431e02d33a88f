"""A function as a layer: it is made with the function's settings, and called with its tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from fleet_paddle.imperative.nn.base.layer import Layer


class FunctionLayer(Layer):
    """Calls `function` with what it is given, and with the settings that it was made with: attributes of their names.

    Its own arguments are the function's, in the same order, without the first `inputs`, which are tensors, and without
    `training`, which the layer knows.
    """

    function: ClassVar[Callable[..., Any]]
    inputs: ClassVar[int] = 1
    settings: ClassVar[inspect.Signature]
    forward: Callable[..., Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "function" not in cls.__dict__:
            return
        several = list(inspect.signature(cls.function).parameters.values())
        given = [one for one in several[cls.inputs :] if one.name != "training"]
        cls.settings = cls.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
        cls.forward = _forward(cls.function, [one.name for one in several], cls.inputs)

    def __init__(self, *settings: Any, **named: Any) -> None:
        bound = self.settings.bind(*settings, **named)
        super().__init__(bound.arguments.pop("name", None))
        self._given = list(bound.arguments)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if name != "name":
                setattr(self, name, value)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._given)


def _forward(function: Callable[..., Any], names: list[str], num_inputs: int) -> Callable[..., Any]:
    """What a layer would have by hand: `def forward(self, x): return function(x, axis=self.axis)`."""
    inputs = names[:num_inputs]
    settings = [f"{name}=self.{name}" for name in names[num_inputs:] if name != "name"]
    scope: dict[str, Any] = {"function": function}
    exec(f"def forward({', '.join(['self', *inputs])}):\n    return function({', '.join(inputs + settings)})\n", scope)
    made: Callable[..., Any] = scope["forward"]
    return made

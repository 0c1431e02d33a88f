"""Layers whose arguments are one line of text."""

from __future__ import annotations

from abc import abstractmethod
from types import SimpleNamespace
from typing import Any

from fleet_paddle.imperative.nn.base.layer import Layer
from fleet_paddle.taking import Taking


class TakingLayer(Taking, Layer):
    """A layer that says in `takes` what its arguments are; `name` and `dtype` of them are those of every layer."""

    def take(self, given: dict[str, Any]) -> None:
        """Begin as a layer, and with the rest of the arguments as this one."""
        self.begin(given.pop("name", None), given.pop("dtype", None))
        self.make_of(SimpleNamespace(**given))

    def begin(self, name: str | None, dtype: Any) -> None:
        """What comes before its parameters."""
        Layer.__init__(self, name, dtype)

    @abstractmethod
    def make_of(self, given: Any) -> None:
        """Make its parameters; every other argument is an attribute of `given`."""

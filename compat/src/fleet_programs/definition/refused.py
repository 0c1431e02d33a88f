"""Attributes that objects of PaddlePaddle have and ours do not: reading one says what to use."""

from __future__ import annotations

from typing import Never, Self, overload

from fleet.strategy.record import UnknownNameError


class Refused:
    """An attribute that raises an AttributeError with its remedy, so that `hasattr` is False."""

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> Self: ...

    @overload
    def __get__(self, holder: object, owner: type) -> Never: ...

    def __get__(self, holder: object, owner: type) -> Self:
        if holder is None:
            return self
        raise UnknownNameError(f"{owner.__name__}.{self._name} is not built: {self._remedy}")

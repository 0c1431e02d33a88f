"""Operators written in C++ for PaddlePaddle, which libraries import long before they need one: refused when used."""

from __future__ import annotations

from typing import Any, NoReturn

from fleet.errors import NotSupportedError


def _refuse(name: str) -> NoReturn:
    raise NotSupportedError(
        f"{name}: operators in C++ are linked against PaddlePaddle, which is not here; write the operator in Python "
        "(fleet_programs.definition.registry.register), or use torch.utils.cpp_extension"
    )


class BuildExtension:
    """Refused when it is made; libraries derive classes from it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        _refuse("BuildExtension")


def CppExtension(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: N802 - as scripts call it
    """Refused."""
    del args, kwargs
    _refuse("CppExtension")


def CUDAExtension(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: N802 - as scripts call it
    """Refused."""
    del args, kwargs
    _refuse("CUDAExtension")


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused."""
    del args, kwargs
    _refuse("cpp_extension.load")


def setup(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused."""
    del args, kwargs
    _refuse("cpp_extension.setup")

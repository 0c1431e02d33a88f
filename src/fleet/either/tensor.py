"""Every name of `fleet.imperative`; functions take variables of programs as well."""

from __future__ import annotations

from typing import Any

from fleet.either.functions import either


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    value = either(name, "fleet.imperative", "fleet.static.functions")
    globals()[name] = value
    return value

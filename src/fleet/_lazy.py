"""Names of a package that are resolved when first used, so that importing it does nothing and costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def lazily(
    package: str,
    public: Collection[str],
    homes: Mapping[str, str],
    *,
    modules: Mapping[str, str] | None = None,
    live: Collection[str] = (),
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    `homes` says which module of the package has a name: "module", or "module:own" where it has another name there.
    `modules` are those that are public themselves, by the name that they have in public. What was resolved is kept,
    except names that are `live`: values that change.
    """

    def resolve(name: str) -> object:
        value: object
        if modules and name in modules:
            value = import_module(f"{package}.{modules[name]}")
        elif name in homes:
            home, _, own = homes[name].partition(":")
            value = getattr(import_module(f"{package}.{home}"), own or name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name not in live:
            setattr(sys.modules[package], name, value)
        return value

    return resolve, lambda: sorted({*vars(sys.modules[package]), *public})

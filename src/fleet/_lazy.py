"""Names that are resolved when first used: those of a package, and what distributions offer by entry points."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str,
    homes: Mapping[str, str],
    *,
    modules: Mapping[str, str] | None = None,
    live: Collection[str] = (),
    tools: Collection[str] = (),
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package.

    `homes` says which names each module of the package has, separated by blanks; `name=own` where it has another name
    there. `modules` are those that are public themselves, by the name that they have in public. What was resolved is
    kept, except names that are `live`: values that change. Of `tools` the package itself has nothing.
    """
    places = {}
    for home, names in homes.items():
        for each in names.split():
            name, _, own = each.partition("=")
            places[name] = home, own or name
    public = sorted({*places, *(modules or ()), *tools})

    def resolve(name: str) -> object:
        value: object
        if modules and name in modules:
            value = import_module(f"{package}.{modules[name]}")
        elif name in places:
            home, own = places[name]
            value = getattr(import_module(f"{package}.{home}"), own)
        elif name in tools:
            value = tool(name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name not in live:
            setattr(sys.modules[package], name, value)
        return value

    return resolve, lambda: sorted({*vars(sys.modules[package]), *public}), public


def offered(group: str, name: str) -> Any:
    """What an installed distribution offers by the entry point of this group and name; None if none does."""
    from importlib.metadata import entry_points

    for found in entry_points(group=group, name=name):
        return found.load()
    return None


def tool(name: str) -> Any:
    """What `fleet_tools`, the package beside this one that imports it, has for it: `fleet` never imports that."""
    if (found := offered("fleet.tools", name)) is None:
        raise ImportError(f"this installation of torch-fleet has no {name!r} of fleet_tools; install it again with pip")
    return found

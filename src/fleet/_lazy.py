"""Names of a package that are resolved when first used, so that importing it does nothing and costs nothing."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def lazily(
    package: str,
    homes: Mapping[str, str],
    *,
    modules: Mapping[str, str] | None = None,
    live: Collection[str] = (),
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package.

    `homes` says which names each module of the package has, separated by blanks; `name=own` where it has another name
    there. `modules` are those that are public themselves, by the name that they have in public. What was resolved is
    kept, except names that are `live`: values that change.
    """
    places = {}
    for home, names in homes.items():
        for each in names.split():
            name, _, own = each.partition("=")
            places[name] = home, own or name
    public = sorted({*places, *(modules or ())})

    def resolve(name: str) -> object:
        value: object
        if modules and name in modules:
            value = import_module(f"{package}.{modules[name]}")
        elif name in places:
            home, own = places[name]
            value = getattr(import_module(f"{package}.{home}"), own)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name not in live:
            setattr(sys.modules[package], name, value)
        return value

    return resolve, lambda: sorted({*vars(sys.modules[package]), *public}), public

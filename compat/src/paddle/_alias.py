"""What a module of `paddle` is made of: a table of names and the places where they live.

Each module calls `alias` once and has nothing else. Names are resolved when first used, so that importing `paddle` is
as cheap as importing `fleet`; `paddle._reference` prints the same tables as a page.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import ModuleType
from typing import NoReturn

ALL = "*"
"""Every public name of a home."""


@dataclass(frozen=True)
class Names:
    """The names of one module."""

    module: str
    homes: Mapping[str, str] = field(default_factory=dict)
    """Module of Fleet -> names, separated by blanks, that are the same there; or ALL of them."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Name -> `module:name` where it lives under another one; `module` alone for the module."""
    parts: str = ""
    """Submodules, separated by blanks."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Name that is known and not here -> what to use instead."""
    live: str = ""
    """Names whose value changes, separated by blanks: they are looked up each time."""

    def table(self) -> dict[str, str]:
        """Every name and where it lives, as `module:name` or `module`."""
        found: dict[str, str] = {}
        for home, names in self.homes.items():
            chosen = public_names(home) if names == ALL else names.split()
            found |= {name: f"{home}:{name}" for name in chosen if name not in self.refused}
        return found | {name: f"{self.module}.{name}" for name in self.parts.split()} | dict(self.renamed)

    def target(self, name: str) -> str | None:
        """Where one name lives; None if there is none."""
        if name in self.renamed:
            return self.renamed[name]
        if name in self.parts.split():
            return f"{self.module}.{name}"
        if name in self.refused:
            return None
        for home, names in self.homes.items():
            if name in (public_names(home) if names == ALL else names.split()):
                return f"{home}:{name}"
        return None


TABLES: dict[str, Names] = {}
"""The tables of the modules that have been imported."""


def alias(
    module: str,
    homes: Mapping[str, str] | None = None,
    *,
    renamed: Mapping[str, str] | None = None,
    parts: str = "",
    refused: Mapping[str, str] | None = None,
    live: str = "",
) -> None:
    """Give a module its names; the arguments are the fields of `Names`."""
    names = Names(module, homes or {}, renamed or {}, parts, refused or {}, live)
    TABLES[module] = names
    own = sys.modules[module]
    own.__dict__.setdefault("__path__", [])  # so that `from module import name` asks _Missing for what is not there

    def get(name: str) -> object:
        if name == "__all__":
            return sorted(names.table())
        target = None if name.startswith("__") else names.target(name)
        if target is None:
            raise MissingNameError(module, name)
        value = resolve(target)
        if name not in names.live.split():
            own.__dict__[name] = value
        return value

    own.__dict__["__getattr__"] = get
    own.__dict__["__dir__"] = lambda: sorted({*own.__dict__, *names.table()})


def same_as(module: str, other: str) -> None:
    """Give a module the names of another: version 1.x had them in two places."""
    importlib.import_module(other)
    table = TABLES[other]
    alias(module, table.homes, renamed=table.renamed, parts=table.parts, refused=table.refused, live=table.live)


def resolve(target: str) -> object:
    """The value of `module:name`, or the module."""
    home, _, name = target.partition(":")
    found = importlib.import_module(home)
    return getattr(found, name) if name else found


def public_names(home: str) -> list[str]:
    """What `from home import *` would bring."""
    module = importlib.import_module(home)
    own = getattr(module, "__all__", None)
    return sorted(own if own is not None else (name for name in vars(module) if _is_own(module, name)))


def _is_own(module: ModuleType, name: str) -> bool:
    value = getattr(module, name)
    return not name.startswith("_") and getattr(value, "__module__", None) == module.__name__


class MissingNameError(AttributeError):
    """A name that is not here; it says what is closest. The search is made when that is read: hasattr() asks often."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(module, name)

    def __str__(self) -> str:
        module, name = self.args
        return _missing(module, name)


class _Missing:
    """The last finder: a module of `paddle` that nobody has found, or a name that a module does not have."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: object = None) -> None:  # noqa: ARG004
        module, _, name = fullname.rpartition(".")
        if module in TABLES and not name.startswith("__"):
            raise ModuleNotFoundError(_missing(module, name))


def _missing(module: str, name: str) -> str:
    refusal = TABLES[module].refused.get(name) if module in TABLES else None
    if refusal is not None:
        return f"{module}.{name} is not built: {refusal}"
    closest = " or ".join(_closest(module, name))
    advice = f"the closest there is: {closest}" if closest else "`python -m paddle._reference` lists all names"
    return f"{module} has no {name!r}; {advice}"


def _closest(module: str, name: str) -> Iterable[str]:
    """The same name elsewhere, then the most similar ones of the same module, then those of all."""
    load_all()
    elsewhere = [f"{other}.{name}" for other, names in TABLES.items() if other != module and name in names.table()]
    if elsewhere:
        return sorted(elsewhere, key=lambda dotted: (-_common(dotted, module), len(dotted), dotted))[:2]
    own = TABLES[module].table()
    similar = difflib.get_close_matches(name, own, n=2, cutoff=0.8)
    if similar:
        return [f"{module}.{one}" for one in similar]
    everywhere = {one: f"{other}.{one}" for other, names in TABLES.items() for one in names.table()}
    return [everywhere[one] for one in difflib.get_close_matches(name, everywhere, n=2, cutoff=0.8)]


def _common(one: str, other: str) -> int:
    """How many parts of two dotted names are the same, from the left."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def load_all() -> None:
    """Import every module of `paddle`, so that all tables are there; commands are left alone."""
    root = importlib.import_module(__package__ or "paddle")
    for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        if not found.name.rpartition(".")[2].startswith(("_", "launch")):
            importlib.import_module(found.name)


def refuse_real(distributions: Iterable[str]) -> None:
    """ImportError if one of these distributions is installed: both would be called `paddle`."""
    from importlib.metadata import PackageNotFoundError, version

    for name in distributions:
        try:
            found = version(name)
        except PackageNotFoundError:
            continue
        _refuse(name, found)


def _refuse(name: str, found: str) -> NoReturn:
    raise ImportError(
        f"fleet-paddle and {name} {found} are both installed, and both are called paddle; "
        f"remove one: pip uninstall {name}, or pip uninstall fleet-paddle"
    )


def watch_missing() -> None:
    """Let names that are not there be told what is closest, also by `import` and `from`."""
    if not any(isinstance(finder, _Missing) for finder in sys.meta_path):
        sys.meta_path.append(_Missing())

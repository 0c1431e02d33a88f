"""`fleet_programs.layers` has every layer, under its own name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from fleet_programs import layers

INSIDE = {"fed", "target"}  # what layers call
HELPERS = {"alike", "from_rows", "helper", "inside", "nested", "ragged", "sizes", "windows"}


def test_every_layer_is_exported_and_documented() -> None:
    found = set()
    for module in pkgutil.iter_modules(layers.__path__):
        if module.name in HELPERS:
            continue
        members = inspect.getmembers(importlib.import_module(f"{layers.__name__}.{module.name}"), inspect.isfunction)
        own = f"{layers.__name__}.{module.name}"
        found |= {name for name, value in members if value.__module__ == own and not name.startswith("_")}
    assert list(layers.__all__) == sorted(found - INSIDE)
    assert all(callable(getattr(layers, name)) and getattr(layers, name).__doc__ for name in layers.__all__)

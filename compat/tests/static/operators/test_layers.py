"""`fleet_programs.layers` has every layer, under its own name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from fleet_programs import layers
from fleet_programs.layers import building
from fleet_programs.layers.images import windows

INSIDE = {"fed", "target"}  # what layers call


def test_every_layer_is_exported_and_documented() -> None:
    found = set()
    for module in pkgutil.walk_packages(layers.__path__, f"{layers.__name__}."):
        own = module.name
        if own.startswith(building.__name__) or own == windows.__name__:
            continue
        members = inspect.getmembers(importlib.import_module(own), inspect.isfunction)
        found |= {name for name, value in members if value.__module__ == own and not name.startswith("_")}
    assert list(layers.__all__) == sorted(found - INSIDE)
    assert all(callable(getattr(layers, name)) and getattr(layers, name).__doc__ for name in layers.__all__)

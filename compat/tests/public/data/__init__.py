"""Files of the form that public scripts read, made up: one function for each kind, found by its name.

A function takes the folder that the script runs in and writes there. What it writes can be learned, and is the same in
every run.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path


def function(name: str) -> Callable[[Path], None]:
    """The function of that name, in whichever file of this folder it is; LookupError where none or two have it."""
    found = [kind[name] for kind in functions().values() if name in kind]
    if len(found) != 1:
        raise LookupError(f"{len(found)} functions of compat/tests/public/data are called {name!r}; there must be one")
    return found[0]


def functions() -> dict[str, dict[str, Callable[[Path], None]]]:
    """All functions by file and name; what begins with an underscore is a file's own."""
    modules = [importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)]
    return {
        module.__name__: {
            name: one
            for name, one in inspect.getmembers(module, inspect.isfunction)
            if one.__module__ == module.__name__ and not name.startswith("_")
        }
        for module in modules
    }

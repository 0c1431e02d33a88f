"""Packages that only some files need: imported when such a file is read, and asked for by name if they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from fleet.errors import UsageError


def needed(module: str, whatfor: str) -> Any:
    """An optional module, imported. `whatfor` begins the sentence of the error: "Parquet files"."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise UsageError(f"{whatfor} need the package {package}: pip install 'torch-fleet[data]'") from error

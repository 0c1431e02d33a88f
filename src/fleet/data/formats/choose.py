"""Which format a file has: by the end of its name, by the schema, or as the user says."""

import importlib
import os
from typing import Any, cast

from fleet.data.columns.blocks import FileFormat
from fleet.data.columns.schema import Schema
from fleet.data.places.opening import packing_of
from fleet.errors import UsageError, UsageTypeError

_HOMES = {
    "text": ("fleet.data.formats.text", "TextFormat"),
    "parquet": ("fleet.data.formats.parquet", "ParquetFormat"),
    "arrow": ("fleet.data.formats.arrow", "ArrowFormat"),
}
"""Name of a format -> its class, which is made of a schema and imported when first used."""

_ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


def format_of(path: str, schema: Any, given: str | FileFormat | None = None) -> FileFormat:
    """How a file is read. `given`: the name of a format (text, parquet, arrow), or one of one's own.

    Otherwise the schema says it, or the end of the file's name; the rest is text.
    """
    if given is not None and not isinstance(given, str):
        if not (callable(getattr(given, "cut", None)) and callable(getattr(given, "read", None))):
            raise UsageTypeError(f"format must be one of {', '.join(_HOMES)} or have cut() and read(), got {given!r}")
        return given
    if not isinstance(schema, Schema):
        raise UsageTypeError(f"the schema must be a fleet.data.Schema, got {schema!r}")
    if given is None and (own := schema.file_format()) is not None:
        return cast(FileFormat, own)
    name = given or name_of(path)
    if name not in _HOMES:
        raise UsageError(f"format must be one of {', '.join(_HOMES)}, got {given!r}")
    module, kind = _HOMES[name]
    return cast(FileFormat, getattr(importlib.import_module(module), kind)(schema))


def name_of(path: str) -> str:
    """The name of the format that a file seems to have."""
    plain = path[: len(path) - len(packing_of(path) or "")]
    return _ENDINGS.get(os.path.splitext(plain)[1].lower(), "text")

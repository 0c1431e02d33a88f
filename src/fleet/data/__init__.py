"""Data for training: each worker's part of it. Names are resolved when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet._lazy import lazily

if TYPE_CHECKING:
    from fleet.data import synthetic
    from fleet.data.columns.batch import Batch
    from fleet.data.columns.derived import Derived
    from fleet.data.columns.ragged import Ragged
    from fleet.data.columns.schema import Category, Number, Schema, criteo
    from fleet.data.formats.hashing import hash_ids
    from fleet.data.formats.in_memory import batch_of
    from fleet.data.formats.multislot_schema import MultiSlot, Slot
    from fleet.data.negatives import Negatives
    from fleet.data.reading.from_files import files
    from fleet.data.reading.growing import Follow
    from fleet.data.reading.memory import Examples, load
    from fleet.data.sharding import shard
    from fleet.data.shards.base import Shard

_HOMES = {
    "Batch": "columns.batch",
    "Category": "columns.schema",
    "Derived": "columns.derived",
    "Examples": "reading.memory",
    "Follow": "reading.growing",
    "MultiSlot": "formats.multislot_schema",
    "Negatives": "negatives",
    "Number": "columns.schema",
    "Ragged": "columns.ragged",
    "Schema": "columns.schema",
    "Shard": "shards.base",
    "Slot": "formats.multislot_schema",
    "batch_of": "formats.in_memory",
    "criteo": "columns.schema",
    "files": "reading.from_files",
    "hash_ids": "formats.hashing",
    "load": "reading.memory",
    "shard": "sharding",
}

__all__ = [
    "Batch",
    "Category",
    "Derived",
    "Examples",
    "Follow",
    "MultiSlot",
    "Negatives",
    "Number",
    "Ragged",
    "Schema",
    "Shard",
    "Slot",
    "batch_of",
    "criteo",
    "files",
    "hash_ids",
    "load",
    "shard",
    "synthetic",
]

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES, modules={"synthetic": "synthetic"})

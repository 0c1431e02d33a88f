"""Data for training: each worker's part of it, datasets of text files, and the generators of such text.

Names are resolved when first used: a generator is a program that is started for every file, and needs no torch.
"""

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
    from fleet.data.slotted.dataset_factory import DatasetFactory
    from fleet.data.slotted.dataset_memory import InMemoryDataset
    from fleet.data.slotted.dataset_queue import QueueDataset
    from fleet.data.slotted.generator import DataGenerator, MultiSlotDataGenerator, MultiSlotStringDataGenerator

_HOMES = {
    "Batch": "batch",
    "Category": "schema",
    "DataGenerator": "slotted.generator",
    "Derived": "derived",
    "DatasetFactory": "slotted.dataset_factory",
    "Examples": "reading.memory",
    "Follow": "reading.growing",
    "InMemoryDataset": "slotted.dataset_memory",
    "MultiSlot": "formats.multislot_schema",
    "MultiSlotDataGenerator": "slotted.generator",
    "MultiSlotStringDataGenerator": "slotted.generator",
    "Negatives": "negatives",
    "Number": "schema",
    "QueueDataset": "slotted.dataset_queue",
    "Ragged": "ragged",
    "Schema": "schema",
    "Shard": "base",
    "Slot": "formats.multislot_schema",
    "batch_of": "formats.in_memory",
    "criteo": "schema",
    "files": "reading.from_files",
    "hash_ids": "formats.hashing",
    "load": "reading.memory",
    "shard": "sharding",
}

__all__ = [
    "Batch",
    "Category",
    "DataGenerator",
    "DatasetFactory",
    "Derived",
    "Examples",
    "Follow",
    "InMemoryDataset",
    "MultiSlot",
    "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator",
    "Negatives",
    "Number",
    "QueueDataset",
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
